#pragma once

#include <cuda_runtime.h>

#include "shardwise/runtime/device.hpp"

namespace shardwise {

inline constexpr int max_cuda_devices = 64;

/// GPUs that answer, the first 64 at most; 0 where there is no driver.
int cuda_device_count() noexcept;

/// The indices that `cuda:ARGUMENTS` means: empty for all, else a list of numbers, UUIDs or bus ids.
std::vector<int> cuda_select(const std::string& part, const std::string& arguments);

/// Opens a GPU. Throws where this build holds no code for its architecture.
std::shared_ptr<Device> open_cuda_device(int index);

/// Host memory that every GPU reads and writes in stream order; null where there is none.
void* cuda_allocate_pinned(std::uint64_t bytes) noexcept;
void cuda_release_pinned(void* pointer) noexcept;

class CudaDevice final : public Device {
 public:
  CudaDevice(DeviceInfo info, int index, cudaMemPool_t pool)
      : Device(std::move(info)), index_(index), pool_(pool) {}
  int index() const { return index_; }
  std::unique_ptr<Stream> create_stream(const std::string& name) override;
  std::uint64_t free_memory() override;
  std::uint64_t free_memory_if_below(std::uint64_t enough) override;

 protected:
  void* raw_allocate(Stream& stream, std::uint64_t bytes, const std::string& what) override;
  void raw_release(Stream& stream, void* pointer, ResourceId resource, std::uint64_t bytes,
                   std::function<void()> done) override;

 private:
  int index_;
  cudaMemPool_t pool_;  ///< the device's default one, which allocations come from
};

}  // namespace shardwise
