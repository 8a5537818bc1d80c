// Sim's virtual time: what operations cost, how speeds change that, when they begin, and what timeline
// records and events say of it.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "runtime/sim/sim_clock.hpp"
#include "shardwise/runtime/devices.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise {
namespace {

Operation launch(std::string name, std::int64_t items) {
  Operation operation;
  operation.name = std::move(name);
  operation.items = items;
  operation.body = [](LaunchContext&) {};
  return operation;
}

Operation copy(std::string name, std::uint64_t bytes) {
  Operation operation;
  operation.name = std::move(name);
  operation.kind = OperationKind::copy;
  operation.bytes = bytes;
  operation.body = [](LaunchContext&) {};
  return operation;
}

/// A microsecond an item and a byte, no latencies.
OpenOptions simple(std::uint64_t seed = 1, std::vector<double> speeds = {}) {
  OpenOptions options;
  options.sim_seed = seed;
  options.sim_speeds = std::move(speeds);
  options.sim_costs = {0, 1000, 0, 1e6};
  return options;
}

std::map<std::string, std::pair<double, double>> times_of(const DeviceSet& devices) {
  std::map<std::string, std::pair<double, double>> times;
  for (const TimelineRecord& record : devices.timeline().records())
    times[record.name] = {record.begin_s, record.end_s};
  return times;
}

TEST(SimTime, OperationsTakeLatencyAndWork) {
  OpenOptions options;
  options.sim_costs = {3e-6, 40, 7e-6, 2e9};
  const DeviceSet devices = open_devices("sim:1", options);
  const auto stream = devices[0].create_stream("s");
  const Event start = stream->record_timed();
  stream->enqueue(launch("unknown", 0));
  const Event after_unknown = stream->record_timed();
  stream->enqueue(launch("known", 1000));
  const Event after_known = stream->record_timed();
  stream->enqueue(copy("copy", 5000));
  const Event after_copy = stream->record_timed();
  stream->synchronize();
  EXPECT_NEAR(seconds_between(start, after_unknown), 3e-6, 1e-15);
  EXPECT_NEAR(seconds_between(after_unknown, after_known), 3e-6 + 1000 * 40e-9, 1e-15);
  EXPECT_NEAR(seconds_between(after_known, after_copy), 7e-6 + 5000 / 2e9, 1e-15);
}

TEST(SimTime, APredictionIsNotTheTruth) {
  const DeviceSet devices = open_devices("sim:1", simple());
  const auto stream = devices[0].create_stream("s");
  Operation operation = launch("x", 5);
  operation.predicted_s = 100;
  stream->enqueue(std::move(operation));
  stream->synchronize();
  EXPECT_DOUBLE_EQ(devices.sim_world()->virtual_time(), 5e-6);
}

TEST(SimTime, ADeviceOfAThirdOfTheSpeedTakesThreeTimesAsLong) {
  const DeviceSet devices = open_devices("sim:3", simple(1, {1, 1.0 / 3, 2}));
  double seconds[3] = {};
  for (int d = 0; d < 3; ++d) {
    const auto stream = devices[d].create_stream("s");
    const Event begin = stream->record_timed();
    stream->enqueue(launch("work", 600));
    const Event middle = stream->record_timed();
    stream->enqueue(copy("copy", 50));
    const Event end = stream->record_timed();
    stream->synchronize();
    seconds[d] = seconds_between(begin, middle);
    EXPECT_NEAR(seconds_between(middle, end), 50e-6, 1e-15) << "copies are no computing";
  }
  EXPECT_NEAR(seconds[0], 600e-6, 1e-12);
  EXPECT_NEAR(seconds[1], 3 * seconds[0], 1e-12);
  EXPECT_NEAR(seconds[2], seconds[0] / 2, 1e-12);
}

TEST(SimTime, RandomSpeedsScaleTheWorkAndNotTheLatency) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 100; ++round) {
    OpenOptions options;
    options.sim_speeds = {
        std::ldexp(1.0 + static_cast<double>(random() % 1000) / 1000, static_cast<int>(random() % 9) - 4)};
    options.sim_costs = {1e-6 * static_cast<double>(random() % 10), 1 + static_cast<double>(random() % 100),
                         0, 1};
    const DeviceSet devices = open_devices("sim:1", options);
    const auto stream = devices[0].create_stream("s");
    const auto items = static_cast<std::int64_t>(random() % 100000);
    const Event begin = stream->record_timed();
    stream->enqueue(launch("x", items));
    const Event end = stream->record_timed();
    stream->synchronize();
    const double work = static_cast<double>(items) * options.sim_costs.ns_per_item * 1e-9;
    const double expected = options.sim_costs.launch_latency_s + work / options.sim_speeds[0];
    EXPECT_NEAR(seconds_between(begin, end), expected, 1e-12 + expected * 1e-12);
  }
}

TEST(SimTime, AnOperationBeginsBehindItsStreamItsEventsAndTheHost) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const DeviceSet devices = open_devices("sim:2", simple(seed));
    const auto a = devices[0].create_stream("a"), b = devices[1].create_stream("b");
    devices.timeline().start();
    a->enqueue(launch("long", 2000));
    const Event event = a->record();
    b->enqueue(launch("beside", 500));
    b->wait(event);
    b->enqueue(launch("behind", 1000));
    b->synchronize();
    EXPECT_DOUBLE_EQ(devices.sim_world()->virtual_time(), 3e-3);
    // What the host enqueues after a wait begins after it, on an idle stream too.
    a->enqueue(launch("later", 250));
    a->synchronize();
    EXPECT_DOUBLE_EQ(devices.sim_world()->virtual_time(), 3.25e-3);
    auto times = times_of(devices);
    EXPECT_DOUBLE_EQ(times["long"].first, 0);
    EXPECT_DOUBLE_EQ(times["long"].second, 2e-3);
    EXPECT_DOUBLE_EQ(times["beside"].first, 0);
    EXPECT_DOUBLE_EQ(times["beside"].second, 0.5e-3);
    EXPECT_DOUBLE_EQ(times["behind"].first, 2e-3);
    EXPECT_DOUBLE_EQ(times["behind"].second, 3e-3);
    EXPECT_DOUBLE_EQ(times["later"].first, 3e-3);
    EXPECT_DOUBLE_EQ(times["later"].second, 3.25e-3);
  }
}

TEST(SimTime, EventsCarryTimesAlongAChainOfStreamsWithEverySeed) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const DeviceSet devices = open_devices("sim:4", simple(seed, {1, 0.5, 0.25, 2}));
    const std::int64_t items[] = {100, 200, 300, 400};
    const double takes[] = {100e-6, 400e-6, 1200e-6, 200e-6};
    std::vector<std::unique_ptr<Stream>> streams;
    double expected = 0;
    Event before;
    for (int d = 0; d < 4; ++d) {
      streams.push_back(devices[d].create_stream("s"));
      streams.back()->wait(before);
      streams.back()->enqueue(launch("link", items[d]));
      before = streams.back()->record_timed();
      expected += takes[d];
    }
    // Back to the first device, where the two time stamps are comparable.
    const Event first = streams[0]->record_timed();
    streams[0]->wait(before);
    const Event last = streams[0]->record_timed();
    last.wait_on_host();
    EXPECT_NEAR(seconds_between(first, last), expected - takes[0], 1e-12) << "seed " << seed;
    EXPECT_NEAR(devices.sim_world()->virtual_time(), expected, 1e-12);
  }
}

TEST(SimTime, CopiesRunBesideLaunchesAndLaunchesOneAtATime) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const DeviceSet devices = open_devices("sim:1", simple(seed));
    const auto a = devices[0].create_stream("a"), b = devices[0].create_stream("b"),
               in = devices[0].create_stream("in"), out = devices[0].create_stream("out");
    devices.timeline().start();
    a->enqueue(launch("launch a", 300));
    b->enqueue(launch("launch b", 200));
    in->enqueue(copy("copy in", 250));
    out->enqueue(copy("copy out", 450));
    for (Stream* stream : {a.get(), b.get(), in.get(), out.get()}) stream->synchronize();
    auto times = times_of(devices);
    EXPECT_DOUBLE_EQ(times["copy in"].first, 0);
    EXPECT_DOUBLE_EQ(times["copy out"].first, 0);
    EXPECT_DOUBLE_EQ(times["copy out"].second, 450e-6);
    const auto [early, late] = std::minmax(times["launch a"], times["launch b"]);
    EXPECT_DOUBLE_EQ(early.first, 0);
    EXPECT_DOUBLE_EQ(late.first, early.second);
    EXPECT_DOUBLE_EQ(late.second, 500e-6);
    const TimelineSummary summary = devices.timeline().summary_of("sim:0", 0);
    EXPECT_NEAR(summary.busy_s, 500e-6, 1e-12);
    EXPECT_NEAR(summary.idle_s, 0, 1e-12);
  }
}

TEST(SimTime, WithoutContentionTimesDoNotDependOnTheSeed) {
  std::map<std::string, std::pair<double, double>> expected;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const DeviceSet devices = open_devices("sim:2", simple(seed, {1, 0.5}));
    devices.timeline().start();
    // Double-buffered chunks: copy in, work, copy out on three streams of each device.
    std::vector<std::unique_ptr<Stream>> streams;
    for (int d = 0; d < 2; ++d) {
      for (const char* name : {"in", "compute", "out"}) streams.push_back(devices[d].create_stream(name));
      Stream &in = **(streams.end() - 3), &compute = **(streams.end() - 2), &out = **(streams.end() - 1);
      for (int chunk = 0; chunk < 6; ++chunk) {
        const std::string text = std::to_string(d) + "." + std::to_string(chunk);
        in.enqueue(copy("in " + text, 100));
        compute.wait(in.record());
        compute.enqueue(launch("work " + text, 150));
        out.wait(compute.record());
        out.enqueue(copy("out " + text, 120));
      }
    }
    for (const auto& stream : streams) stream->synchronize();
    const auto times = times_of(devices);
    if (seed == 1) expected = times;
    EXPECT_EQ(times, expected) << "seed " << seed;
  }
  EXPECT_NEAR(expected["out 0.5"].second, 100e-6 + 6 * 150e-6 + 120e-6, 1e-12);
  EXPECT_NEAR(expected["out 1.5"].second, 100e-6 + 6 * 300e-6 + 120e-6, 1e-12);
}

TEST(SimTime, NeverGoesBack) {
  const DeviceSet devices = open_devices("sim:1", simple());
  {
    const auto stream = devices[0].create_stream("short");
    stream->enqueue(launch("x", 5000));
    stream->synchronize();
  }
  EXPECT_DOUBLE_EQ(devices.sim_world()->virtual_time(), 5e-3);
}

TEST(SimTime, WhatFailsOrIsDroppedTakesNoTime) {
  const DeviceSet devices = open_devices("sim:1", simple());
  const auto stream = devices[0].create_stream("s");
  const Event begin = stream->record_timed();
  Operation bad = launch("bad", 1000);
  bad.body = [](LaunchContext&) { throw Error(ErrorClass::device, "boom"); };
  stream->enqueue(std::move(bad));
  stream->enqueue(launch("dropped", 1000));
  const Event end = stream->record_timed();
  end.wait_on_host();
  EXPECT_EQ(seconds_between(begin, end), 0.0);
  EXPECT_THROW(stream->synchronize(), Error);
}

TEST(SimTime, TheEngineNeverRunsTwoAtOnceAndLeavesNoGapThatFits) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    SimEngine engine;
    std::vector<std::pair<double, double>> taken;
    for (int i = 0; i < 60; ++i) {
      // Whole numbers: sums are exact, so neighbours touch exactly.
      const double ready = static_cast<double>(random() % 200),
                   length = static_cast<double>(1 + random() % 9);
      const double begin = engine.take(ready, length);
      // The first free place by trying every one.
      const auto is_free = [&](double at) {
        return std::none_of(taken.begin(), taken.end(), [&](const auto& interval) {
          return at < interval.second && interval.first < at + length;
        });
      };
      double expected = ready;
      while (!is_free(expected)) ++expected;
      ASSERT_EQ(begin, expected) << "round " << round << ", item " << i;
      taken.emplace_back(begin, begin + length);
    }
  }
}

TEST(SimTime, TheEngineForgetsTheOldestOnly) {
  SimEngine engine;
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(engine.take(10.0 * i, 1), 10.0 * i);
  EXPECT_EQ(engine.take(10.0 * 4999 - 5, 2), 10.0 * 4999 - 5) << "a recent gap is still there";
  EXPECT_GE(engine.take(5, 1), 10.0 * (5000 - 1100)) << "an old one is not, and nothing overlaps";
}

TEST(SimTime, BadSpeedsAndCostsAreUsageErrors) {
  const auto error_of = [](const std::string& spec, const OpenOptions& options) -> std::string {
    try {
      open_devices(spec, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::usage);
      return error.what();
    }
    return {};
  };
  const auto speeds = [&](const std::string& spec, std::vector<double> factors) {
    OpenOptions options;
    options.sim_speeds = std::move(factors);
    return error_of(spec, options);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(speeds("sim:2", {1, 0.5}), "");
  EXPECT_NE(speeds("sim:2", {1}).find("1 factors for the 2 sim devices of 'sim:2'"), std::string::npos);
  EXPECT_NE(speeds("sim:1", {1, 1}), "");
  EXPECT_NE(speeds("host:1", {1}), "") << "a set without sim devices";
  for (const double bad : {0.0, -1.0, nan, infinite, -infinite})
    EXPECT_NE(speeds("sim:2", {1, bad}).find("sim_speeds[1]"), std::string::npos) << bad;
  for (double SimCosts::*member : {&SimCosts::launch_latency_s, &SimCosts::ns_per_item,
                                   &SimCosts::copy_latency_s, &SimCosts::copy_bytes_per_s}) {
    for (const double bad : {-1.0, nan, infinite}) {
      OpenOptions options;
      options.sim_costs.*member = bad;
      EXPECT_NE(error_of("sim:1", options).find("sim_costs."), std::string::npos) << bad;
    }
    OpenOptions zero;
    zero.sim_costs.*member = 0;
    EXPECT_EQ(error_of("sim:1", zero).empty(), member != &SimCosts::copy_bytes_per_s);
  }
}

}  // namespace
}  // namespace shardwise
