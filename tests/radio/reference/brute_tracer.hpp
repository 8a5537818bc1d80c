#pragma once
// Closest hits by trying every triangle in double precision (T. Moeller, B. Trumbore, "Fast, minimum storage
// ray/triangle intersection", JGT 2(1), 1997): slow, plain, the oracle of the real tracers.

#include <cmath>
#include <limits>
#include <vector>

#include "scene/scene_view.hpp"

namespace shardwise::test {

class BruteTracer {
 public:
  explicit BruteTracer(const SceneView& scene) {
    for (std::uint32_t k = 0; k < scene.triangle_count; ++k) {
      const BvhTriangle& t = scene.triangles[k];
      const Vec3d corner = to_double(t.v0);
      faces_.push_back({corner, to_double(t.v1) - corner, to_double(t.v2) - corner, t.prim, k});
    }
  }

  /// The least (t, prim) with t_min <= t <= t_max.
  Hit closest(Vec3f origin, Vec3f direction, float t_min, float t_max) const {
    Hit best{std::numeric_limits<float>::infinity(), 0, 0, ~0u, 0};
    const Vec3d o = to_double(origin), d = to_double(direction);
    for (const Face& face : faces_) {
      const Vec3d across = cross(d, face.edge2);
      const double determinant = dot(face.edge1, across);
      if (determinant == 0) continue;
      const double inverse = 1 / determinant;
      const Vec3d from = o - face.corner;
      const double u = dot(from, across) * inverse;
      if (u < 0 || u > 1) continue;
      const Vec3d other = cross(from, face.edge1);
      const double v = dot(d, other) * inverse;
      if (v < 0 || u + v > 1) continue;
      const auto t = static_cast<float>(dot(face.edge2, other) * inverse);
      if (!(t >= t_min && t <= t_max)) continue;
      if (t < best.t || (t == best.t && face.prim < best.prim))
        best = {t, static_cast<float>(u), static_cast<float>(v), face.prim, face.record};
    }
    return best;
  }

 private:
  struct Face {
    Vec3d corner, edge1, edge2;
    std::uint32_t prim, record;
  };
  std::vector<Face> faces_;
};

}  // namespace shardwise::test
