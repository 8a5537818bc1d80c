// Time stamps of events: wall time on host, virtual time on sim, and what has no time says so.

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <random>
#include <thread>

#include "shardwise/runtime/devices.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise {
namespace {

/// A nanosecond an item and no latencies.
OpenOptions exact(std::uint64_t seed = 1) {
  OpenOptions options;
  options.sim_seed = seed;
  options.sim_costs.launch_latency_s = 0;
  options.sim_costs.ns_per_item = 1;
  return options;
}

Operation sleeping(double seconds) {
  Operation operation;
  operation.name = "sleep";
  operation.body = [seconds](LaunchContext&) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  };
  return operation;
}

/// Takes `seconds` of virtual time with the costs of exact().
Operation counted(double seconds) {
  Operation operation;
  operation.name = "counted";
  operation.items = std::llround(seconds * 1e9);
  operation.body = [](LaunchContext&) {};
  return operation;
}

template <class Function>
std::string error_of(ErrorClass expected, Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), expected) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(TimedEvents, HostEventsCarryTheTimeAtWhichTheStreamPassedThem) {
  const DeviceSet devices = open_devices("host:1");
  const auto stream = devices[0].create_stream("s");
  const auto before = std::chrono::steady_clock::now();
  const Event first = stream->record_timed();
  stream->enqueue(sleeping(0.03));
  const Event second = stream->record_timed();
  stream->enqueue(sleeping(0.01));
  const Event third = stream->record_timed();
  stream->synchronize();
  // Asked late, told right: the stamp is the stream's, not the asker's.
  const double all = std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_GE(seconds_between(first, second), 0.03);
  EXPECT_GE(seconds_between(second, third), 0.01);
  EXPECT_LE(seconds_between(first, third), all);
  EXPECT_DOUBLE_EQ(seconds_between(third, first), -seconds_between(first, third));
  EXPECT_EQ(seconds_between(first, first), 0.0);
}

TEST(TimedEvents, TwoStreamsOfOneHostDeviceShareAClock) {
  const DeviceSet devices = open_devices("host:1");
  const auto a = devices[0].create_stream("a"), b = devices[0].create_stream("b");
  const Event first = a->record_timed();
  a->enqueue(sleeping(0.02));
  b->wait(a->record());
  const Event second = b->record_timed();
  b->synchronize();
  EXPECT_GE(seconds_between(first, second), 0.02);
}

TEST(TimedEvents, SimEventsCarryVirtualTimeWithEverySeed) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const DeviceSet devices = open_devices("sim:2", exact(seed));
    const auto a = devices[0].create_stream("a"), b = devices[1].create_stream("b");
    std::mt19937_64 random(seed);
    const Event begin_a = a->record_timed();
    const Event begin_b = b->record_timed();
    double on_a = 0, on_b = 0;
    for (int i = 0; i < 10; ++i) {
      const double time = 1e-3 * static_cast<double>(1 + random() % 100);
      const bool is_a = random() % 2 == 0;
      (is_a ? on_a : on_b) += time;
      (is_a ? a : b)->enqueue(counted(time));
    }
    const Event end_a = a->record_timed();
    b->wait(end_a);
    const Event end_b = b->record_timed();
    b->synchronize();
    ASSERT_NEAR(seconds_between(begin_a, end_a), on_a, 1e-12) << "seed " << seed;
    ASSERT_NEAR(seconds_between(begin_b, end_b), std::max(on_a, on_b), 1e-12) << "seed " << seed;
  }
}

TEST(TimedEvents, WithoutATimeStampThereIsAnErrorThatSaysSo) {
  for (const char* spec : {"host:1", "sim:1"}) {
    const DeviceSet devices = open_devices(spec);
    const auto stream = devices[0].create_stream("s");
    stream->enqueue(counted(1e-3));
    const Event timed = stream->record_timed(), plain = stream->record();
    stream->synchronize();
    std::string text = error_of(ErrorClass::usage, [&] { (void)seconds_between(plain, timed); });
    EXPECT_TRUE(contains(text, "'from'") && contains(text, "record_timed")) << text;
    text = error_of(ErrorClass::usage, [&] { (void)seconds_between(timed, plain); });
    EXPECT_TRUE(contains(text, "'to'") && contains(text, "counted")) << text;
    text = error_of(ErrorClass::usage, [&] { (void)seconds_between(timed, Event()); });
    EXPECT_TRUE(contains(text, "empty")) << text;
  }
}

TEST(TimedEvents, EventsOfTwoDevicesHaveNoDistance) {
  for (const char* spec : {"host:2x1", "sim:2"}) {
    const DeviceSet devices = open_devices(spec), again = open_devices(spec);
    const auto a = devices[0].create_stream("a"), b = devices[1].create_stream("b"),
               c = again[0].create_stream("c");
    const Event on_a = a->record_timed(), on_b = b->record_timed(), on_c = c->record_timed();
    a->synchronize(), b->synchronize(), c->synchronize();
    std::string text = error_of(ErrorClass::usage, [&] { (void)seconds_between(on_a, on_b); });
    EXPECT_TRUE(contains(text, devices[0].name()) && contains(text, devices[1].name())) << text;
    text = error_of(ErrorClass::usage, [&] { (void)seconds_between(on_a, on_c); });
    EXPECT_TRUE(contains(text, "another set")) << text;
  }
}

TEST(TimedEvents, AnEventThatIsNotSignalledIsAStateError) {
  const DeviceSet devices = open_devices("sim:1", exact());
  const auto stream = devices[0].create_stream("s");
  const Event first = stream->record_timed();
  stream->enqueue(counted(1.0));
  const Event second = stream->record_timed();
  const std::string text = error_of(ErrorClass::state, [&] { (void)seconds_between(first, second); });
  EXPECT_TRUE(contains(text, "sim:0")) << text;
  second.wait_on_host();
  EXPECT_DOUBLE_EQ(seconds_between(first, second), 1.0);
}

TEST(TimedEvents, AFailedEventHasTheTimeAtWhichItWasDropped) {
  for (const char* spec : {"host:1", "sim:1"}) {
    const DeviceSet devices = open_devices(spec);
    const auto stream = devices[0].create_stream("s");
    const Event first = stream->record_timed();
    Operation bad = counted(0);
    bad.body = [](LaunchContext&) { throw Error(ErrorClass::device, "boom"); };
    stream->enqueue(std::move(bad));
    stream->enqueue(sleeping(1.0));  // dropped
    const Event second = stream->record_timed();
    second.wait_on_host();
    EXPECT_TRUE(second.failed());
    EXPECT_GE(seconds_between(first, second), 0.0);
    EXPECT_LT(seconds_between(first, second), 0.9);
    EXPECT_THROW(stream->synchronize(), Error);
  }
}

TEST(TimedEvents, TimedEventsOutliveTheirDevices) {
  for (const char* spec : {"host:1", "sim:1"}) {
    Event first, second;
    {
      const DeviceSet devices = open_devices(spec);
      const auto stream = devices[0].create_stream("s");
      first = stream->record_timed();
      stream->enqueue(counted(1e-3));
      second = stream->record_timed();
    }
    EXPECT_GE(seconds_between(first, second), 0.0);
  }
}

}  // namespace
}  // namespace shardwise
