#pragma once
// Coverage in pieces: the exact sums of a window of lanes, before they become a map.
//
// Windows that were computed anywhere, merged in any order, hold the digits that one call over all lanes
// would hold, so the map that finish_coverage() makes of them has the same bits.
//
//   options.sums = true;
//   options.lane_offset = 0, options.lane_count = half;
//   CoverageSums sums = coverage(scene, options).get().sums;
//   options.lane_offset = half, options.lane_count = -1;
//   merge(sums, coverage(scene, options).get().sums);
//   CoverageResult map = finish_coverage(options, sums);

#include <cstdint>
#include <vector>

#include "shardwise/numeric/exact_sum.hpp"
#include "shardwise/shard/split.hpp"

namespace shardwise {

struct CoverageOptions;
struct CoverageResult;

/// Sums of some lanes of one call. A grid holds one cell sum for each cell of the map; grid = pass x
/// grids_per_pass + transmitter, where grids_per_pass is 1 unless maps are kept for each transmitter.
struct CoverageSums {
  std::int64_t cell_count = 0;
  int grids_per_pass = 1;
  std::int64_t first_grid = 0;   ///< of `cells`, a multiple of grids_per_pass
  double scale = 1;              ///< a power of two that every summand was multiplied with
  std::vector<ExactCell> cells;  ///< [grids, cell_count], normalised; whole passes
  std::vector<Window> windows;   ///< the lanes that are in: ascending, disjoint, not touching, none empty
  std::int64_t segments = 0;     ///< closest-hit queries made for them
  std::int64_t rejected = 0;     ///< lanes that were inactive

  std::int64_t grid_count() const {
    return cell_count > 0 ? static_cast<std::int64_t>(cells.size()) / cell_count : 0;
  }
  std::int64_t lanes() const;
};

/// target += other. An empty target (no cells) becomes `other`. Throws a usage error, and changes nothing,
/// where the two are of different shape or scale, or have lanes in common (which are named).
void merge(CoverageSums& target, const CoverageSums& other);

/// The parts of `whole` that are in none of `windows` (ascending and disjoint).
std::vector<Window> gaps(const std::vector<Window>& windows, Window whole);

/// The map of the sums, as coverage() would have made it: `options` are those of the call, of which
/// transmitters, grid, frequency, samples, passes and per_transmitter matter. Lanes of passes past
/// options.passes are left out. With all lanes of the passes there, and two passes, there is a standard
/// error; with fewer the map is their share of it. `dispatch` stays empty. Throws a usage error where sums
/// and options do not fit.
CoverageResult finish_coverage(const CoverageOptions& options, const CoverageSums& sums);

}  // namespace shardwise
