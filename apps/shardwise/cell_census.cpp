#include "cell_census.hpp"

#include <tbb/blocked_range.h>
#include <tbb/parallel_reduce.h>

#include <cstddef>

#include "shardwise/runtime/error.hpp"

namespace shardwise::program {
namespace {

struct Counts {
  std::int64_t open = 0, seen = 0;
  std::vector<std::int64_t> open_seen;
};

Vec3d cell_centre(const CoverageGrid& grid, std::int64_t column, std::int64_t row) {
  Vec3d centre;
  centre.set(grid.axis, grid.position);
  centre.set(grid.axis == 0 ? 1 : 0, grid.min0 + (static_cast<double>(column) + 0.5) *
                                                     (grid.max0 - grid.min0) /
                                                     static_cast<double>(grid.resolution0));
  centre.set(grid.axis == 2 ? 1 : 2, grid.min1 + (static_cast<double>(row) + 0.5) * (grid.max1 - grid.min1) /
                                                     static_cast<double>(grid.resolution1));
  return centre;
}

}  // namespace

CellCensus count_cells(const Surfaces& surfaces, const CoverageGrid& grid,
                       const std::vector<Transmitter>& transmitters, const std::atomic<bool>& cancel) {
  CellCensus census;
  census.is_open.resize(static_cast<std::size_t>(grid.cell_count()));
  const Counts none{0, 0, std::vector<std::int64_t>(transmitters.size())};
  const Counts total = tbb::parallel_reduce(
      tbb::blocked_range<std::int64_t>(0, grid.resolution1), none,
      [&](const tbb::blocked_range<std::int64_t>& rows, Counts counts) {
        for (std::int64_t row = rows.begin(); row < rows.end() && !cancel.load(); ++row)
          for (std::int64_t column = 0; column < grid.resolution0; ++column) {
            const Vec3d centre = cell_centre(grid, column, row);
            const bool open = surfaces.is_open(centre);
            census.is_open[static_cast<std::size_t>(row * grid.resolution0 + column)] = open;
            counts.open += open;
            bool seen = false;
            for (std::size_t t = 0; t < transmitters.size(); ++t) {
              if (surfaces.is_blocked(centre, transmitters[t].position)) continue;
              seen = true;
              counts.open_seen[t] += open;
            }
            counts.seen += seen;
          }
        return counts;
      },
      [](Counts a, const Counts& b) {
        a.open += b.open;
        a.seen += b.seen;
        for (std::size_t t = 0; t < a.open_seen.size(); ++t) a.open_seen[t] += b.open_seen[t];
        return a;
      });
  if (cancel.load()) throw Error(ErrorClass::interrupted, "stopped while counting cells");
  census.open = total.open;
  census.line_of_sight = total.seen;
  census.open_seen = total.open_seen;
  return census;
}

}  // namespace shardwise::program
