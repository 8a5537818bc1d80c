// The queue of jobs: what becomes of a job whose attempt is over, and of a device that fails.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "jobs/job_program.hpp"
#include "jobs/job_queue.hpp"

namespace shardwise {

namespace {

constexpr double kFirstBackoffSeconds = 0.01;

}  // namespace

void JobQueue::end(const Ticket& ticket, JobStatus status, std::optional<JobError> error) {
  JobResult& result = ticket->result;
  result.id = ticket->id;
  result.status = status;
  result.attempts = ticket->attempts;
  result.error = std::move(error);
  ticket->load = {};
  if (ticket->by_content && ticket->device >= 0) placer_.complete(ticket->device, ticket->job.cost);
  ticket->attempt = 0;
  ticket->ended = true;
  // What the job holds may be large, and the ticket may live on in a future.
  ticket->job.inputs.clear();
  --alive_;
  if (!ticket->sink || ticket->sink->wants_each || ticket->holds_slot || alive_ == 0) ended_.notify_all();
  if (ticket->holds_slot) --slots_;
  last_ended_s_ = clock_();
  totals_.done += status == JobStatus::done;
  totals_.failed += status == JobStatus::failed;
  totals_.cancelled += status == JobStatus::cancelled;
  if (ticket->sink) {
    ticket->sink->ended.push_back(ticket);
    if (--ticket->sink->remaining == 0) ended_.notify_all();
  }
}

void JobQueue::end_failed(const Ticket& ticket, ErrorClass error_class, const std::string& why) {
  std::string where = ticket->result.device.empty() ? "" : " on " + ticket->result.device;
  end(ticket, JobStatus::failed,
      JobError{error_class, fmt::format("job '{}'{}: {}", ticket->id, where, why)});
  if (options_.fail_fast) cancel_queued_because_of(ticket);
}

void JobQueue::cancel_queued_because_of(const Ticket& failed) {
  cancelled_before_ = next_attempt_;
  for (std::size_t d = 0; d < devices_.size(); ++d)
    while (!devices_[d].queue.empty()) {
      const Ticket other = dequeue(d, 0);
      end(other, JobStatus::cancelled,
          JobError{ErrorClass::interrupted,
                   fmt::format("job '{}': cancelled, because job '{}' failed", other->id, failed->id)});
    }
}

// Of several that are placed one may end as failed while those behind it are in no queue yet.
void JobQueue::cancel_queued_if_any_failed(std::span<const Ticket> placed) {
  if (!options_.fail_fast) return;
  const auto failed = std::ranges::find_if(placed, [](const Ticket& ticket) {
    return ticket->ended && ticket->result.status == JobStatus::failed;
  });
  if (failed != placed.end()) cancel_queued_because_of(*failed);
}

JobDeviceState JobQueue::finish(std::vector<JobAttempt> attempts, std::vector<JobOutcome> outcomes) {
  std::lock_guard lock(mutex_);
  const std::size_t before = queued_;
  for (std::size_t i = 0; i < attempts.size(); ++i) finish_one(attempts[i], outcomes[i]);
  if (queued_ > before) work_.notify_all();
  return devices_[static_cast<std::size_t>(attempts.front().device)].report.state;
}

// Of an attempt that counts. One that the watch gave up was counted then: what it takes beyond that is in
// nobody's makespan.
void JobQueue::count_time(std::size_t device, const JobOutcome& outcome) {
  using Kind = JobOutcome::Kind;
  if (outcome.kind == Kind::declined) return;
  devices_[device].report.busy_s += outcome.run_s;
  if (outcome.run_s > 0 || outcome.kind == Kind::done)
    run_times_.emplace_back(outcome.run_s, static_cast<int>(device));
}

void JobQueue::finish_one(JobAttempt& attempt, JobOutcome& outcome) {
  using Kind = JobOutcome::Kind;
  attempt.bytes.release();
  running_.erase(attempt.number);
  const Ticket& ticket = attempt.ticket;
  const auto device = static_cast<std::size_t>(attempt.device);
  devices_[device].report.bytes_in += outcome.bytes_in;
  devices_[device].report.bytes_out += outcome.bytes_out;
  devices_[device].counted_until_s = clock_();
  if (outcome.kind == Kind::device_lost) lose(device, outcome.error);
  if (outcome.kind == Kind::worker_broken)
    note(fmt::format("{}: job '{}' broke its worker process, a fresh one takes over; {}",
                     devices_[device].report.name, ticket->id, outcome.error));
  if (ticket->ended || ticket->attempt != attempt.number) return;
  ticket->attempt = 0;
  ticket->result.run_s = outcome.run_s;
  count_time(device, outcome);
  if (outcome.kind == Kind::done) {
    JobDeviceReport& report = devices_[device].report;
    ++report.jobs;
    report.cost += ticket->job.cost;
    double& expected = expected_[ticket->job.program.state()];
    expected = expected == 0 ? outcome.run_s : 0.75 * expected + 0.25 * outcome.run_s;
    ticket->result.outputs = std::move(outcome.outputs);
    ticket->result.value = std::move(outcome.value);
    return end(ticket, JobStatus::done, std::nullopt);
  }
  if (outcome.kind == Kind::declined) {
    --ticket->attempts;
    return end(ticket, JobStatus::cancelled,
               JobError{ErrorClass::interrupted,
                        fmt::format("job '{}': not begun, as its caller decided", ticket->id)});
  }
  if (attempt.number < cancelled_before_)
    return end(ticket, JobStatus::cancelled,
               JobError{ErrorClass::interrupted, fmt::format("job '{}' on {}: cancelled while it ran",
                                                             ticket->id, device_name(attempt.device))});
  if (outcome.kind != Kind::collateral) ++devices_[device].report.failed;
  const int retries = ticket->job.retries.value_or(options_.retries);
  ticket->last_failure = JobError{outcome.error_class, outcome.error};
  switch (outcome.kind) {
    case Kind::collateral:
      --ticket->attempts;
      ticket->alone = true;
      return requeue(ticket);
    case Kind::out_of_memory:
      if (++ticket->memory_failures > options_.memory_retries)
        return end_failed(
            ticket, ErrorClass::memory,
            fmt::format("out of memory {} times, the last: {}", ticket->memory_failures, outcome.error));
      ++totals_.retries;
      ticket->alone = true;
      ticket->not_before_s = clock_() + kFirstBackoffSeconds * std::exp2(ticket->memory_failures - 1);
      return requeue(ticket);
    case Kind::device_lost:
    case Kind::worker_broken:
      ticket->broke.push_back(attempt.device);
      if (ticket->broke.size() >= 2) return set_aside(ticket, outcome);
      ++totals_.retries;
      ticket->alone = true;
      ticket->failed_on.push_back(attempt.device);
      return requeue(ticket);
    default:
      ticket->failed_on.push_back(attempt.device);
      if (static_cast<int>(ticket->failed_on.size() - ticket->broke.size()) > retries)
        return end_failed(ticket, outcome.error_class, outcome.error);
      ++totals_.retries;
      ticket->alone = true;
      return requeue(ticket);
  }
}

// Where all of it was worker processes, the devices are well.
void JobQueue::set_aside(const Ticket& ticket, const JobOutcome& outcome) {
  totals_.set_aside.push_back(ticket->id);
  const bool of_worker = outcome.kind == JobOutcome::Kind::worker_broken;
  end_failed(ticket, of_worker ? ErrorClass::device : ErrorClass::lost,
             fmt::format("set aside, because two {} while they ran it, {} and {}; the last error: {}",
                         of_worker ? "worker processes broke" : "devices were lost",
                         device_name(ticket->broke[0]), device_name(ticket->broke[1]), outcome.error));
}

void JobQueue::lose(std::size_t device, const std::string& why) {
  QueueDevice& lost = devices_[device];
  if (lost.report.state == JobDeviceState::lost) return;
  lost.report.state = JobDeviceState::lost;
  lost.report.why_lost = why;
  note(fmt::format("{} was lost: {}; {} jobs that it had not begun go elsewhere", lost.report.name, why,
                   lost.queue.size()));
  move_queue_of(device);
}

void JobQueue::move_queue_of(std::size_t device) {
  std::deque<Ticket> orphans;
  while (!devices_[device].queue.empty()) orphans.push_back(dequeue(device, 0));
  for (const Ticket& ticket : orphans) requeue(ticket);
  cancel_queued_if_any_failed(std::vector<Ticket>(orphans.begin(), orphans.end()));
  work_.notify_all();
}

void JobQueue::set_state(int device, JobDeviceState state, const std::string& why) {
  std::lock_guard lock(mutex_);
  QueueDevice& target = devices_[static_cast<std::size_t>(device)];
  if (target.report.state == JobDeviceState::lost) return;
  if (state == JobDeviceState::lost) return lose(static_cast<std::size_t>(device), why);
  if (state == JobDeviceState::suspect && target.report.state == JobDeviceState::ok)
    target.suspect_since_s = clock_();
  target.report.state = state;
  work_.notify_all();
}

JobDeviceState JobQueue::state(int device) const {
  std::lock_guard lock(mutex_);
  return devices_[static_cast<std::size_t>(device)].report.state;
}

double JobQueue::look_after_the_late() {
  std::lock_guard lock(mutex_);
  const double now = clock_();
  double next = 1;
  std::vector<Running> late;
  for (const auto& [number, running] : running_) {
    if (running.deadline_s <= now)
      late.push_back(running);
    else
      next = std::min(next, running.deadline_s - now);
  }
  for (const Running& running : late) {
    running_.erase(running.number);
    const Ticket& ticket = running.ticket;
    if (ticket->ended || ticket->attempt != running.number) continue;
    QueueDevice& device = devices_[static_cast<std::size_t>(ticket->device)];
    if (device.report.state == JobDeviceState::ok) {
      device.report.state = JobDeviceState::suspect;
      device.suspect_since_s = now;
    }
    JobAttempt attempt{ticket, running.number, ticket->device, 0, {}};
    JobOutcome outcome;
    outcome.kind = JobOutcome::Kind::timed_out;
    outcome.error_class = ErrorClass::device;
    // A device does one thing at a time: before that it was at what came before.
    outcome.run_s = std::max(now - std::max(running.begun_s, device.counted_until_s), 0.0);
    outcome.error = fmt::format("its program has not returned within its timeout of {:g} s",
                                ticket->job.timeout_s.value_or(options_.timeout_s));
    finish_one(attempt, outcome);
    work_.notify_all();
  }
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    if (devices_[d].report.state != JobDeviceState::suspect) continue;
    const double limit = devices_[d].suspect_since_s + 1.5 * options_.probe_s;
    if (limit <= now)
      lose(d, fmt::format("it has not answered for {:.3g} s", now - devices_[d].suspect_since_s));
    else
      next = std::min(next, limit - now);
  }
  return std::max(next, 1e-3);
}

void JobQueue::cancel() {
  std::lock_guard lock(mutex_);
  cancelled_before_ = next_attempt_;
  for (std::size_t d = 0; d < devices_.size(); ++d)
    while (!devices_[d].queue.empty()) {
      const Ticket ticket = dequeue(d, 0);
      end(ticket, JobStatus::cancelled,
          JobError{ErrorClass::interrupted, fmt::format("job '{}': cancelled before it began", ticket->id)});
    }
  work_.notify_all();
}

bool JobQueue::has_cancelled(const JobAttempt& attempt) const {
  std::lock_guard lock(mutex_);
  return attempt.number < cancelled_before_ || attempt.ticket->attempt != attempt.number;
}

}  // namespace shardwise
