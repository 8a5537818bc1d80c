#include "shardwise/shard/lpt.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <stdexcept>

#include "shard/random.hpp"

namespace shardwise {
namespace {

using test::Draw;

int rounds(int usual) {
  return std::getenv("SHARDWISE_LONG") ? 10 * usual : usual;
}

void expect_refused(std::vector<DeviceLoad> devices, std::vector<CostItem> items, const std::string& part,
                    const FitsFunction& fits = {}) {
  try {
    partition_lpt(devices, items, fits);
    ADD_FAILURE() << "accepted; expected: " << part;
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Lpt, GreatestFirstToTheLeastLoaded) {
  const CostPlan plan = partition_lpt(std::vector<DeviceLoad>{{4}, {2}},
                                      std::vector<CostItem>{{10, 2}, {11, 3}, {12, 3}, {13, 7}});
  // 13 to device 2 (ties: smaller index), 11 and 12 (ties: smaller id) to device 4, 10 to device 4 at 6
  // against 7.
  EXPECT_EQ(plan.devices[0].device, 4);
  EXPECT_EQ(plan.devices[0].ids, (std::vector<std::uint64_t>{11, 12, 10}));
  EXPECT_EQ(plan.devices[1].ids, (std::vector<std::uint64_t>{13}));
  EXPECT_EQ(plan.devices[0].cost, 8u);
  EXPECT_EQ(plan.makespan, 8);
  EXPECT_EQ(plan.lower_bound, 8);  // 15 / 2, rounded up
  EXPECT_EQ(plan.ratio, 1);
}

TEST(Lpt, QueuedLoadCounts) {
  const CostPlan plan =
      partition_lpt(std::vector<DeviceLoad>{{0, 100}, {1, 0}}, std::vector<CostItem>{{1, 30}, {2, 20}});
  EXPECT_TRUE(plan.devices[0].ids.empty());
  EXPECT_EQ(plan.devices[1].cost, 50u);
  EXPECT_EQ(plan.devices[0].cost, 100u);
  EXPECT_EQ(plan.lower_bound, 100);
}

TEST(Lpt, NothingToPlace) {
  const CostPlan plan = partition_lpt(std::vector<DeviceLoad>{{0}, {1}}, {});
  EXPECT_EQ(plan.makespan, 0);
  EXPECT_EQ(plan.ratio, 1);
}

TEST(Lpt, RefusesWithTheOffender) {
  expect_refused({}, {{1, 1}}, "there are no devices");
  expect_refused({{3}, {1}, {3}}, {{1, 1}}, "device 3 is listed twice, at 0 and 2");
  expect_refused({{0}}, {{5, 1}, {4, 1}, {5, 1}}, "item 5 is listed twice");
  expect_refused({{0}}, {{5, 1}, {6, 0}}, "item 6 (at 1) costs 0");
  expect_refused({{0}}, {{5, ~0ull}, {6, 1}}, "item 6 (at 1, cost 1)");
  expect_refused({{0, ~0ull}, {1, 1}}, {}, "queued cost 1 of device 1");
  expect_refused({{0, 0, 0.0}}, {}, "device 0 has the speed 0");
  expect_refused({{0}, {1}}, {{9, 3}}, "item 9 (at 0) fits none of the 2 devices",
                 [](std::size_t, std::size_t) { return false; });
}

// The least makespan of few items on devices without queued load, by trying every placement.
std::uint64_t best_makespan(const std::vector<CostItem>& items, std::vector<std::uint64_t>& loads,
                            std::size_t next, std::uint64_t best) {
  const std::uint64_t now = *std::max_element(loads.begin(), loads.end());
  if (now >= best) return best;
  if (next == items.size()) return now;
  std::set<std::uint64_t> tried;
  for (std::uint64_t& load : loads) {
    if (!tried.insert(load).second) continue;
    load += items[next].cost;
    best = best_makespan(items, loads, next + 1, best);
    load -= items[next].cost;
  }
  return best;
}

TEST(LptProperty, WithinFourThirdsOfTheBest) {
  Draw draw(7);
  for (int round = 0; round < rounds(2000); ++round) {
    const int m = static_cast<int>(draw.whole(1, 4));
    const int n = static_cast<int>(draw.whole(1, 9));
    std::vector<DeviceLoad> devices;
    for (int d = 0; d < m; ++d) devices.push_back({d});
    std::vector<CostItem> items;
    const auto most = draw.whole(1, 40);
    for (int i = 0; i < n; ++i)
      items.push_back({static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(draw.whole(1, most))});
    const CostPlan plan = partition_lpt(devices, items);
    std::vector<std::uint64_t> loads(static_cast<std::size_t>(m));
    const std::uint64_t best = best_makespan(items, loads, 0, ~0ull);
    ASSERT_LE(plan.lower_bound, static_cast<double>(best)) << "round " << round;
    ASSERT_LE(plan.makespan * 3 * m, static_cast<double>(best) * (4 * m - 1)) << "round " << round;
  }
}

// 10^5 batches: everything placed once, loads as said, the plan inside its bounds, greedy at every step.
TEST(LptProperty, BoundsHold) {
  Draw draw(8);
  for (int round = 0; round < rounds(100000); ++round) {
    const auto m = static_cast<std::size_t>(draw.whole(1, 9));
    const auto n = static_cast<std::size_t>(draw.whole(0, 24));
    std::vector<DeviceLoad> devices(m);
    std::uint64_t total = 0, largest_queued = 0;
    for (std::size_t d = 0; d < m; ++d) {
      devices[d].device = static_cast<int>(m - d);
      devices[d].queued_cost = draw.chance(2) ? 0 : static_cast<std::uint64_t>(draw.magnitude(40));
      total += devices[d].queued_cost;
      largest_queued = std::max(largest_queued, devices[d].queued_cost);
    }
    std::vector<CostItem> items(n);
    std::vector<std::uint64_t> costs;
    std::uint64_t c_max = 0;
    for (std::size_t i = 0; i < n; ++i) {
      items[i] = {draw.bits(), static_cast<std::uint64_t>(draw.magnitude(40)) + 1};
      total += items[i].cost;
      c_max = std::max(c_max, items[i].cost);
      costs.push_back(items[i].cost);
    }
    const CostPlan plan = partition_lpt(devices, items);
    std::multiset<std::uint64_t> placed;
    for (std::size_t d = 0; d < m; ++d) {
      ASSERT_EQ(plan.devices[d].device, devices[d].device);
      std::uint64_t load = devices[d].queued_cost;
      for (const std::uint64_t id : plan.devices[d].ids) {
        placed.insert(id);
        load += std::find_if(items.begin(), items.end(), [&](const CostItem& i) { return i.id == id; })->cost;
      }
      ASSERT_EQ(load, plan.devices[d].cost) << "round " << round;
    }
    ASSERT_EQ(placed.size(), n);
    ASSERT_EQ(std::set<std::uint64_t>(placed.begin(), placed.end()).size(), n) << "round " << round;
    const double bound = std::max(static_cast<double>(largest_queued),
                                  static_cast<double>(total) / static_cast<double>(m) +
                                      (1 - 1.0 / static_cast<double>(m)) * static_cast<double>(c_max));
    ASSERT_LE(plan.makespan, bound * (1 + 1e-12)) << "round " << round;
    ASSERT_GE(plan.makespan, plan.lower_bound) << "round " << round;
    ASSERT_EQ(plan.lower_bound, makespan_lower_bound(devices, costs)) << "round " << round;
  }
}

TEST(Lpt, SpeedsMakeItGreedyByFinishTime) {
  // Twice as fast takes two thirds: blind to speed it would be half, 1.5 times the best.
  std::vector<CostItem> items;
  for (std::uint64_t i = 0; i < 300; ++i) items.push_back({i, 10});
  const CostPlan plan = partition_lpt(std::vector<DeviceLoad>{{0, 0, 1}, {1, 0, 2}}, items);
  EXPECT_EQ(plan.devices[0].ids.size(), 100u);
  EXPECT_EQ(plan.devices[1].ids.size(), 200u);
  EXPECT_EQ(plan.makespan, 1000);
  EXPECT_EQ(plan.ratio, 1);
}

TEST(LptProperty, EqualSpeedsOfAnyValueAreNoSpeeds) {
  Draw draw(9);
  for (int round = 0; round < 2000; ++round) {
    std::vector<DeviceLoad> plain, scaled;
    const double speed = 0.1 + draw.unit();
    for (int d = 0; d < draw.whole(1, 6); ++d) {
      plain.push_back({d, static_cast<std::uint64_t>(draw.whole(0, 50))});
      scaled.push_back({d, plain.back().queued_cost, speed});
    }
    std::vector<CostItem> items;
    for (std::uint64_t i = 0; i < 20; ++i)
      items.push_back({i, static_cast<std::uint64_t>(draw.whole(1, 30))});
    const CostPlan a = partition_lpt(plain, items), b = partition_lpt(scaled, items);
    // The route that asks every device gives the same, too.
    const CostPlan c = partition_lpt(plain, items, [](std::size_t, std::size_t) { return true; });
    for (std::size_t d = 0; d < plain.size(); ++d) {
      ASSERT_EQ(a.devices[d].ids, b.devices[d].ids) << "round " << round;
      ASSERT_EQ(a.devices[d].ids, c.devices[d].ids) << "round " << round;
    }
  }
}

TEST(Lpt, OnlyWhereItFits) {
  const CostPlan plan =
      partition_lpt(std::vector<DeviceLoad>{{0}, {1}}, std::vector<CostItem>{{1, 5}, {2, 5}, {3, 5}},
                    [](std::size_t device, std::size_t item) { return item == 1 || device == 1; });
  EXPECT_EQ(plan.devices[0].ids, (std::vector<std::uint64_t>{2}));
  EXPECT_EQ(plan.devices[1].ids, (std::vector<std::uint64_t>{1, 3}));
}

TEST(Lpt, BoundOfMeasuredSeconds) {
  EXPECT_EQ(makespan_lower_bound(std::vector<double>{3, 3, 3}, 2), 6);
  EXPECT_EQ(makespan_lower_bound(std::vector<double>{9, 1, 1}, 2), 9);
  EXPECT_EQ(makespan_lower_bound(std::vector<double>{2, 1, 1}, 2), 2);
  EXPECT_EQ(makespan_lower_bound(std::vector<double>{}, 2), 0);
}

}  // namespace
}  // namespace shardwise
