#pragma once
// Bit-level helpers that host and CUDA share without relying on constexpr standard functions in device code.

#include <cstdint>
#include <limits>

#include "shardwise/numeric/host_device.hpp"

namespace shardwise {

// Constants, so that device code needs no call of a standard constexpr function.
constexpr float infinity_f = std::numeric_limits<float>::infinity();
constexpr float smallest_normal_f = std::numeric_limits<float>::min();

/// The object representation of `from` read as a `To` of the same size.
template <class To, class From>
SW_HD constexpr To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

/// Number of zero bits above the highest set bit; 64 for 0.
SW_HD constexpr int leading_zeros(std::uint64_t value) {
  if (value == 0) return 64;
  int count = 0;
  for (int width = 32; width > 0; width /= 2) {
    if ((value >> (64 - width)) == 0) {
      count += width;
      value <<= width;
    }
  }
  return count;
}

/// 2^exponent as a double, -1022 <= exponent <= 1023.
SW_HD constexpr double power_of_two(int exponent) {
  return bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52);
}

/// 2^exponent as a float, -126 <= exponent <= 127.
SW_HD constexpr float power_of_two_f(int exponent) {
  return bit_cast<float>(static_cast<std::uint32_t>(127 + exponent) << 23);
}

/// The smallest k with 2^k >= value, for a positive finite normal value.
SW_HD constexpr int ceil_log2(double value) {
  const std::uint64_t bits = bit_cast<std::uint64_t>(value);
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;
  return (bits & 0xfffffffffffffu) == 0 ? exponent : exponent + 1;
}

/// A 128-bit product as two words.
struct WidePair {
  std::uint64_t high, low;
};

SW_HD constexpr WidePair multiply_wide(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t mask = 0xffffffffu;
  const std::uint64_t a0 = a & mask, a1 = a >> 32, b0 = b & mask, b1 = b >> 32;
  const std::uint64_t low = a0 * b0;
  const std::uint64_t mid1 = a1 * b0 + (low >> 32);
  const std::uint64_t mid2 = a0 * b1 + (mid1 & mask);
  return {a1 * b1 + (mid1 >> 32) + (mid2 >> 32), (mid2 << 32) | (low & mask)};
}

}  // namespace shardwise
