#pragma once
// Memory that this process allocated itself, by address, so that the driver need not be asked whose it is: a
// question costs up to microseconds, and every call on rows has some.
//
// Sound because a range is known only while nobody else can own it: GPU memory from its allocation until its
// release is enqueued, pinned memory for good, since it is never given back. Thread-safe.

#include <cstdint>
#include <optional>

namespace shardwise {

/// A range that we own: of this GPU's default pool, or pinned host memory.
struct KnownMemory {
  static constexpr int pinned_host = -1;
  int gpu = pinned_host;
};

void note_known_memory(const void* pointer, std::uint64_t bytes, KnownMemory memory);
void forget_known_memory(const void* pointer) noexcept;
/// Of a pointer into a range; nothing where it is in none, which says nothing about it.
std::optional<KnownMemory> find_known_memory(const void* pointer);

}  // namespace shardwise
