#include "shardwise/numeric/exact_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "big_fixed.hpp"

namespace shardwise {
namespace {

using test::BigFixed;

std::vector<float> wild_floats(std::mt19937_64& random, int count, int low_exponent, bool with_negative) {
  std::uniform_int_distribution<int> exponent(low_exponent, 19);
  std::uniform_real_distribution<float> fraction(1.0f, 2.0f);
  std::vector<float> values;
  for (int k = 0; k < count; ++k) {
    float value = std::ldexp(fraction(random), exponent(random));
    if (with_negative && (random() & 1) != 0) value = -value;
    values.push_back(value);
  }
  return values;
}

std::uint64_t bits_of(double value) {
  return std::bit_cast<std::uint64_t>(value);
}

TEST(ExactSum, EqualsTheRationalSumRoundedOnce) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 400; ++round) {
    const bool tiny = round % 2 == 1;  // odd rounds reach below 2^-64 and into subnormals
    const auto values =
        wild_floats(random, 1 + static_cast<int>(random() % 300), tiny ? -148 : -41, round % 4 >= 2);
    ExactSum sum{};
    BigFixed oracle;
    for (const float value : values) {
      ASSERT_TRUE(add_exact(sum.digit, value));
      oracle.add(value, true);
    }
    ASSERT_EQ(bits_of(to_double(sum)), bits_of(oracle.to_double())) << "round " << round;
    normalize(sum);
    ASSERT_EQ(bits_of(to_double(sum)), bits_of(oracle.to_double()));
  }
}

TEST(ExactSum, NothingIsLostAboveTheLeastBit) {
  // Every float from 2^-41 on has all its 24 bits at or above 2^-64, so truncation changes nothing there.
  std::mt19937_64 random(12);
  ExactSum sum{};
  BigFixed oracle;
  for (const float value : wild_floats(random, 2000, -41, true)) {
    add_exact(sum.digit, value);
    oracle.add(value, false);
  }
  EXPECT_EQ(bits_of(to_double(sum)), bits_of(oracle.to_double()));
}

TEST(ExactSum, OrderSplitAndNormalisationDoNotMatter) {
  std::mt19937_64 random(13);
  auto values = wild_floats(random, 5000, -60, true);
  ExactSum whole{};
  for (const float value : values) add_exact(whole.digit, value);
  normalize(whole);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(values.begin(), values.end(), random);
    const std::size_t cut = random() % values.size();
    ExactSum parts[2]{};
    for (std::size_t k = 0; k < values.size(); ++k) {
      add_exact(parts[k < cut ? 0 : 1].digit, values[k]);
      if (random() % 97 == 0) normalize(parts[k < cut ? 0 : 1]);
    }
    normalize(parts[0]);
    normalize(parts[1]);
    merge(parts[0], parts[1]);
    for (int k = 0; k < 3; ++k) ASSERT_EQ(parts[0].digit[k], whole.digit[k]);
  }
}

TEST(ExactSum, TruncatesTowardsZeroBelowTheLeastBit) {
  for (const float sign : {1.0f, -1.0f}) {
    ExactSum sum{};
    add_exact(sum.digit, sign * 0x1.fffffep-65f);
    EXPECT_EQ(to_double(sum), 0.0);
    add_exact(sum.digit, sign * 0x1.8p-64f);
    EXPECT_EQ(to_double(sum), sign * 0x1p-64);
    add_exact(sum.digit, sign * std::numeric_limits<float>::denorm_min());
    EXPECT_EQ(to_double(sum), sign * 0x1p-64);
  }
}

TEST(ExactSum, OverflowIsReportedAndAddsNothing) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float above = std::nextafter(0x1p+20f, infinity);
  for (const float value : {above, -above, infinity, -infinity, std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::max()}) {
    ExactSum sum{};
    EXPECT_FALSE(add_exact(sum.digit, value)) << value;
    EXPECT_FALSE(atomic_add_exact(sum.digit, value)) << value;
    EXPECT_EQ(to_double(sum), 0.0);
  }
  ExactSum sum{};
  EXPECT_TRUE(add_exact(sum.digit, 0x1p+20f));
  EXPECT_TRUE(add_exact(sum.digit, -0x1p+20f));
  EXPECT_TRUE(add_exact(sum.digit, 0x1p+20f));
  EXPECT_EQ(to_double(sum), 0x1p+20);
}

TEST(ExactSum, WordsHoldTheStatedNumberOfSummands) {
  // The worst case of each digit, exact_max_between_normalize times, on top of a normalised rest.
  const std::int64_t n = exact_max_between_normalize;
  for (const float value : {0x1.fffffep-41f, 0x1.fffffep-32f, 0x1.fffffep-9f, 0x1.fffffep+0f, 0x1p+20f}) {
    for (const float sign : {1.0f, -1.0f}) {
      const ExactDigits d = exact_digits(sign * value);
      ExactSum sum{{0xffffffff, 0xffffffff, 0}};
      __int128 wide[3] = {sum.digit[0], sum.digit[1], sum.digit[2]};
      wide[d.first] += static_cast<__int128>(d.low) * n;
      wide[d.first + 1] += static_cast<__int128>(d.high) * n;
      __int128 exact = (wide[0] + (wide[1] << 32)) + (wide[2] << 64);
      for (int k = 0; k < 3; ++k) {
        ASSERT_LE(wide[k], std::numeric_limits<std::int64_t>::max());
        ASSERT_GE(wide[k], std::numeric_limits<std::int64_t>::min());
        sum.digit[k] = static_cast<std::int64_t>(wide[k]);
      }
      // ...and normalising does not overflow either.
      ASSERT_LE((wide[0] >> 32) + wide[1], std::numeric_limits<std::int64_t>::max());
      ASSERT_GE((wide[0] >> 32) + wide[1], std::numeric_limits<std::int64_t>::min());
      normalize(sum);
      EXPECT_EQ(sum.digit[0], static_cast<std::int64_t>(exact & 0xffffffff));
      EXPECT_EQ(sum.digit[1], static_cast<std::int64_t>((exact >> 32) & 0xffffffff));
      EXPECT_EQ(sum.digit[2], static_cast<std::int64_t>(exact >> 64));
    }
  }
  // The top word over a whole call.
  const __int128 top = static_cast<__int128>(exact_max_summands) * (1 << 20) + (std::int64_t{1} << 33);
  EXPECT_LT(top, std::numeric_limits<std::int64_t>::max());
  EXPECT_TRUE(exact_limits_hold(n, exact_max_summands));
  EXPECT_FALSE(exact_limits_hold(n + 1, exact_max_summands));
  EXPECT_FALSE(exact_limits_hold(n, exact_max_summands + 1));
}

TEST(ExactSum, RoundsTiesToEven) {
  // digit[2] = 2^53 + odd and a half below: written directly, as a sum over many lanes would leave it.
  EXPECT_EQ(to_double(ExactSum{{0, 0, (1ll << 53) + 1}}), 0x1p+53);
  EXPECT_EQ(to_double(ExactSum{{0, 0, (1ll << 53) + 3}}), 0x1p+53 + 4);
  EXPECT_EQ(to_double(ExactSum{{1, 0, (1ll << 53) + 1}}), 0x1p+53 + 2);
  EXPECT_EQ(to_double(ExactSum{{-1, 0, (1ll << 53) + 1}}), 0x1p+53);
  EXPECT_EQ(to_double(ExactSum{{0, 0, -((1ll << 53) + 1)}}), -0x1p+53);
  EXPECT_EQ(to_double(ExactSum{{-1, 0, 0}}), -0x1p-64);
  EXPECT_EQ(to_double(ExactSum{{0, 0, std::numeric_limits<std::int64_t>::min()}}), -0x1p+63);
}

TEST(ExactSum, ScaleIsTheSmallestPowerOfTwoThatHoldsTheBound) {
  EXPECT_EQ(exact_scale(1.0), 1.0f);
  EXPECT_EQ(exact_scale(1.5), 0.5f);
  EXPECT_EQ(exact_scale(4.0), 0.25f);
  EXPECT_EQ(exact_scale(0.3), 2.0f);
  EXPECT_EQ(exact_scale(1e300), 0x1p-100f);
}

TEST(ExactSum, ThreadsAddToOneCell) {
  ExactCell cell{};
  std::vector<std::thread> threads;
  const int per_thread = 20000;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&cell, t] {
      for (int k = 0; k < per_thread; ++k) {
        atomic_add_exact(cell.digit, 0.1f * static_cast<float>(1 + (k + t) % 7));
        atomic_add(&cell.count, std::int64_t{1});
      }
    });
  for (auto& thread : threads) thread.join();
  BigFixed oracle;
  for (int t = 0; t < 4; ++t)
    for (int k = 0; k < per_thread; ++k) oracle.add(0.1f * static_cast<float>(1 + (k + t) % 7), true);
  EXPECT_EQ(bits_of(to_double(cell)), bits_of(oracle.to_double()));
  EXPECT_EQ(cell.count, 4 * per_thread);
}

}  // namespace
}  // namespace shardwise
