#pragma once
// The options that `jobs` and `sweep` share: the folder, how jobs are spread and tried.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "device_options.hpp"
#include "report_file.hpp"
#include "shardwise/jobs/executor.hpp"

namespace shardwise::program {

/// As typed.
struct JobText {
  std::string folder, json, retries = "0", timeout, memory, speeds, placement = "cost";
  bool join = false, fail_fast = false, dry_run = false;
  DeviceOptions devices;
};

void add_job_options(CLI::App& app, JobText& text);

/// Checks the texts against the number of devices. No timeout is none.
JobOptions job_options_of(const JobText& text, int device_count);

/// Adds what a further round of the same run says; its notes are said at once.
void add_up(JobReport& sum, const JobReport& round);

/// devices[] of the report.
Json job_devices_json(const JobReport& report);
/// The same as a table for people.
std::string job_devices_text(const JobReport& report);
/// "makespan 3.2 s, at least 3.1 s (1.03)"
std::string makespan_text(const JobReport& report);

/// A field of a CSV row, in quotes where it needs them.
std::string csv_field(const std::string& text);

}  // namespace shardwise::program
