#include "runtime/host/host_stream.hpp"

#include <algorithm>

#include "runtime/sim/sim_world.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/timeline.hpp"

namespace shardwise {

void HostEvent::wait_on_host() {
  std::unique_lock lock(mutex_);
  condition_.wait(lock, [&] { return signalled_; });
}

bool HostEvent::wait_on_host_for(double seconds) {
  // Clocks count nanoseconds in 64 bits: thirty years do for ever.
  const std::chrono::duration<double> limit(std::min(seconds, 1e9));
  std::unique_lock lock(mutex_);
  return condition_.wait_for(lock, limit, [&] { return signalled_; });
}

bool HostEvent::is_signalled() {
  std::lock_guard lock(mutex_);
  return signalled_;
}

bool HostEvent::failed() {
  std::lock_guard lock(mutex_);
  return failed_;
}

void HostEvent::signal(bool failed) {
  {
    std::lock_guard lock(mutex_);
    signalled_ = true;
    failed_ = failed;
    if (timed_on) time_ = std::chrono::steady_clock::now();
  }
  condition_.notify_all();
}

double HostEvent::seconds_since(EventState& earlier) {
  // Written before the signal, and both are signalled.
  return std::chrono::duration<double>(time_ - dynamic_cast<HostEvent&>(earlier).time_).count();
}

namespace {

class HostLaunchContext final : public LaunchContext {
 public:
  explicit HostLaunchContext(HostDevice& device) : device_(device) {}
  Device& device() override { return device_; }
  void parallel_for(std::int64_t count, std::int64_t grain, const RangeFunction& function) override {
    device_.pool().parallel_for(count, grain, function);
  }
  void execute(const std::function<void()>& function) override { device_.pool().execute(function); }

 private:
  HostDevice& device_;
};

}  // namespace

HostStream::HostStream(HostDevice& device, std::string name)
    : Stream(device, std::move(name)), device_(device), worker_([this] { run(); }) {}

HostStream::~HostStream() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  worker_.join();
}

void HostStream::push(Item item) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(item));
  }
  work_.notify_one();
}

void HostStream::enqueue(Operation operation) {
  last_enqueued_ = operation.name;
  push({std::move(operation), nullptr, nullptr});
}

Event HostStream::record(bool timed) {
  auto event = std::make_shared<HostEvent>();
  event->recorded_after = last_enqueued_;
  if (timed) mark_timed(*event);
  push({{}, event, nullptr});
  return Event(event);
}

void HostStream::wait(const Event& event) {
  if (!event.state()) return;
  if (dynamic_cast<SimEvent*>(event.state()))
    throw_usage(device_.name() + ": a host stream cannot wait for an event of a sim device ('" +
                event.state()->recorded_after + "'), which runs in no real time; use one kind of devices");
  push({{}, nullptr, event.shared_state()});
}

void HostStream::synchronize() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return queue_.empty() && !busy_; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

std::string HostStream::error() {
  std::lock_guard lock(mutex_);
  return error_text(error_);
}

void HostStream::fail(std::exception_ptr error) {
  std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
}

void HostStream::wait_for(EventState& event) {
  event.wait_on_host();
  waited_for_ = event.recorded_after;
  if (event.failed())
    throw DependencyError(device_.name() + ": not run, because '" + event.recorded_after + "' failed");
}

void HostStream::run_operation(Operation& operation) {
  HostLaunchContext context(device_);
  Timeline* timeline = device_.timeline();
  const std::string waited_for = std::exchange(waited_for_, {});
  const bool recorded = timeline && timeline->is_recording() && operation.kind != OperationKind::release;
  const double begin = recorded ? timeline->now() : 0;
  operation.body(context);
  if (recorded)
    timeline->add({device_.name(), name(), operation.name, operation.kind, operation.bytes, begin,
                   timeline->now(), waited_for});
}

void HostStream::run_item(Item& item, bool failed) {
  if (item.signal) return item.signal->signal(failed);
  try {
    // Waits happen also behind an error: an event that is signalled as failed is so only once all before it
    // is over.
    if (item.wait_for) wait_for(*item.wait_for);
    // Releases run also behind an error: their memory is free either way.
    else if (!failed || item.operation.kind == OperationKind::release)
      run_operation(item.operation);
  } catch (...) {
    fail(std::current_exception());
  }
}

void HostStream::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    busy_ = true;
    const bool failed = static_cast<bool>(error_);
    {
      Item item = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      run_item(item, failed);
      // What the operation holds is let go here, before the stream counts as idle.
    }
    lock.lock();
    busy_ = false;
    if (queue_.empty()) idle_.notify_all();
  }
}

}  // namespace shardwise
