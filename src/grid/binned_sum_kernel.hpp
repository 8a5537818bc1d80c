#pragma once
// Sums of doubles that do not depend on order or partition, at a few additions a summand.
//
// Numbers are cut along a grid of bins that is fixed once for all: bin b holds multiples of 2^(32 b). A sum
// keeps the three bins from its `top` down, as integers. Bin `top` is the least with |x| <= 2^(32 top + 31)
// for every summand so far, and
//
//     slice(x, b) = (M + x) - M,  M = 1.5 x 2^(52 + 32 b)      x rounded to a multiple of 2^(32 b), ties to
//     even
//
// is a function of x alone; what is left, x - slice, is exact and at most 2^(32 (b - 1) + 31). For a bin
// above its own, slice is 0, so the bins of x do not depend on where a window began. Integers add up exactly;
// a sum drops what lies below its window, and the window of the whole is at least as high as that of any
// piece, so the three bins of the whole are exact. At least 65 bits below the largest summand are kept. (The
// idea of bins fixed in advance: J. Demmel, H. D. Nguyen, "Parallel reproducible summation", IEEE Trans.
// Comput. 64, 2015.) At most 2^31 summands;
// BinnedTotal adds up more.

#include <cmath>
#include <cstdint>

#include "shardwise/numeric/bits.hpp"
#include "shardwise/numeric/host_device.hpp"

namespace shardwise {

struct BinnedSum {
  static constexpr std::int32_t lowest = -29, highest = 29;
  std::int64_t digit[3] = {0, 0, 0};  ///< of bins top, top - 1, top - 2
  std::int32_t top = lowest;
  std::int32_t bad = 0;  ///< something was not finite, or beyond 2^(32 highest + 31)
};

/// The least top for a summand of this size.
SW_HD inline std::int32_t bin_of(double size) {
  const auto exponent = static_cast<std::int32_t>((bit_cast<std::uint64_t>(size) >> 52) & 0x7ff) - 1023;
  const std::int32_t bin = (exponent + 1) >> 5;
  return bin < BinnedSum::lowest ? BinnedSum::lowest : bin;
}

SW_HD inline double bin_unit(std::int32_t bin) {
  return power_of_two(32 * bin);
}
SW_HD inline double bin_magic(std::int32_t bin) {
  return 1.5 * power_of_two(52 + 32 * bin);
}

/// Raises the window; lower digits fall out. (Step by step, so that the digits can be registers.)
SW_HD inline void raise(BinnedSum& sum, std::int32_t top) {
  const std::int32_t by = top - sum.top;
  if (by <= 0) return;
  for (std::int32_t step = 0; step < 3; ++step) {
    if (step == by) break;
    sum.digit[2] = sum.digit[1];
    sum.digit[1] = sum.digit[0];
    sum.digit[0] = 0;
  }
  sum.top = top;
}

SW_HD inline void merge(BinnedSum& sum, BinnedSum other) {
  raise(sum, other.top);
  raise(other, sum.top);
  for (int k = 0; k < 3; ++k) sum.digit[k] += other.digit[k];
  sum.bad |= other.bad;
}

/// Partial sums of slices as doubles: exact while at most 2^20 summands go in between two flushes.
struct BinWindow {
  double magic[3], sum[3] = {0, 0, 0};
  std::int32_t top;

  SW_HD explicit BinWindow(std::int32_t t) : top(t) {
    for (int k = 0; k < 3; ++k) magic[k] = bin_magic(t - k);
  }
  SW_HD void add(double x) {
    const double a = (magic[0] + x) - magic[0];
    x = x - a;
    const double b = (magic[1] + x) - magic[1];
    x = x - b;
    const double c = (magic[2] + x) - magic[2];
    sum[0] += a;
    sum[1] += b;
    sum[2] += c;
  }
  /// Adds what was gathered to `total` and starts again.
  SW_HD void flush(BinnedSum& total) {
    BinnedSum mine;
    mine.top = top;
    for (int k = 0; k < 3; ++k) {
      const double units = sum[k] * bin_unit(-(top - k));
      if (!(units > -9.0e15 && units < 9.0e15)) {
        mine.bad = 1;
      } else {
        mine.digit[k] = static_cast<std::int64_t>(units);
      }
      sum[k] = 0;
    }
    merge(total, mine);
  }
};

}  // namespace shardwise
