// What a split is predicted to take, against sums done by hand.

#include "shardwise/shard/cost_model.hpp"

#include <gtest/gtest.h>

namespace shardwise::test {
namespace {

constexpr int chunks = 4;

DeviceRowCost direct(double beside_s, double alone_s) {
  DeviceRowCost cost;
  cost.compute_s = alone_s;
  cost.direct_s = beside_s;
  cost.direct_alone_s = alone_s;
  return cost;
}

double seconds_of(const std::vector<DeviceRowCost>& devices, const std::vector<double>& weights) {
  return predict_split(100, devices, weights, Overlap::direct, chunks, 7).seconds - 7;
}

TEST(CostModel, WhatIsLeftWhenTheOthersEndGoesAtTheSpeedOfOneAlone) {
  // 50 rows each: the second ends after 50 s, when the first has done 12.5; the other 37.5 take 2 s each.
  EXPECT_DOUBLE_EQ(seconds_of({direct(4, 2), direct(1, 1)}, {1, 1}), 50 + 37.5 * 2);
  // The other way round, with a ratio for weights.
  EXPECT_DOUBLE_EQ(seconds_of({direct(1, 1), direct(4, 2)}, {3, 3}), 50 + 37.5 * 2);
  // Alone from the beginning.
  EXPECT_DOUBLE_EQ(seconds_of({direct(4, 2), direct(1, 1)}, {1, 0}), 200);
  // Both end at once: nobody was alone.
  EXPECT_DOUBLE_EQ(seconds_of({direct(4, 2), direct(1, 1)}, {1, 4}), 80);
}

TEST(CostModel, BetweenAloneAndAllItCountsHowManyOthersWork) {
  // 10 rows end after 10 s; of the first's 60 rows 2.5 are done then; beside one of two others a row takes 3
  // s: the third's 30 rows take 30 s, in which 20 / 3 more are done; the rest at 2 s.
  const std::vector<DeviceRowCost> devices{direct(4, 2), direct(1, 1), direct(1, 1)};
  EXPECT_NEAR(seconds_of(devices, {6, 1, 3}), 30 + (60 - 2.5 - 20.0 / 3) * 2, 1e-9);
}

TEST(CostModel, WithoutCostsAloneTheSlowestCounts) {
  EXPECT_DOUBLE_EQ(seconds_of({direct(4, 0), direct(1, 0)}, {1, 1}), 200);
  // One that is known takes nothing from one that is not.
  EXPECT_DOUBLE_EQ(seconds_of({direct(4, 0), direct(1, 0.5)}, {1, 1}), 200);
}

TEST(CostModel, AtTheBestSplitAllEndTogether) {
  const std::vector<DeviceRowCost> devices{direct(4, 2), direct(1, 1), direct(2, 1.5)};
  const Prediction best = predict_best_split(100, devices, Overlap::direct, chunks, 7);
  EXPECT_NEAR(seconds_of(devices, best.weights), best.seconds - 7, 1e-9);
  for (std::size_t d = 0; d < devices.size(); ++d)
    EXPECT_NEAR(100 * best.weights[d] * devices[d].direct_s, best.seconds - 7, 1e-9);
}

}  // namespace
}  // namespace shardwise::test
