#include "job_options.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "command.hpp"
#include "log.hpp"
#include "progress.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"
#include "table.hpp"
#include "values.hpp"

namespace shardwise::program {

void add_job_options(CLI::App& app, JobText& text) {
  const auto add = [&app](const std::string& name, std::string& target, const std::string& help,
                          const char* type, const char* group) {
    app.add_option(name, target, help)->type_name(type)->group(group);
  };
  add("-o,--output", text.folder, "Folder of the results; what is in it already is not done again", "DIR",
      "Output");
  add("--json", text.json, "Report as JSON ('-': to standard output, alone)", "FILE", "Output");
  app.add_flag("--join", text.join, "Work beside the process that owns the folder, if there is one")
      ->group("Output");
  app.add_flag("--dry-run", text.dry_run, "Plan, say what would be done and how well it fits; run nothing")
      ->group("Output");
  add("--placement", text.placement, "cost: longest first; content: the same key on the same device (cost)",
      "P", "Jobs");
  add("--retries", text.retries, "Of a job that fails and says nothing else (0)", "N", "Jobs");
  add("--timeout", text.timeout, "Seconds of a job that says nothing else (none)", "S", "Jobs");
  add("--memory", text.memory, "For jobs on each device: 64Gi (80 % of what is free)", "BYTES", "Jobs");
  add("--speeds", text.speeds, "Of the devices, a ratio: 1,20 (alike)", "V,V,..", "Jobs");
  app.add_flag("--fail-fast", text.fail_fast,
               "The first failure cancels the rest: nothing more begins, what runs is stopped")
      ->group("Jobs");
  add_device_options(app, text.devices);
}

namespace {

/// A report beside the results is welcome; one in their place is not.
void check_report_place(const JobText& text) {
  if (text.json.empty() || text.json == "-" || text.folder.empty()) return;
  std::error_code ignored;
  const std::filesystem::path report = std::filesystem::weakly_canonical(text.json, ignored),
                              folder = std::filesystem::weakly_canonical(text.folder, ignored);
  for (const char* own : {"results.csv", "runs.csv", "overview.png"})
    if (report == folder / own)
      throw_usage(
          fmt::format("--json would overwrite the table or the picture of the results ('{}'); choose "
                      "another name",
                      text.json));
}

}  // namespace

JobOptions job_options_of(const JobText& text, int device_count) {
  check_report_place(text);
  JobOptions options;
  options.retries = static_cast<int>(count_value("--retries", text.retries, 0, 1000));
  options.timeout_s = text.timeout.empty() ? std::numeric_limits<double>::infinity()
                                           : positive_value("--timeout", text.timeout);
  options.fail_fast = text.fail_fast;
  if (!text.memory.empty()) {
    options.memory_bytes = parse_bytes(text.memory, "--memory");
    if (options.memory_bytes == 0)
      throw_usage(fmt::format("--memory must be above zero (found '{}')", text.memory));
  }
  if (word_value("--placement", text.placement, {"cost", "content"}) == "content")
    options.placement = JobPlacement::by_content;
  if (!text.speeds.empty()) {
    options.speeds = parse_list(text.speeds, "--speeds");
    if (static_cast<int>(options.speeds.size()) != device_count)
      throw_usage(fmt::format("--speeds has {} numbers ('{}') for {} {}; give one for each device",
                              options.speeds.size(), text.speeds, device_count,
                              device_count == 1 ? "device" : "devices"));
    for (std::size_t i = 0; i < options.speeds.size(); ++i)
      if (!(options.speeds[i] > 0))
        throw_usage(fmt::format("--speeds: number {} is not above 0 ('{}')", i, text.speeds));
  }
  return options;
}

void add_up(JobReport& sum, const JobReport& round) {
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
    device.cache_hits += round.devices[d].cache_hits;
    device.cache_misses += round.devices[d].cache_misses;
    device.workers += round.devices[d].workers;
  }
  for (const std::string& note : round.notes) log_warning(note);
}

Json job_devices_json(const JobReport& report) {
  Json list = Json::array();
  for (const JobDeviceReport& device : report.devices)
    list.push_back({{"name", device.name},
                    {"uuid", device.uuid},
                    {"bus_id", device.bus_id},
                    {"state", to_string(device.state)},
                    {"jobs", device.jobs},
                    {"failed", device.failed},
                    {"cost", device.cost},
                    {"busy_s", device.busy_s},
                    {"busy_share", number_or_null(device.busy_s / report.makespan_s)},
                    {"bytes_in", device.bytes_in},
                    {"bytes_out", device.bytes_out},
                    {"cache_hits", device.cache_hits},
                    {"cache_misses", device.cache_misses},
                    {"workers", device.workers}});
  return list;
}

std::string job_devices_text(const JobReport& report) {
  std::vector<std::vector<std::string>> rows{{"device", "state", "jobs", "failed", "busy", "share"}};
  for (const JobDeviceReport& device : report.devices)
    rows.push_back(
        {device.name, to_string(device.state), std::to_string(device.jobs), std::to_string(device.failed),
         short_time(device.busy_s),
         fmt::format("{:.1f} %", report.makespan_s > 0 ? 100 * device.busy_s / report.makespan_s : 0)});
  return table_text(rows);
}

std::string makespan_text(const JobReport& report) {
  // Nothing ran: there is nothing to compare with.
  if (!(report.lower_bound_s > 0)) return short_time(report.makespan_s) + " in all";
  return fmt::format("{} for what takes {} at least on these devices ({:.3f})", short_time(report.makespan_s),
                     short_time(report.lower_bound_s), report.makespan_s / report.lower_bound_s);
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace shardwise::program
