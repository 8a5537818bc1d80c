#include "shardwise/numeric/trigonometry.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace shardwise {
namespace {

// |got - want| in units of the last place of want.
double ulps(double got, long double want) {
  const double nearest = std::fabs(static_cast<double>(want));
  if (nearest == 0.0) return got == 0.0 ? 0.0 : 1e30;
  const double step = std::nextafter(nearest, std::numeric_limits<double>::infinity()) - nearest;
  return static_cast<double>(std::fabs(static_cast<long double>(got) - want) / step);
}

constexpr double limit = 2.0;
constexpr long double two_pi_l = 6.283185307179586476925286766559005768L;

TEST(Trigonometry, SincosOfRadians) {
  std::mt19937_64 random(21);
  double worst = 0;
  for (int k = 0; k < 200000; ++k) {
    double x = 0;
    switch (k % 4) {
      case 0:
        x = std::uniform_real_distribution<double>(-7, 7)(random);
        break;
      case 1:
        x = std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random),
                       static_cast<int>(random() % 60));
        break;
      case 2:
        x = static_cast<double>(static_cast<int>(random() % 2000) - 1000) * 1.5707963267948966;
        break;
      default:
        x = std::bit_cast<double>((random() & 0x800fffffffffffffu) | (random() % 2046 << 52));
    }
    const SinCos got = sincos(x);
    const double error = std::max(ulps(got.sin, sinl(x)), ulps(got.cos, cosl(x)));
    worst = std::max(worst, error);
    ASSERT_LT(error, limit) << std::hexfloat << x;
  }
  RecordProperty("worst_ulp", std::to_string(worst));
  printf("sincos(radians): worst %.3f ulp\n", worst);
  // The double closest to a multiple of pi/2 (its cosine is about 4.7e-19).
  EXPECT_LT(ulps(sincos(0x1.6ac5b262ca1ffp+849).cos, cosl(0x1.6ac5b262ca1ffp+849)), limit);
}

TEST(Trigonometry, SincosOfTurns) {
  std::mt19937_64 random(22);
  double worst = 0;
  for (int k = 0; k < 200000; ++k) {
    const std::uint64_t fraction = k % 3 == 0   ? random() & ~0u
                                   : k % 3 == 1 ? random() >> (random() % 60)
                                                : random();
    // In radians by octants, so that the oracle's argument is small and accurate.
    const std::uint64_t quarter = (fraction + (1ull << 61)) >> 62;
    const auto rest = static_cast<std::int64_t>(fraction - (quarter << 62));
    const long double angle = static_cast<long double>(rest) * 0x1p-64L * two_pi_l;
    const long double s = sinl(angle), c = cosl(angle);
    const long double sines[4] = {s, c, -s, -c}, cosines[4] = {c, -s, -c, s};
    const SinCos got = sincos_turns(fraction);
    const double error = std::max(ulps(got.sin, sines[quarter & 3]), ulps(got.cos, cosines[quarter & 3]));
    worst = std::max(worst, error);
    ASSERT_LT(error, limit) << fraction;

    const double turns = static_cast<double>(fraction >> 11) * 0x1p-53 + static_cast<double>(random() % 1000);
    const SinCos whole = sincos_turn(turns), part = sincos_turn(turns - std::floor(turns));
    ASSERT_EQ(whole.sin, part.sin);
    ASSERT_EQ(whole.cos, part.cos);
    const SinCos mirrored = sincos_turn(-turns);
    ASSERT_EQ(mirrored.sin, -whole.sin);
    ASSERT_EQ(mirrored.cos, whole.cos);
    const double part_turns = turns - std::floor(turns);
    const double nearest = std::floor(part_turns * 4 + 0.5);
    const long double rest_angle = static_cast<long double>(part_turns - nearest / 4) * two_pi_l;
    const long double sr = sinl(rest_angle), cr = cosl(rest_angle);
    const long double sines_r[4] = {sr, cr, -sr, -cr}, cosines_r[4] = {cr, -sr, -cr, sr};
    const int q = static_cast<int>(nearest) & 3;
    ASSERT_LT(std::max(ulps(whole.sin, sines_r[q]), ulps(whole.cos, cosines_r[q])), limit) << turns;
  }
  printf("sincos_turns: worst %.3f ulp\n", worst);
  EXPECT_EQ(sincos_turns(1ull << 62).sin, 1.0);
  EXPECT_EQ(sincos_turns(1ull << 62).cos, 0.0);
  EXPECT_EQ(sincos_turns(1ull << 63).cos, -1.0);
  EXPECT_EQ(sincos_turn(-0.25).sin, -1.0);
}

TEST(Trigonometry, NotFiniteGivesNaN) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double x : {infinity, -infinity, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_TRUE(std::isnan(sincos(x).sin));
    EXPECT_TRUE(std::isnan(sincos_turn(x).cos));
  }
}

TEST(Trigonometry, Atan2) {
  std::mt19937_64 random(23);
  double worst = 0;
  for (int k = 0; k < 300000; ++k) {
    const int spread = k % 2 == 0 ? 2 : 300;
    const auto draw = [&] {
      return std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random),
                        static_cast<int>(random() % (2 * spread)) - spread);
    };
    const double y = draw(), x = draw();
    const double error = ulps(arctan2(y, x), atan2l(y, x));
    worst = std::max(worst, error);
    ASSERT_LT(error, limit) << std::hexfloat << y << " " << x;
  }
  printf("atan2: worst %.3f ulp\n", worst);
}

TEST(Trigonometry, Atan2AtSpecialValues) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double values[] = {0.0, -0.0, 1.0, -1.0, infinity, -infinity, 1e308, -1e308, 1e-308, 5e-324};
  for (const double y : values)
    for (const double x : values) {
      const double got = arctan2(y, x), want = std::atan2(y, x);
      EXPECT_LE(std::fabs(got - want), 4e-16 * std::fabs(want)) << y << " " << x;
      EXPECT_EQ(std::signbit(got), std::signbit(want)) << y << " " << x;
    }
  EXPECT_TRUE(std::isnan(arctan2(std::nan(""), 1.0)));
}

TEST(Trigonometry, Exp) {
  std::mt19937_64 random(24);
  double worst = 0;
  for (int k = 0; k < 200000; ++k) {
    const double x = k % 2 == 0 ? std::uniform_real_distribution<double>(-708, 700)(random)
                                : std::uniform_real_distribution<double>(-1, 1)(random);
    const double error = ulps(exponential(x), expl(x));
    worst = std::max(worst, error);
    ASSERT_LT(error, limit) << std::hexfloat << x;
  }
  printf("exp: worst %.3f ulp\n", worst);
  EXPECT_EQ(exponential(0.0), 1.0);
  EXPECT_EQ(exponential(-1e300), 0.0);
  EXPECT_EQ(exponential(1e300), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace shardwise
