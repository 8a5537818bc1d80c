#pragma once
// A coverage call after its checks and before its first launch: constants, tables, sizes, and who runs what.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "radio/coverage_launch.hpp"
#include "radio/coverage_setup.hpp"
#include "radio/coverage_steps_kernel.hpp"
#include "shardwise/dispatch/lane_plan.hpp"
#include "shardwise/radio/accumulate.hpp"
#include "shardwise/radio/coverage.hpp"
#include "shardwise/runtime/buffer.hpp"

namespace shardwise {

/// What generated lanes and the caller's rays have in common.
struct CoverageRequest {
  std::string operation;  ///< starts messages
  CoverageGrid grid;
  double frequency_hz = 0;
  int bounces = 0, passes = 1;
  bool line_of_sight = true, field = false, slab_walls = false;
  bool per_transmitter = false, sums = false;
  /// For ranks: grids of whole passes of `held_lanes` in the master's memory. Filled with the sums, which
  /// then do not go to the host; or, where `held_given`, what the master begins with in place of zeros (and
  /// is left empty).
  std::shared_ptr<Memory> held;
  Window held_lanes;
  bool held_given = false;
  Accumulation accumulation = Accumulation::exact;
  std::int64_t lane_offset = 0, lane_count = -1, total_lanes = 0;
  double solid_angle_per_ray = 0;  ///< of the whole launch
  double largest_gain = 1;
  SplitOptions split;
  ProgressFunction progress;
  const std::atomic<bool>* cancel = nullptr;

  // Generated lanes.
  std::int64_t rays_per_pass = 1;
  std::vector<LaunchTransmitter> transmitters;
  std::vector<LaunchRotation> rotations;
  Vec3f polarization{0, 0, 1};
  // The caller's rays.
  std::optional<RayRows> rows;

  int grids_per_pass() const { return per_transmitter ? static_cast<int>(transmitters.size()) : 1; }
};

/// The factors that finished maps are multiplied with, where sums were made with `scale`; no pointers.
FinishTarget finish_constants(const CoverageRequest& request, double scale);

struct CoveragePlan {
  CoverageRequest request;
  Window window;
  GridView grid;
  std::vector<SurfaceMaterial> materials;
  std::vector<std::string> warnings;
  float scale = 1, field_scale = 1;
  double diagonal = 1;       ///< that fields are divided by
  FinishTarget constants{};  ///< factors, cells and passes; no pointers
  bool with_standard_error = false;
  LanePlan lanes;

  std::int64_t cell_count() const { return request.grid.cell_count(); }
  /// Maps of each pass: one, or one for each transmitter.
  int grids_per_pass() const { return request.grids_per_pass(); }
  /// The grids that a window of lanes touches: [first, first + count). Grid = pass x grids_per_pass() + map.
  std::pair<std::int64_t, std::int64_t> grids_of(Window window) const;
  /// What the master holds: the grids of the call's window, in whole passes, and at least one pass.
  std::pair<std::int64_t, std::int64_t> master_grids() const;
  std::uint64_t cell_bytes() const;   ///< of one cell of one pass
  std::uint64_t field_bytes() const;  ///< the same for the field; 0 without
  std::uint64_t grid_cell_bytes() const { return static_cast<std::uint64_t>(cell_count()) * cell_bytes(); }
  std::uint64_t grid_field_bytes() const { return static_cast<std::uint64_t>(cell_count()) * field_bytes(); }
  /// The maps that the master makes of the sums.
  std::uint64_t result_bytes() const;
  /// What the call holds on a device at most, above the built scene: the sum of what it allocates there.
  std::uint64_t peak_bytes(const DeviceSet& devices, int device) const;
};

/// Checks the request against the scene, and plans. Throws before any device work.
CoveragePlan plan_coverage(const Scene& scene, CoverageRequest request);

/// The requests of the two public calls; they throw usage errors.
CoverageRequest request_of(const CoverageOptions& options);
CoverageRequest request_of(const RayRows& rows, const AccumulateOptions& options);

/// Whether a number can be the scale of exact sums, a positive power of two: for sums that come from a file.
bool is_sum_scale(double scale);

/// Runs a plan.
Pending<CoverageResult> run_coverage(Scene& scene, CoveragePlan plan);

/// For tests: this device's launches count every crossing some cells too far along; -1: none.
extern std::atomic<int> corrupt_coverage_on_device;

}  // namespace shardwise
