#include "runtime/sim/sim_world.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/timeline.hpp"

namespace shardwise {

void SimEvent::wait_on_host() {
  world_->run_until([&] { return signalled_; });
  world_->checker().on_host_wait(clock);
  world_->reach_on_host(time_s_);
}

bool SimEvent::wait_on_host_for(double seconds) {
  if (!world_->run_until([&] { return signalled_; }, seconds)) return false;
  wait_on_host();
  return true;
}

void SimEvent::signal(bool failed, double time_s) {
  signalled_ = true;
  failed_ = failed;
  time_s_ = time_s;
}

double SimEvent::seconds_since(EventState& earlier) {
  return time_s_ - dynamic_cast<SimEvent&>(earlier).time_s_;
}

std::vector<RaceReport> SimScheduler::races() const {
  std::vector<RaceReport> result;
  for (const Race& race : checker_.races()) result.push_back({race.first, race.second, race.text()});
  return result;
}

std::uint64_t SimScheduler::take_order_hash() {
  return std::exchange(order_hash_, empty_order_hash);
}

void SimScheduler::add_stream(SimStream* stream) {
  streams_.push_back(stream);
}
void SimScheduler::remove_stream(SimStream* stream) {
  std::erase(streams_, stream);
}

bool SimScheduler::run_until(const std::function<bool()>& done, double patience_s) {
  // However this ends, the host may read everything again.
  struct OpenAll {
    SimMemory& memory;
    ~OpenAll() { memory.open_all(); }
  } open_all{memory_};
  std::vector<SimStream*> ready;
  while (!done()) {
    ready.clear();
    bool hangs = false;
    for (SimStream* stream : streams_) {
      if (stream->is_ready()) ready.push_back(stream);
      hangs = hangs || stream->hangs();
    }
    if (ready.empty() && hangs) {
      if (!expire_one(patience_s)) return false;
      continue;
    }
    if (ready.empty())
      throw Error(ErrorClass::internal,
                  "sim: nothing is ready to run, yet the host waits; an event is waited for that "
                  "no stream of this sim set will signal");
    std::string name = ready[random_() % ready.size()]->step();
    if (name.empty()) continue;
    name += '\n';
    for (const char c : name) order_hash_ = (order_hash_ ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  }
  return true;
}

bool SimScheduler::expire_one(double patience_s) {
  const double deadline_s = faults_.script().deadline_s;
  if (deadline_s > patience_s) return false;
  const auto first =
      std::find_if(streams_.begin(), streams_.end(), [](SimStream* stream) { return stream->hangs(); });
  (*first)->expire(deadline_s);
  return true;
}

void SimScheduler::set_faults(const FaultScript& script) {
  for (const Fault& fault : script.faults)
    if (fault.kind == FaultKind::no_peer)
      throw_usage(fmt::format(
          "faults: '{}' is fixed when devices are opened; give it to OpenOptions::sim_faults", fault.text()));
  faults_.set(script);
  faults_met_.clear();
  for (SimDevice* device : devices_) device->revive();
}

void SimScheduler::set_first_faults(const FaultScript& script) {
  faults_.set(script);
  for (const Fault& fault : script.faults)
    if (fault.kind == FaultKind::no_peer) no_peers_.emplace_back(fault.from, fault.to);
}

FaultSteps SimScheduler::fault_steps(int device) const {
  if (device < 0 || device >= static_cast<int>(topology_.devices.size()))
    throw_usage(fmt::format("SimWorld::fault_steps: no device {}; give 0 to {}", device,
                            topology_.devices.size() - 1));
  return faults_.steps(device);
}

SimDevice* SimScheduler::device(int index) const {
  for (SimDevice* device : devices_)
    if (device->info().index == index) return device;
  return nullptr;
}

bool SimScheduler::denies_peer(int from, int to) const {
  return std::any_of(no_peers_.begin(), no_peers_.end(), [&](const std::pair<int, int>& pair) {
    return pair == std::pair{from, to} || pair == std::pair{to, from};
  });
}

std::unique_ptr<Stream> SimDevice::create_stream(const std::string& name) {
  return std::make_unique<SimStream>(*this, name);
}

std::uint64_t SimDevice::free_memory() {
  const std::uint64_t used = memory(MemoryUse::work).current() + memory(MemoryUse::scene).current();
  return used < info().memory_bytes ? info().memory_bytes - used : 0;
}

void* SimDevice::raw_allocate(Stream&, std::uint64_t bytes, const std::string& what) {
  if (!lost_.empty()) throw_lost(fmt::format("no memory for {}", what));
  if (const auto met = world_->faults().on_allocation(info().index, what)) {
    world_->note_fault(fmt::format("{}: '{}' on {}", met->text, what, name()));
    if (met->kind == FaultKind::lost) {
      lose(met->text);
      throw_lost(fmt::format("no memory for {}", what));
    }
    throw Error(ErrorClass::memory, fmt::format("{}: no memory for {} ({} bytes asked for; injected: {})",
                                                name(), what, bytes, met->text));
  }
  if (bytes > free_memory()) return nullptr;
  return world_->memory().allocate(info().index, bytes);
}

void SimDevice::raw_release(Stream& stream, void* pointer, ResourceId resource, std::uint64_t bytes,
                            std::function<void()> done) {
  Operation operation = release_operation(pointer, release_host_bytes, resource, bytes, {});
  operation.body = [this, pointer, done = std::move(done)](LaunchContext&) {
    world_->memory().release(pointer);
    done();
  };
  stream.enqueue(std::move(operation));
}

void SimDevice::lose(const std::string& why) {
  if (lost_.empty()) lost_ = why;
}

void SimDevice::throw_lost(const std::string& what) const {
  throw Error(ErrorClass::lost, fmt::format("{}: {}: the device is lost ({})", name(), what, lost_));
}

/// Where a copy comes from and goes to; of others the device itself.
std::pair<int, int> SimDevice::ends_of(const Operation& operation) const {
  if (operation.kind != OperationKind::copy) return {info().index, info().index};
  const auto end = [&](const CopyEnd& end) {
    return end.device != CopyEnd::by_address ? end.device : world_->memory().device_of(end.address);
  };
  return {end(operation.from), end(operation.to)};
}

bool SimDevice::meet_fault(const Operation& operation, const std::string& where) {
  if (operation.kind == OperationKind::release) return false;
  const bool copy = operation.kind == OperationKind::copy;
  const std::string what = fmt::format("{} '{}'", copy ? "copy" : "launch", operation.name);
  if (!lost_.empty()) throw_lost(what);
  if (const auto met = world_->faults().on_operation(info().index, operation)) {
    world_->note_fault(fmt::format("{}: '{}' on {}", met->text, operation.name, where));
    if (met->kind == FaultKind::hangs) return true;
    if (met->kind == FaultKind::lost) {
      lose(met->text);
      throw_lost(what);
    }
    throw Error(ErrorClass::device, fmt::format("{}: {} failed (injected: {})", name(), what, met->text));
  }
  const auto require = [&](int index) {
    if (index < 0 || index == info().index) return;
    const SimDevice* other = world_->device(index);
    if (other && !other->lost_.empty()) other->throw_lost(fmt::format("{} on {}", what, where));
  };
  const auto [from, to] = ends_of(operation);
  require(from);
  require(to);
  for (const Access& access : operation.accesses)
    if (!access.is_empty()) require(world_->memory().device_of(access.resource));
  return false;
}

std::pair<double, double> SimDevice::begin_and_duration(const Operation& operation, double ready_s) {
  if (operation.kind == OperationKind::release) return {ready_s, 0};
  const FaultInjector& faults = world_->faults();
  const double slow = faults.device_factor(info().index);
  if (operation.kind == OperationKind::copy) {
    const auto [from, to] = ends_of(operation);
    return world_->links().take(from, to, operation.bytes, ready_s, world_->denies_peer(from, to),
                                slow * faults.link_factor(from, to));
  }
  double duration = sim_launch_s(operation, world_->topology(), info().index) * slow;
  // A launch that reads or writes another device's memory moves its bytes while it runs: it need not wait for
  // a link to begin, but it does not end before the link has had the time for them, too.
  if (operation.from.device >= 0 && operation.to.device >= 0 &&
      operation.from.device != operation.to.device) {
    const int from = operation.from.device, to = operation.to.device;
    const double begin = engine_.first_gap(ready_s, duration);
    const auto [link_begin, link_s] =
        world_->links().take(from, to, operation.bytes, begin, false, slow * faults.link_factor(from, to));
    duration = std::max(duration, link_begin + link_s - begin);
  }
  return {engine_.take(ready_s, duration), duration};
}

void SimDevice::note_allocation(Stream& stream, const Allocation& allocation) {
  world_->memory().name(allocation);
  Operation operation;
  operation.name = "allocate " + allocation.name;
  Access access;
  access.resource = allocation.resource;
  access.length = allocation.bytes;
  access.mode = AccessMode::write;
  operation.accesses = {access};
  world_->checker().on_operation(dynamic_cast<SimStream&>(stream).index(), operation);
}

SimStream::SimStream(SimDevice& device, std::string name)
    : Stream(device, std::move(name)),
      device_(device),
      index_(device.world().checker().add_stream(device.name() + "/" + this->name())) {
  device.world().add_stream(this);
}

SimStream::~SimStream() {
  try {
    device_.world().run_until([&] { return queue_.empty(); });
  } catch (...) {
    // Waiting for an event that never comes: what is queued is dropped with the stream, its events signalled
    // as failed.
    fail(std::make_exception_ptr(
        DependencyError(device_.name() + "/" + name() + ": dropped while it waited")));
    while (!queue_.empty()) {
      if (queue_.front().wait_for)
        queue_.pop_front();
      else
        step();
    }
  }
  device_.world().remove_stream(this);
}

void SimStream::push(Item item) {
  item.earliest_s = device_.world().host_time();
  queue_.push_back(std::move(item));
}

void SimStream::enqueue(Operation operation) {
  last_enqueued_ = operation.name;
  device_.world().checker().on_operation(index_, operation);
  push({std::move(operation), nullptr, nullptr});
}

Event SimStream::record(bool timed) {
  auto event = std::make_shared<SimEvent>(device_.shared_world());
  event->recorded_after = last_enqueued_;
  if (timed) mark_timed(*event);
  event->clock = device_.world().checker().on_record(index_);
  push({{}, event, nullptr});
  return Event(event);
}

void SimStream::wait(const Event& event) {
  if (!event.state()) return;
  auto sim_event = std::dynamic_pointer_cast<SimEvent>(event.shared_state());
  if (!sim_event)
    throw_usage(
        fmt::format("{}: a sim stream cannot wait for an event of a real device ('{}'); use sim devices only",
                    device_.name(), event.state()->recorded_after));
  device_.world().checker().on_wait(index_, sim_event->clock);
  push({{}, nullptr, std::move(sim_event)});
}

void SimStream::synchronize() {
  device_.world().run_until([&] { return queue_.empty(); });
  device_.world().checker().on_host_wait(device_.world().checker().on_record(index_));
  device_.world().reach_on_host(time_s_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

std::string SimStream::error() {
  return error_text(error_);
}

void SimStream::expire(double deadline_s) {
  hangs_ = false;
  time_s_ = std::max(time_s_, queue_.front().earliest_s) + deadline_s;
  device_.lose(fmt::format("'{}' on {} has not ended within {:g} s, the deadline",
                           queue_.front().operation.name, where(), deadline_s));
}

bool SimStream::is_ready() const {
  return !hangs_ && !queue_.empty() && (!queue_.front().wait_for || queue_.front().wait_for->is_signalled());
}

namespace {

class SimLaunchContext final : public LaunchContext {
 public:
  explicit SimLaunchContext(SimDevice& device) : device_(device) {}
  Device& device() override { return device_; }
  void parallel_for(std::int64_t count, std::int64_t grain, const RangeFunction& function) override {
    device_.world().pool().parallel_for(count, grain, function);
  }
  void execute(const std::function<void()>& function) override { device_.world().pool().execute(function); }

 private:
  SimDevice& device_;
};

}  // namespace

void SimStream::run_operation(Operation& operation) {
  SimLaunchContext context(device_);
  const std::string waited_for = std::exchange(waited_for_, {});
  SimMemory& memory = device_.world().memory();
  const bool skipped = device_.world().topology().dry && operation.kind != OperationKind::release;
  if (skipped) {
    // A plan: time passes, nothing happens.
  } else if (memory.is_guarded() && operation.kind != OperationKind::release) {
    memory.begin(operation);
    std::exception_ptr error;
    try {
      operation.body(context);
    } catch (...) {
      error = std::current_exception();
    }
    const std::string touched = memory.end(operation, where());
    if (!touched.empty()) throw Error(ErrorClass::internal, touched);
    if (error) std::rethrow_exception(error);
  } else {
    operation.body(context);
  }
  const auto [begin, duration] = device_.begin_and_duration(operation, time_s_);
  time_s_ = begin + duration;
  Timeline* timeline = device_.timeline();
  if (timeline && timeline->is_recording() && operation.kind != OperationKind::release)
    timeline->add({device_.name(), name(), operation.name, operation.kind, operation.bytes, begin, time_s_,
                   waited_for});
}

std::string SimStream::step() {
  Item item = std::move(queue_.front());
  queue_.pop_front();
  time_s_ = std::max(time_s_, item.earliest_s);
  if (item.wait_for) {
    time_s_ = std::max(time_s_, item.wait_for->time_s());
    waited_for_ = item.wait_for->recorded_after;
    if (item.wait_for->failed())
      fail(std::make_exception_ptr(DependencyError(device_.name() + ": not run, because '" +
                                                   item.wait_for->recorded_after + "' failed")));
    return {};
  }
  if (item.signal) {
    item.signal->signal(static_cast<bool>(error_), time_s_);
    return {};
  }
  // Releases run also behind an error: their memory is free either way.
  if (!error_) {
    try {
      if (device_.meet_fault(item.operation, where())) {
        queue_.push_front(std::move(item));
        hangs_ = true;
        return {};
      }
    } catch (...) {
      fail(std::current_exception());
    }
  }
  if (!error_ || item.operation.kind == OperationKind::release) {
    try {
      run_operation(item.operation);
    } catch (...) {
      fail(std::current_exception());
    }
  }
  device_.world().reach(time_s_);
  return device_.name() + "/" + name() + "/" + item.operation.name;
}

}  // namespace shardwise
