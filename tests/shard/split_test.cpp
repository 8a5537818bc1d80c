#include "shardwise/shard/split.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "shard/random.hpp"

namespace shardwise {
namespace {

Weights weights(std::vector<double> values) {
  return Weights::from(values, values.size());
}

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

// In order, disjoint, without a gap, no empty shard, ascending devices, none without weight.
void expect_exact_cover(const std::vector<Shard>& shards, Window window, const Weights& weights) {
  std::int64_t at = window.begin;
  int last_device = -1;
  for (const Shard& shard : shards) {
    EXPECT_EQ(shard.window.begin, at);
    EXPECT_GT(shard.window.count, 0);
    EXPECT_GT(shard.device, last_device);
    ASSERT_LT(static_cast<std::size_t>(shard.device), weights.size());
    EXPECT_GT(weights[static_cast<std::size_t>(shard.device)], 0u);
    at = shard.window.end();
    last_device = shard.device;
  }
  EXPECT_EQ(at, window.end());
}

using Shards = std::vector<Shard>;

TEST(SplitRows, EndsAreTheFlooredPrefixShares) {
  EXPECT_EQ(split_rows(10, weights({1, 1, 1})), (Shards{{0, {0, 3}}, {1, {3, 3}}, {2, {6, 4}}}));
  EXPECT_EQ(split_rows(7, weights({5, 1, 0})), (Shards{{0, {0, 5}}, {1, {5, 2}}}));
  EXPECT_EQ(split_rows(2, weights({0, 1, 1, 1})), (Shards{{2, {0, 1}}, {3, {1, 1}}}));
  EXPECT_EQ(split_rows(9, weights({4})), (Shards{{0, {0, 9}}}));
  EXPECT_EQ(split_rows(9, weights({0, 0, 4, 0})), (Shards{{2, {0, 9}}}));
  EXPECT_TRUE(split_rows(0, weights({1, 2})).empty());
}

TEST(SplitRows, HugeTotalsDoNotOverflow) {
  const std::int64_t total = (std::int64_t{1} << 62) + 12345;
  const Shards shards = split_rows(total, weights({4294967295.0, 1}));
  ASSERT_EQ(shards.size(), 2u);
  // floor(total (2^32 - 1) / 2^32) = total - ceil(total / 2^32)
  EXPECT_EQ(shards[1].window.count, (total >> 32) + 1);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(split_rows(most, weights({1, 1}))[0].window.end(), most / 2);
}

TEST(SplitRows, RefusesANegativeTotal) {
  EXPECT_EQ(refusal([] { split_rows(-4, Weights::equal(2)); }),
            "split: -4 rows; the number of rows cannot be negative");
}

TEST(SplitRows, CoversExactlyForAnyWeights) {
  test::Draw draw(2);
  for (int round = 0; round < 4000; ++round) {
    SCOPED_TRACE(round);
    const Weights w = weights(draw.weights(static_cast<int>(draw.whole(1, 17))));
    const std::int64_t total = draw.magnitude(63);
    const Shards shards = split_rows(total, w);
    expect_exact_cover(shards, {0, total}, w);
    // The contract's formula in long division that shares no code: q and r of total / sum, part by part.
    __extension__ using Wide = unsigned __int128;
    Wide prefix = 0;
    std::int64_t end = 0;
    std::size_t next = 0;
    for (std::size_t k = 0; k < w.size(); ++k) {
      prefix += w[k];
      const auto quotient = static_cast<Wide>(total) / w.sum(), rest = static_cast<Wide>(total) % w.sum();
      const auto expected = static_cast<std::int64_t>(quotient * prefix + rest * prefix / w.sum());
      if (expected == end) continue;
      ASSERT_LT(next, shards.size());
      EXPECT_EQ(shards[next].device, static_cast<int>(k));
      EXPECT_EQ(shards[next].window.end(), expected);
      end = expected;
      ++next;
    }
    EXPECT_EQ(next, shards.size());
  }
}

TEST(SplitRows, DevicesWithoutWeightChangeNothing) {
  test::Draw draw(3);
  for (int round = 0; round < 1000; ++round) {
    SCOPED_TRACE(round);
    const std::vector<double> plain = draw.weights(static_cast<int>(draw.whole(1, 6)));
    std::vector<double> with_zeros;
    std::vector<int> original;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      for (std::int64_t zeros = draw.whole(0, 2); zeros > 0; --zeros) {
        with_zeros.push_back(0);
        original.push_back(-1);
      }
      with_zeros.push_back(plain[i]);
      original.push_back(static_cast<int>(i));
    }
    with_zeros.push_back(0);
    original.push_back(-1);
    const std::int64_t begin = draw.magnitude(40), count = draw.magnitude(40);
    const std::int64_t granule = draw.chance(2) ? 1 : draw.whole(1, 5000);
    Shards expected = split_lanes({begin, count}, weights(plain), granule);
    Shards found = split_lanes({begin, count}, weights(with_zeros), granule);
    for (Shard& shard : found) shard.device = original[static_cast<std::size_t>(shard.device)];
    EXPECT_EQ(found, expected);
  }
}

TEST(SplitLanes, CutsAtGlobalMultiplesRoundedDown) {
  EXPECT_EQ(split_lanes({5000, 10000}, weights({1, 1}), 4096),
            (Shards{{0, {5000, 3192}}, {1, {8192, 6808}}}));
  // Rounded below the window's begin: the first device gets nothing.
  EXPECT_EQ(split_lanes({5000, 100}, weights({1, 1}), 4096), (Shards{{1, {5000, 100}}}));
  // The remainder of the granule goes to the last device with weight, never to one without.
  EXPECT_EQ(split_lanes({0, 10000}, weights({5, 1, 0}), 4096), (Shards{{0, {0, 8192}}, {1, {8192, 1808}}}));
}

TEST(SplitLanes, CoversExactlyForAnyWindow) {
  test::Draw draw(4);
  for (int round = 0; round < 4000; ++round) {
    SCOPED_TRACE(round);
    const Weights w = weights(draw.weights(static_cast<int>(draw.whole(1, 17))));
    const Window window{draw.magnitude(62), draw.magnitude(61)};
    const std::int64_t granule =
        draw.chance(3) ? 1 : (draw.chance(2) ? kLaneGranule : draw.whole(1, 1 << 20));
    const Shards shards = split_lanes(window, w, granule);
    expect_exact_cover(shards, window, w);
    // Inner cuts are multiples, and less than one granule below the exact share.
    const Shards fine = split_lanes(window, w, 1);
    const auto exact_end = [&](int device) {
      std::int64_t end = window.begin;
      for (const Shard& shard : fine) {
        if (shard.device <= device) end = shard.window.end();
      }
      return end;
    };
    for (std::size_t i = 0; i + 1 < shards.size(); ++i) {
      const std::int64_t cut = shards[i].window.end();
      EXPECT_EQ(cut % granule, 0);
      EXPECT_LE(cut, exact_end(shards[i].device));
      EXPECT_GT(granule, exact_end(shards[i].device) - cut);
    }
  }
}

TEST(SplitLanes, SplittingAgainStaysInsideAndCovers) {
  // Ranks first, devices second: the second split of each part covers what the first gave it.
  test::Draw draw(5);
  for (int round = 0; round < 1000; ++round) {
    SCOPED_TRACE(round);
    const Weights ranks = weights(draw.weights(static_cast<int>(draw.whole(1, 5))));
    const Window window{draw.magnitude(50), draw.magnitude(50)};
    const std::int64_t granule = draw.chance(2) ? 1 : kLaneGranule;
    std::int64_t at = window.begin;
    for (const Shard& rank : split_lanes(window, ranks, granule)) {
      const Weights devices = weights(draw.weights(static_cast<int>(draw.whole(1, 5))));
      for (const Shard& shard : split_lanes(rank.window, devices, granule)) {
        EXPECT_EQ(shard.window.begin, at);
        at = shard.window.end();
      }
      EXPECT_EQ(at, rank.window.end());
    }
    EXPECT_EQ(at, window.end());
  }
}

TEST(SplitLanes, WeightsOfOneRatioCutAlike) {
  test::Draw draw(6);
  for (int round = 0; round < 500; ++round) {
    std::vector<double> small, large;
    const auto factor = static_cast<double>(draw.whole(2, 1000));
    for (std::int64_t n = draw.whole(1, 8); n > 0; --n) {
      small.push_back(static_cast<double>(draw.whole(0, 50)));
      large.push_back(small.back() * factor);
    }
    small.push_back(1);
    large.push_back(factor);
    const std::int64_t total = draw.magnitude(62);
    EXPECT_EQ(split_rows(total, weights(small)), split_rows(total, weights(large))) << "round " << round;
  }
}

TEST(SplitLanes, RefusesMalformedWindows) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(refusal([] { split_lanes({-1, 4}, Weights::equal(1)); }).find("begins at -1"), std::string::npos);
  EXPECT_NE(refusal([] { split_lanes({1, -4}, Weights::equal(1)); }).find("count -4"), std::string::npos);
  EXPECT_NE(refusal([=] {
              split_lanes({most, 1}, Weights::equal(1));
            }).find("below 2^63"),
            std::string::npos);
  EXPECT_NE(refusal([] {
              split_lanes({0, 1}, Weights::equal(1), 0);
            }).find("granule of 0"),
            std::string::npos);
}

TEST(LaneWindow, TakesTheRestAndRefusesWhatIsOutside) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(lane_window(3, 4, 10), (Window{3, 4}));
  EXPECT_EQ(lane_window(3, -1, 10), (Window{3, 7}));
  EXPECT_EQ(lane_window(10, -1, 10), (Window{10, 0}));
  EXPECT_EQ(lane_window(10, 0, 10), (Window{10, 0}));
  EXPECT_EQ(lane_window(0, 10, 10), (Window{0, 10}));
  EXPECT_EQ(refusal([] { lane_window(-1, 4, 10); }),
            "lane_offset is -1; it must be between 0 and the 10 lanes of the call");
  EXPECT_EQ(refusal([] { lane_window(11, -1, 10); }), "lane_offset is 11, past the 10 lanes of the call");
  EXPECT_NE(refusal([] { lane_window(3, 8, 10); }).find("at most 7 lanes are left"), std::string::npos);
  EXPECT_NE(refusal([=] { lane_window(1, most, most); }).find("ends past"), std::string::npos);
}

TEST(SubWindows, CoverTheWindowInOrder) {
  test::Draw draw(7);
  for (int round = 0; round < 1000; ++round) {
    SCOPED_TRACE(round);
    const Window window{draw.magnitude(61), draw.magnitude(61)};
    // At most a few hundred pieces, from one row's worth of rounding either side.
    const std::int64_t chunk =
        std::max<std::int64_t>(1, window.count / draw.whole(1, 300) + draw.whole(-1, 1));
    const SubWindows pieces = sub_windows(window, chunk);
    std::int64_t at = window.begin, seen = 0;
    for (const Window piece : pieces) {
      EXPECT_EQ(piece.begin, at);
      EXPECT_GT(piece.count, 0);
      EXPECT_LE(piece.count, chunk);
      if (seen + 1 < pieces.size()) {
        EXPECT_EQ(piece.count, chunk);
      }
      EXPECT_EQ(piece, pieces[seen]);
      at = piece.end();
      ++seen;
    }
    EXPECT_EQ(seen, pieces.size());
    EXPECT_EQ(at, window.end());
  }
}

TEST(SubWindows, EdgesAndRefusals) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(sub_windows({0, most}, most).size(), 1);
  EXPECT_EQ(sub_windows({0, most}, most - 1)[1], (Window{most - 1, 1}));
  EXPECT_TRUE(sub_windows({5, 0}, 0).empty());
  EXPECT_TRUE(sub_windows({5, 0}, 10).empty());
  EXPECT_NE(refusal([] { sub_windows({0, 4}, 0); }).find("a chunk of 0 rows"), std::string::npos);
}

}  // namespace
}  // namespace shardwise
