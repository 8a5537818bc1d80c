// A program as CUDA C++ text: compiled for each GPU when it is first needed, with a twin for host devices.

#include <cstdio>
#include <cstring>

#include "shardwise/jobs/executor.hpp"

int main() {
  using namespace shardwise;
  CudaSource source;
  source.name = "saxpy.cu";
  source.text = R"(
    extern "C" __global__ void saxpy(const float* x, const float* y, float* out, int n, float a) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) out[i] = a * x[i] + y[i];
    })";
  source.kernel = "saxpy";
  source.host_twin = [](JobContext& job) {
    const auto *x = job.input<float>(0), *y = job.input<float>(1);
    const auto n = static_cast<std::int64_t>(job.input_bytes(0) / sizeof(float));
    auto* out = job.output<float>(static_cast<std::uint64_t>(n));
    float a = 0;
    std::memcpy(&a, job.job().launch.scalars[1].data(), sizeof a);
    job.launch("saxpy", n, [=](LaunchContext&) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = a * x[i] + y[i];
    });
  };
  const std::vector<float> x(1000, 2), y(1000, 1);
  Job job;
  job.program = JobProgram::source(source);
  job.inputs = {JobInput::borrowed(std::span<const float>(x)), JobInput::borrowed(std::span<const float>(y))};
  job.launch.grid = {4, 1, 1};
  job.launch.block = {256, 1, 1};
  job.launch.output_bytes = {1000 * sizeof(float)};
  job.launch.scalars = {job_scalar(1000), job_scalar(3.0f)};
  JobExecutor executor(open_devices("host:1"));  // or "cuda"
  std::printf("3 * 2 + 1 = %g\n", executor.run({job})[0].output<float>(0)[999]);
}
