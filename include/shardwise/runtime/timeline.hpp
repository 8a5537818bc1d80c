#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <mutex>
#include <string>
#include <vector>

#include "shardwise/runtime/operation.hpp"

namespace shardwise {

/// One copy or launch that ran.
struct TimelineRecord {
  std::string device, stream, name;
  OperationKind kind = OperationKind::launch;
  std::uint64_t bytes = 0;
  double begin_s = 0, end_s = 0;  ///< since Timeline::start(); virtual seconds on sim
  std::string waited_for;  ///< the operation whose event this one's stream waited for last; may be empty
};

/// Per device: where the time went.
struct TimelineSummary {
  std::string device;
  double busy_s = 0;          ///< at least one launch running
  double transferring_s = 0;  ///< no launch, at least one copy running
  double idle_s = 0;
  std::uint64_t bytes_in = 0, bytes_out = 0;  ///< copied by its "in" streams, and by its others
  std::string idle_waited_for;                ///< the operation that most of the idle time waited for
};

/// Every copy and launch of a device set, per device and stream. Thread-safe, start() included; recording
/// costs nothing while off.
class Timeline {
 public:
  /// The devices that summary() lists, in this order, also where they ran nothing. Others follow as they
  /// appear.
  void set_devices(std::vector<std::string> names);
  /// Forgets what was recorded and records from now on.
  void start();
  void stop() { recording_ = false; }
  /// Records while there is a holder: the first one starts, the last one stops, unless start() was called.
  /// See TimelineHold.
  void hold();
  void unhold() noexcept;
  bool is_recording() const { return recording_; }
  /// Seconds since start().
  double now() const;
  void add(TimelineRecord record);

  std::vector<TimelineRecord> records() const;
  std::vector<TimelineSummary> summary() const;
  /// Of one device, from the moment `since_s` on; the end is the last record of any device.
  TimelineSummary summary_of(const std::string& device, double since_s) const;
  /// The end of the last record, or 0: what comes next begins here or later, in real as in virtual time.
  double latest() const;
  /// Chrome trace event format, for chrome://tracing and Perfetto.
  void write_chrome_trace(std::ostream& out) const;

 private:
  mutable std::mutex mutex_;
  std::vector<TimelineRecord> records_;
  std::vector<std::string> devices_;
  std::atomic<std::chrono::steady_clock::rep> origin_{0};
  std::atomic<bool> recording_{false};
  int holders_ = 0;
  bool held_ = false;  ///< a holder started it
};

/// Keeps a timeline recording as long as it lives; several may.
class TimelineHold {
 public:
  explicit TimelineHold(Timeline& timeline) : timeline_(timeline) { timeline_.hold(); }
  TimelineHold(const TimelineHold&) = delete;
  TimelineHold& operator=(const TimelineHold&) = delete;
  ~TimelineHold() { timeline_.unhold(); }

 private:
  Timeline& timeline_;
};

}  // namespace shardwise
