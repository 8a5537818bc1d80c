#include "cell_census.hpp"

#include <fmt/core.h>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <cmath>
#include <cstddef>

#include "scene/bvh8_builder.hpp"
#include "scene/bvh8_kernel.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::program {

struct CellCounter::Tree {
  Bvh8 bvh;
  SceneView view;
  const float far;  ///< longer than any ray in the scene

  explicit Tree(const SceneGeometry& geometry)
      : bvh(build_bvh8(geometry.vertices, geometry.faces, geometry.hittable)),
        view(view_of(bvh)),
        far(1e30f) {
    view.diagonal = geometry.diagonal;
  }

  Hit closest(Vec3f origin, Vec3f direction, float limit) const {
    return BvhTracer{view}.closest(origin, direction, view.offset_at(origin), limit);
  }
  bool is_blocked(Vec3f from, Vec3f to) const {
    const Vec3f way = to - from;
    const float distance = length(way);
    const float end = distance - view.offset_at(to);
    return end > 0 && closest(from, normalized(way), end).valid();
  }
};

CellCounter::CellCounter(const SceneModel& model)
    : model_(model), tree_(std::make_unique<Tree>(model.geometry())) {}
CellCounter::~CellCounter() = default;

CellCensus CellCounter::count(const CoverageGrid& grid, const std::vector<Transmitter>& transmitters,
                              const std::atomic<bool>& cancel) const {
  const int first = grid.axis == 0 ? 1 : 0, second = grid.axis == 2 ? 1 : 2;
  CellCensus census;
  census.is_open.resize(static_cast<std::size_t>(grid.cell_count()));
  std::atomic<std::int64_t> open{0}, seen{0};
  tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, grid.resolution1), [&](const auto& rows) {
    std::int64_t open_here = 0, seen_here = 0;
    for (std::int64_t row = rows.begin(); row < rows.end(); ++row) {
      if (cancel.load()) return;
      for (std::int64_t column = 0; column < grid.resolution0; ++column) {
        Vec3f centre;
        centre.set(grid.axis, static_cast<float>(grid.position));
        centre.set(first, static_cast<float>(grid.min0 + (static_cast<double>(column) + 0.5) *
                                                             (grid.max0 - grid.min0) /
                                                             static_cast<double>(grid.resolution0)));
        centre.set(second,
                   static_cast<float>(grid.min1 + (static_cast<double>(row) + 0.5) * (grid.max1 - grid.min1) /
                                                      static_cast<double>(grid.resolution1)));
        const bool is_open = !tree_->closest(centre, {0, 0, 1}, tree_->far).valid();
        census.is_open[static_cast<std::size_t>(row * grid.resolution0 + column)] = is_open;
        open_here += is_open;
        for (const Transmitter& transmitter : transmitters) {
          if (tree_->is_blocked(centre, to_float(transmitter.position))) continue;
          ++seen_here;
          break;
        }
      }
    }
    open += open_here;
    seen += seen_here;
  });
  if (cancel.load()) throw Error(ErrorClass::interrupted, "stopped while counting cells");
  census.open = open;
  census.line_of_sight = seen;
  return census;
}

std::vector<std::string> CellCounter::close_surfaces(const std::vector<Transmitter>& transmitters) const {
  constexpr float near = 2;
  std::vector<std::string> warnings;
  const SceneGeometry& geometry = model_.geometry();
  for (std::size_t i = 0; i < transmitters.size(); ++i) {
    const Vec3f origin = to_float(transmitters[i].position);
    for (const float direction : {1.0f, -1.0f}) {
      const Hit hit = tree_->closest(origin, {0, 0, direction}, near);
      if (!hit.valid()) continue;
      warnings.push_back(
          fmt::format("transmitter {} has the surface of shape '{}' {:.2f} m {} it (z = {:.2f}); move it "
                      "if that is not meant",
                      i, model_.shape_name(geometry.shape_id[hit.prim]), hit.t,
                      direction > 0 ? "above" : "below", origin.z + direction * hit.t));
    }
  }
  return warnings;
}

}  // namespace shardwise::program
