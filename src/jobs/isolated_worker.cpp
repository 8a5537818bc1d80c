#include "jobs/isolated_worker.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>

#include "jobs/build_id.hpp"
#include "jobs/job_program.hpp"

namespace shardwise {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A job that was cancelled ends by itself if it does so soon.
constexpr double kGraceSeconds = 2;
/// As long as a lane asks a GPU for the end of a short job before it sleeps.
constexpr double kSpinSeconds = 200e-6;
/// Texts that a process keeps; then it forgets all.
constexpr std::size_t kMostPrograms = 256;
constexpr std::uint64_t kAlignment = 256;
/// Processes in a row that may go before they see a job.
constexpr int kMostUntaken = 3;

/// Why a wait was ended, thrown by whoever was asked meanwhile.
enum class Stopped { timed_out, cancelled };

std::string name_of(const JobOptions& options) {
  return fmt::format("{}", fmt::join(options.worker_command, " "));
}

[[noreturn]] void turn(WireType got, WireType wanted) {
  throw Error(ErrorClass::internal,
              fmt::format("jobs in worker processes: the worker sent '{}' in place of '{}'", to_string(got),
                          to_string(wanted)));
}

ErrorClass class_from(std::uint64_t value) {
  return value <= static_cast<std::uint64_t>(ErrorClass::internal) ? static_cast<ErrorClass>(value)
                                                                   : ErrorClass::internal;
}

/// Ends a wait for a process that takes too long to start, or that nobody needs any more.
std::function<void()> until(double seconds, const std::function<bool()>& give_up) {
  return [start = Clock::now(), seconds, &give_up] {
    if (give_up && give_up()) throw Error(ErrorClass::interrupted, "the executor ends");
    if (seconds_since(start) > seconds)
      throw Error(ErrorClass::lost,
                  fmt::format("no answer within {:g} s (JobOptions::worker_start_s)", seconds));
  };
}

}  // namespace

/// Where inputs and outputs of a job lie in the shared memory.
struct IsolatedWorker::Layout {
  std::vector<std::uint64_t> inputs, outputs;
  std::uint64_t size = 0;
};

IsolatedWorker::IsolatedWorker(const JobOptions& options, const Device& device)
    : options_(options), device_(device) {}

IsolatedWorker::~IsolatedWorker() = default;

// Both say it at once, so that each can name the other's build.
void IsolatedWorker::check_hello(const JobOptions& options, WorkerProcess& process,
                                 std::set<std::string>* twins, const std::function<void()>& idle) {
  const auto refuse = [&](const std::string& what) {
    throw_usage(fmt::format(
        "jobs: the worker program '{}' {}; name a program of this build in "
        "JobOptions::worker_command that calls serve_isolated_jobs(), as 'shardwise job-worker' does",
        name_of(options), what));
  };
  WireWriter hello;
  hello.number(worker_protocol).text(build_id());
  process.channel().put(WireType::hello, hello);
  std::optional<WireMessage> answer;
  try {
    // One that is gone already may have said something before.
    process.channel().send(idle);
    answer = process.channel().receive(idle);
  } catch (const Error& error) {
    if (error.error_class() == ErrorClass::internal) refuse(fmt::format("is none: {}", error.what()));
    if (error.error_class() == ErrorClass::lost)
      refuse(fmt::format("did not say who it is: {}", error.what()));
    throw;
  }
  if (!answer) refuse(fmt::format("{} before it said who it is", process.end_text()));
  if (answer->type != WireType::hello) turn(answer->type, WireType::hello);
  WireReader reader = answer->reader();
  const std::uint64_t protocol = reader.number();
  const std::string build = reader.text();
  if (protocol != worker_protocol || build != build_id())
    refuse(fmt::format("is of another build ({}; protocol {}) than this one ({}; protocol {})", build,
                       protocol, build_id(), worker_protocol));
  for (std::size_t left = reader.count(); left > 0; --left) {
    std::string kernel = reader.text();
    if (twins) twins->insert(std::move(kernel));
  }
  reader.end();
}

std::set<std::string> IsolatedWorker::twins_of(const JobOptions& options) {
  WorkerProcess process(options.worker_command, {{"CUDA_VISIBLE_DEVICES", ""}});
  std::set<std::string> twins;
  const std::function<bool()> never;
  check_hello(options, process, &twins, until(options.worker_start_s, never));
  return twins;
}

bool IsolatedWorker::is_up() {
  if (process_ && process_->has_ended()) process_.reset();
  return process_ != nullptr;
}

void IsolatedWorker::start(const std::function<bool()>& give_up) {
  process_.reset();
  programs_.clear();
  const DeviceInfo& info = device_.info();
  const bool on_cuda = info.kind == PlatformKind::cuda;
  auto process = std::make_unique<WorkerProcess>(
      options_.worker_command,
      std::vector<std::pair<std::string, std::string>>{{"CUDA_VISIBLE_DEVICES", on_cuda ? info.uuid : ""}});
  const auto idle = until(options_.worker_start_s, give_up);
  check_hello(options_, *process, nullptr, idle);
  WireWriter open;
  open.text(on_cuda ? "cuda:0" : fmt::format("host:1x{}", info.threads))
      .text(info.name)
      .text(options_.program_cache);
  process->channel().put(WireType::open, open);
  std::optional<WireMessage> answer;
  if (process->channel().send(idle)) answer = process->channel().receive(idle);
  if (!answer)
    throw Error(ErrorClass::lost,
                fmt::format("the worker process {} before it had opened {}", process->end_text(), info.name));
  if (answer->type != WireType::opened) turn(answer->type, WireType::opened);
  WireReader reader = answer->reader();
  const std::string why = reader.text();
  reader.end();
  if (!why.empty())
    throw Error(ErrorClass::lost, fmt::format("the worker process cannot open {}: {}", info.name, why));
  if (on_cuda) process->channel().spin(kSpinSeconds);
  process_ = std::move(process);
}

std::uint64_t IsolatedWorker::number_of(const JobProgram& program) {
  const auto found = programs_.find(program.state());
  if (found != programs_.end()) return found->second.second;
  if (programs_.size() >= kMostPrograms) {
    process_->channel().put(WireType::forget, {});
    programs_.clear();
  }
  const std::uint64_t number = programs_.size();
  const CudaSource& source = *program.state()->source;
  WireWriter text;
  text.number(number).text(source.name).text(source.text).text(source.kernel).number(source.options.size());
  for (const std::string& option : source.options) text.text(option);
  process_->channel().put(WireType::program, text);
  // The copy keeps the address from becoming another program's.
  programs_.emplace(program.state(), std::pair(program, number));
  return number;
}

IsolatedWorker::Layout IsolatedWorker::send(const JobTicket& ticket, const std::function<void()>& idle) {
  const Job& job = ticket.job;
  Layout layout;
  const auto place = [&](std::uint64_t bytes) {
    const std::uint64_t offset = layout.size;
    const std::uint64_t end = offset + bytes;
    if (end < offset || end > ~std::uint64_t{0} - kAlignment)
      throw_usage(fmt::format("its inputs and outputs are over 64 bits of bytes"));
    layout.size = (end + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  };
  for (const JobInput& input : job.inputs) layout.inputs.push_back(place(input.bytes().size()));
  for (const std::uint64_t bytes : job.launch.output_bytes) layout.outputs.push_back(place(bytes));
  SharedMemory& memory = process_->memory();
  if (layout.size > 0) memory.reserve(layout.size);
  WireWriter text;
  const std::uint64_t program = number_of(job.program);
  text.number(++sequence_).text(ticket.id).text(job.key).number(program).number(memory.size());
  text.number(job.inputs.size());
  for (std::size_t i = 0; i < job.inputs.size(); ++i) {
    const auto bytes = job.inputs[i].bytes();
    if (!bytes.empty()) std::memcpy(memory.data() + layout.inputs[i], bytes.data(), bytes.size());
    text.number(layout.inputs[i]).number(bytes.size());
  }
  text.number(layout.outputs.size());
  for (std::size_t i = 0; i < layout.outputs.size(); ++i)
    text.number(layout.outputs[i]).number(job.launch.output_bytes[i]);
  for (const auto& size : {job.launch.grid, job.launch.block})
    for (const unsigned extent : size) text.number(extent);
  text.number(job.launch.shared_bytes).number(job.launch.scalars.size());
  for (const auto& scalar : job.launch.scalars)
    text.text({reinterpret_cast<const char*>(scalar.data()), scalar.size()});
  process_->channel().put(WireType::job, text);
  // One that is gone already is noticed when its answer is missing.
  process_->channel().send(idle);
  return layout;
}

/// What the worker says of the job that it got last; none where it is gone.
std::optional<WireMessage> IsolatedWorker::receive_of_job(WireType wanted,
                                                          const std::function<void()>& idle) {
  std::optional<WireMessage> message = process_->channel().receive(idle);
  if (!message) return message;
  if (message->type != wanted) turn(message->type, wanted);
  const std::uint64_t sequence = message->reader().number();
  if (sequence != sequence_)
    throw Error(ErrorClass::internal,
                fmt::format("jobs in worker processes: the worker answered job {} in place of {}", sequence,
                            sequence_));
  return message;
}

void IsolatedWorker::receive(const JobTicket& ticket, const Layout& layout, JobOutcome& outcome,
                             const std::function<void()>& idle) {
  if (!receive_of_job(WireType::begun, idle)) {
    // It went before it saw the job, which is nobody's fault; unless that happens again and again.
    outcome = broken(process_->end_text());
    if (++untaken_ <= kMostUntaken) outcome.kind = JobOutcome::Kind::collateral;
    return;
  }
  untaken_ = 0;
  const std::optional<WireMessage> answer = receive_of_job(WireType::result, idle);
  if (!answer) {
    outcome = broken(process_->end_text());
    return;
  }
  WireReader reader = answer->reader();
  reader.number();  // which job, looked at already
  const bool device_is_well = reader.number() != 0;
  const bool failed = reader.number() != 0;
  const ErrorClass error_class = class_from(reader.number());
  std::string text = reader.text();
  outcome.bytes_in = reader.number();
  reader.end();
  if (!failed) {
    const std::vector<std::uint64_t>& sizes = ticket.job.launch.output_bytes;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::byte* const from = process_->memory().data() + layout.outputs[i];
      outcome.outputs.emplace_back(from, from + sizes[i]);
      outcome.bytes_out += sizes[i];
    }
  } else if (!device_is_well || error_class == ErrorClass::lost) {
    outcome = broken("cannot go on: " + text);
  } else {
    outcome.kind =
        error_class == ErrorClass::memory ? JobOutcome::Kind::out_of_memory : JobOutcome::Kind::failed;
    outcome.error_class = error_class;
    outcome.error = std::move(text);
  }
  // It did this job, and cannot do another.
  if (!device_is_well) process_.reset();
}

JobOutcome IsolatedWorker::broken(std::string how) {
  JobOutcome outcome;
  outcome.kind = JobOutcome::Kind::worker_broken;
  outcome.error_class = ErrorClass::device;
  outcome.error = fmt::format("its worker process {}", how);
  process_.reset();
  return outcome;
}

JobOutcome IsolatedWorker::run(const JobTicket& ticket, double timeout_s,
                               const std::function<bool()>& is_cancelled) {
  JobOutcome outcome;
  const auto begun = Clock::now();
  double cancelled_at = -1;
  const auto idle = [&] {
    const double now = seconds_since(begun);
    if (now > timeout_s) throw Stopped::timed_out;
    if (cancelled_at < 0 && is_cancelled()) cancelled_at = now;
    if (cancelled_at >= 0 && now - cancelled_at > kGraceSeconds) throw Stopped::cancelled;
  };
  const auto end = [&](JobOutcome::Kind kind, ErrorClass error_class, std::string text) {
    outcome = {};
    outcome.kind = kind;
    outcome.error_class = error_class;
    outcome.error = std::move(text);
  };
  try {
    Layout layout;
    try {
      layout = send(ticket, idle);
    } catch (const Error& error) {
      // Nothing has left: the process knows nothing of it.
      if (error.error_class() == ErrorClass::internal) throw;
      end(error.error_class() == ErrorClass::memory ? JobOutcome::Kind::out_of_memory
                                                    : JobOutcome::Kind::failed,
          error.error_class(), error.what());
      return outcome;
    }
    receive(ticket, layout, outcome, idle);
  } catch (const Stopped why) {
    process_.reset();
    if (why == Stopped::timed_out)
      end(JobOutcome::Kind::timed_out, ErrorClass::device,
          fmt::format("not done within its timeout of {:g} s (device {}); its worker process was stopped",
                      timeout_s, device_.name()));
    else
      end(JobOutcome::Kind::failed, ErrorClass::interrupted,
          "stopped with its worker process, because it was cancelled");
  } catch (const Error& error) {  // nonsense from the worker
    outcome = broken(fmt::format("was stopped: {}", error.what()));
  } catch (const std::bad_alloc&) {
    process_.reset();
    end(JobOutcome::Kind::out_of_memory, ErrorClass::memory, "out of memory on the host (std::bad_alloc)");
  }
  outcome.run_s = seconds_since(begun);
  return outcome;
}

}  // namespace shardwise
