#include "watched_jobs.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "signals.hpp"

namespace shardwise::program {

WatchedJobs::WatchedJobs(const DeviceSet& devices, JobOptions options, const char* step, const char* unit,
                         const FolderProblem& problem)
    : progress_(step, unit), executor_(devices, watched(std::move(options), problem)) {}

JobOptions WatchedJobs::watched(JobOptions options, const FolderProblem& problem) {
  options.progress = [this, &problem](std::size_t done, std::size_t total) {
    progress_.update(static_cast<std::int64_t>(done), static_cast<std::int64_t>(total));
    if (stop_requested()) executor_.cancel();
    problem.throw_if_any();
  };
  return options;
}

JobReport WatchedJobs::run(std::vector<Job> jobs) {
  try {
    (void)executor_.run(std::move(jobs));
  } catch (...) {
    executor_.cancel();
    throw;
  }
  return settled_report();
}

JobReport WatchedJobs::settled_report() const {
  constexpr int most_looks = 500;
  const auto is_suspect = [](const JobDeviceReport& device) {
    return device.state == JobDeviceState::suspect;
  };
  JobReport report = executor_.report();
  for (int look = 0; look < most_looks && std::ranges::any_of(report.devices, is_suspect); ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    report = executor_.report();
  }
  return report;
}

}  // namespace shardwise::program
