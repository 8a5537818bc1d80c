#pragma once
// Jobs that do what programs must not, in worker processes; shared by the tests of isolation and their worker
// program.

#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "shardwise/jobs/executor.hpp"

namespace shardwise::test {

enum class Misdeed : std::int32_t {
  none,
  throw_in_call,
  throw_on_stream,
  no_memory,
  // These end the process, or it has to be ended.
  abort,
  exit,
  bad_pointer,
  lost,
  hang,
  hang_on_stream,
  leave_a_child,
  // Not drawn.
  wrong_size,
  wrong_number,
  print,
  pause,
};

inline constexpr const char* misbehaving_kernel = "misbehave";

inline JobOptions isolated(std::vector<std::string> worker_command) {
  JobOptions options;
  options.isolate = JobIsolation::process;
  options.worker_command = std::move(worker_command);
  options.retries = 0;
  return options;
}

/// Known to the worker program, and to nobody here.
inline JobProgram misbehaving_program() {
  CudaSource source;
  source.name = "misbehave.cu";
  source.text = "// the worker has a twin";
  source.kernel = misbehaving_kernel;
  return JobProgram::source(std::move(source));
}

/// Words first .. first + count - 1, which come back three times as large. `mark`: a file that is made the
/// first time; once it is there the job behaves.
inline Job misbehaving_job(Misdeed misdeed, std::uint64_t first, std::size_t count,
                           const std::string& mark = {}) {
  static const JobProgram program = misbehaving_program();
  std::vector<std::uint64_t> words(count);
  std::iota(words.begin(), words.end(), first);
  Job job;
  job.program = program;
  job.inputs = {JobInput::copied(std::span<const std::uint64_t>(words))};
  if (!mark.empty()) job.inputs.push_back(JobInput::copied(std::span<const char>(mark)));
  job.launch.output_bytes = {count * sizeof(std::uint64_t)};
  job.launch.scalars = {job_scalar(misdeed)};
  return job;
}

}  // namespace shardwise::test
