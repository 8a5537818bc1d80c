// The queue of jobs: where a job that is given, or given back, goes.

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "jobs/job_program.hpp"
#include "jobs/job_queue.hpp"
#include "shardwise/runtime/parse.hpp"
#include "shardwise/shard/lpt.hpp"

namespace shardwise {

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
  cancel_queued_if_any_failed(tickets);
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
    std::string why =
        any_left() ? "no device that may run it is left" : "no device is left: all of them were lost";
    if (ticket->attempts > 0 && ticket->last_failure)
      why += "; the last error: " + ticket->last_failure->message;
    end_failed(ticket, ErrorClass::lost, why);
    return;
  }
  ticket->stays = ticket->job.device.has_value();
  // Memory that is short now comes back while others run; what failed otherwise need not wait.
  enqueue(best, ticket, ticket->memory_failures == 0 && ticket->taken_up);
}

}  // namespace shardwise
