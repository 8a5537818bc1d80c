#include "shardwise/numeric/complex.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <random>

namespace shardwise {
namespace {

TEST(Complex, DivisionAgreesWithTheStandardType) {
  std::mt19937_64 random(31);
  std::uniform_real_distribution<double> part(-1, 1);
  for (int k = 0; k < 20000; ++k) {
    const auto scale = [&] { return std::ldexp(1.0, static_cast<int>(random() % 200) - 100); };
    const Complexd a{part(random) * scale(), part(random) * scale()},
        b{part(random) * scale(), part(random) * scale()};
    const Complexd q = a / b;
    const std::complex<double> want = std::complex<double>(a.re, a.im) / std::complex<double>(b.re, b.im);
    EXPECT_LE(std::abs(std::complex<double>(q.re, q.im) - want), 1e-15 * std::abs(want));
  }
  const Complexf big{1e30f, 1e30f};
  EXPECT_FLOAT_EQ((big / big).re, 1.0f);  // |b|^2 would overflow
}

TEST(Complex, SquareRootDecays) {
  std::mt19937_64 random(32);
  std::uniform_real_distribution<double> part(-1, 1);
  for (int k = 0; k < 20000; ++k) {
    const Complexd a{part(random) * std::ldexp(1.0, static_cast<int>(random() % 100) - 50),
                     -std::fabs(part(random)) * std::ldexp(1.0, static_cast<int>(random() % 100) - 50)};
    const Complexd root = sqrt_decaying(a);
    EXPECT_GE(root.re, 0.0);
    EXPECT_LE(root.im, 0.0);
    const std::complex<double> want = std::sqrt(std::complex<double>(a.re, a.im));
    EXPECT_LE(std::abs(std::complex<double>(root.re, root.im) - want), 1e-15 * std::abs(want));
  }
}

TEST(Complex, SignOfZeroDoesNotDecideTheBranch) {
  for (const float zero : {0.0f, -0.0f}) {
    const Complexf root = sqrt_decaying(Complexf{-4.0f, zero});
    EXPECT_EQ(root.re, 0.0f);
    EXPECT_EQ(root.im, -2.0f);
    EXPECT_EQ(sqrt_decaying(Complexf{9.0f, zero}).re, 3.0f);
    EXPECT_EQ(sqrt_decaying(Complexf{zero, zero}).re, 0.0f);
  }
}

}  // namespace
}  // namespace shardwise
