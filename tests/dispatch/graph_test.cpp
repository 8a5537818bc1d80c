// Dependencies that graphs derive from declared accesses.

#include "shardwise/dispatch/graph.hpp"

#include <gtest/gtest.h>

#include <random>

namespace shardwise {
namespace {

Access touch(ResourceId resource, AccessMode mode, std::uint64_t begin = 0, std::uint64_t length = 8) {
  Access a;
  a.resource = resource;
  a.begin = begin;
  a.length = length;
  a.mode = mode;
  return a;
}

Operation with(AccessList accesses) {
  Operation operation;
  operation.accesses = accesses;
  return operation;
}

constexpr AccessMode reads = AccessMode::read, writes = AccessMode::write,
                     accumulates = AccessMode::accumulate;

/// What the second of two operations in these modes is found to run after.
std::vector<int> pair(AccessMode first, AccessMode second) {
  Graph graph;
  graph.add(0, StreamRole::compute, with({touch(1, first)}));
  graph.add(1, StreamRole::compute, with({touch(1, second)}));
  return graph.nodes()[1].after;
}

TEST(Graph, EveryPairOfModes) {
  const std::vector<int> none, first = {0};
  EXPECT_EQ(pair(reads, reads), none);
  EXPECT_EQ(pair(accumulates, accumulates), none);
  EXPECT_EQ(pair(reads, writes), first);
  EXPECT_EQ(pair(writes, reads), first);
  EXPECT_EQ(pair(writes, writes), first);
  EXPECT_EQ(pair(reads, accumulates), first);
  EXPECT_EQ(pair(accumulates, reads), first);
  EXPECT_EQ(pair(writes, accumulates), first);
  EXPECT_EQ(pair(accumulates, writes), first);
}

TEST(Graph, OtherResourcesAndOtherBytesAreFree) {
  Graph graph;
  graph.add(0, StreamRole::compute, with({touch(1, writes, 0, 8)}));
  graph.add(0, StreamRole::compute, with({touch(2, writes, 0, 8)}));
  graph.add(0, StreamRole::compute, with({touch(1, writes, 8, 8)}));
  graph.add(0, StreamRole::compute, with({touch(1, reads, 4, 8), touch(2, reads)}));
  EXPECT_TRUE(graph.nodes()[1].after.empty());
  EXPECT_TRUE(graph.nodes()[2].after.empty());
  EXPECT_EQ(graph.nodes()[3].after, (std::vector<int>{0, 1, 2}));
}

TEST(Graph, AddReturnsTheIndexAndKeepsTheOrder) {
  Graph graph;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(graph.add(i, StreamRole::copy_in, with({})), i);
  EXPECT_EQ(graph.nodes()[3].device, 3);
  EXPECT_EQ(graph.nodes()[3].role, StreamRole::copy_in);
}

TEST(Graph, AResourceTouchedTwiceByOneOperationCountsOnce) {
  Graph graph;
  graph.add(0, StreamRole::compute,
            with({touch(1, writes, 0, 8), touch(1, writes, 16, 8), touch(2, writes)}));
  graph.add(0, StreamRole::compute, with({touch(1, reads, 0, 4), touch(2, reads), touch(1, reads, 20, 2)}));
  EXPECT_EQ(graph.nodes()[1].after, (std::vector<int>{0}));
  EXPECT_TRUE(graph.nodes()[0].after.empty()) << "nothing runs after itself";
}

TEST(Graph, RandomGraphsAgreeWithAllPairs) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t n) { return random() % n; };
    Graph graph;
    for (int i = 0; i < 40; ++i) {
      AccessList accesses;
      for (std::uint64_t k = below(4); k > 0; --k)
        accesses.add(touch(1 + below(3), AccessMode(below(3)), below(20), 1 + below(6)));
      graph.add(0, StreamRole::compute, with(accesses));
      std::vector<int> expected;
      for (int j = 0; j < i; ++j) {
        bool conflict = false;
        for (const Access& x : graph.nodes()[static_cast<std::size_t>(j)].operation.accesses)
          for (const Access& y : accesses) conflict = conflict || conflicts(x, y);
        if (conflict) expected.push_back(j);
      }
      ASSERT_EQ(graph.nodes().back().after, expected) << "seed " << seed << " operation " << i;
    }
  }
}

}  // namespace
}  // namespace shardwise
