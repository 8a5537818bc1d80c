#include "jobs/job_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "jobs/job_program.hpp"
#include "shardwise/shard/lpt.hpp"

namespace shardwise {
namespace {

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
                   Clock clock, bool waits, std::set<std::string> worker_twins)
    : options_(options),
      clock_(std::move(clock)),
      waits_(waits),
      worker_twins_(std::move(worker_twins)),
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
  const JobProgram::State& program = *ticket->job.program.state();
  return devices_[device].kind == PlatformKind::cuda || program.native ||
         is_isolated(static_cast<int>(device), program);
}

bool JobQueue::is_isolated(int device, const JobProgram::State& program) const {
  if (options_.isolate != JobIsolation::process || !program.source) return false;
  const PlatformKind kind = devices_[static_cast<std::size_t>(device)].kind;
  return kind == PlatformKind::cuda ||
         (kind == PlatformKind::host && worker_twins_.contains(program.source->kernel));
}

// Whether its worker can do nothing else beside it.
bool JobQueue::blocks(std::size_t device, const Ticket& ticket) const {
  const JobProgram::State& program = *ticket->job.program.state();
  return program.blocks || is_isolated(static_cast<int>(device), program);
}

void JobQueue::count_worker(int device) {
  std::lock_guard lock(mutex_);
  ++devices_[static_cast<std::size_t>(device)].report.workers;
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
