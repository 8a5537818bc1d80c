// shardwise jobs: commands and CUDA programs of a file as jobs on the devices.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "batch_file.hpp"
#include "child_process.hpp"
#include "command.hpp"
#include "job_folder.hpp"
#include "job_options.hpp"
#include "job_record.hpp"
#include "job_worker.hpp"
#include "progress.hpp"
#include "rank_arguments.hpp"
#include "rank_work.hpp"
#include "ranks.hpp"
#include "run_folder.hpp"
#include "scene/file_util.hpp"
#include "shardwise/shard/lpt.hpp"
#include "shared_work.hpp"
#include "signals.hpp"
#include "table.hpp"

namespace shardwise::program {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kSchema = 1;

struct JobsText : JobText {
  std::string batch, program_cache;
  bool isolate = false;
};

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// One run of the command: the batch, and how far it is.
class JobsRun {
 public:
  JobsRun(const JobsText& text, std::vector<BatchJob> batch, const DeviceSet& devices, JobOptions options);

  int dry_run() const;
  int run();

 private:
  void read_source(const BatchJob& job);
  Job make_job(std::size_t index);
  bool is_settled(std::size_t index);
  bool is_news(std::size_t index, const std::optional<JobRecord>& record) const;
  bool is_to_begin(std::size_t index);
  void run_command(std::size_t index, JobContext& context);
  void on_result(std::size_t index, const JobResult& result);
  std::vector<std::size_t> wait_for_others(const std::vector<std::size_t>& undecided);
  void wait_while_others_work(std::vector<std::size_t> undecided);
  void add_up(const JobReport& round);
  bool any_failed() const;
  std::string table() const;
  int finish();

  const JobsText& text_;
  std::vector<BatchJob> batch_;
  DeviceSet devices_;
  JobOptions options_;
  std::unique_ptr<RunFolder> folder_;
  std::map<std::string, JobProgram> sources_;  ///< by file, kernel and options
  std::vector<std::optional<JobRecord>> records_;
  /// When those ended whose failure was on record at our start. Compared for equality only: clocks of
  /// processes may differ, and be set back.
  std::vector<std::optional<double>> failed_before_;
  FolderProblem folder_problem_;
  std::vector<int>
      exit_codes_;  ///< of what ran here; a worker writes, this thread reads once the job has ended
  std::vector<bool> ran_here_;
  std::set<std::size_t> out_of_reach_;  ///< those that no device of ours can do any more, and why
  std::string why_out_of_reach_;
  JobReport report_;  ///< of the rounds of this process, added up
  std::size_t kept_ = 0;
};

std::string source_name(const BatchCuda& cuda) {
  std::string name = cuda.file + "\n" + cuda.kernel;
  for (const std::string& option : cuda.options) name += "\n" + option;
  return name;
}

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
  const ChildOutcome outcome = run_child(command, [&] { return context.is_cancelled(); });
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

void JobsRun::add_up(const JobReport& round) {
  JobReport& sum = report_;
  sum.makespan_s += round.makespan_s;
  sum.lower_bound_s += round.lower_bound_s;
  sum.retries += round.retries;
  sum.steals += round.steals;
  sum.spills += round.spills;
  sum.set_aside.insert(sum.set_aside.end(), round.set_aside.begin(), round.set_aside.end());
  for (std::size_t d = 0; d < round.devices.size(); ++d) {
    if (sum.devices.size() == d) {
      sum.devices.push_back(round.devices[d]);
      continue;
    }
    JobDeviceReport& device = sum.devices[d];
    device.state = round.devices[d].state;
    device.jobs += round.devices[d].jobs;
    device.failed += round.devices[d].failed;
    device.cost += round.devices[d].cost;
    device.busy_s += round.devices[d].busy_s;
    device.bytes_in += round.devices[d].bytes_in;
    device.bytes_out += round.devices[d].bytes_out;
    device.workers += round.devices[d].workers;
  }
  for (const std::string& note : round.notes) log_warning(note);
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
  Progress progress("jobs", "jobs");
  JobExecutor* executor = nullptr;
  JobOptions options = options_;
  options.on_result = [&](std::size_t i, const JobResult& result) { on_result(running[i], result); };
  options.progress = [&](std::size_t done, std::size_t total) {
    progress.update(static_cast<std::int64_t>(done), static_cast<std::int64_t>(total));
    if (stop_requested()) executor->cancel();
    folder_problem_.throw_if_any();
  };
  JobExecutor jobs(devices_, std::move(options));
  executor = &jobs;
  while (!left.empty()) {
    running = todo;
    std::vector<Job> batch;
    for (const std::size_t index : running) {
      records_[index].reset();
      batch.push_back(make_job(index));
    }
    if (!batch.empty()) {
      run_or_cancel(jobs, std::move(batch));
      add_up(settled_report(jobs));
    }
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

bool JobsRun::any_failed() const {
  return std::ranges::any_of(records_, [](const auto& record) { return record && !record->is_done(); });
}

std::string JobsRun::table() const {
  std::string csv = "id,device,status,exit_code,attempts,queued_s,run_s,error,host,pid\n";
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    const auto& record = records_[i];
    if (record)
      csv += fmt::format("{},{},{},{},{},{:.6f},{:.6f},{},{},{}\n", csv_field(batch_[i].id), record->device,
                         record->status, record->exit_code, record->attempts, record->queued_s, record->run_s,
                         csv_field(record->error), csv_field(record->host),
                         record->pid > 0 ? std::to_string(record->pid) : "");
    else
      csv += fmt::format("{},,{},,0,,,,,\n", csv_field(batch_[i].id),
                         out_of_reach_.contains(i) ? "undone" : "cancelled");
  }
  return csv;
}

int JobsRun::finish() {
  const auto here = static_cast<std::size_t>(std::count(ran_here_.begin(), ran_here_.end(), true));
  Json of_ranks;
  if (!stop_requested() && has_ranks()) {
    of_ranks = gather_rank_reports({{"jobs", here}, {"devices", job_devices_json(report_)}});
    // All have ended now: what was out of our reach may have been in theirs.
    for (const std::size_t index : out_of_reach_) is_settled(index);
  }
  std::size_t done = 0, failed = 0, cancelled = 0, undone = 0;
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    if (!records_[i])
      ++(out_of_reach_.contains(i) ? undone : cancelled);
    else
      ++(records_[i]->is_done() ? done : failed);
  }
  if (is_first_rank()) write_by_rename(folder_->path() / "results.csv", table());
  if (stop_requested()) {
    set_stop_remark(fmt::format("{} of {} jobs are done and kept in '{}'; the same command does the rest",
                                done, batch_.size(), text_.folder));
    throw Error(ErrorClass::interrupted, "jobs: stopped");
  }
  const bool all_done = failed + cancelled + undone == 0;
  if (!is_first_rank()) return all_done ? 0 : 1;
  Json report = {{"schema", kSchema},
                 {"command", "jobs"},
                 {"jobs", batch_.size()},
                 {"done", done},
                 {"failed", failed},
                 {"cancelled", cancelled},
                 {"undone", undone},
                 {"kept", kept_},
                 {"ran_here", here},
                 {"elsewhere", done + failed - kept_ - here},
                 {"devices", job_devices_json(report_)},
                 {"makespan_s", report_.makespan_s},
                 {"lower_bound_s", report_.lower_bound_s},
                 {"retries", report_.retries},
                 {"steals", report_.steals},
                 {"spills", report_.spills},
                 {"set_aside", report_.set_aside}};
  if (has_ranks()) report["ranks"] = of_ranks;
  OutputSet outputs;
  stage_json(outputs, text_.json, report);
  outputs.commit();
  if (text_.json == "-") {
    write_stdout(json_text(report));
  } else {
    const std::size_t elsewhere = done + failed - kept_ - here;
    std::string text = fmt::format(
        "{} jobs: {} done ({} before), {} failed, {} cancelled{}{}\n", batch_.size(), done, kept_, failed,
        cancelled, undone > 0 ? fmt::format(", {} not begun", undone) : "",
        elsewhere > 0 && !has_ranks() ? fmt::format("; {} of them by other processes", elsewhere) : "");
    if (has_ranks()) text += "\n" + rank_table(of_ranks, "jobs");
    if (here > 0) text += fmt::format("\n{}\n{}\n", job_devices_text(report_), makespan_text(report_));
    write_stdout(text + fmt::format("table: {}\n", (folder_->path() / "results.csv").string()));
  }
  if (all_done) return 0;
  if (undone > 0)
    log_error(
        fmt::format("{} of {} jobs were not begun, because their devices are lost, and nobody else is at "
                    "work ({}); the same command does them",
                    undone, batch_.size(), why_out_of_reach_));
  if (failed + cancelled == 0) return 1;
  log_error(fmt::format("{} of {} jobs failed{}; the same command tries them again", failed, batch_.size(),
                        cancelled > 0 ? fmt::format(", {} were cancelled", cancelled) : ""));
  return 1;
}

int JobsRun::dry_run() const {
  std::vector<DeviceLoad> loads;
  for (int d = 0; d < devices_.size(); ++d)
    loads.push_back({d, 0, options_.speeds.empty() ? 1 : options_.speeds[static_cast<std::size_t>(d)]});
  std::vector<CostItem> items;
  for (std::size_t i = 0; i < batch_.size(); ++i) items.push_back({i, batch_[i].cost});
  const CostPlan plan = partition_lpt(loads, items);
  Json list = Json::array();
  std::vector<std::vector<std::string>> rows{{"device", "jobs", "cost in all", "busy for"}};
  for (const DeviceAssignment& device : plan.devices) {
    const double ends = static_cast<double>(device.cost) / device.speed;
    list.push_back(
        {{"name", devices_[device.device].name()}, {"jobs", device.ids.size()}, {"cost", device.cost}});
    rows.push_back({devices_[device.device].name(), std::to_string(device.ids.size()),
                    std::to_string(device.cost),
                    fmt::format("{:.1f} %", plan.makespan > 0 ? 100 * ends / plan.makespan : 0)});
  }
  const Json report = {{"schema", kSchema},  {"command", "jobs --dry-run"}, {"jobs", batch_.size()},
                       {"devices", list},    {"makespan", plan.makespan},   {"lower_bound", plan.lower_bound},
                       {"ratio", plan.ratio}};
  OutputSet outputs;
  stage_json(outputs, text_.json, report);
  outputs.commit();
  write_stdout(
      text_.json == "-"
          ? json_text(report)
          : fmt::format(
                "plan of {} job{}, nothing was run\n\n{}\n{}, if the costs are right\nTo run {}, give -o "
                "DIR and leave out --dry-run.\n",
                batch_.size(), batch_.size() == 1 ? "" : "s", table_text(rows),
                plan.ratio > 1
                    ? fmt::format("it takes at most {:.4f} times as long as the best plan", plan.ratio)
                    : "no other plan ends sooner",
                batch_.size() == 1 ? "it" : "them"));
  return 0;
}

int run(const JobsText& text) {
  if (text.batch.empty()) throw_usage("jobs needs a batch file; see 'shardwise jobs --help'");
  if (text.folder.empty() && !text.dry_run) throw_usage("jobs needs a folder for its results; give -o DIR");
  if (!text.json.empty() && is_first_rank()) check_output(text.json, "--json");
  std::vector<BatchJob> batch = read_batch(text.batch);
  std::string contents;
  for (const BatchJob& job : batch) contents += job.id + '\0' + job.digest + '\0';
  require_same_contents(fmt::format("the batch '{}'", text.batch), contents);
  const DeviceSet devices = open(text.devices);
  JobOptions options = job_options_of(text, devices.size());
  options.program_cache = text.program_cache;
  if (text.isolate && std::ranges::any_of(batch, [](const BatchJob& job) { return job.cuda.has_value(); })) {
    options.isolate = JobIsolation::process;
    options.worker_command = job_worker_command();
  } else if (text.isolate && is_first_rank()) {
    log_note("--isolate changes nothing: all jobs are commands, which are processes anyway");
  }
  JobsRun jobs(text, std::move(batch), devices, std::move(options));
  if (text.dry_run) return is_first_rank() ? jobs.dry_run() : 0;
  return jobs.run();
}

}  // namespace

void add_jobs(Commands& commands, CLI::App& root) {
  const auto text = std::make_shared<JobsText>();
  CLI::App* app =
      add_command(commands, root, "jobs", "Commands and CUDA programs of a file, as jobs on the devices",
                  "shardwise jobs batch.jsonl -o results --devices host:4x1");
  app->add_option("batch", text->batch, "One JSON object a line: {\"id\": \"a\", \"command\": [\"true\"]}")
      ->type_name("BATCH.jsonl");
  add_job_options(*app, *text);
  app->add_option("--program-cache", text->program_cache, "Folder for compiled CUDA programs (none)")
      ->type_name("DIR")
      ->group("Jobs");
  app->add_flag("--isolate", text->isolate,
                "CUDA programs in a worker process for each GPU: one that faults or hangs costs no other its "
                "result and no GPU. For programs that are not proven; commands are processes anyway")
      ->group("Jobs");
  commands.actions[app] = [text] { return run(*text); };
  commands.on_all_ranks.insert(app);
}

}  // namespace shardwise::program
