#include "jobs/job_lane.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "jobs/isolated_worker.hpp"
#include "jobs/job_program.hpp"
#include "jobs/source_programs.hpp"
#include "runtime/sim/sim_world.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise {

class LaneContext final : public JobContext {
 public:
  LaneContext(JobLane& lane, JobAttempt& attempt) : lane_(lane), ticket_(attempt.ticket) {
    watched_.ticket = attempt.ticket;
    watched_.number = attempt.number;
  }

  const Job& job() const override { return ticket_->job; }
  Device& device() const override { return lane_.devices_.master(); }
  int device_index() const override { return lane_.device_; }
  const DeviceSet& devices() const override { return lane_.devices_; }
  Stream& stream() const override { return *lane_.compute_; }

  const void* input_data(std::size_t index) const override {
    check_input(index);
    return input_bytes(index) == 0 ? nullptr
                                   : static_cast<const std::byte*>(inputs_.data()) + offsets_[index];
  }
  std::uint64_t input_bytes(std::size_t index) const override {
    check_input(index);
    return ticket_->job.inputs[index].bytes().size();
  }

  void* output_bytes(std::uint64_t bytes) override {
    if (outputs_.size() + 1 >= AccessList::capacity)
      throw_usage(fmt::format("job '{}': a job has at most {} outputs; put several into one", ticket_->id,
                              AccessList::capacity - 1));
    outputs_.emplace_back(*lane_.compute_, bytes,
                          fmt::format("output {} of job '{}'", outputs_.size(), ticket_->id));
    return outputs_.back().data();
  }

  void launch(std::string name, std::int64_t items, std::function<void(LaunchContext&)> body) override {
    Operation operation;
    operation.name = std::move(name);
    operation.items = items;
    operation.body = std::move(body);
    if (inputs_.bytes() > 0) operation.accesses.add(inputs_.access(AccessMode::read));
    for (const Memory& output : outputs_)
      if (output.bytes() > 0) operation.accesses.add(output.access(AccessMode::write));
    lane_.compute_->enqueue(std::move(operation));
  }

  bool is_cancelled() const override { return lane_.queue_.has_cancelled(watched_); }
  void set_value(std::any value) override { value_ = std::move(value); }
  WarmStore& warm_store() override { return lane_.store_; }
  void hold(std::shared_ptr<void> value) override { held_.push_back(std::move(value)); }

  /// Inputs to the device, in one allocation and one copy.
  void send_inputs() {
    constexpr std::uint64_t alignment = 256;
    std::uint64_t total = 0;
    for (const JobInput& input : ticket_->job.inputs) {
      offsets_.push_back(total);
      total += (input.bytes().size() + alignment - 1) / alignment * alignment;
    }
    if (total == 0) return;
    inputs_ = Memory(*lane_.in_, total, fmt::format("inputs of job '{}'", ticket_->id));
    std::vector<CopyPiece> pieces;
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      const auto bytes = ticket_->job.inputs[i].bytes();
      if (!bytes.empty())
        pieces.push_back({static_cast<std::byte*>(inputs_.data()) + offsets_[i], bytes.data(), bytes.size()});
    }
    lane_.in_->enqueue(copy_operation("inputs of job '" + ticket_->id + "'", std::move(pieces),
                                      {inputs_.access(AccessMode::write)}));
    lane_.compute_->wait(lane_.in_->record());
    moved_in_ = total;
  }

  bool has_outputs() const { return !outputs_.empty(); }
  void fetch_outputs() {
    for (const Memory& output : outputs_) {
      const auto& places = ticket_->places;
      const std::size_t i = host_outputs_.size();
      const bool has_place = i < places.size() && places[i].size() == output.bytes();
      host_outputs_.emplace_back(has_place ? 0 : output.bytes());
      if (!places.empty()) ticket_->output_sizes.push_back(output.bytes());
      if (output.bytes() > 0)
        lane_.out_->enqueue(copy_operation("outputs of job '" + ticket_->id + "'",
                                           has_place ? places[i].data() : host_outputs_.back().data(),
                                           output.data(), output.bytes(), {output.access(AccessMode::read)}));
    }
  }

  std::exception_ptr error;  ///< of the call
  bool declined = false;     ///< there was none

 private:
  friend class JobLane;
  void check_input(std::size_t index) const {
    if (index >= ticket_->job.inputs.size())
      throw_usage(fmt::format("job '{}' has {} inputs, none of index {}", ticket_->id,
                              ticket_->job.inputs.size(), index));
  }

  JobLane& lane_;
  std::shared_ptr<JobTicket> ticket_;
  JobAttempt watched_;  ///< without promises: to ask whether it still counts
  Memory inputs_;
  std::vector<std::uint64_t> offsets_;
  std::vector<Memory> outputs_;
  std::vector<std::vector<std::byte>> host_outputs_;  ///< their bytes stay where they are
  std::vector<std::shared_ptr<void>> held_;
  std::any value_;
  std::uint64_t moved_in_ = 0;
};

namespace {

/// As EventState::wait_on_host_for(), which sleeps between its questions to a GPU: short jobs are asked for
/// at once.
bool comes(const Event& event, const Device& device, double seconds) {
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

/// Keeps what a device that was given up may still use, to the end of the process and past it.
void keep_for_good(std::shared_ptr<void> what) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(what));
}

}  // namespace

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
  report(std::move(flight), std::move(outcomes));
  drop_others("a job before it failed on this device");
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
