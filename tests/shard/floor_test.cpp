#include "shardwise/shard/floor.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "shard/random.hpp"

namespace shardwise {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

Weights weights(std::vector<double> values) {
  return Weights::from(values, values.size());
}

TEST(RowFloor, RisesInProportionAboveAHundredBytes) {
  EXPECT_EQ(row_floor(kMinRowsPerDevice, 0), 262144);
  EXPECT_EQ(row_floor(kMinRowsPerDevice, 100), 262144);
  EXPECT_EQ(row_floor(kMinRowsPerDevice, 101), 264766);  // 262144 * 1.01 = 264765.44, rounded up
  EXPECT_EQ(row_floor(kMinRowsPerDevice, 200), 524288);
  EXPECT_EQ(row_floor(0, 1000), 0);
  EXPECT_EQ(row_floor(kMost, UINT64_MAX), kMost);
  EXPECT_THROW(row_floor(-1, 8), std::invalid_argument);
}

TEST(LaneFloor, AddsTheBytesOfAPartialResult) {
  EXPECT_EQ(lane_floor(1000, 0), 1000);
  EXPECT_EQ(lane_floor(1000, 64000), 1640);
  EXPECT_EQ(lane_floor(0, 64000), 0) << "0 switches the floor off";
  EXPECT_EQ(lane_floor(kMost, UINT64_MAX), kMost);
  EXPECT_THROW(lane_floor(-3, 0), std::invalid_argument);
}

TEST(ApplyFloor, KeepsASplitWhoseRemoteShardsAreLargeEnough) {
  // The master's own shard may be as small as it likes.
  const auto shards = split_rows(1000, weights({1, 499, 500}));
  const FloorDecision decision = apply_floor(shards, 499, "rows");
  EXPECT_TRUE(decision.kept);
  EXPECT_FALSE(decision.on_master_alone);
  EXPECT_EQ(decision.shards, shards);
  EXPECT_NE(decision.reason.find("499 rows"), std::string::npos) << decision.reason;
}

TEST(ApplyFloor, MovesTheWholeWindowToTheMaster) {
  const auto shards = split_lanes({70, 1000}, weights({1, 499, 500}), 1);
  const FloorDecision decision = apply_floor(shards, 500, "lanes");
  EXPECT_FALSE(decision.kept);
  EXPECT_TRUE(decision.on_master_alone);
  EXPECT_EQ(decision.shards, (std::vector<Shard>{{kMaster, {70, 1000}}}));
  EXPECT_EQ(decision.reason, "device 1 would get 499 lanes, below the floor of 500 for a remote shard");
}

TEST(ApplyFloor, AWeightlessMasterStillTakesASmallCall) {
  const FloorDecision decision = apply_floor(split_rows(10, weights({0, 1})), 11, "rows");
  EXPECT_EQ(decision.shards, (std::vector<Shard>{{kMaster, {0, 10}}}));
}

TEST(ApplyFloor, TheMasterAloneNeedsNoFloor) {
  const FloorDecision decision = apply_floor(split_rows(10, weights({1, 0})), 1000, "rows");
  EXPECT_TRUE(decision.kept);
  EXPECT_TRUE(decision.on_master_alone);
  EXPECT_EQ(decision.reason, "the weights leave all to the master");
  EXPECT_EQ(apply_floor({}, 5, "rows").reason, "no rows");
}

TEST(ApplyFloor, NeverLosesARowNorLeavesAShardBelowTheFloor) {
  test::Draw draw(11);
  int kept = 0, moved = 0;
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    const Window window{draw.magnitude(40), draw.magnitude(40)};
    const std::int64_t floor = draw.chance(4) ? 0 : draw.magnitude(40);
    const auto shards = split_lanes(window, weights(draw.weights(static_cast<int>(draw.whole(1, 6)))), 1);
    const FloorDecision decision = apply_floor(shards, floor, "lanes");
    std::int64_t at = window.begin;
    for (const Shard& shard : decision.shards) {
      EXPECT_EQ(shard.window.begin, at);
      at = shard.window.end();
      if (shard.device != kMaster) {
        EXPECT_GE(shard.window.count, floor);
      }
    }
    EXPECT_EQ(at, window.end());
    if (floor == 0) {
      EXPECT_TRUE(decision.kept);
    }
    if (decision.kept) {
      EXPECT_EQ(decision.shards, shards);
    }
    (decision.kept ? kept : moved) += 1;
  }
  EXPECT_GT(kept, 100);
  EXPECT_GT(moved, 100);
}

}  // namespace
}  // namespace shardwise
