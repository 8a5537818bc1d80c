// Host and CUDA devices in one set: they wait for each other in both directions, with pageable memory too,
// and nothing holds up the threads that enqueue. A hang ends the program with a text.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <numeric>
#include <random>
#include <thread>

#include "gpu/gpu_fixture.hpp"
#include "gpu/scenario_rows.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

using test::expect_scenario;
using test::Gpu;
using test::Scenario;
using test::ScenarioOptions;
using test::Word;

OpenOptions mixed() {
  OpenOptions options;
  options.allow_mixed = true;
  return options;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The host device 0 and the GPU 1 of a mixed set.
struct MixedGpu : Gpu {
  void open() {
    devices = open_devices("host:1x1+cuda:0", mixed());
    host = devices[0].create_stream("h");
    cuda = devices[1].create_stream("c");
  }
  DeviceSet devices;
  std::unique_ptr<Stream> host, cuda;
};

TEST_F(MixedGpu, CudaWaitsForTheHostAndBack) {
  SKIP_WITHOUT_GPUS(1);
  open();
  const Buffer<Word> device_word(*cuda, 1, "word");
  std::vector<Word> words(1, 0), back(1, 0);
  std::atomic<bool> go{false};
  for (int round = 0; round < 1500; ++round) {
    Operation make;
    make.name = "make";
    make.body = [&, round](LaunchContext&) {
      while (round == 0 && !go) std::this_thread::yield();
      words[0] = back[0] + 1;
    };
    host->enqueue(std::move(make));
    cuda->wait(host->record());
    if (round == 0) {
      EXPECT_FALSE(cuda->record().is_signalled()) << "nothing has made the word yet";
      go = true;
    }
    cuda->enqueue(copy_operation("in", device_word.data(), words.data(), 4, {device_word.writes()}));
    cuda->enqueue(copy_operation("out", back.data(), device_word.data(), 4, {device_word.reads()}));
    host->wait(cuda->record());
  }
  host->synchronize();
  cuda->synchronize();
  EXPECT_EQ(back[0], 1500u);
  expect_current("after mixing");
}

TEST_F(MixedGpu, FailuresPassInBothDirections) {
  SKIP_WITHOUT_GPUS(1);
  open();
  const auto second = devices[0].create_stream("h2");
  std::latch go(1);
  bool ran = false;
  Operation bad, behind;
  bad.name = "bad";
  bad.body = [&](LaunchContext&) {
    go.wait();
    throw Error(ErrorClass::data, "boom");
  };
  behind.name = "behind";
  behind.body = [&](LaunchContext&) { ran = true; };
  host->enqueue(std::move(bad));
  cuda->wait(host->record());
  const Event event = cuda->record();
  second->wait(event);
  second->enqueue(std::move(behind));
  go.count_down();
  EXPECT_THROW(second->synchronize(), DependencyError);
  EXPECT_TRUE(event.failed());
  EXPECT_FALSE(ran);
  EXPECT_THROW(cuda->synchronize(), DependencyError);
  EXPECT_THROW(host->synchronize(), Error);
  cuda->synchronize();

  // And a failed CUDA stream fails the host stream that waits for it.
  Operation bad_launch, later;
  bad_launch.name = "bad launch";
  bad_launch.body = [](LaunchContext&) { throw Error(ErrorClass::device, "no launch"); };
  later.body = [&](LaunchContext&) { ran = true; };
  cuda->enqueue(std::move(bad_launch));
  host->wait(cuda->record());
  host->enqueue(std::move(later));
  EXPECT_THROW(host->synchronize(), DependencyError);
  EXPECT_FALSE(ran);
  EXPECT_THROW(cuda->synchronize(), Error);
}

TEST_F(MixedGpu, TheSyntheticCallOnHostAndGpuTogether) {
  SKIP_WITHOUT_GPUS(1);
  expect_scenario(open_devices("host:1x1+cuda:0", mixed()));
  expect_scenario(open_devices("cuda:0+host:2x1", mixed()));
}

TEST_F(MixedGpu, AFailingRunLeavesTheExecutorUsable) {
  SKIP_WITHOUT_GPUS(1);
  const DeviceSet devices = open_devices("host:1x1+cuda:0", mixed());
  Executor executor(devices);
  for (const char* name : {"rows of master", "scatter 1 of 1", "rows 2 of 1", "gather 0 of 1"}) {
    for (const bool fails : {true, false}) {
      ScenarioOptions options;
      options.launch = test::launch_rows;
      if (fails)
        options.fault = [name](const std::string& operation) {
          if (operation == name) throw Error(ErrorClass::budget, operation + " broke");
        };
      Scenario scenario(executor, options);
      scenario.enqueue_before();
      shardwise::Run run = executor.run(scenario.graph());
      scenario.enqueue_after();
      std::string text;
      try {
        run.wait();
      } catch (const Error& error) {
        text = error.what();
      }
      EXPECT_EQ(text, fails ? std::string(name) + " broke" : std::string());
      if (fails) continue;
      scenario.synchronize_callers();
      EXPECT_EQ(scenario.output(), scenario.expected()) << "after " << name;
    }
  }
}

TEST_F(MixedGpu, StreamsMayDieWithWorkAndWaitsPending) {
  SKIP_WITHOUT_GPUS(1);
  const DeviceSet devices = open_devices("host:1x1+cuda:0", mixed());
  std::atomic<bool> done{false};
  {
    const auto host = devices[0].create_stream("h");
    Operation slow;
    slow.body = [&](LaunchContext&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      done = true;
    };
    host->enqueue(std::move(slow));
    const auto cuda = devices[1].create_stream("c");
    cuda->wait(host->record());
  }
  EXPECT_TRUE(done);
}

/// Copies of pageable memory around work that the host makes, many at once: what once stopped for ever.
TEST_F(MixedGpu, PageableCopiesBehindHostWorkNeverHang) {
  SKIP_WITHOUT_GPUS(1);
  open();
  const auto host2 = devices[0].create_stream("h2");
  const auto cuda2 = devices[1].create_stream("c2");
  // Small ones, one piece, several pieces and a rest.
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{16384}, std::size_t{1} << 20, (std::size_t{9} << 18) + 7}) {
    const int rounds = size > 100000 ? 20 : 200;
    const Buffer<Word> x(*cuda, size, "x"), y(*cuda2, size, "y");
    std::vector<Word> forth(size, 0), back(size, 0);
    cuda->wait(cuda2->record());
    for (int round = 1; round <= rounds; ++round) {
      Operation make;
      make.name = "make";
      make.body = [&](LaunchContext&) {
        for (std::size_t i = 0; i < size; ++i) forth[i] = back[i] + 1;
      };
      (round % 2 ? host : host2)->enqueue(std::move(make));
      cuda->wait((round % 2 ? host : host2)->record());
      cuda->enqueue(copy_operation("in", x.data(), forth.data(), x.bytes(), {x.writes()}));
      cuda2->wait(cuda->record());
      cuda2->enqueue(copy_operation("across", y, x));
      cuda2->enqueue(copy_operation("out", back.data(), y.data(), y.bytes(), {y.reads()}));
      const Event out = cuda2->record();
      host->wait(out);
      host2->wait(out);
      cuda->wait(out);
    }
    for (Stream* stream : {host.get(), host2.get(), cuda.get(), cuda2.get()}) stream->synchronize();
    EXPECT_EQ(back, std::vector<Word>(size, static_cast<Word>(rounds))) << size << " words";
  }
}

TEST_F(MixedGpu, EnqueuingBehindHostWorkDoesNotBlock) {
  SKIP_WITHOUT_GPUS(1);
  open();
  const std::size_t size = 3 << 20;
  const Buffer<Word> x(*cuda, size, "x");
  std::vector<Word> in(size, 0), out(size, 0);
  std::latch go(1);
  Operation make;
  make.body = [&](LaunchContext&) {
    go.wait();
    std::iota(in.begin(), in.end(), 5u);
  };
  host->enqueue(std::move(make));
  const auto begin = std::chrono::steady_clock::now();
  cuda->wait(host->record());
  cuda->enqueue(copy_operation("in", x.data(), in.data(), x.bytes(), {x.writes()}));
  cuda->enqueue(copy_operation("out", out.data(), x.data(), x.bytes(), {x.reads()}));
  const Event event = cuda->record_timed();
  host->wait(event);
  EXPECT_LT(seconds_since(begin), 5) << "enqueued while the host work was held up";
  EXPECT_FALSE(event.is_signalled());
  EXPECT_FALSE(event.wait_on_host_for(0.05));
  go.count_down();
  EXPECT_TRUE(event.wait_on_host_for(50));
  EXPECT_EQ(out, in);
  EXPECT_FALSE(event.failed());
  host->synchronize();
  cuda->synchronize();
}

TEST_F(MixedGpu, WhatIsBehindFailedHostWorkDoesNotRunOnTheGpu) {
  SKIP_WITHOUT_GPUS(1);
  open();
  const auto behind = devices[1].create_stream("behind");
  std::vector<Word> out(100, 7);
  const Buffer<Word> x(*cuda, out.size(), "x");
  cuda->enqueue(zero_operation("zero", x.data(), x.bytes(), {x.writes()}));
  std::latch go(1);
  Operation bad;
  bad.name = "bad";
  bad.body = [&](LaunchContext&) {
    go.wait();
    throw Error(ErrorClass::data, "boom");
  };
  host->enqueue(std::move(bad));
  cuda->wait(host->record());
  behind->wait(cuda->record());
  behind->enqueue(copy_operation("out", out.data(), x.data(), x.bytes(), {x.reads()}));
  const Event last = behind->record();
  go.count_down();
  last.wait_on_host();
  EXPECT_TRUE(last.failed());
  EXPECT_EQ(out, std::vector<Word>(100, 7)) << "dropped";
  EXPECT_THROW(behind->synchronize(), DependencyError);
  EXPECT_THROW(cuda->synchronize(), DependencyError);
  EXPECT_THROW(host->synchronize(), Error);
  // Usable again.
  behind->enqueue(copy_operation("out", out.data(), x.data(), x.bytes(), {x.reads()}));
  behind->synchronize();
  EXPECT_EQ(out, std::vector<Word>(100, 0));
}

TEST_F(MixedGpu, ReleasesBehindHostWorkComeInOrderAndAreCounted) {
  SKIP_WITHOUT_GPUS(1);
  open();
  MemoryCounter& work = devices[1].memory(MemoryUse::work);
  std::latch go(1);
  Operation hold;
  hold.body = [&](LaunchContext&) { go.wait(); };
  std::vector<Word> out(1 << 16, 1);
  {
    const Buffer<Word> x(*cuda, out.size(), "x");
    host->enqueue(std::move(hold));
    cuda->wait(host->record());
    cuda->enqueue(zero_operation("zero", x.data(), x.bytes(), {x.writes()}));
    cuda->enqueue(copy_operation("out", out.data(), x.data(), x.bytes(), {x.reads()}));
  }
  EXPECT_EQ(work.current(), out.size() * sizeof(Word)) << "not given back before its users ran";
  go.count_down();
  cuda->synchronize();
  EXPECT_EQ(work.current(), 0u);
  EXPECT_EQ(out, std::vector<Word>(out.size(), 0));
  host->synchronize();
}

TEST_F(MixedGpu, RandomChainsOfHostAndGpuStreams) {
  SKIP_WITHOUT_GPUS(1);
  // Each step adds 1 to every word, on a random stream of a random device, behind the step before.
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    devices = open_devices("cuda:0+host:2x1", mixed());
    std::mt19937_64 random(seed);
    std::vector<std::unique_ptr<Stream>> streams;
    for (int d = 0; d < devices.size(); ++d)
      for (int s = 0; s < 2; ++s) streams.push_back(devices[d].create_stream(s == 0 ? "s0" : "s1"));
    const std::size_t size = 1 + random() % 300000;
    std::vector<Word> words(size, 0);
    std::vector<std::vector<Word>> between;
    between.reserve(100);
    Event before;
    Word* now = words.data();
    for (int step = 0; step < 100; ++step) {
      Stream& stream = *streams[random() % streams.size()];
      stream.wait(before);
      if (stream.device().kind() == PlatformKind::cuda) {
        const Buffer<Word> x(stream, size, "x");
        Word* next = between.emplace_back(size, 0).data();
        stream.enqueue(copy_operation("in", x.data(), now, x.bytes(), {x.writes()}));
        stream.enqueue(copy_operation("out", next, x.data(), x.bytes(), {x.reads()}));
        now = next;
      }
      Operation add;
      add.body = [now, size](LaunchContext&) {
        for (std::size_t i = 0; i < size; ++i) ++now[i];
      };
      Stream& adder = *streams[2 + random() % 4];
      adder.wait(stream.record());
      adder.enqueue(std::move(add));
      before = adder.record();
    }
    before.wait_on_host();
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(now[i], 100u) << "word " << i << ", seed " << seed;
    for (const auto& stream : streams) stream->synchronize();
    streams.clear();
  }
}

}  // namespace
}  // namespace shardwise
