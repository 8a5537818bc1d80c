#include "shardwise/jobs/job.hpp"

#include <fmt/format.h>

#include "jobs/job_program.hpp"
#include "shardwise/jobs/executor.hpp"

namespace shardwise {

const char* to_string(JobStatus status) noexcept {
  switch (status) {
    case JobStatus::done:
      return "done";
    case JobStatus::failed:
      return "failed";
    case JobStatus::cancelled:
      return "cancelled";
  }
  return "?";
}

const char* to_string(JobDeviceState state) noexcept {
  switch (state) {
    case JobDeviceState::ok:
      return "ok";
    case JobDeviceState::suspect:
      return "suspect";
    case JobDeviceState::lost:
      return "lost";
  }
  return "?";
}

JobProgram JobProgram::native(std::string name, NativeProgram program, bool blocks) {
  if (!program)
    throw_usage(fmt::format("JobProgram::native: the program '{}' has no callable; give one", name));
  auto state = std::make_shared<State>();
  state->name = std::move(name);
  state->native = std::move(program);
  state->blocks = blocks;
  return JobProgram(std::move(state));
}

JobProgram JobProgram::source(CudaSource source) {
  if (source.text.empty())
    throw_usage(fmt::format("JobProgram::source: the source '{}' is empty; give CUDA C++ text", source.name));
  if (source.kernel.empty())
    throw_usage(
        fmt::format("JobProgram::source: '{}' has no kernel name; name an extern \"C\" __global__ function",
                    source.name));
  auto state = std::make_shared<State>();
  state->name = source.name + ":" + source.kernel;
  state->native = source.host_twin;
  state->source = std::move(source);
  return JobProgram(std::move(state));
}

const std::string& JobProgram::name() const {
  static const std::string none;
  return state_ ? state_->name : none;
}

const std::vector<std::byte>& JobResult::checked_output(std::size_t index, std::size_t size) const {
  if (status != JobStatus::done)
    throw_state(fmt::format("JobResult::output: job '{}' is {}, so it has no outputs{}{}", id,
                            to_string(status), error ? ": " : "", error ? error->message : ""));
  if (index >= outputs.size())
    throw_usage(fmt::format("JobResult::output: job '{}' has {} outputs, none of index {}", id,
                            outputs.size(), index));
  if (outputs[index].size() % size != 0)
    throw_usage(
        fmt::format("JobResult::output: output {} of job '{}' has {} bytes, no whole number of values of {}",
                    index, id, outputs[index].size(), size));
  return outputs[index];
}

}  // namespace shardwise
