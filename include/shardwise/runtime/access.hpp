#pragma once
// What an operation touches, declared before it runs: the input of dependency derivation and of the race
// check.

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace shardwise {

/// Identifies one allocation (or one replica of a scene). 0 is no resource.
using ResourceId = std::uint64_t;

/// A fresh id; never repeats within a process. Thread-safe.
ResourceId next_resource_id() noexcept;

enum class AccessMode : std::uint8_t {
  read,
  write,
  accumulate,  ///< order-free addition: commutes with other accumulations, with nothing else
};

/// A byte range of a resource, or a strided box: `length` bytes at `begin`, repeated count0 x count1 times at
/// distances stride0 and stride1. A length or a count of zero touches nothing.
///
///     begin                begin + stride0
///       |<- length ->|        |<- length ->|        count0 of them = one plane, count1 planes stride1 apart
struct Access {
  ResourceId resource = 0;
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
  std::uint64_t stride0 = 0, stride1 = 0;
  std::uint32_t count0 = 1, count1 = 1;
  AccessMode mode = AccessMode::read;

  bool is_empty() const { return length == 0 || count0 == 0 || count1 == 0; }
  /// One past the last byte.
  std::uint64_t end() const {
    return is_empty() ? begin : begin + (count0 - 1) * stride0 + (count1 - 1) * stride1 + length;
  }
};

/// Whether the two touch a common byte in modes that need an order (at least one writes, and they are not
/// both accumulations).
bool conflicts(const Access& a, const Access& b);

/// Whether every byte of `inner` lies in `outer`, where that can be said cheaply (a plain range as `outer`).
bool covers(const Access& outer, const Access& inner);

/// At most eight accesses, stored inline.
class AccessList {
 public:
  static constexpr std::size_t capacity = 8;

  AccessList() = default;
  /// Throws an internal Error past eight: merge neighbouring ranges instead.
  AccessList(std::initializer_list<Access> accesses);
  void add(const Access& access);

  const Access* begin() const { return accesses_.data(); }
  const Access* end() const { return accesses_.data() + size_; }
  std::size_t size() const { return size_; }

 private:
  std::array<Access, capacity> accesses_{};
  std::size_t size_ = 0;
};

}  // namespace shardwise
