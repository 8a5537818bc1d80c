// Jobs in worker processes, one for each GPU: what a faulty kernel does stays in its process. What needs no
// GPU has its twins in tests/jobs/isolation_test.cpp. The worker program is `shardwise`, beside this one.

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "gpu/gpu_fixture.hpp"
#include "shardwise/jobs/executor.hpp"
#include "shardwise/runtime/buffer.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise {
namespace {

using test::Gpu;
namespace fs = std::filesystem;

JobProgram kernel_of(const char* kernel, const char* more = "") {
  CudaSource source;
  source.name = "isolated.cu";
  source.text =
      std::string(
          "extern \"C\" __global__ void scaled(const float* in, float* out, int n, float factor) {\n"
          "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
          "  if (i < n) out[i] = factor * in[i];\n"
          "}\n"
          "extern \"C\" __global__ void wild(float* out) { out[1ull << 45] = 1; }\n"
          "extern \"C\" __global__ void trap(float*) { asm volatile(\"trap;\"); }\n"
          "extern \"C\" __global__ void hang(volatile float* out) { while (out[0] != -1) {} }\n") +
      more;
  source.kernel = kernel;
  return JobProgram::source(std::move(source));
}

/// Exact as a float, and so are small multiples.
float input_at(std::size_t i) {
  return static_cast<float>(i % 99991 + 1);
}

Job scaled_job(int count, float factor) {
  static const JobProgram program = kernel_of("scaled");
  std::vector<float> in(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = input_at(i);
  Job job;
  job.program = program;
  job.inputs = {JobInput::copied(std::span<const float>(in))};
  job.launch.grid = {static_cast<unsigned>((count + 255) / 256), 1, 1};
  job.launch.block = {256, 1, 1};
  job.launch.output_bytes = {static_cast<std::uint64_t>(count) * sizeof(float)};
  job.launch.scalars = {job_scalar(count), job_scalar(factor)};
  return job;
}

Job faulty_job(const char* kernel) {
  Job job;
  job.id = kernel;
  job.program = kernel_of(kernel);
  job.launch.output_bytes = {1000 * sizeof(float)};
  job.cost = 1000;
  return job;
}

void expect_scaled(const JobResult& result, int count, float factor) {
  ASSERT_EQ(result.status, JobStatus::done) << (result.error ? result.error->message : "");
  const std::vector<float> out = result.output<float>(0);
  ASSERT_EQ(out.size(), static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], factor * input_at(i)) << i;
}

/// Whether a device still allocates, launches and copies in this process.
void expect_works_here(Device& device) {
  const auto stream = device.create_stream("sign of life");
  Buffer<int> buffer(*stream, 1000, "sign of life");
  std::vector<int> host(1000, 1);
  stream->enqueue(zero_operation("zero", buffer.data(), buffer.bytes(), {buffer.writes()}));
  stream->enqueue(copy_operation("back", host.data(), buffer.data(), buffer.bytes(), {buffer.reads()}));
  stream->synchronize();
  EXPECT_EQ(host, std::vector<int>(1000, 0)) << device.name();
}

struct IsolatedGpuJobs : Gpu {
  static fs::path program() { return fs::read_symlink("/proc/self/exe").parent_path() / "shardwise"; }
  static JobOptions isolated() {
    JobOptions options;
    options.isolate = JobIsolation::process;
    options.worker_command = {program().string(), "job-worker"};
    options.retries = 0;
    return options;
  }
  /// Every device takes jobs and runs them, in its worker process and in this one.
  static void expect_all_work(JobExecutor& jobs) {
    for (const JobDeviceState state : jobs.states()) EXPECT_EQ(state, JobDeviceState::ok);
    std::vector<Job> batch;
    for (int d = 0; d < jobs.devices().size(); ++d) {
      batch.push_back(scaled_job(1000, static_cast<float>(d + 1)));
      batch.back().device = d;
    }
    const auto results = jobs.run(std::move(batch));
    for (std::size_t d = 0; d < results.size(); ++d)
      expect_scaled(results[d], 1000, static_cast<float>(d + 1));
    for (int d = 0; d < jobs.devices().size(); ++d) expect_works_here(jobs.devices()[d]);
    for (const std::uint64_t load : jobs.loads()) EXPECT_EQ(load, 0u);
  }
};

#define SKIP_WITHOUT_WORKER() \
  if (!fs::exists(program())) GTEST_SKIP() << "needs the program '" << program().string() << "'"

// Of 200 jobs one writes to nowhere and one traps: 198 results, both set aside by name, all devices well.
TEST_F(IsolatedGpuJobs, FaultyKernelsCostNeitherAJobNorAGpu) {
  SKIP_WITHOUT_GPUS(1);
  SKIP_WITHOUT_WORKER();
  JobExecutor jobs(open_devices("cuda"), isolated());
  Job first = scaled_job(1, 1);
  first.device = 0;
  auto begin = std::chrono::steady_clock::now();
  expect_scaled(jobs.run({first})[0], 1, 1);
  std::printf("a worker process and its first job: %.2f s\n",
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  begin = std::chrono::steady_clock::now();
  std::vector<Job> batch;
  for (int i = 0; i < 200; ++i) batch.push_back(scaled_job(1000 + i, static_cast<float>(i)));
  batch[0] = faulty_job("wild");
  batch[100] = faulty_job("trap");
  const auto results = jobs.run(std::move(batch));
  for (int i = 0; i < 200; ++i) {
    const JobResult& result = results[static_cast<std::size_t>(i)];
    if (i % 100 != 0) {
      expect_scaled(result, 1000 + i, static_cast<float>(i));
      continue;
    }
    ASSERT_EQ(result.status, JobStatus::failed);
    EXPECT_EQ(result.attempts, 2);
    std::printf("%s\n", result.error->message.c_str());
    EXPECT_NE(result.error->message.find("set aside, because two worker processes broke while they ran it"),
              std::string::npos);
    EXPECT_NE(result.error->message.find(i == 0 ? "illegal" : "launch failure"), std::string::npos);
  }
  const JobReport report = jobs.report();
  EXPECT_EQ(report.done, 198u);
  EXPECT_EQ(report.set_aside.size(), 2u);
  for (const JobDeviceReport& device : report.devices)
    std::printf("  %s is %s, %llu jobs, %llu worker processes\n", device.name.c_str(),
                to_string(device.state), static_cast<unsigned long long>(device.jobs),
                static_cast<unsigned long long>(device.workers));
  std::printf("  %.2f s for all\n",
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  expect_all_work(jobs);
  expect_current("after isolated jobs");
}

TEST_F(IsolatedGpuJobs, AKernelThatNeverEndsIsStoppedAndItsGpuGoesOn) {
  SKIP_WITHOUT_GPUS(1);
  SKIP_WITHOUT_WORKER();
  JobExecutor jobs(open_devices("cuda"), isolated());
  std::vector<Job> batch;
  for (int i = 0; i < 50; ++i) batch.push_back(scaled_job(1000, static_cast<float>(i)));
  batch[0] = faulty_job("hang");
  batch[0].timeout_s = 2;
  const auto results = jobs.run(std::move(batch));
  ASSERT_TRUE(results[0].error);
  EXPECT_NE(results[0].error->message.find("not done within its timeout of 2 s"), std::string::npos)
      << results[0].error->message;
  EXPECT_EQ(results[0].attempts, 1);
  for (int i = 1; i < 50; ++i)
    expect_scaled(results[static_cast<std::size_t>(i)], 1000, static_cast<float>(i));
  const auto begin = std::chrono::steady_clock::now();
  expect_all_work(jobs);
  std::printf("all GPUs work again %.2f s after the kernel was stopped\n",
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

// The same words as without isolation, for what is the source's own fault, and for memory.
TEST_F(IsolatedGpuJobs, ErrorsReadAsWithoutIsolation) {
  SKIP_WITHOUT_GPUS(1);
  SKIP_WITHOUT_WORKER();
  const auto batch = [] {
    std::vector<Job> list(3);
    for (Job& job : list) job.device = 0;
    list[0].program = kernel_of("scaled", "__device__ int broken = missing;\n");
    list[0].id = "broken";
    list[1].program = kernel_of("scled");
    list[1].id = "nameless";
    list[2] = scaled_job(1000, 2);
    list[2].id = "no grid";
    list[2].launch.grid = {0, 1, 1};
    return list;
  };
  JobOptions here = isolated();
  here.isolate = JobIsolation::none;
  JobExecutor apart(open_devices("cuda"), isolated()), together(open_devices("cuda"), here);
  const auto ours = together.run(batch()), theirs = apart.run(batch());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ASSERT_TRUE(ours[i].error);
    ASSERT_TRUE(theirs[i].error);
    EXPECT_EQ(ours[i].error->message, theirs[i].error->message);
    EXPECT_EQ(ours[i].error->error_class, theirs[i].error->error_class);
  }
  EXPECT_NE(theirs[0].error->message.find("error: identifier \"missing\""), std::string::npos);
  expect_all_work(apart);
}

TEST_F(IsolatedGpuJobs, LargeArraysComeThrough) {
  SKIP_WITHOUT_GPUS(1);
  SKIP_WITHOUT_WORKER();
  JobExecutor jobs(open_devices("cuda"), isolated());
  std::vector<Job> batch;
  const std::vector<int> counts{1, 10'000'000, 3, 1'000'000, 30'000'000, 7};
  for (const int count : counts) batch.push_back(scaled_job(count, 0.5f));
  const auto results = jobs.run(std::move(batch));
  for (std::size_t i = 0; i < counts.size(); ++i) expect_scaled(results[i], counts[i], 0.5f);
}

}  // namespace
}  // namespace shardwise
