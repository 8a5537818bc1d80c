#include "world_geometry.hpp"

#include <algorithm>

namespace shardwise {

void transform_vertices(const Transform& to_world, std::span<const Vec3f> vertices, std::span<Vec3f> world) {
  if (to_world.is_identity()) {
    std::copy(vertices.begin(), vertices.end(), world.begin());
    return;
  }
  for (std::size_t i = 0; i < vertices.size(); ++i)
    world[i] = to_float(to_world.apply(to_double(vertices[i])));
}

void classify_faces(std::int32_t shape_id, std::span<const Vec3f> world, std::span<const Face> faces,
                    std::span<Vec3f> face_normal, std::span<std::uint8_t> hittable,
                    std::vector<Defect>& defects) {
  bool all_finite = true;
  for (std::size_t i = 0; i < world.size(); ++i) {
    if (is_finite(world[i])) continue;
    all_finite = false;
    defects.push_back({Defect::Kind::non_finite_vertex, shape_id, static_cast<std::int32_t>(i)});
  }
  for (std::size_t i = 0; i < faces.size(); ++i) {
    const Face face = faces[i];
    const Vec3f p0 = world[static_cast<std::size_t>(face[0])];
    const Vec3f p1 = world[static_cast<std::size_t>(face[1])];
    const Vec3f p2 = world[static_cast<std::size_t>(face[2])];
    face_normal[i] = {};
    hittable[i] = 0;
    const auto drop = [&](Defect::Kind kind) {
      defects.push_back({kind, shape_id, static_cast<std::int32_t>(i)});
    };
    if (!all_finite && !(is_finite(p0) && is_finite(p1) && is_finite(p2))) {
      drop(Defect::Kind::face_of_non_finite_vertex);
      continue;
    }
    if (face[0] == face[1] || face[1] == face[2] || face[2] == face[0]) {
      drop(Defect::Kind::repeated_index);
      continue;
    }
    const Vec3d e1 = to_double(p1) - to_double(p0), e2 = to_double(p2) - to_double(p0);
    const Vec3d normal = cross(e1, e2);
    const double norm = length(normal);
    if (norm <= 1e-12 * length(e1) * length(e2)) {
      drop(Defect::Kind::zero_area);
      continue;
    }
    face_normal[i] = to_float(normalized(normal));
    hittable[i] = 1;
  }
}

void measure(SceneGeometry& geometry) {
  Bounds bounds;
  for (std::size_t i = 0; i < geometry.faces.size(); ++i) {
    if (!geometry.hittable[i]) continue;
    for (const std::int32_t vertex : geometry.faces[i]) {
      const Vec3f p = geometry.vertices[static_cast<std::size_t>(vertex)];
      if (bounds.empty()) {
        bounds = {p, p};
        continue;
      }
      bounds.low = {std::min(bounds.low.x, p.x), std::min(bounds.low.y, p.y), std::min(bounds.low.z, p.z)};
      bounds.high = {std::max(bounds.high.x, p.x), std::max(bounds.high.y, p.y),
                     std::max(bounds.high.z, p.z)};
    }
  }
  geometry.bounds = bounds;
  geometry.max_coordinate = bounds.empty() ? 0.0f : std::max(max_abs(bounds.low), max_abs(bounds.high));
}

float diagonal_of(const Bounds& bounds) {
  if (bounds.empty()) return 0;
  return static_cast<float>(length(to_double(bounds.high) - to_double(bounds.low)));
}

}  // namespace shardwise
