// The runtime and the executor on the GPUs that are present. Every scenario here has its host and sim twin in
// tests/runtime and tests/dispatch.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <thread>

#include "gpu/scenario_rows.hpp"
#include "runtime/cuda/cuda_check.hpp"
#include "runtime/cuda/cuda_device.hpp"
#include "shardwise/runtime/devices.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

using test::Scenario;
using test::ScenarioOptions;
using test::Word;

#define SKIP_WITHOUT_GPUS(count)     \
  if (cuda_device_count() < (count)) \
  GTEST_SKIP() << "needs " << (count) << " GPU(s), " << cuda_device_count() << " answer here"

/// Proves for every test that the current device is as it was.
struct Gpu : ::testing::Test {
  void SetUp() override {
    if (cuda_device_count() == 0) return;
    // The last one, so that code that leaves "its" device 0 current is seen where there are several.
    before_ = cuda_device_count() - 1;
    ASSERT_EQ(cudaSetDevice(before_), cudaSuccess);
  }
  void TearDown() override { expect_current("at the end of the test"); }
  void expect_current(const char* where) const {
    if (cuda_device_count() == 0) return;
    int now = -1;
    ASSERT_EQ(cudaGetDevice(&now), cudaSuccess);
    EXPECT_EQ(now, before_) << where;
  }
  int before_ = 0;
};

OpenOptions mixed() {
  OpenOptions options;
  options.allow_mixed = true;
  options.unproven_host_with_cuda = true;
  return options;
}

TEST_F(Gpu, DevicesAreDescribedAndSelected) {
  SKIP_WITHOUT_GPUS(1);
  const DeviceSet all = open_devices("cuda");
  expect_current("after open_devices");
  EXPECT_EQ(all.size(), cuda_device_count());
  for (int d = 0; d < all.size(); ++d) {
    const DeviceInfo& info = all[d].info();
    std::printf("%s: %s, %s, %s, %s, %.1f GiB\n", info.name.c_str(), info.model.c_str(),
                info.architecture.c_str(), info.uuid.c_str(), info.bus_id.c_str(),
                static_cast<double>(info.memory_bytes) / (1ull << 30));
    EXPECT_EQ(info.architecture.rfind("sm_", 0), 0u);
    EXPECT_EQ(open_devices("cuda:" + info.uuid)[0].name(), info.name);
    EXPECT_EQ(open_devices("cuda:" + info.bus_id)[0].name(), info.name);
    EXPECT_EQ(open_devices("cuda:" + std::to_string(d))[0].name(), info.name);
  }
  for (const std::string& warning : all.warnings()) std::printf("warning: %s\n", warning.c_str());
  for (const char* bad : {"cuda:0,0", "cuda:999", "cuda:0,", "cuda:,0", "cuda:GPU-none"}) {
    try {
      open_devices(bad);
      ADD_FAILURE() << bad << " was opened";
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::usage) << error.what();
    }
  }
  EXPECT_THROW(open_devices("host:1x1+cuda:0"), Error) << "unlike devices need allow_mixed";
}

TEST_F(Gpu, AllocateCopyZero) {
  SKIP_WITHOUT_GPUS(1);
  const DeviceSet devices = open_devices("cuda");
  for (int d = 0; d < devices.size(); ++d) {
    const auto stream = devices[d].create_stream("s");
    std::vector<int> in(100000), out(in.size(), -1), zeros(in.size(), -1);
    std::iota(in.begin(), in.end(), 3);
    {
      const Buffer<int> a(*stream, in.size(), "a"), b(*stream, in.size(), "b");
      expect_current("after allocating");
      stream->enqueue(copy_operation("in", a.data(), in.data(), a.bytes(), {a.writes()}));
      stream->enqueue(copy_operation("across", b, a));
      stream->enqueue(copy_operation("out", out.data(), b.data(), b.bytes(), {b.reads()}));
      stream->enqueue(zero_operation("zero", b.data(), b.bytes(), {b.writes()}));
      stream->enqueue(copy_operation("zeros", zeros.data(), b.data(), b.bytes(), {b.reads()}));
      expect_current("after enqueuing");
      stream->synchronize();
    }
    expect_current("after releasing");
    EXPECT_EQ(out, in);
    EXPECT_EQ(zeros, std::vector<int>(in.size(), 0));
  }
}

TEST_F(Gpu, BytesAreCounted) {
  SKIP_WITHOUT_GPUS(1);
  const DeviceSet devices = open_devices("cuda:0");
  const auto stream = devices[0].create_stream("s");
  MemoryCounter& work = devices[0].memory(MemoryUse::work);
  const std::uint64_t free_before = devices[0].free_memory();
  EXPECT_GT(free_before, 0u);
  EXPECT_LE(free_before, devices[0].info().memory_bytes);
  {
    const Buffer<char> a(*stream, 256ull << 20, "a"), scene(*stream, 1000, "scene", MemoryUse::scene);
    EXPECT_EQ(work.current(), 256ull << 20);
    EXPECT_EQ(devices[0].memory(MemoryUse::scene).current(), 1000u);
    EXPECT_LE(devices[0].free_memory(), free_before - (256ull << 20));
  }
  stream->synchronize();
  EXPECT_EQ(work.current(), 0u);
  EXPECT_EQ(work.peak(), 256ull << 20);
  EXPECT_GE(devices[0].free_memory() + (64ull << 20), free_before) << "what the pool keeps counts as free";
}

TEST_F(Gpu, AFailedAllocationIsAMemoryErrorAndTheDeviceGoesOn) {
  SKIP_WITHOUT_GPUS(1);
  const DeviceSet devices = open_devices("cuda:0");
  const auto stream = devices[0].create_stream("s");
  try {
    const Buffer<char> buffer(*stream, devices[0].info().memory_bytes * 2, "too much");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::memory);
    EXPECT_NE(std::string(error.what()).find("too much"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(std::to_string(devices[0].info().memory_bytes * 2)),
              std::string::npos);
  }
  const Buffer<char> small(*stream, 100, "small");
  stream->enqueue(zero_operation("zero", small.data(), small.bytes(), {small.writes()}));
  stream->synchronize();
}

TEST_F(Gpu, BadCallsAreDeviceErrorsThatTheStreamKeeps) {
  SKIP_WITHOUT_GPUS(1);
  EXPECT_EQ(severity(cudaErrorMemoryAllocation), CudaSeverity::out_of_memory);
  EXPECT_EQ(severity(cudaErrorInvalidValue), CudaSeverity::recoverable);
  EXPECT_EQ(severity(cudaErrorIllegalAddress), CudaSeverity::fatal);
  const DeviceSet devices = open_devices("cuda:0");
  const auto stream = devices[0].create_stream("s");
  Operation bad;
  bad.name = "bad";
  bad.body = [](LaunchContext& context) {
    SW_CUDA(cudaMemsetAsync(nullptr, 0, 100, static_cast<cudaStream_t>(context.native_stream())));
  };
  bool ran = false;
  Operation behind;
  behind.name = "behind";
  behind.body = [&](LaunchContext&) { ran = true; };
  stream->enqueue(std::move(bad));
  stream->enqueue(std::move(behind));
  const Event event = stream->record();
  event.wait_on_host();
  EXPECT_TRUE(event.failed());
  EXPECT_FALSE(ran);
  try {
    stream->synchronize();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::device);
    const std::string text = error.what();
    for (const char* part : {"cuda:0", "cudaErrorInvalidValue", "cudaMemsetAsync", "runtime_gpu_test.cpp:"})
      EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
  }
  // Cleared, and not blamed on what comes next.
  const Buffer<int> x(*stream, 4, "x");
  stream->enqueue(zero_operation("zero", x.data(), x.bytes(), {x.writes()}));
  stream->synchronize();
}

TEST_F(Gpu, AnErrorLeftOverFromTheCallerIsNotBlamedOnTheNextOperation) {
  SKIP_WITHOUT_GPUS(1);
  const DeviceSet devices = open_devices("cuda:0");
  const auto stream = devices[0].create_stream("s");
  const Buffer<int> x(*stream, 4, "x");
  cudaMemset(nullptr, 0, 100);  // fails, and is left in CUDA's last error
  stream->enqueue(zero_operation("zero", x.data(), x.bytes(), {x.writes()}));
  Operation delay;
  delay.body = [](LaunchContext& context) { test::launch_delay(context, 20); };
  stream->enqueue(std::move(delay));
  const Event event = stream->record();
  EXPECT_FALSE(event.is_signalled());  // "not ready" is left in the last error, too
  stream->enqueue(zero_operation("zero", x.data(), x.bytes(), {x.writes()}));
  stream->synchronize();
  EXPECT_TRUE(event.is_signalled());
}

TEST_F(Gpu, AHostLoopOnAGpuIsAnInternalError) {
  SKIP_WITHOUT_GPUS(1);
  const DeviceSet devices = open_devices("cuda:0");
  const auto stream = devices[0].create_stream("s");
  Operation loop;
  loop.body = [](LaunchContext& context) { context.parallel_for(1, 1, [](std::int64_t, std::int64_t) {}); };
  stream->enqueue(std::move(loop));
  EXPECT_THROW(stream->synchronize(), Error);
}

TEST_F(Gpu, EventsOrderStreamsOfOneGpuAndOfTwo) {
  SKIP_WITHOUT_GPUS(1);
  if (cuda_device_count() < 2) std::printf("one GPU: both streams are on it\n");
  const DeviceSet devices = open_devices("cuda");
  const int last = devices.size() - 1;
  const auto a = devices[0].create_stream("a"), b = devices[last].create_stream("b");
  const Buffer<int> x(*a, 1000, "x"), y(*b, 1000, "y");
  std::vector<int> in(1000, 7), out(1000, -1);
  a->enqueue(zero_operation("zero", x.data(), x.bytes(), {x.writes()}));
  a->synchronize();
  Operation delay;
  delay.body = [](LaunchContext& context) { test::launch_delay(context, 50); };
  a->enqueue(std::move(delay));
  a->enqueue(copy_operation("in", x.data(), in.data(), x.bytes(), {x.writes()}));
  b->wait(a->record());
  expect_current("after waiting");
  b->enqueue(copy_operation("across", y, x));
  b->enqueue(copy_operation("out", out.data(), y.data(), y.bytes(), {y.reads()}));
  b->synchronize();
  EXPECT_EQ(out, in);
  a->synchronize();
}

TEST_F(Gpu, PeerCopiesInBothDirections) {
  SKIP_WITHOUT_GPUS(2);
  const DeviceSet devices = open_devices("cuda");
  for (int from = 0; from < devices.size(); ++from)
    for (int to = 0; to < devices.size(); ++to) {
      if (from == to) continue;
      const auto source = devices[from].create_stream("source"), target = devices[to].create_stream("target");
      std::vector<Word> in(1 << 20), out(in.size(), 0);
      std::iota(in.begin(), in.end(), static_cast<Word>(from * 100 + to));
      const Buffer<Word> x(*source, in.size(), "x"), y(*target, in.size(), "y");
      source->enqueue(copy_operation("in", x.data(), in.data(), x.bytes(), {x.writes()}));
      target->wait(source->record());
      target->enqueue(copy_operation("peer", y, x));
      target->enqueue(copy_operation("out", out.data(), y.data(), y.bytes(), {y.reads()}));
      target->synchronize();
      source->synchronize();
      EXPECT_EQ(out, in) << from << " to " << to << (cuda_pair_is_staged(from, to) ? ", staged" : ", peer");
    }
}

/// Both directions of waiting between the host device 0 and the GPU 1 of a mixed set.
struct MixedGpu : Gpu {
  void open() {
    devices = open_devices("host:1x1+cuda:0", mixed());
    host = devices[0].create_stream("h");
    cuda = devices[1].create_stream("c");
  }
  DeviceSet devices;
  std::unique_ptr<Stream> host, cuda;
};

TEST_F(Gpu, HostWithCudaIsRefusedByName) {
  SKIP_WITHOUT_GPUS(1);
  OpenOptions options;
  options.allow_mixed = true;
  try {
    open_devices("host:1x1+cuda:0", options);
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("mixes host with cuda"), std::string::npos) << error.what();
  }
}

/// The tests below can hang on a real GPU: such sets are refused until that is mended. SHARDWISE_TRY_MIXED=1
/// runs them.
#define SKIP_MIXED()                       \
  if (!std::getenv("SHARDWISE_TRY_MIXED")) \
  GTEST_SKIP() << "host and cuda in one set are refused in this version: pageable copies can stop for ever"

TEST_F(MixedGpu, CudaWaitsForTheHostAndBack) {
  SKIP_MIXED();
  SKIP_WITHOUT_GPUS(1);
  open();
  // More rounds than a block of polled words holds.
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
  SKIP_MIXED();
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

/// The executor's synthetic call on a set, several in flight.
void expect_scenario(const DeviceSet& devices) {
  Executor executor(devices);
  std::vector<std::unique_ptr<Scenario>> scenarios;
  std::vector<shardwise::Run> runs;
  for (Word salt = 0; salt < 6; ++salt) {
    ScenarioOptions options;
    options.rows = 20000;
    options.chunks = static_cast<int>(1 + salt);
    options.salt = salt;
    options.check_on_master = salt % 2 == 0;
    options.launch = test::launch_rows;
    scenarios.push_back(std::make_unique<Scenario>(executor, options));
    scenarios.back()->enqueue_before();
    runs.push_back(executor.run(scenarios.back()->graph()));
    scenarios.back()->enqueue_after();
  }
  for (shardwise::Run& run : runs) run.wait([] {});
  scenarios.front()->synchronize_callers();
  for (const auto& scenario : scenarios) EXPECT_EQ(scenario->output(), scenario->expected());
}

TEST_F(Gpu, TheSyntheticCallOnEveryGpu) {
  SKIP_WITHOUT_GPUS(1);
  std::printf("on %d GPU(s)\n", cuda_device_count());
  expect_scenario(open_devices("cuda"));
  expect_scenario(open_devices("cuda:0"));
  if (cuda_device_count() > 1) expect_scenario(open_devices("cuda:1,0"));
}

TEST_F(Gpu, TheSyntheticCallOnHostAndGpuTogether) {
  SKIP_MIXED();
  SKIP_WITHOUT_GPUS(1);
  expect_scenario(open_devices("host:1x1+cuda:0", mixed()));
  expect_scenario(open_devices("cuda:0+host:2x1", mixed()));
}

TEST_F(Gpu, AFailingRunLeavesTheExecutorUsable) {
  SKIP_WITHOUT_GPUS(1);
  SKIP_MIXED();
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

TEST_F(Gpu, TheTimelineHasWhatRan) {
  SKIP_WITHOUT_GPUS(1);
  const DeviceSet devices = open_devices("cuda");
  Executor executor(devices);
  ScenarioOptions options;
  options.launch = test::launch_rows;
  Scenario scenario(executor, options);
  devices.timeline().start();
  scenario.enqueue_before();
  const Graph graph = scenario.graph();
  const std::size_t operations = graph.nodes().size();
  executor.run(graph).wait();
  scenario.synchronize_callers();
  std::size_t ours = 0;
  const double now = devices.timeline().now();
  for (const TimelineRecord& record : devices.timeline().records()) {
    ours += record.stream != "caller";
    EXPECT_GE(record.end_s, record.begin_s) << record.name;
    EXPECT_GT(record.begin_s, -1e-3) << record.name;
    EXPECT_LT(record.end_s, now + 1e-3) << record.name;
  }
  EXPECT_EQ(ours, operations);
  std::ostringstream out;
  devices.timeline().write_chrome_trace(out);
  EXPECT_EQ(nlohmann::json::parse(out.str()).at("schema"), 1);
  EXPECT_EQ(devices.timeline().summary().size(), static_cast<std::size_t>(devices.size()));
}

TEST_F(Gpu, StreamsMayDieWithWorkAndWaitsPending) {
  SKIP_WITHOUT_GPUS(1);
  SKIP_MIXED();
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

// An illegal address ends the process' use of the GPU, so it happens in a child process.
TEST(GpuDeathTest, AnIllegalAddressIsALostDevice) {
  SKIP_WITHOUT_GPUS(1);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const DeviceSet devices = open_devices("cuda:0");
        Executor executor(devices);
        Graph graph;
        Operation bad;
        bad.name = "bad";
        bad.body = [](LaunchContext& context) { test::launch_write(context, reinterpret_cast<Word*>(64)); };
        graph.add(0, StreamRole::compute, std::move(bad));
        try {
          executor.run(std::move(graph)).wait();
        } catch (const Error& error) {
          std::fprintf(stderr, "%s\n", error.what());
          std::_Exit(error.error_class() == ErrorClass::lost ? 42 : 43);
        }
        std::_Exit(44);
      },
      ::testing::ExitedWithCode(42), "cudaErrorIllegalAddress");
}

}  // namespace
}  // namespace shardwise
