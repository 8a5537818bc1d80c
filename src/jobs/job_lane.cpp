#include "jobs/job_lane.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "jobs/isolated_worker.hpp"
#include "jobs/job_program.hpp"
#include "jobs/lane_context.hpp"
#include "jobs/source_programs.hpp"
#include "runtime/sim/sim_world.hpp"

namespace shardwise {

bool JobLane::comes(const Event& event, const Device& device, double seconds) {
  // Sim has to be told that the host knows, too: what it enqueues next is behind it.
  if (device.kind() == PlatformKind::sim) return event.wait_on_host_for(seconds);
  if (event.is_signalled()) return true;
  if (device.kind() == PlatformKind::cuda) {
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::microseconds(200))
      if (event.is_signalled()) return true;
  }
  return event.wait_on_host_for(seconds);
}

JobLane::JobLane(const DeviceSet& devices, int device, JobQueue& queue, const JobOptions& options,
                 SourcePrograms& sources)
    : devices_(devices.subset({device})),
      device_(device),
      queue_(queue),
      options_(options),
      sources_(sources),
      store_(queue.bytes(), device, devices[device].name()),
      in_(devices[device].create_stream("jobs in")),
      compute_(devices[device].create_stream("jobs")),
      out_(devices[device].create_stream("jobs out")) {
  if (options.isolate == JobIsolation::process && devices[device].kind() != PlatformKind::sim)
    worker_ = std::make_unique<IsolatedWorker>(options, devices[device]);
}

JobLane::~JobLane() {
  if (!abandoned_) return;
  // Something still runs there, or never will: the streams would wait for it, and it needs the device.
  keep_for_good(std::make_shared<DeviceSet>(devices_));
  for (std::unique_ptr<Stream>* const stream : {&in_, &compute_, &out_})
    keep_for_good(std::shared_ptr<Stream>(std::move(*stream)));
}

const Event& JobLane::front_event() const {
  return flights_.front().done;
}

bool JobLane::begin() {
  bool begun = false;
  while (flights_.size() < 2 && !abandoned_) {
    if (!flights_.empty()) {
      const JobTicket& first = *flights_.front().attempts.front().ticket;
      if (first.alone || first.job.program.state()->blocks) break;
    }
    JobQueue::Taken taken = queue_.take(device_, static_cast<int>(flights_.size()), store_.evictable_bytes());
    if (taken.wants_bytes > 0 && store_.make_room(taken.wants_bytes)) continue;
    if (taken.attempts.empty()) break;
    begun = true;
    if (queue_.is_isolated(device_, *taken.attempts.front().ticket->job.program.state()))
      run_isolated(std::move(taken.attempts.front()));
    else
      start(std::move(taken.attempts));
  }
  return begun;
}

void JobLane::call(LaneContext& context) {
  const JobProgram::State& program = *context.job().program.state();
  const bool on_cuda = context.device().kind() == PlatformKind::cuda;
  if (program.source && on_cuda) return sources_.launch(*program.source, context);
  program.native(context);
}

void JobLane::start(std::vector<JobAttempt> attempts) {
  Flight flight;
  flight.begun_s = now();
  bool any_outputs = false;
  for (JobAttempt& attempt : attempts) {
    flight.contexts.push_back(std::make_unique<LaneContext>(*this, attempt));
    LaneContext& context = *flight.contexts.back();
    try {
      context.declined = context.job().admit && !context.job().admit();
      if (context.declined) continue;
      context.send_inputs();
      call(context);
      if (context.has_outputs()) {
        out_->wait(compute_->record());
        context.fetch_outputs();
        any_outputs = true;
      }
    } catch (...) {
      context.error = std::current_exception();
    }
  }
  flight.attempts = std::move(attempts);
  try {
    if (any_outputs) {
      out_->wait(compute_->record());
      flight.done = out_->record();
    } else {
      flight.done = compute_->record();
    }
  } catch (...) {
    if (!flight.contexts.front()->error) flight.contexts.front()->error = std::current_exception();
  }
  flights_.push_back(std::move(flight));
}

// When it was over. Sim knows it to the moment; the host may have gone on to a later one since.
double JobLane::end_time(const Event& done) const {
  const auto* const event = dynamic_cast<const SimEvent*>(done.state());
  return event ? event->time_s() : now();
}

void JobLane::finish_front() {
  Flight flight = std::move(flights_.front());
  flights_.pop_front();
  // The device begins a flight when it is done with the one before.
  const double begun = std::max(flight.begun_s, last_end_s_);
  double timeout = 0;
  for (const JobAttempt& attempt : flight.attempts)
    timeout += attempt.ticket->job.timeout_s.value_or(options_.timeout_s);
  const double left = std::max(timeout - (now() - begun), 0.0);
  const auto count = static_cast<double>(flight.attempts.size());
  if (!comes(flight.done, devices_.master(), left)) {
    const double so_far_s = std::max(now() - begun, 0.0) / count;
    return finish_late(std::move(flight), timeout, so_far_s);
  }
  const double end = end_time(flight.done);
  last_end_s_ = end;
  const double run_s = (end - begun) / count;
  const LaneStore::Counts counts = store_.take_counts();
  if (counts.hits + counts.misses + counts.evictions > 0)
    queue_.count_cache(device_, counts.hits, counts.misses, counts.evictions);
  bool good = !flight.done.failed();
  for (const auto& context : flight.contexts) good = good && !context->error;
  if (!good) return finish_failed(std::move(flight), run_s);
  // Sim's clock is not ours: what took too long there did so in virtual time, and is over.
  if (end - begun > timeout && devices_.sim_world()) return finish_late(std::move(flight), timeout, run_s);
  std::vector<JobOutcome> outcomes;
  for (std::size_t i = 0; i < flight.attempts.size(); ++i) outcomes.push_back(success(flight, i, run_s));
  // The watch may have given the attempt up while its program was running: it is back now.
  if (report(std::move(flight), std::move(outcomes)) == JobDeviceState::suspect) probe();
}

JobOutcome JobLane::success(Flight& flight, std::size_t i, double run_s) {
  LaneContext& context = *flight.contexts[i];
  JobOutcome outcome;
  if (context.declined) outcome.kind = JobOutcome::Kind::declined;
  outcome.run_s = run_s;
  outcome.bytes_in = context.moved_in_;
  for (std::vector<std::byte>& bytes : context.host_outputs_) {
    outcome.bytes_out += bytes.size();
    outcome.outputs.push_back(std::move(bytes));
  }
  outcome.value = std::move(context.value_);
  return outcome;
}

// What a flight holds on the device goes before its promise of bytes does.
JobDeviceState JobLane::report(Flight flight, std::vector<JobOutcome> outcomes) {
  flight.contexts.clear();
  return queue_.finish(std::move(flight.attempts), std::move(outcomes));
}

}  // namespace shardwise
