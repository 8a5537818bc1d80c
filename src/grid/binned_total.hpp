#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "grid/binned_sum_kernel.hpp"

namespace shardwise {

/// Exact sums of pieces, added up on the host. A BinnedSum holds at most 2^31 summands; digits here are 128
/// bits wide, so that any number of pieces fits, and nothing is carried before the window is final.
class BinnedTotal {
 public:
  /// Words that one total is sent as.
  static constexpr std::size_t words = 8;

  void add(const BinnedSum& sum);
  void add(const BinnedTotal& other);
  /// For other processes, and back.
  void append_to(std::vector<std::int64_t>& out) const;
  static BinnedTotal from_words(std::span<const std::int64_t> in);
  /// Rounded once. NaN where something was bad.
  double value() const;

 private:
  __extension__ using Wide = __int128;
  void raise_to(std::int32_t top);
  Wide digit_[3] = {0, 0, 0};
  std::int32_t top_ = BinnedSum::lowest;
  bool bad_ = false;
};

}  // namespace shardwise
