// What a job costs above the work that it does.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include "bench/jobs.hpp"
#include "bench/jobs_parts.hpp"
#include "shardwise/jobs/executor.hpp"

namespace shardwise::bench {
namespace {

// Names of their own: worker processes know twins by them.
constexpr const char* kSpin = "shardwise_bench_spin";
constexpr const char* kCopy = "shardwise_bench_copy";

void spin_here(JobContext& job) {
  std::int64_t ns = 0;
  std::memcpy(&ns, job.job().launch.scalars.at(0).data(), sizeof ns);
  job.launch("spin", 1, [ns](LaunchContext&) {
    const auto start = Clock::now();
    while (Clock::now() - start < std::chrono::nanoseconds(ns)) {
    }
  });
}

void copy_here(JobContext& job) {
  const std::uint64_t bytes = job.input_bytes(0);
  const auto* in = job.input<std::byte>(0);
  auto* out = job.output<std::byte>(bytes);
  job.launch("copy", static_cast<std::int64_t>(bytes), [=](LaunchContext&) { std::memcpy(out, in, bytes); });
}

/// A job that keeps its device busy for `ns`, and nothing else.
JobProgram spin_program() {
  CudaSource source;
  source.name = "spin.cu";
  source.text =
      "extern \"C\" __global__ void shardwise_bench_spin(long long ns) {\n"
      "  long long begin, now;\n"
      "  asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(begin));\n"
      "  do asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(now));\n"
      "  while (now - begin < ns);\n"
      "}\n";
  source.kernel = kSpin;
  source.host_twin = spin_here;
  return JobProgram::source(std::move(source));
}

/// A job that copies its input, words of 16 bytes, to its output.
JobProgram copy_program() {
  CudaSource source;
  source.name = "copy.cu";
  source.text =
      "extern \"C\" __global__ void shardwise_bench_copy(const uint4* in, uint4* out, long long count) {\n"
      "  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
      "  if (i < count) out[i] = in[i];\n"
      "}\n";
  source.kernel = kCopy;
  source.host_twin = copy_here;
  return JobProgram::source(std::move(source));
}

std::vector<Job> spinning(const JobProgram& program, std::size_t count, std::int64_t ns) {
  std::vector<Job> jobs(count);
  for (Job& job : jobs) {
    job.program = program;
    job.launch.scalars = {job_scalar(ns)};
  }
  return jobs;
}

struct Executor {
  explicit Executor(const std::string& devices) : jobs(open_any(devices)) {}
  JobExecutor jobs;
  JobProgram spin = spin_program();
};

/// The same launches, without jobs: on one stream of each device.
double bare_launches(const DeviceSet& devices, std::size_t count) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (int d = 0; d < devices.size(); ++d) streams.push_back(devices[d].create_stream("bare"));
  const auto start = Clock::now();
  std::vector<std::thread> threads;
  for (auto& stream : streams)
    threads.emplace_back([&stream, each = count / streams.size()] {
      for (std::size_t i = 0; i < each; ++i) {
        Operation operation;
        operation.name = "empty";
        operation.body = [](LaunchContext&) {};
        stream->enqueue(std::move(operation));
      }
      stream->synchronize();
    });
  for (std::thread& thread : threads) thread.join();
  return seconds_since(start);
}

Case empty_job_case(const Settings& settings, const std::shared_ptr<Executor>& executor) {
  const std::size_t count = settings.quick ? 2'000 : 50'000;
  const JobProgram empty =
      JobProgram::native("empty", [](JobContext& job) { job.launch("empty", 1, [](LaunchContext&) {}); });
  auto best = std::make_shared<std::pair<double, double>>(1e9, 1e9);
  Case work;
  work.name = "empty-job";
  work.work =
      fmt::format("{} native jobs that launch nothing, against the same launches without jobs", count);
  work.devices = executor->jobs.devices().spec();
  work.units = static_cast<double>(count);
  work.all = [=] {
    std::vector<Job> jobs(count);
    for (Job& job : jobs) job.program = empty;
    const auto start = Clock::now();
    executor->jobs.run(std::move(jobs));
    const double seconds = seconds_since(start);
    best->first = std::min(best->first, seconds);
    return seconds;
  };
  work.one = [=] {
    const double seconds = bare_launches(executor->jobs.devices(), count);
    best->second = std::min(best->second, seconds);
    return seconds;
  };
  work.note_after = [=] {
    const auto devices = static_cast<double>(executor->jobs.devices().size());
    return fmt::format("{:.2f} us of each device for a job above the bare launch",
                       (best->first - best->second) / static_cast<double>(count) * 1e6 * devices);
  };
  return work;
}

/// Share of the devices' time that jobs of this length keep busy.
double efficiency(Executor& executor, std::int64_t ns, double seconds) {
  const auto devices = static_cast<double>(executor.jobs.devices().size());
  const auto count =
      static_cast<std::size_t>(std::clamp(seconds * 1e9 / static_cast<double>(ns), 200.0, 20000.0) * devices);
  std::vector<Job> jobs = spinning(executor.spin, count, ns);
  const auto start = Clock::now();
  executor.jobs.run(std::move(jobs));
  return static_cast<double>(count) * static_cast<double>(ns) * 1e-9 / (seconds_since(start) * devices);
}

Case metg_case(const Settings& settings, const std::shared_ptr<Executor>& executor) {
  Case work;
  work.name = "metg";
  work.work = "the shortest job that keeps the devices busy for half of the time (METG 50 %)";
  work.devices = executor->jobs.devices().spec();
  work.all = [executor, span = settings.quick ? 0.01 : 0.1] {
    // Bisection on a scale of logarithms, 100 ns to 3 ms.
    double low = 100, high = 3e6;
    while (high / low > 1.1) {
      const double middle = std::sqrt(low * high);
      (efficiency(*executor, static_cast<std::int64_t>(middle), span) >= 0.5 ? high : low) = middle;
    }
    return high * 1e-9;
  };
  return work;
}

/// An executor of the first device that runs jobs in a worker process, and one that does not. Made by the
/// first case that runs.
struct IsolatedPair {
  explicit IsolatedPair(std::string devices) : devices_(std::move(devices)) {}
  static JobOptions worker_options() {
    JobOptions options;
    options.isolate = JobIsolation::process;
    options.worker_command = {"/proc/self/exe", "job-worker"};
    return options;
  }
  double seconds(bool isolated, std::vector<Job> jobs) {
    std::optional<JobExecutor>& executor = isolated ? isolated_ : here_;
    if (!executor) executor.emplace(open_any(devices_).first(), isolated ? worker_options() : JobOptions{});
    const auto start = Clock::now();
    for (const JobResult& result : executor->run(std::move(jobs)))
      if (result.error) throw Error(result.error->error_class, result.error->message);
    return seconds_since(start);
  }

 private:
  std::string devices_;
  std::optional<JobExecutor> isolated_, here_;
};

/// What a worker process costs a job: `bytes` into it and back, 0: a launch alone.
Case isolated_case(const Settings& settings, const std::shared_ptr<IsolatedPair>& pair, const char* name,
                   std::uint64_t bytes) {
  const std::size_t count = bytes > 0 ? (settings.quick ? 8 : 64) : (settings.quick ? 500 : 10'000);
  auto words = std::make_shared<std::vector<std::byte>>(bytes, std::byte{7});
  const JobProgram program = bytes > 0 ? copy_program() : spin_program();
  const auto jobs = [=] {
    std::vector<Job> list(count);
    for (Job& job : list) {
      job.program = program;
      job.launch.scalars = {job_scalar(static_cast<std::int64_t>(bytes / 16))};
      if (bytes == 0) continue;
      job.inputs = {JobInput::borrowed(std::span<const std::byte>(*words))};
      job.launch.output_bytes = {bytes};
      job.launch.block = {256, 1, 1};
      job.launch.grid = {static_cast<unsigned>((bytes / 16 + 255) / 256), 1, 1};
    }
    return list;
  };
  auto best = std::make_shared<std::pair<double, double>>(1e9, 1e9);
  Case work;
  work.name = name;
  work.work =
      bytes > 0
          ? fmt::format(
                "{} jobs of {} MiB to the first device and back, in a worker process, against "
                "the same in this one",
                count, bytes >> 20)
          : fmt::format(
                "{} source jobs that do nothing, in a worker process of the first device, against the same "
                "in this one",
                count);
  work.devices = settings.devices;
  work.units = static_cast<double>(count);
  work.all = [=] {
    const double seconds = pair->seconds(true, jobs());
    best->first = std::min(best->first, seconds);
    return seconds;
  };
  work.one = [=] {
    const double seconds = pair->seconds(false, jobs());
    best->second = std::min(best->second, seconds);
    return seconds;
  };
  work.note_after = [=] {
    const double us = 1e6 / static_cast<double>(count);
    return fmt::format("{:.2f} us a job, {:.2f} without a worker process", best->first * us,
                       best->second * us);
  };
  return work;
}

}  // namespace

HostTwins job_twins() {
  return {{kSpin, spin_here}, {kCopy, copy_here}};
}

std::vector<Case> job_cost_cases(const Settings& settings) {
  const auto executor = std::make_shared<Executor>(settings.devices);
  if (executor->jobs.devices().sim_world()) return {};
  const auto pair = std::make_shared<IsolatedPair>(settings.devices);
  return {empty_job_case(settings, executor), metg_case(settings, executor),
          isolated_case(settings, pair, "isolated-job", 0),
          isolated_case(settings, pair, "isolated-job-4mib", std::uint64_t{4} << 20)};
}

}  // namespace shardwise::bench
