// The queue of jobs: what a worker takes next.

#include <algorithm>
#include <chrono>
#include <cmath>

#include "jobs/job_program.hpp"
#include "jobs/job_queue.hpp"

namespace shardwise {

namespace {

/// How far into a queue a worker looks for a job that it may begin.
constexpr std::size_t kLookAhead = 64;
/// A group lasts about this long, and has at most so many jobs.
constexpr double kGroupSeconds = 1e-3;
constexpr std::size_t kMostInGroup = 64;
/// A worker that notices a timeout itself does so before this has passed.
constexpr double kLateSeconds = 0.25;

}  // namespace

std::optional<std::size_t> JobQueue::position_to_take(std::size_t device, std::size_t for_device,
                                                      int committed, double now,
                                                      std::uint64_t evictable_bytes, Taken& taken) const {
  const std::deque<Ticket>& queue = devices_[device].queue;
  const auto target = static_cast<int>(for_device);
  const std::size_t end = std::min(queue.size(), kLookAhead);
  for (std::size_t i = 0; i < end; ++i) {
    const Ticket& ticket = queue[i];
    if (waits_ && ticket->not_before_s > now) continue;
    if (committed > 0 && (ticket->alone || blocks(for_device, ticket))) return std::nullopt;
    if (device != for_device) {
      const bool owner_is_well = devices_[device].report.state == JobDeviceState::ok;
      if ((ticket->stays && owner_is_well) || !may_run_on(for_device, ticket)) continue;
      const auto& failed = ticket->failed_on;
      if (std::find(failed.begin(), failed.end(), target) != failed.end() && owner_is_well) continue;
    }
    const std::uint64_t load = bytes_.load(target), capacity = bytes_.capacity(target);
    if (ticket->job.bytes > capacity - std::min(load, capacity)) {
      if (ticket->job.bytes <= capacity - std::min(load - std::min(load, evictable_bytes), capacity)) {
        taken.wants_bytes = ticket->job.bytes;
        return std::nullopt;
      }
      continue;
    }
    return i;
  }
  return std::nullopt;
}

double JobQueue::expected_s(const JobProgram::State* program) const {
  std::lock_guard lock(mutex_);
  const auto found = expected_.find(program);
  return found == expected_.end() ? 0 : found->second;
}

// How many jobs go together with the one at the head: half of what is there, so that others find some, and
// about a millisecond's worth.
std::size_t JobQueue::group_size(std::size_t from, std::size_t for_device, const Ticket& ticket) const {
  const auto found = expected_.find(ticket->job.program.state());
  if (ticket->alone || blocks(for_device, ticket) || found == expected_.end()) return 1;
  if (!(found->second < short_job_s)) return 1;
  const double expected = std::max(found->second, 1e-7);
  const auto most =
      static_cast<std::size_t>(std::clamp(kGroupSeconds / expected, 1.0, static_cast<double>(kMostInGroup)));
  return std::clamp<std::size_t>(devices_[from].queue.size() / 2, 1, most);
}

JobQueue::Taken JobQueue::take(int device, int committed, std::uint64_t evictable_bytes) {
  std::lock_guard lock(mutex_);
  Taken taken;
  const auto own = static_cast<std::size_t>(device);
  if (stopped_ || devices_[own].report.state != JobDeviceState::ok || committed > 1) return taken;
  if (committed == 1 && queued_ <= devices_.size()) return taken;
  const double now = clock_();
  std::size_t from = own;
  auto position = position_to_take(own, own, committed, now, evictable_bytes, taken);
  if (!position && taken.wants_bytes == 0 && committed == 0) {
    // The device that would end last and has something to give.
    double latest = -1;
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (d == own || devices_[d].queue.empty()) continue;
      const double ends = static_cast<double>(loads_.load(static_cast<int>(d))) / devices_[d].speed;
      if (ends <= latest) continue;
      Taken wants;
      const auto there = position_to_take(d, own, committed, now, evictable_bytes, wants);
      if (!there && wants.wants_bytes == 0) continue;
      latest = ends;
      position = there;
      from = d;
      taken.wants_bytes = wants.wants_bytes;
    }
  }
  if (!position) return taken;
  taken.wants_bytes = 0;

  const std::size_t group = group_size(from, own, devices_[from].queue[*position]);
  const JobProgram::State* const program = devices_[from].queue[*position]->job.program.state();
  while (taken.attempts.size() < group && *position < devices_[from].queue.size()) {
    const Ticket& next = devices_[from].queue[*position];
    if (!taken.attempts.empty()) {
      if (next->job.program.state() != program || next->alone || (next->stays && from != own) ||
          (waits_ && next->not_before_s > now) || !may_run_on(own, next))
        break;
    }
    auto bytes = bytes_.try_reserve(device, next->job.bytes);
    if (!bytes) break;
    const Ticket ticket = dequeue(from, *position);
    if (from != own) {
      ++totals_.steals;
      ticket->load = {};
      ticket->load = loads_.reserve(device, ticket->job.cost);
      if (ticket->by_content) {
        placer_.complete(ticket->device, ticket->job.cost);
        placer_.seed(device, ticket->job.cost);
      }
      ticket->device = device;
    }
    ticket->attempt = next_attempt_++;
    ++ticket->attempts;
    ticket->taken_up = true;
    ticket->result.device = devices_[own].report.name;
    ticket->result.queued_s = now - ticket->given_s;
    taken.attempts.push_back({ticket, ticket->attempt, device, now, std::move(*bytes)});
  }
  for (const JobAttempt& attempt : taken.attempts) {
    const double timeout = attempt.ticket->job.timeout_s.value_or(options_.timeout_s);
    if (std::isfinite(timeout) && waits_ && !is_isolated(device, *program))
      running_[attempt.number] = {
          attempt.ticket, attempt.number, now,
          now + timeout * static_cast<double>(taken.attempts.size() * (committed > 0 ? 2 : 1)) +
              kLateSeconds};
  }
  totals_.groups += taken.attempts.size() > 1;
  return taken;
}

void JobQueue::wait_for_work(int device, double limit_s) {
  std::unique_lock lock(mutex_);
  const auto own = static_cast<std::size_t>(device);
  const auto there = [&] {
    return stopped_ || (devices_[own].report.state == JobDeviceState::ok && queued_ > 0);
  };
  // Something may be queued that this worker may not take (another's, too large, not yet): then it looks
  // again soon, without a wake-up for each such change.
  if (there() && !stopped_)
    work_.wait_for(lock, std::chrono::duration<double>(std::min(limit_s, 2e-3)));
  else
    work_.wait_for(lock, std::chrono::duration<double>(limit_s), there);
}

bool JobQueue::is_stale(const JobAttempt& attempt) const {
  std::lock_guard lock(mutex_);
  return attempt.ticket->ended || attempt.ticket->attempt != attempt.number;
}

}  // namespace shardwise
