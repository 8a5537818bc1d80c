#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace shardwise::test {

/// Seeded draws for property tests. Only the raw 64-bit engine is used: its sequence is fixed by the
/// standard, the distributions' are not, so a failing round can be repeated on any machine.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t bits() { return engine_(); }
  /// A whole number in [low, high].
  std::int64_t whole(std::int64_t low, std::int64_t high) {
    const std::uint64_t width = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) +
                                     (width == 0 ? bits() : bits() % width));
  }
  bool chance(int one_in) { return whole(1, one_in) == 1; }
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  /// A size whose magnitude is spread over all powers of two up to 2^most.
  std::int64_t magnitude(int most) {
    const auto shift = whole(0, most);
    return whole(0, shift >= 63 ? INT64_MAX : (std::int64_t{1} << shift));
  }

  /// Weights of every kind: small whole numbers, fractions, zeros, denormals, huge ones; at least one
  /// positive.
  std::vector<double> weights(int devices) {
    std::vector<double> result;
    double sum = 0;
    const auto kind = whole(0, 4);
    for (int i = 0; i < devices; ++i) {
      double value = 0;
      if (kind == 0) value = static_cast<double>(whole(0, 5));
      if (kind == 1) value = unit();
      if (kind == 2) value = static_cast<double>(whole(0, 9)) * 4.9406564584124654e-324;
      if (kind == 3) value = unit() * 1.7e308;
      if (kind == 4) value = chance(2) ? 0 : unit() * (chance(2) ? 1e-300 : 1e300);
      result.push_back(value);
      sum += value > 0 ? 1 : 0;
    }
    if (sum == 0) result[static_cast<std::size_t>(whole(0, devices - 1))] = 1;
    return result;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace shardwise::test
