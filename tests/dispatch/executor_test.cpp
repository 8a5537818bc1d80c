// The executor: right on every backend and schedule, with no edge too few and none too many.

#include "shardwise/dispatch/executor.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <set>
#include <thread>

#include "dispatch/scenario.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise {
namespace {

using test::Scenario;
using test::ScenarioOptions;

DeviceSet open_seeded(const std::string& spec, std::uint64_t seed = 1) {
  OpenOptions options;
  options.sim_seed = seed;
  return open_devices(spec, options);
}

std::string races_of(const DeviceSet& devices) {
  std::string text;
  if (devices.sim_world())
    for (const RaceReport& race : devices.sim_world()->races()) text += race.text + "\n";
  return text;
}

class Backends : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Sets, Backends,
                         ::testing::Values("host:1", "host:3x1", "host:2x2", "sim:1", "sim:2", "sim:3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

TEST_P(Backends, TheSyntheticCallIsRight) {
  const DeviceSet devices = open_seeded(GetParam());
  Executor executor(devices);
  for (const int chunks : {1, 2, 3, 7})
    for (const bool check : {true, false}) {
      ScenarioOptions options;
      options.chunks = chunks;
      options.salt = static_cast<test::Word>(chunks);
      options.check_on_master = check;
      Scenario scenario(executor, options);
      scenario.enqueue_before();
      shardwise::Run run = executor.run(scenario.graph());
      scenario.enqueue_after();
      run.wait();
      scenario.synchronize_callers();
      ASSERT_EQ(scenario.output(), scenario.expected()) << chunks << " chunks";
      EXPECT_EQ(races_of(devices), "");
      EXPECT_FALSE(run.exit_edge_lost());
    }
}

TEST_P(Backends, RunsInFlightTogether) {
  const DeviceSet devices = open_seeded(GetParam());
  Executor executor(devices);
  std::vector<std::unique_ptr<Scenario>> scenarios;
  std::vector<shardwise::Run> runs;
  for (test::Word i = 0; i < 5; ++i) {
    ScenarioOptions options;
    options.salt = i;
    scenarios.push_back(std::make_unique<Scenario>(executor, options));
    scenarios.back()->enqueue_before();
    runs.push_back(executor.run(scenarios.back()->graph()));
    scenarios.back()->enqueue_after();
  }
  for (shardwise::Run& run : runs) run.wait();
  scenarios.front()->synchronize_callers();
  for (const auto& scenario : scenarios) EXPECT_EQ(scenario->output(), scenario->expected());
  EXPECT_EQ(races_of(devices), "");
}

TEST(ExecutorSim, TwoHundredSchedulesGiveOneResult) {
  std::set<std::uint64_t> orders;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const DeviceSet devices = open_seeded("sim:3", seed);
    Executor executor(devices);
    ScenarioOptions options;
    options.rows = 300;
    options.chunks = 5;
    Scenario scenario(executor, options);
    scenario.enqueue_before();
    shardwise::Run run = executor.run(scenario.graph());
    scenario.enqueue_after();
    run.wait();
    scenario.synchronize_callers();
    ASSERT_EQ(scenario.output(), scenario.expected()) << "seed " << seed;
    ASSERT_EQ(races_of(devices), "") << "seed " << seed;
    orders.insert(devices.sim_world()->take_order_hash());
  }
  std::printf("200 seeds ran in %zu distinct orders\n", orders.size());
  EXPECT_GT(orders.size(), 190u);
}

/// The races that the synthetic call has with edge `dropped` left out; the edges of a run.
std::string races_without(int dropped, const std::string& spec, const ScenarioOptions& options,
                          std::vector<ExecutorEdge>& edges) {
  const DeviceSet devices = open_seeded(spec);
  Executor executor(devices);
  executor.drop_edge(dropped);
  Scenario scenario(executor, options);
  scenario.enqueue_before();
  shardwise::Run run = executor.run(scenario.graph());
  edges = executor.edges();
  scenario.enqueue_after();
  run.wait();
  scenario.synchronize_callers();
  return races_of(devices);
}

// Every edge is needed: without it the race check finds something. So none is implied by the others.
TEST(ExecutorSim, EveryEdgeIsFoundMissing) {
  for (const bool check : {true, false})
    for (const auto& [spec, chunks] : {std::pair{"sim:1", 1}, {"sim:2", 1}, {"sim:3", 5}}) {
      ScenarioOptions options;
      options.rows = 300;
      options.chunks = chunks;
      options.check_on_master = check;
      std::vector<ExecutorEdge> edges, same;
      ASSERT_EQ(races_without(-1, spec, options, edges), "");
      ASSERT_FALSE(edges.empty());
      int missed = 0;
      std::printf("%s, %d chunks%s: %zu edges\n", spec, chunks, check ? ", read back on the master" : "",
                  edges.size());
      for (int k = 0; k < static_cast<int>(edges.size()); ++k) {
        const std::string races = races_without(k, spec, options, same);
        ASSERT_EQ(same.size(), edges.size());
        std::printf("  %3d %-6s %s\n", k, races.empty() ? "MISSED" : "found",
                    edges[static_cast<std::size_t>(k)].text().c_str());
        missed += races.empty();
      }
      EXPECT_EQ(missed, 0);
    }
}

Operation plain(
    std::string name, AccessList accesses = {}, std::function<void()> body = [] {}) {
  Operation operation;
  operation.name = std::move(name);
  operation.accesses = accesses;
  operation.body = [body = std::move(body)](LaunchContext&) { body(); };
  return operation;
}

std::vector<std::string> texts(const Executor& executor) {
  std::vector<std::string> result;
  for (const ExecutorEdge& edge : executor.edges()) result.push_back(edge.text());
  return result;
}

TEST(ExecutorEdges, AChainEntersOnceAndLeavesOnce) {
  const DeviceSet devices = open_devices("sim:2");
  Executor executor(devices);
  const Buffer<int> x(*executor.default_context().streams[1], 4, "x"),
      y(*executor.default_context().streams[1], 4, "y");
  Graph graph;
  graph.add(1, StreamRole::copy_in, plain("in", {x.writes()}));
  graph.add(1, StreamRole::compute, plain("work", {x.reads(), y.writes()}));
  graph.add(1, StreamRole::copy_out, plain("out", {y.reads()}));
  executor.run(std::move(graph)).wait();
  EXPECT_EQ(texts(executor),
            (std::vector<std::string>{
                "caller of sim:1 -> sim:1/in entry", "caller of sim:0 -> sim:1/in entry",
                "in on sim:1/in -> work on sim:1/compute", "work on sim:1/compute -> out on sim:1/out",
                "sim:1/out exit -> caller of sim:0", "sim:1/out exit -> caller of sim:1"}));
  // Entries of compute and out from two callers each, exits of in and compute to two callers each.
  EXPECT_EQ(executor.implied_edges(), 8);
}

TEST(ExecutorEdges, AnOperationOnTheMasterAloneTakesTwo) {
  const DeviceSet devices = open_devices("sim:3");
  Executor executor(devices);
  Graph graph;
  graph.add(0, StreamRole::compute, plain("work"));
  executor.run(std::move(graph)).wait();
  EXPECT_EQ(texts(executor), (std::vector<std::string>{"caller of sim:0 -> sim:0/compute entry",
                                                       "sim:0/compute exit -> caller of sim:0"}));
}

TEST(ExecutorEdges, TheLatestOfSeveralDependenciesOnAStreamImpliesTheOthers) {
  const DeviceSet devices = open_devices("sim:1");
  Executor executor(devices);
  Stream& caller = *executor.default_context().streams[0];
  const Buffer<int> x(caller, 4, "x"), y(caller, 4, "y");
  Graph graph;
  graph.add(0, StreamRole::copy_in, plain("first", {x.writes()}));
  graph.add(0, StreamRole::copy_in, plain("second", {y.writes()}));
  graph.add(0, StreamRole::compute, plain("both", {x.reads(), y.reads()}));
  executor.run(std::move(graph)).wait();
  EXPECT_EQ(texts(executor), (std::vector<std::string>{"caller of sim:0 -> sim:0/in entry",
                                                       "second on sim:0/in -> both on sim:0/compute",
                                                       "sim:0/compute exit -> caller of sim:0"}));
}

/// What does not depend on when operations run.
class ExecutorAnywhere : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Sets, ExecutorAnywhere, ::testing::Values("host:2x1", "sim:2"),
                         [](const auto& info) { return info.param[0] == 'h' ? "host" : "sim"; });

TEST_P(ExecutorAnywhere, AnEmptyGraphMakesNoEdgesAndFinishes) {
  const DeviceSet devices = open_devices(GetParam());
  Executor executor(devices);
  shardwise::Run run = executor.run(Graph{});
  run.wait();
  run.wait();
  EXPECT_TRUE(executor.edges().empty());
}

// Random graphs on random devices: no races, whatever the edges that were left out as implied.
TEST(ExecutorProperty, RandomGraphsHaveNoRacesAndNoEdgeToSpare) {
  int edges_tried = 0, implied = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    std::vector<std::string> names;
    // dropped = -1: the graph as it is; k: without edge k.
    const auto races = [&](int dropped, std::vector<ExecutorEdge>& edges) {
      std::uint64_t state = seed * 0x9E3779B97F4A7C15ull;
      const auto below = [&state](std::uint64_t n) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        return (state >> 33) % n;
      };
      const DeviceSet devices = open_seeded("sim:3", seed);
      Executor executor(devices);
      executor.drop_edge(dropped);
      Stream& caller = *executor.default_context().streams[0];
      std::vector<Buffer<int>> buffers;
      for (int i = 0; i < 4; ++i) buffers.emplace_back(caller, 100, "b");
      Graph graph;
      for (int i = 0; i < 20; ++i) {
        AccessList accesses;
        for (std::uint64_t k = 1 + below(3); k > 0; --k) {
          const std::uint64_t first = below(3) * 30;
          accesses.add(buffers[below(4)].access(AccessMode(below(3)), first, 1 + below(100 - first)));
        }
        std::string name = "op";
        graph.add(static_cast<int>(below(3)), static_cast<StreamRole>(below(3)),
                  plain(name.append(std::to_string(i)), accesses));
      }
      shardwise::Run run = executor.run(std::move(graph));
      edges = executor.edges();
      implied += dropped < 0 ? executor.implied_edges() : 0;
      run.wait();
      return races_of(devices);
    };
    std::vector<ExecutorEdge> edges, same;
    ASSERT_EQ(races(-1, edges), "") << "seed " << seed;
    for (int k = 0; k < static_cast<int>(edges.size()); ++k) {
      // What the caller did is not declared here, so edges with it are another test's.
      if (edges[static_cast<std::size_t>(k)].text().find("caller") != std::string::npos) continue;
      ++edges_tried;
      ASSERT_NE(races(k, same), "") << "seed " << seed
                                    << ": not needed: " << edges[static_cast<std::size_t>(k)].text();
    }
  }
  std::printf("%d edges between operations, all needed; %d left out as implied\n", edges_tried, implied);
  EXPECT_GT(edges_tried, 500);
}

TEST_P(ExecutorAnywhere, RefusesAContextOrGraphThatDoesNotFit) {
  const DeviceSet devices = open_devices(GetParam());
  Executor executor(devices);
  ExecutionContext context;
  context.streams.push_back(executor.default_context().streams[0]);
  try {
    executor.run(Graph{}, context);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::usage);
    EXPECT_NE(std::string(error.what()).find("1 streams for 2 devices"), std::string::npos) << error.what();
  }
  Graph beyond;
  beyond.add(2, StreamRole::compute, plain("stray"));
  EXPECT_THROW(executor.run(std::move(beyond)), Error);
  Graph hollow;
  hollow.add(0, StreamRole::compute, Operation{});
  EXPECT_THROW(executor.run(std::move(hollow)), Error);
}

TEST(Executor, TakesStreamsOfTheCallersOwn) {
  const DeviceSet devices = open_devices("host:2x1");
  Executor executor(devices);
  const auto first = devices[0].create_stream("mine"), second = devices[1].create_stream("mine");
  ExecutionContext context;
  context.streams = {*first, *second};
  std::latch go(1);
  int value = 0, seen = -1, after = -1;
  const Buffer<int> x(*first, 1, "x");
  first->enqueue(plain("fill", {}, [&] { go.wait(), value = 5; }));
  Graph graph;
  graph.add(1, StreamRole::compute, plain("use", {x.writes()}, [&] { seen = value, value = 6; }));
  shardwise::Run run = executor.run(std::move(graph), context);
  first->enqueue(plain("after", {}, [&] { after = value; }));
  go.count_down();
  run.wait();
  first->synchronize();
  EXPECT_EQ(seen, 5);
  EXPECT_EQ(after, 6);
}

TEST(Executor, PollRunsOnThisThreadUntilTheEnd) {
  const DeviceSet devices = open_devices("host:1");
  Executor executor(devices);
  std::atomic<int> polled{0};
  Graph graph;
  graph.add(0, StreamRole::compute, plain("slow", {}, [&] {
              while (polled < 3) std::this_thread::yield();
            }));
  const auto here = std::this_thread::get_id();
  executor.run(std::move(graph)).wait([&] {
    EXPECT_EQ(std::this_thread::get_id(), here);
    ++polled;
  });
  EXPECT_GE(polled, 3);
}

TEST(Executor, WhatPollThrowsComesOutOnceAllIsDone) {
  const DeviceSet devices = open_devices("host:2x1");
  Executor executor(devices);
  std::atomic<int> done{0};
  std::latch polled(1);
  Graph graph;
  for (int d = 0; d < 2; ++d)
    graph.add(d, StreamRole::compute, plain("slow", {}, [&] {
                polled.wait();
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                ++done;
              }));
  try {
    executor.run(std::move(graph)).wait([&] {
      polled.count_down();
      throw Error(ErrorClass::interrupted, "stopped");
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::interrupted);
  }
  EXPECT_EQ(done, 2) << "operations must not outlive wait()";
}

TEST(Executor, WaitingForOneRunDoesNotWaitForTheNext) {
  const DeviceSet devices = open_devices("host:1");
  Executor executor(devices);
  std::latch go(1);
  Graph first, second;
  first.add(0, StreamRole::compute, plain("first"));
  second.add(0, StreamRole::compute, plain("second", {}, [&] { go.wait(); }));
  shardwise::Run a = executor.run(std::move(first)), b = executor.run(std::move(second));
  a.wait();  // hangs where it waits for the whole stream
  go.count_down();
  b.wait();
}

}  // namespace
}  // namespace shardwise
