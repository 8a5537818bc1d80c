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

void SimScheduler::run_until(const std::function<bool()>& done) {
  std::vector<SimStream*> ready;
  while (!done()) {
    ready.clear();
    for (SimStream* stream : streams_)
      if (stream->is_ready()) ready.push_back(stream);
    if (ready.empty())
      throw Error(ErrorClass::internal,
                  "sim: nothing is ready to run, yet the host waits; an event is waited for that "
                  "no stream of this sim set will signal");
    std::string name = ready[random_() % ready.size()]->step();
    if (name.empty()) continue;
    name += '\n';
    for (const char c : name) order_hash_ = (order_hash_ ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  }
}

std::unique_ptr<Stream> SimDevice::create_stream(const std::string& name) {
  return std::make_unique<SimStream>(*this, name);
}

std::uint64_t SimDevice::free_memory() {
  const std::uint64_t used = memory(MemoryUse::work).current() + memory(MemoryUse::scene).current();
  return used < memory_limit_ ? memory_limit_ - used : 0;
}

void* SimDevice::raw_allocate(Stream&, std::uint64_t bytes) {
  if (bytes > free_memory()) return nullptr;
  return allocate_host_bytes(bytes);
}

void SimDevice::raw_release(Stream& stream, void* pointer, ResourceId resource, std::uint64_t bytes,
                            std::function<void()> done) {
  stream.enqueue(release_operation(pointer, release_host_bytes, resource, bytes, std::move(done)));
}

std::pair<double, double> SimDevice::begin_and_duration(const Operation& operation, double ready_s) {
  const double duration = sim_duration_s(operation, world_->costs(), speed_);
  const bool shares_engine = operation.kind == OperationKind::launch || operation.kind == OperationKind::host;
  return {shares_engine ? engine_.take(ready_s, duration) : ready_s, duration};
}

void SimDevice::note_allocation(Stream& stream, ResourceId resource, std::uint64_t bytes,
                                const std::string& what) {
  Operation operation;
  operation.name = "allocate " + what;
  Access access;
  access.resource = resource;
  access.length = bytes;
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

bool SimStream::is_ready() const {
  return !queue_.empty() && (!queue_.front().wait_for || queue_.front().wait_for->is_signalled());
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
  operation.body(context);
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
