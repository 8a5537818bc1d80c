// A lane's flights that did not come through: whose fault it was, and whether the device is still there.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "jobs/isolated_worker.hpp"
#include "jobs/job_lane.hpp"
#include "jobs/lane_context.hpp"
#include "shardwise/runtime/copy.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

void JobLane::keep_for_good(std::shared_ptr<void> what) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(what));
}

JobLane::Failure JobLane::classify(const std::exception_ptr& error) const {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    const JobOutcome::Kind kind = e.error_class() == ErrorClass::lost     ? JobOutcome::Kind::device_lost
                                  : e.error_class() == ErrorClass::memory ? JobOutcome::Kind::out_of_memory
                                                                          : JobOutcome::Kind::failed;
    return {kind, e.error_class(), e.what()};
  } catch (const std::bad_alloc&) {
    return {JobOutcome::Kind::out_of_memory, ErrorClass::memory,
            "out of memory on the host (std::bad_alloc)"};
  } catch (const std::exception& e) {
    return {JobOutcome::Kind::failed, ErrorClass::device, e.what()};
  } catch (...) {
    return {JobOutcome::Kind::failed, ErrorClass::device,
            "the program threw something that is no std::exception"};
  }
}

// Of who wrote the job, or of who stopped it: the device has no part in it, and is not asked.
bool JobLane::is_mistake(const std::exception_ptr& error) const {
  const Failure failure = classify(error);
  return failure.kind == JobOutcome::Kind::failed &&
         (failure.error_class == ErrorClass::usage || failure.error_class == ErrorClass::data ||
          failure.error_class == ErrorClass::interrupted);
}

std::exception_ptr JobLane::take_stream_error() {
  std::exception_ptr root, consequence;
  for (Stream* stream : {compute_.get(), in_.get(), out_.get()}) {
    try {
      stream->synchronize();
    } catch (const DependencyError&) {
      if (!consequence) consequence = std::current_exception();
    } catch (...) {
      if (!root) root = std::current_exception();
    }
  }
  return root ? root : consequence;
}

void JobLane::finish_failed(Flight flight, double run_s) {
  // Whatever is behind ends, too, before the streams are asked for their errors.
  for (const Flight& other : flights_) {
    if (comes(other.done, devices_.master(), options_.probe_s)) continue;
    queue_.set_state(device_, JobDeviceState::lost,
                     fmt::format("what was behind a failed job did not end within {:g} s", options_.probe_s));
    abandon(std::move(flight));
    return;
  }
  const std::exception_ptr stream_error = take_stream_error();
  std::vector<JobOutcome> outcomes(flight.attempts.size());
  bool lost = false;
  std::string why;
  for (std::size_t i = 0; i < flight.attempts.size(); ++i) {
    JobOutcome& outcome = outcomes[i];
    const std::exception_ptr own = flight.contexts[i]->error;
    const std::exception_ptr error = own ? own : stream_error;
    outcome.run_s = run_s;
    if (!error) {  // another of the group failed, and this one ran
      outcome = success(flight, i, run_s);
      continue;
    }
    const Failure failure = classify(error);
    outcome.kind = failure.kind;
    outcome.error_class = failure.error_class;
    outcome.error = failure.text;
    if (failure.kind == JobOutcome::Kind::device_lost) {
      lost = true;
      why = failure.text;
    }
    // Which job of a group met the stream's error is not known: each runs again by itself.
    if (!own && flight.attempts.size() > 1) outcome.kind = JobOutcome::Kind::collateral;
  }
  // Before any of its jobs is given on or ends: not to a device that is lost, and whoever hears of the
  // failure hears what the device has to say to it.
  if (lost) {
    queue_.set_state(device_, JobDeviceState::lost, why);
  } else if (stream_error || !std::ranges::all_of(flight.contexts, [this](const auto& context) {
               return !context->error || is_mistake(context->error);
             })) {
    queue_.set_state(device_, JobDeviceState::suspect);
    probe();
  }
  const JobDeviceState state = report(std::move(flight), std::move(outcomes));
  drop_others("a job before it failed on this device");
  // The watch may have given the attempt up, as one that comes back well: nobody else asks the device then.
  if (state == JobDeviceState::suspect) probe();
}

// Flights behind a failed one: done where they came through, else another's fault.
void JobLane::drop_others(const std::string& why) {
  while (!flights_.empty()) {
    Flight other = std::move(flights_.front());
    flights_.pop_front();
    bool good = other.done.is_signalled() && !other.done.failed();
    for (const auto& context : other.contexts) good = good && !context->error;
    std::vector<JobOutcome> outcomes;
    for (std::size_t i = 0; i < other.attempts.size(); ++i) {
      if (good) {
        outcomes.push_back(success(other, i, 0));
      } else {
        JobOutcome outcome;
        outcome.kind = JobOutcome::Kind::collateral;
        outcome.error = why;
        outcomes.push_back(std::move(outcome));
      }
    }
    report(std::move(other), std::move(outcomes));
  }
}

void JobLane::finish_late(Flight flight, double timeout_s, double run_s) {
  std::vector<JobOutcome> outcomes(flight.attempts.size());
  for (JobOutcome& outcome : outcomes) {
    outcome.kind = JobOutcome::Kind::timed_out;
    outcome.error_class = ErrorClass::device;
    outcome.run_s = run_s;
    outcome.error = fmt::format("not done within its timeout of {:g} s (device {}, stream '{}')", timeout_s,
                                devices_.master().name(), compute_->name());
    if (flight.attempts.size() > 1) outcome.kind = JobOutcome::Kind::collateral;
  }
  queue_.set_state(device_, JobDeviceState::suspect);
  std::vector<JobAttempt> attempts = std::move(flight.attempts);
  // The promise of bytes goes with the attempts, though the device may still be at it: it takes no jobs until
  // it is done, or is lost.
  queue_.finish(std::move(attempts), std::move(outcomes));
  if (!comes(flight.done, devices_.master(), options_.probe_s)) {
    queue_.set_state(device_, JobDeviceState::lost,
                     fmt::format("a job past its timeout of {:g} s did not end in {:g} s more", timeout_s,
                                 options_.probe_s));
    return abandon(std::move(flight));
  }
  flight.contexts.clear();
  last_end_s_ = end_time(flight.done);
  for (const Flight& other : flights_) {
    if (comes(other.done, devices_.master(), options_.probe_s)) continue;
    queue_.set_state(device_, JobDeviceState::lost, "what was behind a job past its timeout did not end");
    return abandon(std::move(flight));
  }
  take_stream_error();
  drop_others("a job before it went past its timeout on this device");
  probe();
}

void JobLane::probe() {
  std::string why;
  try {
    Memory sign(*compute_, 64, "probe");
    compute_->enqueue(zero_operation("probe", sign.data(), sign.bytes(), {sign.access(AccessMode::write)}));
    const Event event = compute_->record();
    if (!comes(event, devices_.master(), options_.probe_s)) {
      queue_.set_state(device_, JobDeviceState::lost,
                       fmt::format("a probe got no answer within {:g} s", options_.probe_s));
      abandoned_ = true;
      static_cast<void>(new Memory(std::move(sign)));  // for good: the device may still come to it
      return;
    }
    compute_->synchronize();
    queue_.set_state(device_, JobDeviceState::ok);
    return;
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
    why = "unknown error";
  }
  queue_.set_state(device_, JobDeviceState::lost, "a probe failed: " + why);
}

// What a flight uses stays for good: something of it may still run.
void JobLane::abandon(Flight flight) {
  abandoned_ = true;
  std::vector<Flight> all;
  all.push_back(std::move(flight));
  while (!flights_.empty()) {
    all.push_back(std::move(flights_.front()));
    flights_.pop_front();
  }
  for (Flight& each : all) {
    std::vector<JobOutcome> outcomes(each.attempts.size());
    for (JobOutcome& outcome : outcomes) {
      outcome.kind = JobOutcome::Kind::collateral;
      outcome.error = "its device was given up";
    }
    std::vector<JobAttempt> attempts = std::move(each.attempts);
    if (!attempts.empty()) queue_.finish(std::move(attempts), std::move(outcomes));
    for (auto& context : each.contexts) keep_for_good(std::shared_ptr<LaneContext>(std::move(context)));
  }
}

}  // namespace shardwise
