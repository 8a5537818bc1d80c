#include "surfaces.hpp"

#include <tbb/blocked_range.h>
#include <tbb/parallel_reduce.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "scene/bvh8_builder.hpp"
#include "scene/bvh8_kernel.hpp"

namespace shardwise::program {

struct Surfaces::Tree {
  Bvh8 bvh;
  SceneView view;

  explicit Tree(const SceneGeometry& geometry)
      : bvh(build_bvh8(geometry.vertices, geometry.faces, geometry.hittable)), view(view_of(bvh)) {
    view.diagonal = geometry.diagonal;
  }
  Hit closest(Vec3f origin, Vec3f direction, float limit) const {
    return BvhTracer{view}.closest(origin, direction, view.offset_at(origin), limit);
  }
};

Surfaces::Surfaces(const SceneModel& model)
    : model_(model), tree_(std::make_unique<Tree>(model.geometry())) {}
Surfaces::~Surfaces() = default;

std::optional<Surfaces::Surface> Surfaces::straight(const Vec3d& point, float direction, double limit) const {
  const Vec3f origin = to_float(point);
  const Hit hit = tree_->closest(origin, {0, 0, direction}, static_cast<float>(limit));
  if (!hit.valid()) return std::nullopt;
  return Surface{static_cast<double>(origin.z) + static_cast<double>(direction) * static_cast<double>(hit.t),
                 static_cast<double>(hit.t), model_.shape_name(model_.geometry().shape_id[hit.prim])};
}

std::optional<Surfaces::Surface> Surfaces::above(const Vec3d& point, double limit) const {
  return straight(point, 1, limit);
}
std::optional<Surfaces::Surface> Surfaces::below(const Vec3d& point, double limit) const {
  return straight(point, -1, limit);
}
std::optional<Surfaces::Surface> Surfaces::roof(double x, double y) const {
  return below({x, y, static_cast<double>(bounds().high.z) + 1});
}
std::optional<Surfaces::Surface> Surfaces::ground(double x, double y) const {
  return above({x, y, static_cast<double>(bounds().low.z) - 1});
}

bool Surfaces::is_open(const Vec3d& point) const {
  return !tree_->closest(to_float(point), {0, 0, 1}, std::numeric_limits<float>::max()).valid();
}

bool Surfaces::is_blocked(const Vec3d& from, const Vec3d& to) const {
  const Vec3f begin = to_float(from), target = to_float(to);
  const Vec3f way = target - begin;
  const float end = length(way) - tree_->view.offset_at(target);
  return end > 0 && tree_->closest(begin, normalized(way), end).valid();
}

std::optional<Surfaces::Range> Surfaces::ground_range(const Area& area) const {
  constexpr int parts = 256;
  constexpr double none = std::numeric_limits<double>::infinity();
  const double from = static_cast<double>(bounds().low.z) - 1;
  const Range range = tbb::parallel_reduce(
      tbb::blocked_range<int>(0, parts), Range{none, -none},
      [&](const tbb::blocked_range<int>& rows, Range found) {
        for (int row = rows.begin(); row < rows.end(); ++row)
          for (int column = 0; column < parts; ++column) {
            const Vec3f origin =
                to_float(Vec3d{area.min0 + (column + 0.5) / parts * (area.max0 - area.min0),
                               area.min1 + (row + 0.5) / parts * (area.max1 - area.min1), from});
            const Hit hit = tree_->closest(origin, {0, 0, 1}, std::numeric_limits<float>::max());
            if (!hit.valid()) continue;
            const double z = static_cast<double>(origin.z) + static_cast<double>(hit.t);
            found = {std::min(found.low, z), std::max(found.high, z)};
          }
        return found;
      },
      [](Range a, Range b) {
        return Range{std::min(a.low, b.low), std::max(a.high, b.high)};
      });
  if (range.low > range.high) return std::nullopt;
  return range;
}

}  // namespace shardwise::program
