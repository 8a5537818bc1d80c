#include "shardwise/runtime/device.hpp"

#include <fmt/format.h>

#include "shardwise/runtime/error.hpp"

namespace shardwise {

const char* to_string(PlatformKind kind) noexcept {
  switch (kind) {
    case PlatformKind::host:
      return "host";
    case PlatformKind::cuda:
      return "cuda";
    case PlatformKind::sim:
      return "sim";
  }
  return "?";
}

void MemoryCounter::add(std::uint64_t bytes) noexcept {
  const std::uint64_t now = current_.fetch_add(bytes) + bytes;
  std::uint64_t peak = peak_.load();
  while (peak < now && !peak_.compare_exchange_weak(peak, now)) {
  }
}

void* Device::allocate(Stream& stream, std::uint64_t bytes, MemoryUse use, const std::string& what) {
  void* pointer = raw_allocate(stream, bytes, what);
  if (!pointer)
    throw Error(
        ErrorClass::memory,
        fmt::format(
            "{}: no memory for {} ({} bytes asked for, {} bytes in use here, {} bytes free); use a smaller "
            "chunk or --memory, or more devices",
            name(), what, bytes, work_memory_.current() + scene_memory_.current(), free_memory()));
  memory(use).add(bytes);
  return pointer;
}

void Device::release(Stream& stream, void* pointer, std::uint64_t bytes, MemoryUse use,
                     ResourceId resource) noexcept {
  try {
    raw_release(stream, pointer, resource, bytes,
                [counter = &memory(use), bytes] { counter->subtract(bytes); });
  } catch (...) {
    // A stream that cannot even queue a release belongs to a lost device: its memory is gone with it.
    memory(use).subtract(bytes);
  }
}

}  // namespace shardwise
