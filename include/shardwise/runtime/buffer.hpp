#pragma once

#include <limits>
#include <type_traits>
#include <utility>

#include "shardwise/runtime/device.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

/// Untyped device memory, owned. Stream-ordered: usable by what its stream runs from now on, given back when
/// the stream comes to the point where the owner was destroyed. A moved-from or default Memory is empty.
class Memory {
 public:
  Memory() = default;
  Memory(Stream& stream, std::uint64_t bytes, std::string name, MemoryUse use = MemoryUse::work)
      : stream_(&stream), bytes_(bytes), use_(use), name_(std::move(name)), resource_(next_resource_id()) {
    if (bytes_ == 0) return;
    pointer_ = stream.device().allocate(stream, bytes_, use_, name_);
    stream.device().note_allocation(stream, {resource_, pointer_, bytes_, use_, name_});
  }
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    Memory taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Memory() {
    if (pointer_) stream_->device().release(*stream_, pointer_, bytes_, use_, resource_);
  }

  void* data() const { return pointer_; }
  std::uint64_t bytes() const { return bytes_; }
  ResourceId resource() const { return resource_; }
  const std::string& name() const { return name_; }
  /// Not of an empty Memory.
  Device& device() const { return stream_->device(); }

  Access access(AccessMode mode) const { return access(mode, 0, bytes_); }
  Access access(AccessMode mode, std::uint64_t begin, std::uint64_t length) const {
    Access result;
    result.resource = resource_;
    result.begin = begin;
    result.length = length;
    result.mode = mode;
    return result;
  }

 private:
  void swap(Memory& other) noexcept {
    std::swap(stream_, other.stream_);
    std::swap(pointer_, other.pointer_);
    std::swap(bytes_, other.bytes_);
    std::swap(use_, other.use_);
    std::swap(name_, other.name_);
    std::swap(resource_, other.resource_);
  }

  Stream* stream_ = nullptr;
  void* pointer_ = nullptr;
  std::uint64_t bytes_ = 0;
  MemoryUse use_ = MemoryUse::work;
  std::string name_;
  ResourceId resource_ = 0;
};

/// Device memory for `size()` elements of T, owned. See Memory. The stream outlives the buffer.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  Buffer(Stream& stream, std::uint64_t size, std::string name, MemoryUse use = MemoryUse::work)
      : memory_(stream, byte_count(stream, size, name), std::move(name), use), size_(size) {}
  Buffer(Buffer&& other) noexcept : memory_(std::move(other.memory_)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  T* data() const { return static_cast<T*>(memory_.data()); }
  std::uint64_t size() const { return size_; }
  std::uint64_t bytes() const { return memory_.bytes(); }
  const Memory& memory() const { return memory_; }

  Access reads() const { return memory_.access(AccessMode::read); }
  Access writes() const { return memory_.access(AccessMode::write); }
  Access accumulates() const { return memory_.access(AccessMode::accumulate); }
  /// Elements [begin, begin + count).
  Access access(AccessMode mode, std::uint64_t begin, std::uint64_t count) const {
    return memory_.access(mode, begin * sizeof(T), count * sizeof(T));
  }

 private:
  static std::uint64_t byte_count(Stream& stream, std::uint64_t size, const std::string& name) {
    if (size > std::numeric_limits<std::uint64_t>::max() / sizeof(T))
      throw Error(ErrorClass::memory,
                  stream.device().name() + ": no memory for " + name + " (" + std::to_string(size) +
                      " elements of " + std::to_string(sizeof(T)) +
                      " bytes are more bytes than 64 bits count); check the number of elements");
    return size * sizeof(T);
  }

  Memory memory_;
  std::uint64_t size_ = 0;
};

}  // namespace shardwise
