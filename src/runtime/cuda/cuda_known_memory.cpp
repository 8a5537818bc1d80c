#include "runtime/cuda/cuda_known_memory.hpp"

#include <map>
#include <mutex>

namespace shardwise {

namespace {

struct Ranges {
  struct Range {
    std::uint64_t bytes = 0;
    KnownMemory memory;
  };
  std::mutex mutex;
  std::map<std::uintptr_t, Range> by_begin;

  /// Never destroyed: memory may be released after static objects are gone.
  static Ranges& instance() {
    static Ranges* ranges = new Ranges;
    return *ranges;
  }
};

}  // namespace

void note_known_memory(const void* pointer, std::uint64_t bytes, KnownMemory memory) {
  Ranges& ranges = Ranges::instance();
  std::lock_guard lock(ranges.mutex);
  ranges.by_begin[reinterpret_cast<std::uintptr_t>(pointer)] = {bytes, memory};
}

void forget_known_memory(const void* pointer) noexcept {
  Ranges& ranges = Ranges::instance();
  std::lock_guard lock(ranges.mutex);
  ranges.by_begin.erase(reinterpret_cast<std::uintptr_t>(pointer));
}

std::optional<KnownMemory> find_known_memory(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  Ranges& ranges = Ranges::instance();
  std::lock_guard lock(ranges.mutex);
  auto after = ranges.by_begin.upper_bound(address);
  if (after == ranges.by_begin.begin()) return std::nullopt;
  const auto& [begin, range] = *--after;
  if (address - begin >= range.bytes) return std::nullopt;
  return range.memory;
}

}  // namespace shardwise
