#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shardwise/runtime/stream.hpp"

namespace shardwise {

class Timeline;

enum class PlatformKind { host, cuda, sim };
const char* to_string(PlatformKind kind) noexcept;

struct DeviceInfo {
  PlatformKind kind = PlatformKind::host;
  int index = 0;      ///< within its platform
  std::string name;   ///< host:0, cuda:1, sim:2
  std::string model;  ///< what the hardware calls itself
  std::string uuid;
  std::string bus_id;        ///< PCI address, CUDA only
  std::string architecture;  ///< x86-64-v3, sm_90
  std::uint64_t memory_bytes = 0;
  int threads = 1;  ///< that run bodies; host and sim
};

/// What an allocation is for. Scene bytes are outside a call's budget.
enum class MemoryUse { work, scene };

/// A piece of device memory, for those who watch allocations.
struct Allocation {
  ResourceId resource = 0;
  void* pointer = nullptr;
  std::uint64_t bytes = 0;
  MemoryUse use = MemoryUse::work;
  std::string name;
};

/// Current and peak bytes. Thread-safe.
class MemoryCounter {
 public:
  void add(std::uint64_t bytes) noexcept;
  void subtract(std::uint64_t bytes) noexcept { current_.fetch_sub(bytes); }
  std::uint64_t current() const noexcept { return current_.load(); }
  std::uint64_t peak() const noexcept { return peak_.load(); }
  /// Forgets the peak: it starts again from what is current.
  void reset_peak() noexcept { peak_.store(current_.load()); }

 private:
  std::atomic<std::uint64_t> current_{0}, peak_{0};
};

/// One executor with its own memory and in-order streams. Made by open_devices(). Allocation and counters are
/// thread-safe; a stream is used by one thread at a time (stream.hpp).
class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceInfo& info() const { return info_; }
  const std::string& name() const { return info_.name; }
  PlatformKind kind() const { return info_.kind; }

  virtual std::unique_ptr<Stream> create_stream(const std::string& name) = 0;

  /// Bytes that can still be allocated.
  virtual std::uint64_t free_memory() = 0;
  /// The same, or less where at least `enough` bytes are known to be free without asking the driver, which
  /// takes tens of microseconds on a GPU.
  virtual std::uint64_t free_memory_if_below(std::uint64_t enough) {
    (void)enough;
    return free_memory();
  }

  /// Memory for use from now on by `stream` and what is ordered behind it. Throws a memory error that names
  /// the device, the bytes asked for and the bytes in use. Use Buffer, not this.
  void* allocate(Stream& stream, std::uint64_t bytes, MemoryUse use, const std::string& what);
  /// Gives memory back once the stream comes to this point. Never throws.
  void release(Stream& stream, void* pointer, std::uint64_t bytes, MemoryUse use,
               ResourceId resource) noexcept;

  MemoryCounter& memory(MemoryUse use) { return use == MemoryUse::scene ? scene_memory_ : work_memory_; }

  /// Told of every allocation: what touches it has to be ordered behind the stream's point. (Sim's race check
  /// listens.)
  virtual void note_allocation(Stream&, const Allocation&) {}

  /// Why this device is gone for good; empty while it answers. Everything that is asked of it then fails with
  /// an error of class `lost`. (Only sim says so yet.)
  virtual std::string lost() const { return {}; }

  /// The timeline that this device's streams write to; null: none.
  Timeline* timeline() const { return timeline_; }
  void set_timeline(Timeline* timeline) { timeline_ = timeline; }

 protected:
  explicit Device(DeviceInfo info) : info_(std::move(info)) {}
  /// Null where there is no memory left.
  virtual void* raw_allocate(Stream& stream, std::uint64_t bytes, const std::string& what) = 0;
  /// Ordered on the stream; calls `done` when the bytes are really free.
  virtual void raw_release(Stream& stream, void* pointer, ResourceId resource, std::uint64_t bytes,
                           std::function<void()> done) = 0;

 private:
  DeviceInfo info_;
  MemoryCounter work_memory_, scene_memory_;
  Timeline* timeline_ = nullptr;
};

}  // namespace shardwise
