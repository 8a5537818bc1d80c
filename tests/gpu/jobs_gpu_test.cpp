// Jobs on the GPUs that are present. What needs none has its twins in tests/jobs.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

#include "gpu/gpu_fixture.hpp"
#include "shardwise/jobs/device_cache.hpp"
#include "shardwise/jobs/executor.hpp"
#include "shardwise/runtime/buffer.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise {
namespace {

using test::Gpu;

CudaSource scaling() {
  CudaSource source;
  source.name = "scaled.cu";
  source.text =
      "extern \"C\" __global__ void scaled(const float* in, float* out, int n, float factor) {\n"
      "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (i < n) out[i] = factor * in[i];\n"
      "}\n"
      "extern \"C\" __global__ void wild(float* out) { out[1ull << 45] = 1; }\n"
      "extern \"C\" __global__ void null(float*) { *reinterpret_cast<volatile float*>(8) = 1; }\n"
      "extern \"C\" __global__ void trap(float*) { asm volatile(\"trap;\"); }\n"
      "extern \"C\" __global__ void spin(long long cycles) {\n"
      "  const long long begin = clock64();\n"
      "  while (clock64() - begin < cycles) {}\n"
      "}\n";
  source.kernel = "scaled";
  source.host_twin = [](JobContext& job) {
    const auto count = static_cast<std::int64_t>(job.input_bytes(0) / sizeof(float));
    const auto* in = job.input<float>(0);
    auto* out = static_cast<float*>(job.output_bytes(job.job().launch.output_bytes.at(0)));
    float factor = 0;
    std::memcpy(&factor, job.job().launch.scalars.at(1).data(), sizeof factor);
    job.launch("scaled", count, [=](LaunchContext&) {
      for (std::int64_t i = 0; i < count; ++i) out[i] = factor * in[i];
    });
  };
  return source;
}

Job scaling_job(const JobProgram& program, int count, float factor) {
  std::vector<float> in(static_cast<std::size_t>(count));
  std::iota(in.begin(), in.end(), 1.0f);
  Job job;
  job.program = program;
  job.inputs = {JobInput::copied(std::span<const float>(in))};
  job.launch.grid = {static_cast<unsigned>((count + 255) / 256), 1, 1};
  job.launch.block = {256, 1, 1};
  job.launch.output_bytes = {static_cast<std::uint64_t>(count) * sizeof(float)};
  job.launch.scalars = {job_scalar(count), job_scalar(factor)};
  job.cost = static_cast<std::uint64_t>(count);
  return job;
}

void expect_scaled(const JobResult& result, int count, float factor) {
  ASSERT_EQ(result.status, JobStatus::done) << (result.error ? result.error->message : "");
  const std::vector<float> out = result.output<float>(0);
  ASSERT_EQ(out.size(), static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    ASSERT_EQ(out[static_cast<std::size_t>(i)], factor * static_cast<float>(i + 1));
}

/// Whether source programs can be compiled here.
std::string no_nvrtc() {
  JobExecutor jobs = JobExecutor::all("cuda");
  const auto results = jobs.run({scaling_job(JobProgram::source(scaling()), 1, 1)});
  return results[0].error && results[0].error->message.find("NVRTC") != std::string::npos
             ? results[0].error->message
             : std::string();
}
#define SKIP_WITHOUT_NVRTC() \
  if (const std::string why = no_nvrtc(); !why.empty()) GTEST_SKIP() << why

void expect_at_rest(const JobExecutor& jobs) {
  for (const std::uint64_t load : jobs.loads()) EXPECT_EQ(load, 0u);
}

TEST_F(Gpu, SourceProgramsRunOnEveryGpu) {
  SKIP_WITHOUT_GPUS(1);
  SKIP_WITHOUT_NVRTC();
  JobExecutor jobs = JobExecutor::all("cuda");
  const JobProgram program = JobProgram::source(scaling());
  std::vector<Job> batch;
  for (int i = 0; i < 500; ++i)
    batch.push_back(scaling_job(program, 1 + 37 * (i % 29), static_cast<float>(i)));
  const auto results = jobs.run(std::move(batch));
  std::set<std::string> used;
  for (int i = 0; i < 500; ++i) {
    expect_scaled(results[static_cast<std::size_t>(i)], 1 + 37 * (i % 29), static_cast<float>(i));
    used.insert(results[static_cast<std::size_t>(i)].device);
  }
  std::printf("%zu of %d GPUs had jobs\n", used.size(), jobs.devices().size());
  expect_at_rest(jobs);
  expect_current("after jobs");
}

TEST_F(Gpu, JobsOnAMixedSetWithSpeeds) {
  SKIP_WITHOUT_GPUS(1);
  SKIP_WITHOUT_NVRTC();
  OpenOptions open;
  open.allow_mixed = true;
  JobOptions options;
  options.speeds = {1, 8};
  JobExecutor jobs(open_devices("host:1x1+cuda:0", open), options);
  const JobProgram program = JobProgram::source(scaling());
  std::vector<Job> batch;
  for (int i = 0; i < 300; ++i) batch.push_back(scaling_job(program, 1000, static_cast<float>(i)));
  const auto results = jobs.run(std::move(batch));
  for (int i = 0; i < 300; ++i)
    expect_scaled(results[static_cast<std::size_t>(i)], 1000, static_cast<float>(i));
  expect_at_rest(jobs);
}

TEST_F(Gpu, ASourceThatDoesNotCompileShowsItsLine) {
  SKIP_WITHOUT_GPUS(1);
  SKIP_WITHOUT_NVRTC();
  CudaSource source = scaling();
  const auto line = 1 + std::count(source.text.begin(), source.text.end(), '\n');
  source.text += "__device__ int broken = missing;\n";
  CudaSource nameless = scaling();
  nameless.kernel = "scled";
  JobExecutor jobs = JobExecutor::all("cuda");
  const auto results = jobs.run({scaling_job(JobProgram::source(source), 1, 1),
                                 scaling_job(JobProgram::source(nameless), 1, 1),
                                 scaling_job(JobProgram::source(scaling()), 1, 1)});
  ASSERT_TRUE(results[0].error);
  EXPECT_EQ(results[0].error->error_class, ErrorClass::data);
  EXPECT_NE(results[0].error->message.find("scaled.cu(" + std::to_string(line) +
                                           "): error: identifier \"missing\""),
            std::string::npos)
      << results[0].error->message;
  ASSERT_TRUE(results[1].error);
  EXPECT_NE(results[1].error->message.find("has no kernel 'scled'"), std::string::npos)
      << results[1].error->message;
  expect_scaled(results[2], 1, 1);
}

/// The first call that a worker's thread makes on its GPU.
TEST_F(Gpu, ASourceProgramMayHaveNoInputs) {
  SKIP_WITHOUT_GPUS(1);
  SKIP_WITHOUT_NVRTC();
  for (int round = 0; round < 3; ++round) {
    JobExecutor jobs = JobExecutor::all("cuda");
    CudaSource source = scaling();
    source.kernel = "spin";
    std::vector<Job> batch(4);
    for (Job& job : batch) {
      job.program = JobProgram::source(source);
      job.launch.scalars = {job_scalar(1000ll)};
    }
    for (const JobResult& result : jobs.run(std::move(batch)))
      EXPECT_EQ(result.status, JobStatus::done) << (result.error ? result.error->message : "");
  }
}

TEST_F(Gpu, ShortJobsOfOneProgramShareEvents) {
  SKIP_WITHOUT_GPUS(1);
  JobExecutor jobs = JobExecutor::on("cuda", {0});
  const JobProgram program =
      JobProgram::native("empty", [](JobContext& job) { job.launch("empty", 1, [](LaunchContext&) {}); });
  for (int round = 0; round < 3; ++round) {
    std::vector<Job> batch(20000);
    for (Job& job : batch) job.program = program;
    const auto begin = std::chrono::steady_clock::now();
    for (const JobResult& result : jobs.run(std::move(batch))) ASSERT_EQ(result.status, JobStatus::done);
    std::printf(
        "%.2f us a job\n",
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / 20000 * 1e6);
  }
  EXPECT_GT(jobs.report().groups, 100u);
  expect_at_rest(jobs);
}

TEST_F(Gpu, CachesKeepBuffersOfTheirDevice) {
  SKIP_WITHOUT_GPUS(1);
  JobOptions options;
  options.placement = JobPlacement::by_content;
  JobExecutor jobs(open_devices("cuda"), options);
  struct Table {
    explicit Table(Device& device) : stream(device.create_stream("table")), data(*stream, 1000, "table") {}
    std::unique_ptr<Stream> stream;
    Buffer<float> data;
  };
  DeviceCache<Table> tables("tables");
  std::atomic<int> made{0};
  const JobProgram program = JobProgram::native("cached", [&](JobContext& job) {
    const auto table = tables.get(job, job.job().key, 4000, [&] {
      ++made;
      return std::make_shared<Table>(job.device());
    });
    EXPECT_EQ(&table->data.memory().device(), &job.device());
  });
  std::vector<Job> batch(400);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    batch[i].program = program;
    batch[i].key = std::to_string(i % 8);
  }
  for (const JobResult& result : jobs.run(std::move(batch))) ASSERT_EQ(result.status, JobStatus::done);
  EXPECT_GE(made, 8);
  EXPECT_LE(made, 8 * jobs.devices().size());
  expect_at_rest(jobs);
}

// What a kernel that writes to nowhere, or gives up, does to the GPU, and to the others of the process: said,
// and in any case every job ends. Its CUDA context does not survive, so it runs in a process of its own,
// which is this program again with FATAL_ERROR_HERE set to the kernel's name.
// OTHER_GPU set: the kernel runs on cuda:0 alone, and cuda:1 is looked at from outside.
constexpr const char* fatal_error_here = "FATAL_ERROR_HERE";
constexpr const char* other_gpu = "OTHER_GPU";

/// Whether the device still allocates, launches and copies, or what it says instead.
std::string sign_of_life(Device& device) {
  try {
    const auto stream = device.create_stream("sign of life");
    Buffer<int> buffer(*stream, 1000, "sign of life");
    std::vector<int> host(1000, 1);
    stream->enqueue(zero_operation("zero", buffer.data(), buffer.bytes(), {buffer.writes()}));
    stream->enqueue(copy_operation("back", host.data(), buffer.data(), buffer.bytes(), {buffer.reads()}));
    stream->synchronize();
    return host == std::vector<int>(1000, 0) ? "works" : "gives WRONG bytes";
  } catch (const std::exception& error) {
    return std::string("fails: ") + error.what();
  }
}

TEST(GpuFault, InAProcessOfItsOwn) {
  const char* kernel = std::getenv(fatal_error_here);
  if (!kernel) GTEST_SKIP() << "run by AFatalErrorOnOneGpuEndsNoOthersJobs";
  const bool alone = std::getenv(other_gpu) != nullptr;
  JobOptions options;
  options.retries = 0;
  JobExecutor jobs(open_devices(alone ? "cuda:0" : "cuda"), options);
  std::optional<DeviceSet> other;
  if (alone) other = open_devices("cuda:1");
  if (other) std::printf("the other GPU before: %s\n", sign_of_life(other->master()).c_str());
  CudaSource wild = scaling();
  wild.kernel = kernel;
  const JobProgram good = JobProgram::source(scaling());
  std::vector<Job> batch;
  for (int i = 0; i < 200; ++i) batch.push_back(scaling_job(good, 1000, static_cast<float>(i)));
  batch[0].program = JobProgram::source(wild);
  batch[0].id = kernel;
  batch[0].inputs.clear();
  batch[0].launch.scalars.clear();
  batch[0].cost = 1000000;
  const auto results = jobs.run(std::move(batch));
  const JobReport report = jobs.report();
  std::printf("after '%s': %zu done, %zu failed of %zu; its own error: %s\n", kernel, report.done,
              report.failed, report.jobs, results[0].error ? results[0].error->message.c_str() : "NONE");
  for (const JobResult& result : results)
    if (&result != &results[0] && result.error) {
      std::printf("  the first other error: %s\n", result.error->message.c_str());
      break;
    }
  for (const JobDeviceReport& device : report.devices)
    std::printf("  %s is %s (%s), %llu jobs\n", device.name.c_str(), to_string(device.state),
                device.why_lost.c_str(), static_cast<unsigned long long>(device.jobs));
  for (int d = 0; d < jobs.devices().size(); ++d)
    std::printf("  %s afterwards %s\n", jobs.devices()[d].name().c_str(),
                sign_of_life(jobs.devices()[d]).c_str());
  if (other) std::printf("  the other GPU afterwards %s\n", sign_of_life(other->master()).c_str());
  bool good_end = report.done + report.failed == 200 && results[0].status == JobStatus::failed;
  for (std::size_t i = 1; i < results.size(); ++i)
    if (results[i].status == JobStatus::done)
      good_end = good_end && results[i].output<float>(0)[0] == static_cast<float>(i);
  std::printf("  %s\n", good_end ? "every job ended" : "WRONG");
  EXPECT_TRUE(good_end);
  std::fflush(nullptr);
  std::_Exit(good_end ? 0 : 1);  // nothing of CUDA can be torn down any more
}

TEST(GpuFault, AFatalErrorOnOneGpuEndsNoOthersJobs) {
  SKIP_WITHOUT_GPUS(1);
  SKIP_WITHOUT_NVRTC();
  // What this process has in its pools, the other one would lack.
  for (int d = 0; d < cuda_device_count(); ++d) {
    cudaMemPool_t pool{};
    ASSERT_EQ(cudaDeviceGetDefaultMemPool(&pool, d), cudaSuccess);
    ASSERT_EQ(cudaMemPoolTrimTo(pool, 0), cudaSuccess);
  }
  const bool two = cuda_device_count() > 1;
  for (const std::string kernel : {"wild", "null", "trap", "wild alone", "trap alone"}) {
    const bool alone = kernel.ends_with(" alone");
    if (alone && !two) continue;
    const std::string command = (alone ? std::string(other_gpu) + "=1 " : "") + fatal_error_here + "=" +
                                kernel.substr(0, 4) + " " +
                                std::filesystem::read_symlink("/proc/self/exe").string() +
                                " --gtest_filter=GpuFault.InAProcessOfItsOwn 2>&1";
    std::FILE* child = popen(command.c_str(), "r");
    ASSERT_TRUE(child);
    std::string output;
    char piece[512];
    while (std::fgets(piece, sizeof piece, child)) output += piece;
    const int status = pclose(child);
    std::printf("%s", output.c_str());
    EXPECT_EQ(status, 0);
    EXPECT_NE(output.find("every job ended"), std::string::npos);
    // Its own error, not one of before it ran.
    EXPECT_TRUE(output.find("illegal") != std::string::npos ||
                output.find("launch failure") != std::string::npos)
        << output;
  }
}

}  // namespace
}  // namespace shardwise
