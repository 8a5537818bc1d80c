#include "shardwise/shard/weights.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "shard/random.hpp"

namespace shardwise {
namespace {

std::vector<std::uint64_t> values(const std::vector<double>& weights) {
  const Weights result = Weights::from(weights, weights.size());
  return {result.values().begin(), result.values().end()};
}

std::string refusal(const std::vector<double>& weights, std::size_t devices) {
  try {
    Weights::from(weights, devices);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

using Values = std::vector<std::uint64_t>;

TEST(Weights, WholeNumbersAreUsedAsTheyAre) {
  EXPECT_EQ(values({5, 1, 0}), (Values{5, 1, 0}));
  EXPECT_EQ(values({4294967295.0, 1}), (Values{4294967295u, 1}));
  EXPECT_EQ(values({-0.0, 3}), (Values{0, 3}));
}

TEST(Weights, OthersAreScaledToTheLargest) {
  const std::uint64_t two32 = std::uint64_t{1} << 32;
  EXPECT_EQ(values({0.5, 0.25}), (Values{two32, two32 / 2}));
  EXPECT_EQ(values({4294967296.0, 4294967296.0}), (Values{two32, two32}));
  EXPECT_EQ(values({1.5, 1}), (Values{two32, 2863311531u}));  // 2^32 / 1.5 = 2863311530.67
  EXPECT_EQ(values({0.1}), (Values{two32}));
}

TEST(Weights, APositiveWeightNeverBecomesZero) {
  const double least = std::numeric_limits<double>::denorm_min();
  const double most = std::numeric_limits<double>::max();
  EXPECT_EQ(values({most, least, 0}), (Values{std::uint64_t{1} << 32, 1, 0}));
  EXPECT_EQ(values({least, 0}), (Values{std::uint64_t{1} << 32, 0}));
  EXPECT_EQ(values({2 * least, least}), (Values{std::uint64_t{1} << 32, std::uint64_t{1} << 31}));
}

TEST(Weights, RefusalsNameTheOffenderAndTheCounts) {
  EXPECT_EQ(refusal({1, 2, 3}, 2), "weights: 3 weights given for 2 devices; give one weight for each device");
  EXPECT_EQ(refusal({}, 1), "weights: 0 weights given for 1 device; give one weight for each device");
  EXPECT_EQ(refusal({0, 0, 0}, 3),
            "weights: all 3 weights are zero; give at least one device a positive weight");
  EXPECT_EQ(refusal({1, -2.5}, 2), "weights: weight 1 of 2 is -2.5; weights are finite and not negative");
  EXPECT_NE(refusal({1, std::numeric_limits<double>::quiet_NaN()}, 2).find("weight 1 of 2 is nan"),
            std::string::npos);
  EXPECT_NE(refusal({std::numeric_limits<double>::infinity(), 1}, 2).find("weight 0 of 2 is inf"),
            std::string::npos);
  EXPECT_NE(refusal({}, 0).find("device set is empty"), std::string::npos);
}

TEST(Weights, EqualSharesAndText) {
  EXPECT_EQ(Weights::equal(3).to_string(), "1:1:1");
  EXPECT_EQ(Weights::equal(3).sum(), 3u);
  EXPECT_THROW(Weights::equal(0), std::invalid_argument);
}

TEST(Weights, NormalisedWeightsKeepOrderAndZeros) {
  test::Draw draw(1);
  for (int round = 0; round < 3000; ++round) {
    const auto devices = static_cast<int>(draw.whole(1, 9));
    const std::vector<double> given = draw.weights(devices);
    const Values result = values(given);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < given.size(); ++i) {
      EXPECT_EQ(given[i] > 0, result[i] > 0) << "round " << round << " weight " << i;
      EXPECT_LE(result[i], std::uint64_t{1} << 32);
      sum += result[i];
      for (std::size_t j = 0; j < given.size(); ++j) {
        if (given[i] <= given[j]) {
          EXPECT_LE(result[i], result[j]) << "round " << round;
        }
      }
    }
    EXPECT_EQ(Weights::from(given, given.size()).sum(), sum);
  }
}

}  // namespace
}  // namespace shardwise
