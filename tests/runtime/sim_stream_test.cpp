// Sim streams: a seeded order, deadlocks and failures that are told.

#include <gtest/gtest.h>

#include <set>

#include "shardwise/runtime/buffer.hpp"
#include "shardwise/runtime/devices.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise {
namespace {

Operation work(
    std::string name, std::function<void()> body = [] {}) {
  Operation operation;
  operation.name = std::move(name);
  operation.body = [body = std::move(body)](LaunchContext&) { body(); };
  return operation;
}

DeviceSet sim(const std::string& spec, std::uint64_t seed = 1) {
  OpenOptions options;
  options.sim_seed = seed;
  return open_devices(spec, options);
}

/// Three streams of four operations each without edges; the order in which they ran, and its hash.
std::pair<std::string, std::uint64_t> free_order(std::uint64_t seed) {
  const DeviceSet devices = sim("sim:3", seed);
  std::string order;
  std::vector<std::unique_ptr<Stream>> streams;
  for (int d = 0; d < 3; ++d) streams.push_back(devices[d].create_stream("s"));
  for (int d = 0; d < 3; ++d)
    for (int i = 0; i < 4; ++i)
      streams[static_cast<std::size_t>(d)]->enqueue(
          work("op" + std::to_string(i), [&order, d] { order += static_cast<char>('0' + d); }));
  for (auto& stream : streams) stream->synchronize();
  return {order, devices.sim_world()->take_order_hash()};
}

TEST(SimStreams, TheOrderDependsOnTheSeedOnly) {
  std::set<std::string> orders;
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const auto [order, hash] = free_order(seed);
    EXPECT_EQ(free_order(seed), (std::pair{order, hash})) << "seed " << seed;
    orders.insert(order);
    hashes.insert(hash);
  }
  std::printf("200 seeds: %zu distinct orders, %zu distinct hashes\n", orders.size(), hashes.size());
  EXPECT_GT(orders.size(), 190u);  // of 34,650 possible
  EXPECT_EQ(hashes.size(), orders.size());
}

TEST(SimStreams, HashesTellStreamsOfOneDeviceApart) {
  std::set<std::string> orders;
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const DeviceSet devices = sim("sim:1", seed);
    const auto a = devices[0].create_stream("a"), b = devices[0].create_stream("b");
    std::string order;
    for (int i = 0; i < 3; ++i) {
      a->enqueue(work("same", [&] { order += 'a'; }));
      b->enqueue(work("same", [&] { order += 'b'; }));
    }
    a->synchronize();
    b->synchronize();
    orders.insert(order);
    hashes.insert(devices.sim_world()->take_order_hash());
  }
  EXPECT_GT(orders.size(), 10u);  // of 20
  EXPECT_EQ(hashes.size(), orders.size());
}

TEST(SimStreams, ReseedingRepeatsTheOrder) {
  const DeviceSet devices = sim("sim:2");
  const auto a = devices[0].create_stream("a"), b = devices[1].create_stream("b");
  const auto once = [&](std::uint64_t seed) {
    devices.sim_world()->reseed(seed);
    for (int i = 0; i < 8; ++i) {
      a->enqueue(work("x"));
      b->enqueue(work("y"));
    }
    a->synchronize();
    b->synchronize();
    return devices.sim_world()->take_order_hash();
  };
  const std::uint64_t first = once(5), second = once(6), again = once(5);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, second);
}

TEST(SimStreams, NothingRunsUntilTheHostWaits) {
  const DeviceSet devices = sim("sim:1");
  const auto stream = devices[0].create_stream("s");
  bool ran = false;
  stream->enqueue(work("x", [&] { ran = true; }));
  const Event event = stream->record();
  EXPECT_FALSE(ran);
  EXPECT_FALSE(event.is_signalled());
  event.wait_on_host();
  EXPECT_TRUE(ran);
  EXPECT_TRUE(event.is_signalled());
}

TEST(SimStreams, InOrderAndBehindEventsWithEverySeed) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const DeviceSet devices = sim("sim:2", seed);
    const auto a = devices[0].create_stream("a"), b = devices[1].create_stream("b");
    std::string order;
    b->enqueue(work("free", [&] { order += 'f'; }));
    a->enqueue(work("one", [&] { order += '1'; }));
    a->enqueue(work("two", [&] { order += '2'; }));
    b->wait(a->record());
    b->enqueue(work("three", [&] { order += '3'; }));
    b->synchronize();
    std::erase(order, 'f');
    ASSERT_EQ(order, "123") << "seed " << seed;
  }
}

TEST(SimStreams, AnEventThatNeverComesIsAnErrorAndNotAHang) {
  const DeviceSet here = sim("sim:1"), elsewhere = sim("sim:1");
  auto stream = here[0].create_stream("s");
  const auto other = elsewhere[0].create_stream("other");
  bool ran = false;
  const std::uint64_t before = here[0].memory(MemoryUse::work).current();
  {
    const Memory held(*stream, 100, "held");
    stream->wait(other->record());  // of another set, which this host wait does not run
    stream->enqueue(work("stuck", [&] { ran = true; }));
  }
  const Event event = stream->record();
  try {
    stream->synchronize();
    FAIL() << "no deadlock reported";
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::internal);
    EXPECT_NE(std::string(error.what()).find("nothing is ready"), std::string::npos);
  }
  // The stream lets go: its events are signalled as failed, its releases are done.
  stream.reset();
  EXPECT_TRUE(event.is_signalled());
  EXPECT_TRUE(event.failed());
  EXPECT_FALSE(ran);
  EXPECT_EQ(here[0].memory(MemoryUse::work).current(), before);
}

TEST(SimStreams, AnEventOutlivesItsDevices) {
  Event event;
  {
    const DeviceSet devices = sim("sim:1");
    event = devices[0].create_stream("s")->record();
  }
  event.wait_on_host();
  EXPECT_TRUE(event.is_signalled());
}

TEST(SimStreams, ErrorsAreKeptPassedOnAndCleared) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const DeviceSet devices = sim("sim:2", seed);
    const auto a = devices[0].create_stream("a"), b = devices[1].create_stream("b");
    bool ran = false;
    a->enqueue(work("bad", [] { throw Error(ErrorClass::memory, "boom"); }));
    a->enqueue(work("dropped", [&] { ran = true; }));
    const Event event = a->record();
    b->wait(event);
    b->enqueue(work("behind", [&] { ran = true; }));
    EXPECT_THROW(b->synchronize(), DependencyError);
    EXPECT_TRUE(event.failed());
    EXPECT_EQ(a->error(), "boom");
    try {
      a->synchronize();
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::memory);
    }
    EXPECT_FALSE(ran);
    a->enqueue(work("fine", [&] { ran = true; }));
    a->synchronize();
    EXPECT_TRUE(ran);
  }
}

TEST(SimStreams, RacesAreReportedWithEverySeedAlsoWhereTheOrderHappenedToBeRight) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const DeviceSet devices = sim("sim:2", seed);
    const auto a = devices[0].create_stream("a"), b = devices[1].create_stream("b");
    {
      Buffer<int> shared(*a, 4, "shared");
      Operation fill = work("fill"), use = work("use");
      fill.accesses = {shared.writes()};
      use.accesses = {shared.reads()};
      a->enqueue(std::move(fill));
      b->enqueue(std::move(use));
      b->synchronize();
    }
    a->synchronize();
    const std::vector<RaceReport> races = devices.sim_world()->races();
    ASSERT_EQ(races.size(), 1u) << "seed " << seed;
    EXPECT_EQ(races[0].first, "fill on sim:0/a");
    EXPECT_EQ(races[0].second, "use on sim:1/b");
    devices.sim_world()->clear_races();
    EXPECT_TRUE(devices.sim_world()->races().empty());
  }
}

TEST(SimStreams, AnAllocationOrAReleaseThatNothingOrdersIsARace) {
  const DeviceSet devices = sim("sim:2");
  const auto a = devices[0].create_stream("a"), b = devices[1].create_stream("b");
  {
    Buffer<int> shared(*a, 4, "shared");
    Operation use = work("use");
    use.accesses = {shared.reads()};
    b->enqueue(std::move(use));
  }
  const std::vector<RaceReport> races = devices.sim_world()->races();
  ASSERT_EQ(races.size(), 2u);
  EXPECT_EQ(races[0].first, "allocate shared on sim:0/a");
  EXPECT_EQ(races[0].second, "use on sim:1/b");
  EXPECT_EQ(races[1].second, "release on sim:0/a");
  devices.sim_world()->clear_races();

  Buffer<int> shared(*a, 4, "shared");
  b->wait(a->record());
  Operation use = work("use");
  use.accesses = {shared.reads()};
  b->enqueue(std::move(use));
  a->wait(b->record());
  shared = {};
  EXPECT_TRUE(devices.sim_world()->races().empty());
}

}  // namespace
}  // namespace shardwise
