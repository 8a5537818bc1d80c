#pragma once
// The one place where the program calls the coverage library.

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cell_census.hpp"
#include "shardwise/cluster/device_collectives.hpp"
#include "shardwise/radio/coverage.hpp"

namespace shardwise::program {

struct CoverageRun {
  CoverageResult result;
  double seconds = 0;    ///< of the call, without reading and building the scene
  double virtual_s = 0;  ///< the same on simulated devices' clock; 0 on others
};

/// A scene on the devices, ready for calls. Every call can be stopped by a signal, and on sim devices a race
/// is an error.
class CoverageRunner {
 public:
  CoverageRunner(const DeviceSet& devices, const SceneModel& model, TracerChoice tracer);

  const DeviceSet& devices() const { return scene_.devices(); }
  const SceneModel& model() const { return scene_.model(); }
  /// What answers on the devices: "embree", or each different one, joined with '+'.
  std::string tracer() const;

  /// From now on a call in which no lane is done for so many seconds ends the program, with an error of class
  /// lost: a device that hangs cannot be made to stop, nor its memory be freed. On sim the fault script has
  /// its own.
  void set_deadline(double seconds) { deadline_s_ = seconds; }

  /// Runs the call. `progress` hears of it; without one nobody does. A signal stops it, unless the options
  /// name something else that does.
  CoverageRun run(const CoverageOptions& options, const ProgressFunction& progress = {});
  /// Runs the call with a progress bar named `step`.
  CoverageRun run(const CoverageOptions& options, const std::string& step);
  /// The lanes of the call on all ranks (coverage_on_ranks): sums on rank 0, this rank's own report.
  /// Collective.
  CoverageRun run_on_ranks(const CoverageOptions& options, const ProgressFunction& progress);
  /// How the grids of run_on_ranks() get to rank 0: "NCCL 2.28.9", or "MPI from the host" and why.
  const std::string& transport() const { return transport_; }
  /// Plans the call without running it: `devices[]` has the lanes of each and the peak that a run reports.
  DispatchReport plan(const CoverageOptions& options);

 private:
  CoverageRun finish_call(const CoverageOptions& options, const ProgressFunction& progress,
                          const std::function<CoverageResult(const CoverageOptions&)>& call_library);
  Scene scene_;
  std::shared_ptr<DeviceCollectives> collectives_;
  std::string transport_;
  double deadline_s_ = std::numeric_limits<double>::infinity();
};

/// How many open cells each transmitter reaches: exactly, or at least `enough` of them. A transmitter that
/// shares its map and sees fewer than `enough` from where it stands is run again by itself, one pass after
/// another until it has reached that many.
std::vector<std::int64_t> open_cells_reached(CoverageRunner& runner, const CoverageOptions& options,
                                             const CoverageResult& result, const CellCensus& census,
                                             double enough);

/// The same without running anything; empty where transmitters share the map.
std::vector<std::int64_t> open_cells_reached(const CoverageResult& result, std::size_t transmitters,
                                             const std::vector<std::uint8_t>& is_open);

}  // namespace shardwise::program
