#pragma once
// BATCH.jsonl of `shardwise jobs`: one job a line.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardwise/jobs/job.hpp"

namespace shardwise::program {

struct BatchCuda {
  std::string file, kernel;
  JobLaunch launch;
  std::vector<std::string> inputs;  ///< files
  std::vector<std::string> options;
};

struct BatchJob {
  int line = 0;
  std::string id, key;
  std::uint64_t cost = 1, bytes = 0;
  std::vector<std::string> command;  ///< or:
  std::optional<BatchCuda> cuda;
  std::optional<double> timeout_s;
  std::optional<int> retries;
  /// Of what decides its result, hex: its command, or its cuda with (read_batch()) the text of the file.
  std::string digest;
};

/// Throws data errors that name file, line and key: what is no JSON, an unknown key (with the nearest), a
/// value of another kind, an id twice, a job with neither or both of command and cuda. Empty lines are
/// skipped.
std::vector<BatchJob> read_batch(const std::string& path);
std::vector<BatchJob> parse_batch(const std::string& text, const std::string& path);

}  // namespace shardwise::program
