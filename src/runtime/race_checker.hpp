#pragma once
// Happens-before race detection on declared accesses.
//
// Each stream has a logical clock that ticks with every operation; a stream's vector clock says up to which
// tick of every other stream it is ordered behind. Events carry vector clocks, waiting joins them. Two
// conflicting accesses with neither ordered behind the other are a race. The verdict depends on program order
// and events alone, not on the schedule that happened to run, so one run finds what any schedule could hit.
// What touches a resource whose release was enqueued before is reported too, ordered or not: the memory is
// gone in every order that events allow.
//
// An access forgets the earlier ones that it is ordered behind, covers, and is at least as exclusive as: what
// races with them later races with it. So of several races with one operation, the latest pair may be named
// for all. Not thread-safe.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shardwise/runtime/operation.hpp"

namespace shardwise {

using VectorClock = std::vector<std::uint64_t>;

struct Race {
  std::string first, second;  ///< operation names, "name on stream", in the order in which they were enqueued
  ResourceId resource = 0;
  std::string text() const;
};

class RaceChecker {
 public:
  /// A new stream's index.
  std::size_t add_stream(std::string name);
  /// An operation enqueued on a stream.
  void on_operation(std::size_t stream, const Operation& operation);
  /// The clock an event recorded now on this stream carries.
  VectorClock on_record(std::size_t stream) const;
  void on_wait(std::size_t stream, const VectorClock& event);
  /// The host waited for an event or stream: all that it enqueues from now on is ordered behind.
  void on_host_wait(const VectorClock& event);

  const std::vector<Race>& races() const { return races_; }
  void clear_races() { races_.clear(); }

 private:
  struct Entry {
    Access access;
    std::size_t stream;
    std::uint64_t tick;
    std::string name;
  };
  static void join(VectorClock& into, const VectorClock& from);
  bool ordered(const Entry& entry, const VectorClock& clock) const;

  std::vector<std::string> stream_names_;
  std::vector<VectorClock> clocks_;
  VectorClock host_clock_;
  void report(const std::string& first, const std::string& second, ResourceId resource);

  std::map<ResourceId, std::vector<Entry>> history_;
  std::map<ResourceId, std::string> released_;  ///< by which release; ids never come again
  std::vector<Race> races_;
};

}  // namespace shardwise
