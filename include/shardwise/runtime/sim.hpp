#pragma once
// The sim platform: devices that exist only as a schedule. Operations execute in host memory, one at a time,
// in an order that a seeded scheduler picks among those that are ready; conflicting accesses that no event
// chain orders are reported as races (RaceReport). The check knows declared accesses only. Nothing runs until
// the host waits for something. A world and its devices belong to one thread.
//
// Time is virtual. An operation begins at the latest of: the end of what was before it on its stream, the
// events that it waited for, what the host had waited for when it was enqueued, and, for a launch, the moment
// at which its device has no other one running. It takes what SimCosts and the device's speed say
// (devices.hpp).

#include <cstdint>
#include <string>
#include <vector>

namespace shardwise {

/// Two operations that touched the same bytes without an order between them.
struct RaceReport {
  std::string first, second;  ///< "operation on device/stream"
  std::string text;
};

/// The scheduler shared by the devices of one sim set.
class SimWorld {
 public:
  virtual ~SimWorld() = default;
  /// Races found since the last clear. Independent of the schedule that ran.
  virtual std::vector<RaceReport> races() const = 0;
  virtual void clear_races() = 0;
  /// A hash of the order in which operations ran since the last call; equal hashes mean equal orders.
  virtual std::uint64_t take_order_hash() = 0;
  /// Starts the scheduler's random sequence anew.
  virtual void reseed(std::uint64_t seed) = 0;
  /// Seconds of virtual time so far.
  virtual double virtual_time() const = 0;
};

}  // namespace shardwise
