#pragma once

#include "runtime/host/thread_pool.hpp"
#include "shardwise/runtime/device.hpp"

namespace shardwise {

/// Where a host device gets its memory from.
struct HostAllocator {
  void* (*allocate)(std::uint64_t bytes) noexcept;  ///< null where there is none
  void (*release)(void* pointer) noexcept;
};

/// Page-friendly memory for host and sim devices; null where there is none.
void* allocate_host_bytes(std::uint64_t bytes) noexcept;
void release_host_bytes(void* pointer) noexcept;

/// A CPU device: its own memory, an arena of threads, and one worker thread per stream (copies run there
/// too).
class HostDevice : public Device {
 public:
  HostDevice(DeviceInfo info, std::uint64_t memory_limit,
             HostAllocator allocator = {allocate_host_bytes, release_host_bytes});

  std::unique_ptr<Stream> create_stream(const std::string& name) override;
  std::uint64_t free_memory() override;
  ThreadPool& pool() { return pool_; }

 protected:
  void* raw_allocate(Stream& stream, std::uint64_t bytes, const std::string& what) override;
  void raw_release(Stream& stream, void* pointer, ResourceId resource, std::uint64_t bytes,
                   std::function<void()> done) override;

 private:
  ThreadPool pool_;
  std::uint64_t memory_limit_;
  HostAllocator allocator_;
};

/// Gives memory back with `release` where its stream comes to it, then calls `done`.
Operation release_operation(void* pointer, void (*release)(void*) noexcept, ResourceId resource,
                            std::uint64_t bytes, std::function<void()> done);

/// What a real machine's first device would be called.
std::string host_model_name();

}  // namespace shardwise
