// Independent jobs of unequal cost on every device of a set: results by job, whatever becomes of the others.

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "shardwise/jobs/executor.hpp"

int main() {
  using namespace shardwise;
  const JobProgram sum_of_squares = JobProgram::native("sum of squares", [](JobContext& job) {
    const auto count = static_cast<std::int64_t>(job.input_bytes(0) / sizeof(double));
    const auto* in = job.input<double>(0);
    auto* out = job.output<double>(1);
    if (count == 0) throw std::runtime_error("there is nothing to add up");
    job.launch("sum", count, [=](LaunchContext&) {
      *out = 0;
      for (std::int64_t i = 0; i < count; ++i) *out += in[i] * in[i];
    });
  });

  std::vector<Job> jobs;
  for (std::size_t i = 0; i < 100; ++i) {
    Job job;
    job.id = "sum " + std::to_string(i);
    job.cost = 1 + 1000 * i;  // an estimate: here, how many numbers there are
    const std::vector<double> numbers(1000 * i, 0.5);
    job.inputs = {JobInput::copied(std::span<const double>(numbers))};
    job.program = sum_of_squares;
    jobs.push_back(job);
  }
  JobExecutor executor(open_devices("host:2x1"));
  const std::vector<JobResult> results = executor.run(std::move(jobs));

  std::printf("job 99: %.1f\n", results[99].output<double>(0)[0]);
  for (const JobResult& result : results)
    if (result.error) std::printf("%s, %d attempts\n", result.error->message.c_str(), result.attempts);
  const JobReport report = executor.report();
  std::printf("%zu of %zu done\n", report.done, report.jobs);
}
