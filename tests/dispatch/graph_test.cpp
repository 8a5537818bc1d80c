// Dependencies that graphs derive from declared accesses.

#include "shardwise/dispatch/graph.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

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

// Every conflict is ordered, by an edge or by a chain of them, and every edge is a conflict.
TEST(Graph, RandomGraphsOrderWhatAllPairsDo) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t n) { return random() % n; };
    Graph graph;
    std::vector<std::set<int>> before;  // all that a node comes after
    std::size_t left_out = 0;
    for (int i = 0; i < 40; ++i) {
      AccessList accesses;
      for (std::uint64_t k = below(4); k > 0; --k)
        accesses.add(touch(1 + below(3), AccessMode(below(3)), below(20), 1 + below(20)));
      graph.add(0, StreamRole::compute, with(accesses));
      const std::vector<int>& after = graph.nodes().back().after;
      before.emplace_back(after.begin(), after.end());
      for (const int j : after) {
        const std::set<int>& earlier = before[static_cast<std::size_t>(j)];
        before.back().insert(earlier.begin(), earlier.end());
      }
      for (int j = 0; j < i; ++j) {
        bool conflict = false;
        for (const Access& x : graph.nodes()[static_cast<std::size_t>(j)].operation.accesses)
          for (const Access& y : accesses) conflict = conflict || conflicts(x, y);
        const bool edge = std::binary_search(after.begin(), after.end(), j);
        ASSERT_TRUE(conflict || !edge) << "seed " << seed << ": " << i << " waits for " << j << " in vain";
        ASSERT_TRUE(!conflict || before.back().contains(j)) << "seed " << seed << ": " << i << " and " << j;
        left_out += conflict && !edge;
      }
    }
    EXPECT_GT(left_out, 0u) << "seed " << seed;
  }
}

TEST(Graph, LongChainsOfWritesKeepFewEdges) {
  Graph graph;
  for (int i = 0; i < 1000; ++i) {
    graph.add(0, StreamRole::compute,
              with({touch(1, AccessMode::accumulate, 0, 8), touch(2, AccessMode::read, 0, 8)}));
    graph.add(0, StreamRole::compute, with({touch(1, AccessMode::write, 0, 8)}));
  }
  for (const GraphNode& node : graph.nodes()) EXPECT_LE(node.after.size(), 2u);
}

}  // namespace
}  // namespace shardwise
