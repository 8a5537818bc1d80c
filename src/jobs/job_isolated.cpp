// A lane's jobs that run in the device's worker process. The lane waits for each: what it knows afterwards it
// knows of the process, and the device itself is asked by starting the next one.

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "jobs/isolated_worker.hpp"
#include "jobs/job_lane.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

/// Fresh processes in a row that fail before the device counts as lost.
constexpr int kMostStarts = 3;
constexpr std::chrono::milliseconds kBetweenStarts{200};

}  // namespace

void JobLane::run_isolated(JobAttempt attempt) {
  const Job& job = attempt.ticket->job;
  JobOutcome outcome;
  bool admitted = false;
  try {
    admitted = !job.admit || job.admit();
    outcome.kind = JobOutcome::Kind::declined;
  } catch (const Error& error) {
    outcome.kind = JobOutcome::Kind::failed;
    outcome.error_class = error.error_class();
    outcome.error = error.what();
  } catch (const std::exception& error) {
    outcome.kind = JobOutcome::Kind::failed;
    outcome.error = error.what();
  }
  if (admitted && !worker_->is_up() && !start_worker()) {
    outcome.kind = JobOutcome::Kind::collateral;
    outcome.error = "there is no worker process for it";
  } else if (admitted) {
    JobAttempt watched;  // without promises: to ask whether it still counts
    watched.ticket = attempt.ticket;
    watched.number = attempt.number;
    outcome = worker_->run(*attempt.ticket, job.timeout_s.value_or(options_.timeout_s),
                           [&] { return queue_.has_cancelled(watched); });
  }
  std::vector<JobAttempt> attempts;
  attempts.push_back(std::move(attempt));
  std::vector<JobOutcome> outcomes;
  outcomes.push_back(std::move(outcome));
  // The job goes on, elsewhere perhaps, while this device gets its fresh process: its sign of life.
  queue_.finish(std::move(attempts), std::move(outcomes));
  if (admitted && !worker_->is_up()) start_worker();
}

/// False where the device is lost, or the executor ends.
bool JobLane::start_worker() {
  std::string why;
  for (int tries = 0; tries < kMostStarts; ++tries) {
    if (queue_.stopped() || queue_.state(device_) == JobDeviceState::lost) return false;
    if (tries > 0) std::this_thread::sleep_for(kBetweenStarts);
    try {
      worker_->start([this] { return queue_.stopped(); });
      queue_.count_worker(device_);
      return true;
    } catch (const Error& error) {
      if (error.error_class() == ErrorClass::interrupted) return false;
      why = error.what();
    } catch (const std::exception& error) {
      why = error.what();
    }
  }
  queue_.set_state(
      device_, JobDeviceState::lost,
      fmt::format("no worker process of {} in a row could use it; the last: {}", kMostStarts, why));
  return false;
}

}  // namespace shardwise
