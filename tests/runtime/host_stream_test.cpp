// Host streams: in order, really asynchronous, and honest about failures.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <thread>

#include "shardwise/runtime/devices.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

using namespace std::chrono_literals;

Operation work(std::string name, std::function<void()> body) {
  Operation operation;
  operation.name = std::move(name);
  operation.body = [body = std::move(body)](LaunchContext&) { body(); };
  return operation;
}

struct HostStreams : ::testing::Test {
  DeviceSet devices = open_devices("host:2x1");
  std::unique_ptr<Stream> a = devices[0].create_stream("a"), b = devices[1].create_stream("b");
};

TEST_F(HostStreams, RunInOrder) {
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) a->enqueue(work("append", [&order, i] { order.push_back(i); }));
  a->synchronize();
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST_F(HostStreams, EnqueueDoesNotRun) {
  std::latch go(1);
  std::atomic<bool> ran{false};
  a->enqueue(work("blocked", [&] { go.wait(), ran = true; }));
  const Event event = a->record();
  EXPECT_FALSE(ran);
  EXPECT_FALSE(event.is_signalled());
  go.count_down();
  event.wait_on_host();
  EXPECT_TRUE(ran);
  EXPECT_TRUE(event.is_signalled());
  EXPECT_FALSE(event.failed());
}

TEST_F(HostStreams, TwoStreamsRunBesideEachOther) {
  // Each waits for the other to have begun: one thread for both would hang here.
  std::latch both(2);
  a->enqueue(work("left", [&] { both.arrive_and_wait(); }));
  b->enqueue(work("right", [&] { both.arrive_and_wait(); }));
  a->synchronize();
  b->synchronize();
}

TEST_F(HostStreams, AMissingEventEdgeShows) {
  std::latch seen(1);
  std::atomic<int> value{0};
  int without_edge = -1, with_edge = -1;
  a->enqueue(work("fill", [&] {
    seen.wait();
    value = 7;
  }));
  const Event filled = a->record();
  b->enqueue(work("use without an edge", [&] {
    without_edge = value;
    seen.count_down();
  }));
  b->wait(filled);
  b->enqueue(work("use with an edge", [&] { with_edge = value; }));
  b->synchronize();
  EXPECT_EQ(without_edge, 0);
  EXPECT_EQ(with_edge, 7);
}

TEST_F(HostStreams, ParallelForCoversEveryItemOnce) {
  const DeviceSet wide = open_devices("host:1x3");
  const auto stream = wide[0].create_stream("s");
  for (const std::int64_t grain : {std::int64_t{0}, std::int64_t{1}, std::int64_t{7}, std::int64_t{100000}}) {
    std::vector<std::atomic<int>> hits(1003);
    Operation operation;
    operation.body = [&](LaunchContext& context) {
      EXPECT_EQ(&context.device(), &wide[0]);
      EXPECT_EQ(context.native_stream(), nullptr);
      context.parallel_for(1003, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
      });
      context.parallel_for(0, grain,
                           [&](std::int64_t, std::int64_t) { ADD_FAILURE() << "no items, yet called"; });
    };
    stream->enqueue(std::move(operation));
    stream->synchronize();
    for (const auto& hit : hits) ASSERT_EQ(hit, 1) << "grain " << grain;
  }
}

TEST_F(HostStreams, AnErrorInsideAParallelLoopReachesTheStream) {
  const DeviceSet wide = open_devices("host:1x2");
  const auto stream = wide[0].create_stream("s");
  Operation operation;
  operation.body = [](LaunchContext& context) {
    context.parallel_for(100, 1, [](std::int64_t begin, std::int64_t) {
      if (begin == 57) throw Error(ErrorClass::data, "row 57");
    });
  };
  stream->enqueue(std::move(operation));
  try {
    stream->synchronize();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "row 57");
    EXPECT_EQ(error.error_class(), ErrorClass::data);
  }
}

TEST_F(HostStreams, TheFirstErrorIsKeptAndLaterOperationsAreDropped) {
  bool ran_after = false;
  a->enqueue(work("bad", [] { throw Error(ErrorClass::memory, "first"); }));
  a->enqueue(work("worse", [] { throw Error(ErrorClass::data, "second"); }));
  a->enqueue(work("after", [&] { ran_after = true; }));
  const Event event = a->record();
  event.wait_on_host();
  EXPECT_TRUE(event.failed());
  EXPECT_EQ(a->error(), "first");
  try {
    a->synchronize();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::memory);
    EXPECT_STREQ(error.what(), "first");
  }
  EXPECT_FALSE(ran_after);
  // Thrown once, then the stream works again.
  EXPECT_EQ(a->error(), "");
  a->synchronize();
  a->enqueue(work("again", [&] { ran_after = true; }));
  EXPECT_FALSE([&] {
    const Event later = a->record();
    later.wait_on_host();
    return later.failed();
  }());
  a->synchronize();
  EXPECT_TRUE(ran_after);
}

TEST_F(HostStreams, EventsBeforeAnErrorAreGood) {
  a->enqueue(work("good", [] {}));
  const Event good = a->record();
  a->enqueue(work("bad", [] { throw Error(ErrorClass::device, "boom"); }));
  const Event bad = a->record();
  bad.wait_on_host();
  EXPECT_FALSE(good.failed());
  EXPECT_TRUE(bad.failed());
  EXPECT_THROW(a->synchronize(), Error);
}

TEST_F(HostStreams, AStreamThatWaitsForAFailureFailsToo) {
  std::unique_ptr<Stream> c = devices[0].create_stream("c");
  bool ran_b = false, ran_c = false;
  a->enqueue(work("source", [] { throw Error(ErrorClass::memory, "boom"); }));
  b->wait(a->record());
  b->enqueue(work("middle", [&] { ran_b = true; }));
  c->wait(b->record());
  c->enqueue(work("end", [&] { ran_c = true; }));
  EXPECT_THROW(a->synchronize(), Error);
  try {
    b->synchronize();
    FAIL();
  } catch (const DependencyError& error) {
    EXPECT_NE(std::string(error.what()).find("'source' failed"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("host:1"), std::string::npos) << error.what();
  }
  EXPECT_THROW(c->synchronize(), DependencyError);
  EXPECT_FALSE(ran_b);
  EXPECT_FALSE(ran_c);
}

TEST_F(HostStreams, ExceptionsOfAnyTypeAreKept) {
  a->enqueue(work("odd", [] { throw 42; }));
  a->record().wait_on_host();
  EXPECT_EQ(a->error(), "unknown error");
  EXPECT_THROW(a->synchronize(), int);
  a->enqueue(Operation{});  // without a body
  EXPECT_THROW(a->synchronize(), std::exception);
  a->synchronize();
}

/// An event of a backend that breaks while it is waited for, as a lost GPU does.
struct BrokenEvent final : EventState {
  void wait_on_host() override { throw Error(ErrorClass::lost, "the device is gone"); }
  bool is_signalled() override { return false; }
  bool failed() override { return true; }
  double seconds_since(EventState&) override { return 0; }
};

TEST_F(HostStreams, AnEventThatThrowsFailsTheStreamAndNotTheProcess) {
  bool ran = false;
  a->wait(Event(std::make_shared<BrokenEvent>()));
  a->enqueue(work("behind", [&] { ran = true; }));
  try {
    a->synchronize();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::lost);
  }
  EXPECT_FALSE(ran);
}

TEST_F(HostStreams, RefusesEventsOfSimDevices) {
  const DeviceSet sim = open_devices("sim:1");
  const auto sim_stream = sim[0].create_stream("s");
  const Event event = sim_stream->record();
  try {
    a->wait(event);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::usage);
  }
  try {
    sim_stream->wait(a->record());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::usage);
  }
}

TEST_F(HostStreams, TheEmptyEventIsSignalled) {
  const Event event;
  EXPECT_TRUE(event.is_signalled());
  EXPECT_FALSE(event.failed());
  event.wait_on_host();
  a->wait(event);
  a->synchronize();
}

TEST_F(HostStreams, TheDestructorWaitsForWhatIsQueued) {
  std::atomic<int> ran{0};
  {
    const auto stream = devices[0].create_stream("short");
    for (int i = 0; i < 20; ++i)
      stream->enqueue(work("slow", [&] {
        std::this_thread::sleep_for(1ms);
        ++ran;
      }));
  }
  EXPECT_EQ(ran, 20);
}

TEST_F(HostStreams, SynchronizeMeansThatWhatOperationsHeldIsGone) {
  for (int i = 0; i < 200; ++i) {
    auto held = std::make_shared<int>(i);
    a->enqueue(work("hold", [held] {}));
    a->synchronize();
    ASSERT_EQ(held.use_count(), 1) << "round " << i;
  }
}

// Many streams, random edges between them: each stream's value after the run equals a serial reference.
TEST_F(HostStreams, RandomEdgesGiveTheSerialResult) {
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    std::uint64_t state = seed * 0x9E3779B97F4A7C15ull;
    const auto below = [&state](std::uint64_t n) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      return (state >> 33) % n;
    };
    constexpr std::size_t count = 5;
    std::vector<std::unique_ptr<Stream>> streams;
    for (std::size_t s = 0; s < count; ++s)
      streams.push_back(devices[static_cast<int>(s % 2)].create_stream("s"));
    // A value is touched by two streams in turn, with an edge for each hand-over.
    std::vector<std::uint64_t> values(count, 1), serial(count, 1);
    std::vector<std::vector<Event>> last_touch(count);
    std::vector<std::vector<std::size_t>> last_stream(count);
    for (int step = 0; step < 200; ++step) {
      const std::size_t s = below(count), target = below(count), source = below(count);
      for (const std::size_t value : {target, source})
        for (std::size_t i = 0; i < last_touch[value].size(); ++i)
          if (last_stream[value][i] != s) streams[s]->wait(last_touch[value][i]);
      streams[s]->enqueue(
          work("mix", [&values, target, source] { values[target] = values[target] * 31 + values[source]; }));
      serial[target] = serial[target] * 31 + serial[source];
      const Event event = streams[s]->record();
      for (const std::size_t value : {target, source}) {
        last_touch[value] = {event};
        last_stream[value] = {s};
      }
    }
    for (auto& stream : streams) stream->synchronize();
    ASSERT_EQ(values, serial) << "seed " << seed;
  }
}

}  // namespace
}  // namespace shardwise
