#pragma once
// Power and field on a plane from the caller's own rays: what coverage() does with generated ones.

#include <span>

#include "shardwise/radio/coverage.hpp"

namespace shardwise {

/// N rays in host memory; the arrays stay alive until wait() has returned. Path lengths and phases are
/// counted from the row's transmitter, the weight of a ray is 1. A row with a non-finite value, a zero
/// direction, or tmax <= 0 or NaN is inactive and counted as rejected.
struct RayRows {
  std::span<const Vec3f> origins;        ///< [N]
  std::span<const Vec3f> directions;     ///< [N] any length above 0
  std::span<const float> tmax;           ///< [N] limit of the first leg, metres, or empty
  std::span<const std::uint8_t> active;  ///< [N] or empty: all
  std::span<const Vec3f> transmitters;   ///< [N], [1], or empty: the origins; where the wave comes from
  std::span<const Vec3f> polarizations;  ///< [N] or [1] any length; projected transverse to the ray
};

struct AccumulateOptions {
  CoverageGrid grid;
  double frequency_hz = 3.5e9;
  double solid_angle_per_ray = 0;  ///< steradians; 4 pi / (rays of the whole launch) for a full sphere
  int bounces = 3;
  bool line_of_sight = true;
  bool field = false;
  bool slab_walls = false;
  Accumulation accumulation = Accumulation::exact;
  std::int64_t lane_offset = 0;  ///< first row of the window
  std::int64_t lane_count = -1;  ///< rows of the window; negative: the rest
  SplitOptions split;
  ProgressFunction progress;
  const std::atomic<bool>* cancel = nullptr;
};

/// The sums over the window's rays, as coverage() defines them; `standard_error` is empty. Throws usage
/// errors before any device work: counts that do not match, a solid angle that is not positive, and what
/// coverage() checks.
Pending<CoverageResult> accumulate_reflections(Scene& scene, const RayRows& rays,
                                               const AccumulateOptions& options);

}  // namespace shardwise
