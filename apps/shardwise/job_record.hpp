#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "batch_file.hpp"
#include "report_file.hpp"

namespace shardwise::program {

/// What is known of one job's end; `result.json` in its folder.
struct JobRecord {
  std::string status, device, error;
  int exit_code = -1, attempts = 0;
  double queued_s = 0, run_s = 0;
  double ended = 0;  ///< Unix time
  std::string host;  ///< of the process that ran it; empty in records that do not say
  long pid = 0;
  bool is_done() const { return status == "done"; }
};

Json json_of(const BatchJob& job, const JobRecord& record);
/// The job's record, where there is a whole one of this very job.
std::optional<JobRecord> read_record(const std::filesystem::path& folder, const BatchJob& job);

}  // namespace shardwise::program
