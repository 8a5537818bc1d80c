#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shardwise/shard/weights.hpp"

namespace shardwise {

/// `[begin, begin + count)` of rows or lanes.
struct Window {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t end() const noexcept { return begin + count; }
  bool empty() const noexcept { return count == 0; }
  friend bool operator==(const Window&, const Window&) = default;
};

/// The contiguous window that one device gets; `device` is its index in the device set.
struct Shard {
  int device = 0;
  Window window;
  friend bool operator==(const Shard&, const Shard&) = default;
};

/// Global lanes are cut at multiples of this many, unless the floor is off (then of 1).
inline constexpr std::int64_t kLaneGranule = 4096;

/// Cuts rows [0, total) in device order: device k's shard ends at floor(total * (w_0 + ... + w_k) / sum(w)),
/// computed in 128 bits. Shards of no rows are left out, so the result is empty exactly where total is 0.
/// Throws std::invalid_argument where total is negative.
std::vector<Shard> split_rows(std::int64_t total, const Weights& weights);

/// The same for a window of lanes, with every inner cut moved down to a global multiple of `granule` (never
/// below the window's begin). The last device that has weight ends at the window's end; a device without
/// weight gets nothing. The shards cover the window exactly, in order, whatever its alignment. Throws
/// std::invalid_argument where the window is not inside [0, 2^63) or the granule is below 1.
std::vector<Shard> split_lanes(Window window, const Weights& weights, std::int64_t granule = kLaneGranule);

/// The window of lanes that a call asked for out of `total`. `count < 0` means the rest.
/// Throws std::invalid_argument where offset < 0, offset > total or offset + count > total.
Window lane_window(std::int64_t offset, std::int64_t count, std::int64_t total);

/// The pieces of `window`, `chunk` rows each and the rest in the last: a range to iterate or to index.
///
///     for (const Window piece : sub_windows(shard.window, plan.chunk_rows)) launch(piece);
class SubWindows {
 public:
  /// Throws std::invalid_argument where the window is malformed, or chunk is below 1 (0 is accepted for an
  /// empty window, which has no pieces).
  SubWindows(Window window, std::int64_t chunk);

  std::int64_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  /// Piece `index` of [0, size()).
  Window operator[](std::int64_t index) const noexcept;

  class Iterator {
   public:
    using value_type = Window;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    Iterator(const SubWindows* range, std::int64_t index) : range_(range), index_(index) {}
    Window operator*() const noexcept { return (*range_)[index_]; }
    Iterator& operator++() noexcept {
      ++index_;
      return *this;
    }
    Iterator operator++(int) noexcept {
      Iterator before = *this;
      ++index_;
      return before;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) noexcept { return a.index_ == b.index_; }

   private:
    const SubWindows* range_ = nullptr;
    std::int64_t index_ = 0;
  };
  Iterator begin() const noexcept { return {this, 0}; }
  Iterator end() const noexcept { return {this, size_}; }

 private:
  Window window_;
  std::int64_t chunk_ = 1;
  std::int64_t size_ = 0;
};

inline SubWindows sub_windows(Window window, std::int64_t chunk) {
  return SubWindows(window, chunk);
}

}  // namespace shardwise
