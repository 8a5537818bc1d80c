// What a sweep says: its table, its overview, its report.

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "command.hpp"
#include "log.hpp"
#include "npy.hpp"
#include "picture.hpp"
#include "rank_work.hpp"
#include "ranks.hpp"
#include "signals.hpp"
#include "sweep.hpp"
#include "sweep_picture.hpp"

namespace shardwise::program {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kSchema = 1;

const char* to_string(RunState::How how) {
  switch (how) {
    case RunState::How::open:
      return "open";
    case RunState::How::from_cache:
      return "cached";
    case RunState::How::computed:
      return "computed";
    case RunState::How::elsewhere:
      return "elsewhere";
    case RunState::How::failed:
      return "failed";
  }
  return "?";
}

}  // namespace

std::string Sweep::table() const {
  std::string csv = "run,status,device,run_s,covered_fraction,median_gain_db,max_gain_db,digest,key,error\n";
  const auto number = [](const Json& facts, const char* name) {
    return facts.is_object() && facts[name].is_number() ? fmt::format("{:.6g}", facts[name].get<double>())
                                                        : "";
  };
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const RunState& state = states_[i];
    csv +=
        fmt::format("{},{},{},{:.6f},{},{},{},{},{},{}\n", csv_field(items_[i].run.name),
                    to_string(state.how), state.device, state.run_s, number(state.facts, "covered_fraction"),
                    number(state.facts, "median_gain_db"), number(state.facts, "max_gain_db"),
                    state.facts.is_object() ? state.facts.value("digest", "") : "", items_[i].key,
                    csv_field(state.error));
  }
  return csv;
}

void Sweep::write_overview() {
  if (!pictures_built()) return;
  std::vector<OverviewPanel> panels;
  std::vector<std::vector<double>> maps;
  constexpr std::size_t most = 400;
  for (std::size_t i = 0; i < items_.size() && panels.size() < most; ++i) {
    if (!states_[i].facts.is_object()) continue;
    NpyArray map = read_npy((folder_->path() / items_[i].run.name / "map.npy").string());
    OverviewPanel panel;
    panel.title = items_[i].run.name;
    panel.columns = states_[i].facts.at("columns").get<std::int64_t>();
    panel.rows = states_[i].facts.at("rows").get<std::int64_t>();
    const auto cells = static_cast<std::size_t>(panel.columns * panel.rows);
    // NpyArray has its first index fastest: [rows, columns] in C order comes transposed. Maps of each
    // transmitter are added up.
    const std::size_t layers = map.values.size() / cells;
    std::vector<double> gain(cells);
    for (std::size_t row = 0; row < static_cast<std::size_t>(panel.rows); ++row)
      for (std::size_t column = 0; column < static_cast<std::size_t>(panel.columns); ++column)
        for (std::size_t layer = 0; layer < layers; ++layer)
          gain[row * static_cast<std::size_t>(panel.columns) + column] +=
              map.values[layer + layers * (row + static_cast<std::size_t>(panel.rows) * column)];
    maps.push_back(std::move(gain));
    panels.push_back(std::move(panel));
  }
  for (std::size_t i = 0; i < panels.size(); ++i) panels[i].gain = maps[i];
  if (panels.empty()) return;
  const std::string title = fmt::format("{}: {} of {} runs", fs::path(text_.plan).filename().string(),
                                        panels.size(), items_.size());
  write_by_rename(folder_->path() / "overview.png", overview_png(title, panels));
}

/// Those of a run are in its report, where nobody looks who does not know.
void Sweep::warn_of_warnings() const {
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < items_.size(); ++i)
    if (const Json& facts = states_[i].facts; facts.is_object() && facts.value("warnings", 0) > 0)
      runs.push_back(items_[i].run.name);
  if (!runs.empty())
    log_warning(fmt::format("{} of {} runs have warnings; see \"warnings\" in '{}'", runs.size(),
                            items_.size(), (folder_->path() / runs.front() / "report.json").string()) +
                (runs.size() > 1 ? " and the others" : ""));
}

int Sweep::finish() {
  std::map<RunState::How, std::size_t> count;
  for (const RunState& state : states_) ++count[state.how];
  using How = RunState::How;
  if (is_first_rank()) write_by_rename(folder_->path() / "runs.csv", table());
  const std::size_t good = count[How::computed] + count[How::from_cache] + count[How::elsewhere];
  if (stop_requested()) {
    set_stop_remark(fmt::format("{} of {} runs are done and kept in '{}'; the same command does the rest",
                                good, items_.size(), text_.folder));
    throw Error(ErrorClass::interrupted, "sweep: stopped");
  }
  std::uint64_t built = 0;
  for (const JobDeviceReport& device : report_.devices) built += device.cache_misses;
  const Json of_ranks = has_ranks() ? gather_rank_reports({{"runs", count[How::computed]},
                                                           {"scenes_built", built},
                                                           {"devices", job_devices_json(report_)}})
                                    : Json();
  if (!is_first_rank()) return good == items_.size() ? 0 : 1;
  write_overview();
  Json report = {{"schema", kSchema},
                 {"command", "sweep"},
                 {"runs", items_.size()},
                 {"computed", count[How::computed]},
                 {"from_cache", count[How::from_cache]},
                 {"elsewhere", count[How::elsewhere]},
                 {"failed", count[How::failed]},
                 {"cancelled", count[How::open]},
                 {"damaged", damaged_},
                 {"scenes_built", built},
                 {"devices", job_devices_json(report_)},
                 {"makespan_s", report_.makespan_s},
                 {"lower_bound_s", report_.lower_bound_s}};
  if (has_ranks()) report["ranks"] = of_ranks;
  warn_of_warnings();
  OutputSet outputs;
  stage_json(outputs, text_.json, report);
  outputs.commit();
  if (text_.json == "-") {
    write_stdout(json_text(report));
  } else {
    std::string text =
        fmt::format("{} run{}: {} computed, {} from the cache, {} by other processes, {} failed\n",
                    items_.size(), items_.size() == 1 ? "" : "s", count[How::computed],
                    count[How::from_cache], count[How::elsewhere], count[How::failed]);
    if (has_ranks()) text += "\n" + rank_table(of_ranks, "runs");
    if (!report_.devices.empty())
      text += fmt::format("\n{}\n{}; scenes were built {} times\n", job_devices_text(report_),
                          makespan_text(report_), built);
    write_stdout(text + fmt::format("table: {}\n", (folder_->path() / "runs.csv").string()));
  }
  if (good == items_.size()) return 0;
  log_error(fmt::format("{} of {} runs failed{}; the same command tries them again", count[How::failed],
                        items_.size(),
                        count[How::open] > 0 ? fmt::format(", {} were cancelled", count[How::open]) : ""));
  return 1;
}

}  // namespace shardwise::program
