#pragma once
// Several arrays in one allocation: one resource for the race check, one entry in an operation's accesses.

#include <cstddef>
#include <cstdint>
#include <string>

#include "shardwise/runtime/buffer.hpp"

namespace shardwise {

/// An array inside a PackedMemory.
template <class T>
struct PackedArray {
  std::uint64_t offset = 0, count = 0;
  std::uint64_t bytes() const { return count * sizeof(T); }
};

/// First add() every array, then allocate(), then take pointers. Arrays start at multiples of 256 bytes.
class PackedMemory {
 public:
  static constexpr std::uint64_t alignment = 256;

  template <class T>
  PackedArray<T> add(std::uint64_t count) {
    const PackedArray<T> array{size_, count};
    size_ += (count * sizeof(T) + alignment - 1) / alignment * alignment;
    return array;
  }
  /// Bytes of what was added: of the allocation to come, or of memory of another kind with the same layout.
  std::uint64_t size() const { return size_; }
  void allocate(Stream& stream, std::string name) { memory_ = Memory(stream, size_, std::move(name)); }

  /// Null for an array of no elements.
  template <class T>
  T* data(const PackedArray<T>& array) const {
    return array.count == 0 ? nullptr
                            : reinterpret_cast<T*>(static_cast<std::byte*>(memory_.data()) + array.offset);
  }
  template <class T>
  Access access(AccessMode mode, const PackedArray<T>& array) const {
    return memory_.access(mode, array.offset, array.bytes());
  }
  Access access(AccessMode mode) const { return memory_.access(mode); }
  std::uint64_t bytes() const { return memory_.bytes(); }
  void* base() const { return memory_.data(); }

 private:
  std::uint64_t size_ = 0;
  Memory memory_;
};

}  // namespace shardwise
