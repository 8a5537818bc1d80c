#pragma once
// Exact sums of floats as one wide two's-complement integer with least bit 2^-149: the oracle of the exact
// sums.

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace shardwise::test {

class BigFixed {
 public:
  /// Adds `value`, after cutting it towards zero to a multiple of 2^-64 where `truncate` is set.
  void add(float value, bool truncate) {
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(static_cast<double>(value)), &exponent);
    auto mantissa = static_cast<std::uint64_t>(std::ldexp(fraction, 24));
    int shift = exponent - 24 + least;
    const int cut = least - 64 - shift;  // bits below 2^-64
    if (truncate && cut > 0) mantissa = cut >= 24 ? 0 : (mantissa >> cut) << cut;
    if (shift < 0) {
      mantissa >>= -shift;
      shift = 0;
    }
    std::array<std::uint32_t, words> term{};
    const std::uint64_t low = mantissa << (shift % 32);
    term.at(shift / 32) = static_cast<std::uint32_t>(low);
    term.at(shift / 32 + 1) = static_cast<std::uint32_t>(low >> 32);
    if (std::signbit(value)) negate(term);
    std::uint64_t carry = 0;
    for (int k = 0; k < words; ++k) {
      carry += static_cast<std::uint64_t>(word_[k]) + term[k];
      word_[k] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
  }

  /// To the nearest double, ties to even.
  double to_double() const {
    auto w = word_;
    const bool negative = (w[words - 1] >> 31) != 0;
    if (negative) negate(w);
    int top = words * 32 - 1;
    while (top >= 0 && !bit(w, top)) --top;
    if (top < 0) return 0;
    std::uint64_t mantissa = 0;
    for (int k = 0; k < 53; ++k) mantissa = mantissa << 1 | (top - k >= 0 && bit(w, top - k) ? 1u : 0u);
    const bool half = top - 53 >= 0 && bit(w, top - 53);
    bool more = false;
    for (int k = top - 54; k >= 0; --k) more = more || bit(w, k);
    if (half && (more || (mantissa & 1) != 0)) ++mantissa;
    const double size = std::ldexp(static_cast<double>(mantissa), top - 52 - least);
    return negative ? -size : size;
  }

 private:
  static constexpr int words = 12, least = 149 + 11;
  static bool bit(const std::array<std::uint32_t, words>& w, int k) { return (w[k / 32] >> (k % 32)) & 1u; }
  static void negate(std::array<std::uint32_t, words>& w) {
    std::uint64_t carry = 1;
    for (auto& word : w) {
      carry += static_cast<std::uint32_t>(~word);
      word = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
  }
  std::array<std::uint32_t, words> word_{};
};

}  // namespace shardwise::test
