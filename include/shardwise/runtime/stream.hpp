#pragma once
// In-order, asynchronous queues of a device, and the events that order them. A missing event edge is a bug
// that shows on every backend: host streams really run beside each other, sim streams run in random order.

#include <cstddef>
#include <memory>
#include <string>

#include "shardwise/runtime/operation.hpp"

namespace shardwise {

/// The backend's side of an event.
class EventState {
 public:
  virtual ~EventState() = default;
  /// Blocks the calling thread until the event is signalled, also as failed.
  virtual void wait_on_host() = 0;
  /// As wait_on_host() for `seconds` at most; whether it is signalled. This one asks again and again.
  virtual bool wait_on_host_for(double seconds);
  virtual bool is_signalled() = 0;
  /// Once signalled: whether anything that the event was recorded behind failed or was dropped.
  virtual bool failed() = 0;
  /// Seconds from `earlier` to this event. Both are signalled, and timed on the same device
  /// (seconds_between() has checked that).
  virtual double seconds_since(EventState& earlier) = 0;
  /// What the event was recorded behind; for messages and the timeline.
  std::string recorded_after;
  /// The device that a timed event was recorded on; null for an event without a time stamp. It tells devices
  /// apart and is for nothing else: events may outlive devices.
  const Device* timed_on = nullptr;
  std::string timed_on_name;
};

/// A point in a stream. Copyable; the empty event is always signalled.
class Event {
 public:
  Event() = default;
  explicit Event(std::shared_ptr<EventState> state) : state_(std::move(state)) {}
  void wait_on_host() const {
    if (state_) state_->wait_on_host();
  }
  bool wait_on_host_for(double seconds) const { return !state_ || state_->wait_on_host_for(seconds); }
  bool is_signalled() const { return !state_ || state_->is_signalled(); }
  /// Once signalled: whether what it stands behind failed.
  bool failed() const { return state_ && state_->failed(); }
  EventState* state() const { return state_.get(); }
  std::shared_ptr<EventState> shared_state() const { return state_; }

 private:
  std::shared_ptr<EventState> state_;
};

/// Seconds of the device's time from one event to another, negative where `to` passed first: wall time on
/// host, the GPU's own clock on CUDA (about 0.5 us coarse, more as the distance grows: floats of
/// milliseconds), virtual time on sim. Both come from record_timed() on the same device and are signalled; a
/// failed event has the time at which it was dropped. Throws a usage Error where an event is empty, has no
/// time stamp or is of another device, a state Error where one is not signalled yet.
double seconds_between(const Event& from, const Event& to);

/// One in-order queue. A stream that meets an error keeps the first one and drops what is queued behind it;
/// dropped operations still signal their events, as failed, and a stream that waits for a failed event fails
/// too (with a DependencyError), so nobody hangs and no garbage is used. Calls come from one thread at a
/// time. The destructor waits for what is queued.
class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const { return device_; }
  const std::string& name() const { return name_; }

  virtual void enqueue(Operation operation) = 0;
  virtual Event record() = 0;
  /// As record(), with the time at which the stream passed it: see seconds_between().
  virtual Event record_timed() = 0;
  /// What comes next on this stream waits for `event`, which may be of any backend but sim with a real one.
  virtual void wait(const Event& event) = 0;
  /// Blocks until all that was enqueued is done; throws the stored error and clears it.
  virtual void synchronize() = 0;
  /// The stored error's text, empty where there is none.
  virtual std::string error() = 0;

 protected:
  Stream(Device& device, std::string name) : device_(device), name_(std::move(name)) {}
  /// Marks an event of this stream as timed here.
  void mark_timed(EventState& event) const;

 private:
  Device& device_;
  std::string name_;
};

/// Borrows a stream. There is no null stream_ref.
class stream_ref {
 public:
  stream_ref(Stream& stream) : stream_(&stream) {}  // NOLINT: implicit as a reference is
  stream_ref(int) = delete;
  stream_ref(std::nullptr_t) = delete;
  Stream* operator->() const { return stream_; }
  Stream& operator*() const { return *stream_; }

 private:
  Stream* stream_;
};

}  // namespace shardwise
