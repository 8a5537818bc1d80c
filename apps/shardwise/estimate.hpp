#pragma once
// What a call would take: its plan, run on a simulated machine that computes nothing.

#include <string>
#include <vector>

#include "shardwise/radio/coverage.hpp"
#include "shardwise/runtime/timeline.hpp"

namespace shardwise::program {

struct DeviceEstimate {
  TimelineSummary time;    ///< busy, transferring, idle; bytes in and out
  std::string bottleneck;  ///< what this device spends most of the call with, in words
};

struct Estimate {
  double seconds = 0;
  std::vector<DeviceEstimate> devices;
  std::vector<std::string> assumptions;  ///< where speeds were measured elsewhere; empty on sim
  std::string trace;                     ///< the timeline, in the Chrome trace format
};

/// Of coverage() with these options on devices like these, slowed down as `faults` says (faults_of_plan()).
/// The scene's tree is built once more on the host.
Estimate estimate_coverage(const DeviceSet& devices, const SceneModel& model, const CoverageOptions& options,
                           const std::string& faults);

/// As many simulated devices of a machine as it has; they compute nothing and hold no bytes.
DeviceSet open_dry(const SimTopology& machine, const std::string& faults);
/// What a timeline tells of what it has recorded. `repeats`: of one of so many equal pieces of work.
void read_timeline(Timeline& timeline, Estimate& estimate, int repeats = 1);

}  // namespace shardwise::program
