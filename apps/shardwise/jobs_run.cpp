// Runs the jobs of a batch: what is left to do, on our devices, beside other processes.

#include "jobs_run.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <thread>
#include <utility>

#include "child_process.hpp"
#include "command.hpp"
#include "job_folder.hpp"
#include "progress.hpp"
#include "rank_work.hpp"
#include "ranks.hpp"
#include "scene/file_util.hpp"
#include "signals.hpp"
#include "watched_jobs.hpp"

namespace shardwise::program {
namespace {

namespace fs = std::filesystem;

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string source_name(const BatchCuda& cuda) {
  std::string name = cuda.file + "\n" + cuda.kernel;
  for (const std::string& option : cuda.options) name += "\n" + option;
  return name;
}

}  // namespace

JobsRun::JobsRun(const JobsText& text, std::vector<BatchJob> batch, const DeviceSet& devices,
                 JobOptions options)
    : text_(text),
      batch_(std::move(batch)),
      devices_(devices),
      options_(std::move(options)),
      records_(batch_.size()),
      failed_before_(batch_.size()),
      exit_codes_(batch_.size(), -1),
      ran_here_(batch_.size()) {
  for (const BatchJob& job : batch_)
    if (job.cuda) read_source(job);
}

void JobsRun::read_source(const BatchJob& job) {
  bool any = false;
  for (int d = 0; d < devices_.size(); ++d) any = any || devices_[d].kind() == PlatformKind::cuda;
  if (!any)
    throw_usage(
        fmt::format("{}:{}: job '{}' is a CUDA program, and none of the devices '{}' is a GPU; add "
                    "--devices cuda",
                    text_.batch, job.line, job.id, devices_.spec()));
  JobProgram& program = sources_[source_name(*job.cuda)];
  if (program.state()) return;
  CudaSource source;
  source.name = job.cuda->file;
  source.text = read_whole_file(job.cuda->file, "CUDA source");
  source.kernel = job.cuda->kernel;
  source.options = job.cuda->options;
  program = JobProgram::source(std::move(source));
}

/// Whether there is nothing to do: done, or failed since we began (in another process, for us to take as it
/// is).
bool JobsRun::is_news(std::size_t index, const std::optional<JobRecord>& record) const {
  return record && (record->is_done() || record->ended != failed_before_[index]);
}

bool JobsRun::is_settled(std::size_t index) {
  auto record = read_record(folder_->path(), batch_[index]);
  if (!is_news(index, record)) return false;
  records_[index] = std::move(record);
  return true;
}

/// On a worker. Another process may have done it between its claim and our look before.
bool JobsRun::is_to_begin(std::size_t index) {
  return folder_problem_.admits([&] {
    return folder_->claim(batch_[index].id) && !is_news(index, read_record(folder_->path(), batch_[index]));
  });
}

void JobsRun::run_command(std::size_t index, JobContext& context) {
  const BatchJob& job = batch_[index];
  const fs::path place = folder_->path() / job.id;
  prepare_job_folder(place, job.id);
  const DeviceInfo& device = context.device().info();
  ChildCommand command;
  command.words = job.command;
  command.stdout_path = (place / "stdout.part").string();
  command.stderr_path = (place / "stderr.part").string();
  command.timeout_s = job.timeout_s;
  if (!command.timeout_s && std::isfinite(options_.timeout_s)) command.timeout_s = options_.timeout_s;
  if (device.kind == PlatformKind::cuda)
    command.environment = {{"CUDA_VISIBLE_DEVICES", device.uuid}, {"SHARDWISE_DEVICE", "cuda:0"}};
  else
    command.environment = {{"SHARDWISE_DEVICE", device.name},
                           {"SHARDWISE_THREADS", std::to_string(device.threads)},
                           {"CUDA_VISIBLE_DEVICES", ""}};
  ChildOutcome outcome;
  try {
    outcome = run_child(command, [&] { return context.is_cancelled(); });
  } catch (...) {
    drop_job_output(place);
    throw;
  }
  keep_job_output(place, job.id);
  exit_codes_[index] = outcome.exit_code;
  if (!outcome.is_good())
    throw Error(outcome.cancelled ? ErrorClass::interrupted : ErrorClass::device,
                fmt::format("{}; see '{}'", outcome.text(), (place / "stderr").string()));
}

Job JobsRun::make_job(std::size_t index) {
  const BatchJob& batch = batch_[index];
  Job job;
  job.id = batch.id;
  job.key = batch.key.empty() ? batch.id : batch.key;
  job.cost = batch.cost;
  job.bytes = batch.bytes;
  job.retries = batch.retries;
  job.admit = [this, index] { return is_to_begin(index); };
  if (batch.cuda) {
    job.timeout_s = batch.timeout_s;
    job.program = sources_.at(source_name(*batch.cuda));
    job.launch = batch.cuda->launch;
    for (const std::string& file : batch.cuda->inputs) {
      const std::string bytes = read_whole_file(file, "input");
      job.inputs.push_back(JobInput::copied(std::span<const char>(bytes)));
    }
  } else {
    // The command has a clock of its own.
    job.timeout_s = std::numeric_limits<double>::infinity();
    job.program = JobProgram::native(
        "command", [this, index](JobContext& context) { run_command(index, context); }, true);
  }
  return job;
}

void JobsRun::on_result(std::size_t index, const JobResult& result) {
  const BatchJob& job = batch_[index];
  const bool stopped = result.error && result.error->error_class == ErrorClass::interrupted;
  // Lost devices are no fault of a job that was never tried: another process, or the next run, does it.
  const bool untried = result.error && result.error->error_class == ErrorClass::lost && result.attempts == 0;
  if (untried) {
    out_of_reach_.insert(index);
    why_out_of_reach_ = result.error->message;
  } else if (result.status != JobStatus::cancelled && !stopped) {
    ran_here_[index] = true;
    JobRecord record;
    record.status = to_string(result.status);
    record.device = result.device;
    record.error = result.error ? result.error->message : "";
    record.exit_code = result.status == JobStatus::done ? 0 : exit_codes_[index];
    record.attempts = result.attempts;
    record.queued_s = result.queued_s;
    record.run_s = result.run_s;
    record.ended = unix_time();
    record.host = folder_->self().process.host;
    record.pid = folder_->self().process.number;
    const fs::path place = folder_->path() / job.id;
    make_job_folder(place, job.id);
    for (std::size_t i = 0; i < result.outputs.size(); ++i) {
      const auto& bytes = result.outputs[i];
      write_by_rename(place / fmt::format("output-{}.bin", i),
                      {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
    // What an earlier kernel of the job had beyond these.
    std::error_code ignored;
    for (std::size_t i = result.outputs.size();
         job.cuda && fs::remove(place / fmt::format("output-{}.bin", i), ignored); ++i) {
    }
    // Last: with it the job is done.
    write_by_rename(place / "result.json", json_text(json_of(job, record)));
    if (!record.is_done()) log_warning(record.error);
    records_[index] = std::move(record);
  }
  folder_->give_up(job.id);
}

std::vector<std::size_t> JobsRun::wait_for_others(const std::vector<std::size_t>& undecided) {
  return wait_for_units(
      undecided, "jobs", [this](std::size_t index) { return is_settled(index); },
      [this](std::size_t index) { return folder_->owner_of(batch_[index].id).has_value(); });
}

// Of those that this process cannot do: a process at work has a claim, but for a moment between two.
void JobsRun::wait_while_others_work(std::vector<std::size_t> undecided) {
  constexpr int most_idle_looks = 10;
  Progress progress("waiting for other processes", "jobs");
  const std::size_t count = undecided.size();
  for (int idle_looks = 0; idle_looks < most_idle_looks;) {
    throw_if_stopped();
    std::erase_if(undecided, [this](std::size_t index) { return is_settled(index); });
    if (undecided.empty()) return;
    const bool any_at_work = std::ranges::any_of(
        undecided, [this](std::size_t index) { return folder_->owner_of(batch_[index].id).has_value(); });
    idle_looks = any_at_work ? 0 : idle_looks + 1;
    progress.update(static_cast<std::int64_t>(count - undecided.size()), static_cast<std::int64_t>(count));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

int JobsRun::run() {
  folder_ = open_folder_together(text_.folder, "jobs", text_.join);
  std::vector<std::size_t> todo;
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    check_job_place(folder_->path() / batch_[i].id, batch_[i].id);
    records_[i] = read_record(folder_->path(), batch_[i]);
    if (records_[i] && records_[i]->is_done())
      ++kept_;
    else
      todo.push_back(i);
    if (records_[i] && !records_[i]->is_done()) failed_before_[i] = records_[i]->ended;
  }
  // A failure of any rank from here on is taken as it is.
  ranks().barrier("what was done before");
  if (kept_ > 0) log_note(fmt::format("{} of {} jobs are done already", kept_, batch_.size()));

  std::vector<std::uint64_t> costs;
  for (const BatchJob& job : batch_) costs.push_back(job.cost);
  std::vector<std::size_t> left = todo;  // nobody is known to have done
  todo = units_of_this_rank(todo, costs, devices_.size());

  std::vector<std::size_t> running;
  JobOptions options = options_;
  options.on_result = [&](std::size_t i, const JobResult& result) { on_result(running[i], result); };
  WatchedJobs jobs(devices_, std::move(options), "jobs", "jobs", folder_problem_);
  while (!left.empty()) {
    running = todo;
    std::vector<Job> batch;
    for (const std::size_t index : running) {
      records_[index].reset();
      batch.push_back(make_job(index));
    }
    if (!batch.empty()) add_up(report_, jobs.run(std::move(batch)));
    std::erase_if(left, [this](std::size_t index) {
      return records_[index].has_value() || out_of_reach_.contains(index);
    });
    if (stop_requested() || (text_.fail_fast && any_failed())) break;
    todo = left = wait_for_others(left);
  }
  if (!stop_requested() && !out_of_reach_.empty())
    wait_while_others_work({out_of_reach_.begin(), out_of_reach_.end()});
  return finish();
}

}  // namespace shardwise::program
