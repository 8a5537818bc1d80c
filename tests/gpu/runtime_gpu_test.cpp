// The runtime and the executor on the GPUs that are present. Every scenario here has its host and sim twin in
// tests/runtime and tests/dispatch.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "gpu/gpu_fixture.hpp"
#include "gpu/scenario_rows.hpp"
#include "runtime/cuda/cuda_check.hpp"
#include "shardwise/runtime/devices.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

using test::expect_scenario;
using test::Gpu;
using test::Scenario;
using test::ScenarioOptions;
using test::Word;

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

TEST_F(Gpu, TheSyntheticCallOnEveryGpu) {
  SKIP_WITHOUT_GPUS(1);
  std::printf("on %d GPU(s)\n", cuda_device_count());
  expect_scenario(open_devices("cuda"));
  expect_scenario(open_devices("cuda:0"));
  if (cuda_device_count() > 1) expect_scenario(open_devices("cuda:1,0"));
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
