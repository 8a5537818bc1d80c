// What a run of jobs says: its plan, its table, its report.

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "command.hpp"
#include "jobs_run.hpp"
#include "progress.hpp"
#include "rank_work.hpp"
#include "ranks.hpp"
#include "report_file.hpp"
#include "shardwise/shard/lpt.hpp"
#include "signals.hpp"
#include "table.hpp"

namespace shardwise::program {
namespace {

constexpr std::int64_t kSchema = 1;

}  // namespace

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
  std::size_t kept = 0;
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    const auto record = text_.folder.empty() ? std::nullopt : read_record(text_.folder, batch_[i]);
    if (record && record->is_done())
      ++kept;
    else
      items.push_back({i, batch_[i].cost});
  }
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
  const Json report = {{"schema", kSchema},
                       {"command", "jobs --dry-run"},
                       {"jobs", batch_.size()},
                       {"kept", kept},
                       {"devices", list},
                       {"makespan", plan.makespan},
                       {"lower_bound", plan.lower_bound},
                       {"ratio", plan.ratio}};
  OutputSet outputs;
  stage_json(outputs, text_.json, report);
  outputs.commit();
  write_stdout(
      text_.json == "-"
          ? json_text(report)
          : fmt::format(
                "plan of {} job{}{}, nothing was run\n\n{}\n{}, if the costs are right\nTo run {}, {}leave "
                "out --dry-run.\n",
                items.size(), items.size() == 1 ? "" : "s",
                kept > 0 ? fmt::format(" ({} of {} are done already)", kept, batch_.size()) : "",
                table_text(rows),
                plan.ratio > 1
                    ? fmt::format("it takes at most {:.4f} times as long as the best plan", plan.ratio)
                    : "no other plan ends sooner",
                items.size() == 1 ? "it" : "them", text_.folder.empty() ? "give -o DIR and " : ""));
  return 0;
}

}  // namespace shardwise::program
