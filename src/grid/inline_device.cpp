#include "grid/inline_device.hpp"

#include <chrono>
#include <new>
#include <utility>

#include "shardwise/runtime/devices.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

namespace {

constexpr std::align_val_t alignment{256};

DeviceInfo inline_info() {
  DeviceInfo info;
  info.kind = PlatformKind::host;
  info.name = "serial";
  info.model = "the calling thread";
  info.memory_bytes = available_memory();
  info.threads = 1;
  return info;
}

/// A point that has passed when it is made.
class PassedEvent final : public EventState {
 public:
  explicit PassedEvent(bool failed) : failed_(failed), time_(std::chrono::steady_clock::now()) {}
  void wait_on_host() override {}
  bool is_signalled() override { return true; }
  bool failed() override { return failed_; }
  double seconds_since(EventState& earlier) override {
    return std::chrono::duration<double>(time_ - dynamic_cast<PassedEvent&>(earlier).time_).count();
  }

 private:
  bool failed_;
  std::chrono::steady_clock::time_point time_;
};

class InlineContext final : public LaunchContext {
 public:
  explicit InlineContext(Device& device) : device_(device) {}
  Device& device() override { return device_; }
  void parallel_for(std::int64_t count, std::int64_t, const RangeFunction& function) override {
    if (count > 0) function(0, count);
  }
  void execute(const std::function<void()>& function) override { function(); }

 private:
  Device& device_;
};

class InlineStream final : public Stream {
 public:
  InlineStream(Device& device, const std::string& name) : Stream(device, name) {}

  void enqueue(Operation operation) override {
    if (error_ && operation.kind != OperationKind::release) return;
    try {
      InlineContext context(device());
      operation.body(context);
    } catch (...) {
      if (!error_) error_ = std::current_exception();
    }
  }
  Event record() override { return Event(std::make_shared<PassedEvent>(static_cast<bool>(error_))); }
  Event record_timed() override {
    auto state = std::make_shared<PassedEvent>(static_cast<bool>(error_));
    mark_timed(*state);
    return Event(std::move(state));
  }
  void wait(const Event& event) override {
    event.wait_on_host();
    if (event.failed() && !error_)
      error_ = std::make_exception_ptr(DependencyError(device().name() + "/" + name() +
                                                       ": an event that this stream waits for has failed"));
  }
  void synchronize() override {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  std::string error() override { return error_text(error_); }

 private:
  std::exception_ptr error_;
};

}  // namespace

InlineDevice::InlineDevice() : Device(inline_info()), available_(available_memory()) {}

std::unique_ptr<Stream> InlineDevice::create_stream(const std::string& name) {
  return std::make_unique<InlineStream>(*this, name);
}

void* InlineDevice::raw_allocate(Stream&, std::uint64_t bytes, const std::string&) {
  return ::operator new(bytes, alignment, std::nothrow);
}

void InlineDevice::raw_release(Stream&, void* pointer, ResourceId, std::uint64_t,
                               std::function<void()> done) {
  ::operator delete(pointer, alignment);
  done();
}

}  // namespace shardwise
