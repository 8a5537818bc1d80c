#pragma once
// The one place where the program calls the coverage library.

#include <string>

#include "shardwise/radio/coverage.hpp"

namespace shardwise::program {

struct CoverageRun {
  CoverageResult result;
  double seconds = 0;  ///< of the call, without reading and building the scene
  std::string tracer;  ///< of the master
};

/// Puts the scene on the devices, builds it and runs the call, with progress named `step`. With `record`, the
/// devices' timeline holds the call's copies and launches afterwards.
CoverageRun run_coverage(const DeviceSet& devices, const SceneModel& model, TracerChoice tracer,
                         const CoverageOptions& options, const std::string& step, bool record);

/// Puts the scene on the devices, builds it and plans the call without running it: `devices[]` has the lanes
/// of each and the peak that is estimated for them.
DispatchReport plan_run(const DeviceSet& devices, const SceneModel& model, TracerChoice tracer,
                        const CoverageOptions& options);

}  // namespace shardwise::program
