#pragma once
// The sim platform: devices that exist only as a schedule. Operations execute in host memory, one at a time,
// in an order that a seeded scheduler picks among those that are ready; conflicting accesses that no event
// chain orders are reported as races (RaceReport). The check knows declared accesses only. Nothing runs until
// the host waits for something. A world and its devices belong to one thread.
//
// Time is virtual. An operation begins at the latest of: the end of what was before it on its stream, the
// events that it waited for, what the host had waited for when it was enqueued, and the moment at which its
// device has no other launch running, or the links of a copy no other copy. It takes what the topology says
// (sim_topology.hpp; SimCosts for sim:N). Faults are injected as a script says (sim_faults.hpp).

#include <cstdint>
#include <string>
#include <vector>

#include "shardwise/runtime/sim_faults.hpp"

namespace shardwise {

struct SimTopology;

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
  /// The machine that is simulated.
  virtual const SimTopology& topology() const = 0;
  /// Seconds of virtual time so far.
  virtual double virtual_time() const = 0;

  /// Replaces the script of faults: steps are counted from here on, and devices that an earlier script took
  /// away are there again, with whatever they held. Throws a usage Error for a device that is not there, and
  /// for no-peer, which is fixed when devices are opened.
  virtual void set_faults(const FaultScript& script) = 0;
  void set_faults(std::string_view script) { set_faults(parse_faults(script)); }
  /// What happened since then: "device 1 launch 7 fails: 'trace lanes 0..100' on sim:1/compute".
  virtual std::vector<std::string> faults_met() const = 0;
  /// The steps of a device since then.
  virtual FaultSteps fault_steps(int device) const = 0;
};

}  // namespace shardwise
