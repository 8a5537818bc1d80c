#pragma once
// Sums of floats that do not depend on the order, the split or the device.
//
// A summand is scaled by a power of two fixed for the whole call and written as a signed fixed-point number
// with least bit 2^-64, truncated towards zero below. Its 32-bit digits are added to 64-bit words of their
// own (carry-save), so plain integer additions, in any order, by atomics, NCCL or MPI, give the same sum:
//
//     value = digit[0] 2^-64 + digit[1] 2^-32 + digit[2]
//
// A float has 24 significant bits, so it touches at most two digits. Limits, which keep every word inside 64
// bits:
//   * one summand:        |x| <= 2^20 after scaling; more, or not finite, is an overflow that add() reports;
//   * between normalise:  at most 2^31 - 2 summands for a cell (lanes of a chunk x (bounces + 1));
//   * in all:             at most 2^42 summands for a cell (all lanes x (bounces + 1)).

#include <cstdint>

#include "shardwise/numeric/atomic_add.hpp"
#include "shardwise/numeric/bits.hpp"

namespace shardwise {

constexpr std::int64_t exact_max_between_normalize = (std::int64_t{1} << 31) - 2;
constexpr std::int64_t exact_max_summands = std::int64_t{1} << 42;

/// True when a launch with these counts stays inside the words.
SW_HD constexpr bool exact_limits_hold(std::int64_t summands_per_chunk, std::int64_t summands_total) {
  return summands_per_chunk <= exact_max_between_normalize && summands_total <= exact_max_summands;
}

/// The scale of a call: 2^-ceil(log2 bound) for summands that should not exceed `bound` (normal, positive).
/// The exponent is held to [-100, 100], where the product with a float stays exact for all values that
/// matter.
SW_HD constexpr float exact_scale(double bound) {
  int exponent = -ceil_log2(bound);
  exponent = exponent < -100 ? -100 : exponent > 100 ? 100 : exponent;
  return power_of_two_f(exponent);
}

/// The two digits that a summand touches: digit[first] += low, digit[first + 1] += high; first is 0 or 1.
struct ExactDigits {
  std::int64_t low, high;
  int first;
  bool overflow;
};

SW_HD inline ExactDigits exact_digits(float value) {
  const std::uint32_t bits = bit_cast<std::uint32_t>(value);
  const std::uint32_t size = bits & 0x7fffffffu;
  if (size > 0x49800000u) return {0, 0, 0, true};  // above 2^20, infinite or NaN
  const int biased = static_cast<int>(size >> 23);
  const std::uint32_t mantissa = biased > 0 ? (size & 0x7fffffu) | 0x800000u : size;
  const int shift = (biased > 0 ? biased : 1) - 150 + 64;  // |value| 2^64 = mantissa x 2^shift
  std::uint64_t product = 0;
  int first = 0;
  if (shift >= 0) {
    first = shift >> 5;
    product = static_cast<std::uint64_t>(mantissa) << (shift & 31);
  } else if (shift > -24) {
    product = mantissa >> -shift;
  }
  std::int64_t low = static_cast<std::int64_t>(product & 0xffffffffu);
  std::int64_t high = static_cast<std::int64_t>(product >> 32);
  if ((bits >> 31) != 0) {
    low = -low;
    high = -high;
  }
  return {low, high, first, false};
}

/// A signed sum: three carry-save digits.
struct ExactSum {
  std::int64_t digit[3];
};

/// One cell of a launch grid: the sum and the number of crossings, half a cache line.
struct alignas(32) ExactCell {
  std::int64_t digit[3];
  std::int64_t count;
};
static_assert(sizeof(ExactCell) == 32 && sizeof(ExactSum) == 24);

/// Adds a scaled value to three digits atomically; false is an overflow, and nothing was added.
SW_HD inline bool atomic_add_exact(std::int64_t* digits, float value) {
  const ExactDigits d = exact_digits(value);
  if (d.overflow) return false;
  if (d.low != 0) atomic_add(digits + d.first, d.low);
  if (d.high != 0) atomic_add(digits + d.first + 1, d.high);
  return true;
}

/// The same for a sum that one thread owns.
SW_HD inline bool add_exact(std::int64_t* digits, float value) {
  const ExactDigits d = exact_digits(value);
  if (d.overflow) return false;
  digits[d.first] += d.low;
  digits[d.first + 1] += d.high;
  return true;
}

/// Propagates carries: 0 <= digit[0], digit[1] < 2^32, the sign in digit[2]. The canonical form is unique.
SW_HD inline void normalize_digits(std::int64_t* digit) {
  digit[1] += digit[0] >> 32;
  digit[0] &= 0xffffffff;
  digit[2] += digit[1] >> 32;
  digit[1] &= 0xffffffff;
}
SW_HD inline void normalize(ExactSum& sum) {
  normalize_digits(sum.digit);
}
SW_HD inline void normalize(ExactCell& cell) {
  normalize_digits(cell.digit);
}

/// target += other, both normalised; the result is normalised.
SW_HD inline void merge(ExactSum& target, const ExactSum& other) {
  for (int k = 0; k < 3; ++k) target.digit[k] += other.digit[k];
  normalize(target);
}
SW_HD inline void merge(ExactCell& target, const ExactCell& other) {
  for (int k = 0; k < 3; ++k) target.digit[k] += other.digit[k];
  target.count += other.count;
  normalize(target);
}

/// The sum (of any form, normalised or not) rounded once to the nearest double, ties to even. Still scaled.
SW_HD inline double digits_to_double(const std::int64_t* digits) {
  std::int64_t d[3] = {digits[0], digits[1], digits[2]};
  normalize_digits(d);
  std::uint64_t high = static_cast<std::uint64_t>(d[2]);
  std::uint64_t low = (static_cast<std::uint64_t>(d[1]) << 32) | static_cast<std::uint64_t>(d[0]);
  const bool negative = d[2] < 0;
  if (negative) {
    low = ~low + 1;
    high = ~high + (low == 0 ? 1 : 0);
  }
  if ((high | low) == 0) return 0.0;
  int zeros = leading_zeros(high);
  if (zeros == 64) {
    zeros = 64 + leading_zeros(low);
    high = low << (zeros - 64);
    low = 0;
  } else if (zeros > 0) {
    high = (high << zeros) | (low >> (64 - zeros));
    low <<= zeros;
  }
  std::uint64_t mantissa = high >> 11;  // 53 bits; what is below decides the rounding
  const std::uint64_t below = high & 0x7ff;
  const bool up = below > 0x400 || (below == 0x400 && (low != 0 || (mantissa & 1) != 0));
  mantissa += up ? 1 : 0;
  // value = mantissa x 2^(64 + 11 - zeros - 64)
  const double size = static_cast<double>(mantissa) * power_of_two(11 - zeros);
  return negative ? -size : size;
}
SW_HD inline double to_double(const ExactSum& sum) {
  return digits_to_double(sum.digit);
}
SW_HD inline double to_double(const ExactCell& cell) {
  return digits_to_double(cell.digit);
}

}  // namespace shardwise
