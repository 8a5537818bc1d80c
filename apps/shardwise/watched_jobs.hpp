#pragma once

#include <vector>

#include "progress.hpp"
#include "shardwise/jobs/executor.hpp"
#include "shared_work.hpp"

namespace shardwise::program {

/// The executor of a command: with a line of progress, and an end where a signal comes or the folder of
/// results fails.
class WatchedJobs {
 public:
  /// `step` and `unit` as in Progress. The caller's options have no progress yet.
  WatchedJobs(const DeviceSet& devices, JobOptions options, const char* step, const char* unit,
              const FolderProblem& problem);

  /// Runs them; the report of this run, in which a device that a failed job made suspect has had half a
  /// second to give its sign of life. Cancels what has not begun where a callback throws.
  JobReport run(std::vector<Job> jobs);

 private:
  JobOptions watched(JobOptions options, const FolderProblem& problem);
  JobReport settled_report() const;

  Progress progress_;
  JobExecutor executor_;
};

}  // namespace shardwise::program
