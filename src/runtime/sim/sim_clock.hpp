#pragma once
// Virtual time: how long an operation takes on a simulated device, and when its compute engine is free.

#include <cstddef>
#include <map>

#include "shardwise/runtime/devices.hpp"

namespace shardwise {

/// Seconds that an operation takes on a device of this speed (1: as `costs` says).
///     launch   launch latency + items x time of an item / speed
///     copy     copy latency + bytes / bandwidth
///     host     as a launch
///     release  nothing
double sim_duration_s(const Operation& operation, const SimCosts& costs, double speed);

/// What one device's launches share: one runs at a time. Operations reach it in the scheduler's order, which
/// is not that of virtual time, so each takes the first gap that is long enough; without contention the times
/// then do not depend on the scheduler's seed.
class SimEngine {
 public:
  /// Takes the engine for `duration_s`, at `ready_s` or as soon after as it is free; returns the beginning.
  double take(double ready_s, double duration_s);

 private:
  /// Beyond these the oldest are forgotten, and nothing begins before their end any more.
  static constexpr std::size_t remembered = 1024;

  std::map<double, double> busy_;  ///< begin -> end, apart, ascending
  double forgotten_until_s_ = 0;
};

}  // namespace shardwise
