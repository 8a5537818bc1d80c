#include "jobs/job_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "jobs/job_program.hpp"
#include "shardwise/runtime/parse.hpp"
#include "shardwise/shard/lpt.hpp"

namespace shardwise {
namespace {

/// How far into a queue a worker looks for a job that it may begin.
constexpr std::size_t kLookAhead = 64;
/// A group lasts about this long, and has at most so many jobs.
constexpr double kGroupSeconds = 1e-3;
constexpr std::size_t kMostInGroup = 64;
constexpr double kFirstBackoffSeconds = 0.01;
/// A worker that notices a timeout itself does so before this has passed.
constexpr double kLateSeconds = 0.25;

std::vector<PlacementDevice> placement_devices(const DeviceSet& devices, const std::vector<double>& speeds) {
  std::vector<PlacementDevice> result;
  for (int d = 0; d < devices.size(); ++d) {
    // Names where UUIDs repeat, as those of processors of two machines may.
    const DeviceInfo& info = devices[d].info();
    result.push_back({info.uuid.empty() ? info.name : info.uuid,
                      speeds.empty() ? 1.0 : speeds[static_cast<std::size_t>(d)]});
    for (int e = 0; e < d; ++e)
      if (result[static_cast<std::size_t>(e)].name == result.back().name) result.back().name = info.name;
  }
  return result;
}

}  // namespace

JobQueue::JobQueue(const DeviceSet& devices, const JobOptions& options, std::vector<std::uint64_t> capacities,
                   Clock clock, bool waits)
    : options_(options),
      clock_(std::move(clock)),
      waits_(waits),
      loads_(devices.size()),
      bytes_(std::move(capacities)),
      placer_(placement_devices(devices, options.speeds), options.placer) {
  for (int d = 0; d < devices.size(); ++d) {
    QueueDevice device;
    device.report.name = devices[d].name();
    device.report.uuid = devices[d].info().uuid;
    device.report.bus_id = devices[d].info().bus_id;
    device.kind = devices[d].kind();
    device.speed = options.speeds.empty() ? 1 : options.speeds[static_cast<std::size_t>(d)];
    devices_.push_back(std::move(device));
  }
}

// A CUDA source without a host twin runs on GPUs alone.
bool JobQueue::can_run_program(std::size_t device, const Ticket& ticket) const {
  return devices_[device].kind == PlatformKind::cuda || ticket->job.program.state()->native;
}

bool JobQueue::may_run_on(std::size_t device, const Ticket& ticket) const {
  if (ticket->job.device && *ticket->job.device != static_cast<int>(device)) return false;
  return can_run_program(device, ticket) && ticket->job.bytes <= bytes_.capacity(static_cast<int>(device));
}

bool JobQueue::any_left() const {
  return std::any_of(devices_.begin(), devices_.end(),
                     [](const QueueDevice& d) { return d.report.state != JobDeviceState::lost; });
}

void JobQueue::note(std::string text) {
  constexpr std::size_t most = 100;
  if (totals_.notes.size() < most) totals_.notes.push_back(std::move(text));
}

// A new batch on a queue at rest begins a new report; what devices are is kept.
void JobQueue::begin_statistics() {
  if (alive_ > 0) return;
  totals_ = {};
  run_times_.clear();
  first_given_s_ = last_ended_s_ = clock_();
  for (QueueDevice& device : devices_) {
    JobDeviceReport fresh;
    fresh.name = device.report.name;
    fresh.uuid = device.report.uuid;
    fresh.bus_id = device.report.bus_id;
    fresh.state = device.report.state;
    fresh.why_lost = device.report.why_lost;
    device.report = std::move(fresh);
  }
}

// A job that no device can ever run ends here.
bool JobQueue::fits_none(const Ticket& ticket) {
  bool any_can = false;
  std::string where;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    if (may_run_on(d, ticket)) return false;
    if (ticket->job.device && *ticket->job.device != static_cast<int>(d)) continue;
    any_can = any_can || can_run_program(d, ticket);
    where += fmt::format("{}{} has {}", where.empty() ? "" : ", ", devices_[d].report.name,
                         human_bytes(bytes_.capacity(static_cast<int>(d))));
  }
  if (!any_can)
    end_failed(ticket, ErrorClass::usage,
               fmt::format("the source program '{}' has no host twin, which a {} device needs; set "
                           "CudaSource::host_twin or use cuda devices",
                           ticket->job.program.name(), to_string(devices_.front().kind)));
  else
    end_failed(
        ticket, ErrorClass::budget,
        fmt::format("it needs {} ({} bytes), more than every device it may run on: {}; make it smaller or "
                    "raise the memory for jobs",
                    human_bytes(ticket->job.bytes), ticket->job.bytes, where));
  return true;
}

void JobQueue::enqueue(std::size_t device, const Ticket& ticket, bool front) {
  QueueDevice& target = devices_[device];
  if (ticket->device != static_cast<int>(device)) {
    ticket->load = {};
    ticket->load = loads_.reserve(static_cast<int>(device), ticket->job.cost);
    if (ticket->by_content && ticket->device >= 0) {
      placer_.complete(ticket->device, ticket->job.cost);
      placer_.seed(static_cast<int>(device), ticket->job.cost);
    }
    ticket->device = static_cast<int>(device);
  }
  if (front)
    target.queue.push_front(ticket);
  else
    target.queue.push_back(ticket);
  target.queued_cost += ticket->job.cost;
  ++queued_;
}

JobQueue::Ticket JobQueue::dequeue(std::size_t device, std::size_t position) {
  QueueDevice& source = devices_[device];
  const auto at = source.queue.begin() + static_cast<std::ptrdiff_t>(position);
  Ticket ticket = *at;
  source.queue.erase(at);
  source.queued_cost -= ticket->job.cost;
  --queued_;
  return ticket;
}

// Nothing that follows can overflow.
void JobQueue::check_total(const std::vector<Ticket>& tickets) const {
  std::uint64_t total = 0;
  const auto add = [&](std::uint64_t cost, const std::string& what) {
    if (cost > std::numeric_limits<std::uint64_t>::max() - total)
      throw_usage(fmt::format(
          "jobs: with {} (cost {}) the total cost is over 64 bits; give costs in a larger unit", what, cost));
    total += cost;
  };
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    // The placer's loads are at least what is promised by content.
    add(std::max(loads_.load(static_cast<int>(d)), placer_.loads()[d]),
        "what " + devices_[d].report.name + " has");
  }
  for (const Ticket& ticket : tickets) add(ticket->job.cost, "job '" + ticket->id + "'");
}

void JobQueue::place_by_content(const Ticket& ticket) {
  ticket->by_content = true;
  const Placement placement = *placer_.place(ticket->job.key, ticket->job.cost);
  totals_.spills += placement.spilled;
  ticket->device = placement.device;
  ticket->load = loads_.reserve(placement.device, ticket->job.cost);
  if (fits_none(ticket)) return;
  const auto device = static_cast<std::size_t>(placement.device);
  if (!may_run_on(device, ticket) || devices_[device].report.state == JobDeviceState::lost)
    return requeue(ticket);
  ticket->stays = true;
  enqueue(device, ticket, false);
}

void JobQueue::place_by_cost(const std::vector<Ticket>& tickets) {
  std::vector<DeviceLoad> loads;
  for (std::size_t d = 0; d < devices_.size(); ++d)
    if (devices_[d].report.state != JobDeviceState::lost)
      loads.push_back({static_cast<int>(d), loads_.load(static_cast<int>(d)), devices_[d].speed});
  std::vector<CostItem> items;
  std::vector<Ticket> planned;
  bool all_fit_everywhere = true;
  for (const Ticket& ticket : tickets) {
    if (fits_none(ticket)) continue;
    std::size_t good = 0;
    for (const DeviceLoad& load : loads) good += may_run_on(static_cast<std::size_t>(load.device), ticket);
    if (good == 0) {
      requeue(ticket);  // those that could hold it are lost
      continue;
    }
    all_fit_everywhere = all_fit_everywhere && good == loads.size();
    ticket->stays = ticket->job.device.has_value();
    items.push_back({planned.size(), ticket->job.cost});
    planned.push_back(ticket);
  }
  if (planned.empty()) return;
  FitsFunction fits_there;
  if (!all_fit_everywhere)
    fits_there = [&](std::size_t d, std::size_t i) {
      return may_run_on(static_cast<std::size_t>(loads[d].device), planned[i]);
    };
  for (const DeviceAssignment& device : partition_lpt(loads, items, fits_there).devices)
    for (const std::uint64_t id : device.ids)
      enqueue(static_cast<std::size_t>(device.device), planned[id], false);
}

void JobQueue::add_batch(std::vector<Ticket> tickets) {
  std::lock_guard lock(mutex_);
  check_total(tickets);
  begin_statistics();
  const double now = clock_();
  totals_.jobs += tickets.size();
  alive_ += tickets.size();
  for (const Ticket& ticket : tickets) ticket->given_s = now;
  if (options_.placement == JobPlacement::by_content)
    for (const Ticket& ticket : tickets) place_by_content(ticket);
  else
    place_by_cost(tickets);
  work_.notify_all();
}

bool JobQueue::try_add(const Ticket& ticket) {
  std::lock_guard lock(mutex_);
  if (slots_ >= options_.queue_limit) return false;
  check_total({ticket});
  begin_statistics();
  ticket->given_s = clock_();
  ++totals_.jobs;
  ++alive_;
  ++slots_;
  ticket->holds_slot = true;
  place_by_content(ticket);
  work_.notify_all();
  return true;
}

void JobQueue::expect_one_more(const std::shared_ptr<JobSink>& sink) {
  std::lock_guard lock(mutex_);
  ++sink->remaining;
}

// Where the ticket may go on: a device that is well, that it has not failed on, with the least load. Where
// there is no such one, a device it has failed on; a suspect one, which takes it when it answers again.
void JobQueue::requeue(const Ticket& ticket) {
  std::size_t best = devices_.size();
  int best_rank = 0;
  double best_load = 0;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    const QueueDevice& device = devices_[d];
    if (device.report.state == JobDeviceState::lost || !may_run_on(d, ticket)) continue;
    const auto& failed = ticket->failed_on;
    const int rank = (device.report.state == JobDeviceState::suspect ? 2 : 0) +
                     (std::find(failed.begin(), failed.end(), static_cast<int>(d)) != failed.end() ? 1 : 0);
    const double load = static_cast<double>(loads_.load(static_cast<int>(d))) / device.speed;
    if (best == devices_.size() || std::pair(rank, load) < std::pair(best_rank, best_load)) {
      best = d;
      best_rank = rank;
      best_load = load;
    }
  }
  if (best == devices_.size()) {
    end_failed(ticket, ErrorClass::lost,
               any_left() ? "no device that may run it is left" : "no device is left: all of them were lost");
    return;
  }
  ticket->stays = ticket->job.device.has_value();
  // Memory that is short now comes back while others run; what failed otherwise need not wait.
  enqueue(best, ticket, ticket->memory_failures == 0 && ticket->taken_up);
}

std::optional<std::size_t> JobQueue::position_to_take(std::size_t device, std::size_t for_device,
                                                      int committed, double now,
                                                      std::uint64_t evictable_bytes, Taken& taken) const {
  const std::deque<Ticket>& queue = devices_[device].queue;
  const auto target = static_cast<int>(for_device);
  const std::size_t end = std::min(queue.size(), kLookAhead);
  for (std::size_t i = 0; i < end; ++i) {
    const Ticket& ticket = queue[i];
    if (waits_ && ticket->not_before_s > now) continue;
    if (committed > 0 && (ticket->alone || ticket->job.program.state()->blocks)) return std::nullopt;
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
std::size_t JobQueue::group_size(std::size_t device, const Ticket& ticket) const {
  const auto found = expected_.find(ticket->job.program.state());
  if (ticket->alone || ticket->job.program.state()->blocks || found == expected_.end()) return 1;
  if (!(found->second < short_job_s)) return 1;
  const double expected = std::max(found->second, 1e-7);
  const auto most =
      static_cast<std::size_t>(std::clamp(kGroupSeconds / expected, 1.0, static_cast<double>(kMostInGroup)));
  return std::clamp<std::size_t>(devices_[device].queue.size() / 2, 1, most);
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

  const std::size_t group = group_size(from, devices_[from].queue[*position]);
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
    if (std::isfinite(timeout) && waits_)
      running_[attempt.number] = {
          attempt.ticket, attempt.number,
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
  if (!options_.fail_fast) return;
  cancelled_before_ = next_attempt_;
  for (std::size_t d = 0; d < devices_.size(); ++d)
    while (!devices_[d].queue.empty()) {
      const Ticket other = dequeue(d, 0);
      end(other, JobStatus::cancelled,
          JobError{ErrorClass::interrupted,
                   fmt::format("job '{}': cancelled, because job '{}' failed", other->id, ticket->id)});
    }
}

JobDeviceState JobQueue::finish(std::vector<JobAttempt> attempts, std::vector<JobOutcome> outcomes) {
  std::lock_guard lock(mutex_);
  const std::size_t before = queued_;
  for (std::size_t i = 0; i < attempts.size(); ++i) finish_one(attempts[i], outcomes[i]);
  if (queued_ > before) work_.notify_all();
  return devices_[static_cast<std::size_t>(attempts.front().device)].report.state;
}

void JobQueue::finish_one(JobAttempt& attempt, JobOutcome& outcome) {
  using Kind = JobOutcome::Kind;
  attempt.bytes.release();
  running_.erase(attempt.number);
  const Ticket& ticket = attempt.ticket;
  const auto device = static_cast<std::size_t>(attempt.device);
  devices_[device].report.bytes_in += outcome.bytes_in;
  devices_[device].report.bytes_out += outcome.bytes_out;
  if (outcome.kind == Kind::device_lost) lose(device, outcome.error);
  if (ticket->ended || ticket->attempt != attempt.number) return;
  ticket->attempt = 0;
  ticket->result.run_s = outcome.run_s;
  if (outcome.kind == Kind::done) {
    JobDeviceReport& report = devices_[device].report;
    ++report.jobs;
    report.cost += ticket->job.cost;
    report.busy_s += outcome.run_s;
    run_times_.emplace_back(outcome.run_s, attempt.device);
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
  const int retries = ticket->job.retries.value_or(options_.retries);
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
      ticket->broke.push_back(attempt.device);
      if (ticket->broke.size() >= 2) {
        totals_.set_aside.push_back(ticket->id);
        return end_failed(
            ticket, ErrorClass::lost,
            fmt::format("set aside, because two devices were lost while they ran it, {} and {}; the last "
                        "error: {}",
                        device_name(ticket->broke[0]), device_name(ticket->broke[1]), outcome.error));
      }
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

void JobQueue::stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  work_.notify_all();
  ended_.notify_all();
}

bool JobQueue::stopped() const {
  std::lock_guard lock(mutex_);
  return stopped_;
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

std::vector<std::shared_ptr<JobTicket>> JobQueue::wait_for(const std::shared_ptr<JobSink>& sink,
                                                           double seconds,
                                                           const std::function<bool()>& drive) {
  std::unique_lock lock(mutex_);
  const auto there = [&] { return sink->remaining == 0 || (sink->wants_each && !sink->ended.empty()); };
  if (drive) {
    while (!there()) {
      lock.unlock();
      const bool went_on = drive();
      lock.lock();
      if (!went_on && !there())
        throw Error(ErrorClass::internal,
                    fmt::format("jobs: nothing is left to run, yet {} jobs have not ended", sink->remaining));
    }
  } else {
    ended_.wait_for(lock, std::chrono::duration<double>(seconds), there);
  }
  std::vector<Ticket> result(sink->ended.begin(), sink->ended.end());
  sink->ended.clear();
  return result;
}

bool JobQueue::wait_for(const JobTicket& ticket, double seconds, const std::function<bool()>& drive) {
  std::unique_lock lock(mutex_);
  if (!drive) {
    if (seconds > 1e9) {
      ended_.wait(lock, [&] { return ticket.ended; });
      return true;
    }
    return ended_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return ticket.ended; });
  }
  while (!ticket.ended) {
    lock.unlock();
    const bool went_on = drive();
    lock.lock();
    if (!went_on) break;
  }
  return ticket.ended;
}

void JobQueue::wait_for_room(const std::function<bool()>& drive) {
  std::unique_lock lock(mutex_);
  while (slots_ >= options_.queue_limit && !stopped_) {
    if (!drive) {
      ended_.wait(lock);
      continue;
    }
    lock.unlock();
    const bool went_on = drive();
    lock.lock();
    if (!went_on) return;
  }
}

void JobQueue::wait_until_idle(const std::function<bool()>& drive) {
  std::unique_lock lock(mutex_);
  while (alive_ > 0) {
    if (!drive) {
      ended_.wait(lock);
      continue;
    }
    lock.unlock();
    const bool went_on = drive();
    lock.lock();
    if (!went_on && alive_ > 0)
      throw Error(ErrorClass::internal,
                  fmt::format("jobs: nothing is left to run, yet {} jobs have not ended", alive_));
  }
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

void JobQueue::count_cache(int device, std::uint64_t hits, std::uint64_t misses, std::uint64_t evictions) {
  std::lock_guard lock(mutex_);
  JobDeviceReport& report = devices_[static_cast<std::size_t>(device)].report;
  report.cache_hits += hits;
  report.cache_misses += misses;
  report.cache_evictions += evictions;
}

JobReport JobQueue::report() const {
  std::lock_guard lock(mutex_);
  JobReport report = totals_;
  for (const QueueDevice& device : devices_) report.devices.push_back(device.report);
  report.makespan_s = last_ended_s_ - first_given_s_;
  // A job's run time on its device, times that device's speed, is its cost in nanoseconds of speed 1.
  std::vector<std::uint64_t> costs;
  for (const auto& [seconds, device] : run_times_)
    costs.push_back(static_cast<std::uint64_t>(std::max(seconds, 0.0) * 1e9 *
                                               devices_[static_cast<std::size_t>(device)].speed));
  std::vector<DeviceLoad> devices;
  for (std::size_t d = 0; d < devices_.size(); ++d)
    devices.push_back({static_cast<int>(d), 0, devices_[d].speed});
  report.lower_bound_s = makespan_lower_bound(devices, costs) * 1e-9;
  return report;
}

}  // namespace shardwise
