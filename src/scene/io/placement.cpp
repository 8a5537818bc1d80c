#include "placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

/// A rotation that takes the file's up to +z and leaves one other axis where it is.
Transform upright(UpAxis up) {
  Transform result;
  if (up == UpAxis::y) result.m = {1, 0, 0, 0, 0, 0, -1, 0, 0, 1, 0, 0, 0, 0, 0, 1};
  if (up == UpAxis::x) result.m = {0, 0, -1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1};
  return result;
}

/// Where the vertices of faces lie, in double.
struct Extent {
  Vec3d low{HUGE_VAL, HUGE_VAL, HUGE_VAL}, high{-HUGE_VAL, -HUGE_VAL, -HUGE_VAL};

  void add(Vec3d p) {
    if (!is_finite(to_float(p))) return;
    low = {std::min(low.x, p.x), std::min(low.y, p.y), std::min(low.z, p.z)};
    high = {std::max(high.x, p.x), std::max(high.y, p.y), std::max(high.z, p.z)};
  }
  double farthest_in_plane() const {
    return std::max({std::abs(low.x), std::abs(low.y), std::abs(high.x), std::abs(high.y)});
  }
};

Vec3d vertex(const FileMesh& shape, std::size_t i) {
  return shape.exact.empty() ? to_double(shape.mesh.vertices[i]) : shape.exact[i];
}

Extent extent_of(const std::vector<FileMesh>& shapes) {
  Extent extent;
  std::vector<bool> used;
  for (const FileMesh& shape : shapes) {
    // A stray vertex that no face uses must not choose the origin.
    used.assign(shape.mesh.vertices.size(), false);
    for (const Face& face : shape.mesh.faces) {
      for (const std::int32_t index : face) used[static_cast<std::size_t>(index)] = true;
    }
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (used[i]) extent.add(shape.mesh.to_world.apply(vertex(shape, i)));
    }
  }
  return extent;
}

/// Whole kilometres, so that the neighbouring tile, or the same city with one more house, most likely gets
/// the same shift and the same bits.
Vec3d automatic_shift(const Extent& extent) {
  // Beyond this, coordinates are a mistake that no shift mends.
  constexpr double most = 1e9;
  const double farthest = extent.farthest_in_plane();
  if (!(farthest > kFarFromOrigin && farthest < most)) return {};
  const auto kilometres = [](double low, double high) {
    return 1000 * std::floor((low + high) / 2000 + 0.5);
  };
  return {kilometres(extent.low.x, extent.high.x), kilometres(extent.low.y, extent.high.y), 0};
}

/// To world space in double, rounded once; for vertices that no float holds.
void bake(FileMesh& shape) {
  Mesh& mesh = shape.mesh;
  const Transform& t = mesh.to_world;
  for (std::size_t i = 0; i < shape.exact.size(); ++i) mesh.vertices[i] = to_float(t.apply(shape.exact[i]));
  if (!mesh.vertex_normals.empty()) {
    // Normals go with the inverse transpose: the matrix of cofactors, up to a factor.
    const Vec3d a{t(0, 0), t(0, 1), t(0, 2)}, b{t(1, 0), t(1, 1), t(1, 2)}, c{t(2, 0), t(2, 1), t(2, 2)};
    const Vec3d rows[3] = {cross(b, c), cross(c, a), cross(a, b)};
    for (Vec3f& normal : mesh.vertex_normals) {
      const Vec3d n = to_double(normal);
      normal = to_float(normalized(Vec3d{dot(rows[0], n), dot(rows[1], n), dot(rows[2], n)}));
    }
  }
  mesh.to_world = {};
}

}  // namespace

SceneModel place_shapes(SceneModel scene, std::vector<FileMesh> shapes, UpAxis native_up,
                        const SceneReadOptions& options, std::vector<std::string>* notes) {
  const UpAxis up = options.up == UpAxis::of_format ? native_up : options.up;
  const Transform axes = Transform::scaling({options.unit, options.unit, options.unit}) * upright(up);
  for (FileMesh& shape : shapes) shape.mesh.to_world = axes * shape.mesh.to_world;

  Vec3d shift;
  const Extent extent = options.origin.kind == SceneOrigin::Kind::none ? Extent{} : extent_of(shapes);
  const double farthest = extent.farthest_in_plane();
  if (options.origin.kind == SceneOrigin::Kind::given) {
    shift = {options.origin.x, options.origin.y, 0};
  } else if (options.origin.kind == SceneOrigin::Kind::automatic) {
    shift = automatic_shift(extent);
  }
  const bool shifted = shift.x != 0 || shift.y != 0;
  if (shifted && notes) {
    notes->push_back(
        fmt::format("origin: ({:.0f}, {:.0f}) m was subtracted from x and y{}; transmitters, areas and "
                    "reports stay in the "
                    "file's coordinates",
                    shift.x, shift.y,
                    options.origin.kind == SceneOrigin::Kind::given
                        ? std::string()
                        : fmt::format(", which reach {:.0f} m (--origin x,y or none chooses)", farthest)));
  }
  if (notes && farthest > kFarFromOrigin &&
      std::any_of(shapes.begin(), shapes.end(), [](const FileMesh& s) { return s.stored_as_float; })) {
    bool coarse = false;
    for (const FileMesh& shape : shapes) {
      if (!shape.stored_as_float) continue;
      for (const Vec3f& p : shape.mesh.vertices)
        coarse = coarse || max_abs(p) > kFarFromOrigin / options.unit;
    }
    if (coarse) {
      notes->push_back(
          fmt::format("the file stores coordinates as floats, whose steps at {:.0f} m are {:.3g} mm; no "
                      "shift brings back "
                      "what they lost: export in double, or nearer to the origin",
                      farthest, farthest * 1e3 * 0x1p-23));
    }
  }

  const Transform move = Transform::translation({-shift.x, -shift.y, 0});
  for (FileMesh& shape : shapes) {
    if (shifted) shape.mesh.to_world = move * shape.mesh.to_world;
    if (!shape.exact.empty()) bake(shape);
    scene.add_mesh(std::move(shape.mesh));
    shape = {};  // its memory is not needed twice
  }
  scene.set_origin_shift(shift);
  scene.build();
  return scene;
}

}  // namespace shardwise
