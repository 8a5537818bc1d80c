#pragma once
// Rays that the host traces together, and their hits, one array per component: loops over them become vector
// instructions.

#include <cstdint>

#include "scene/scene_view.hpp"

namespace shardwise {

/// Up to `capacity` rays; the caller keeps their number.
struct RayBatch {
  static constexpr int capacity = 64;
  alignas(64) float o[3][capacity];
  alignas(64) float d[3][capacity];
  alignas(64) float t_max[capacity];

  Vec3f origin(int i) const { return {o[0][i], o[1][i], o[2][i]}; }
  Vec3f direction(int i) const { return {d[0][i], d[1][i], d[2][i]}; }
  void set_origin(int i, Vec3f v) { o[0][i] = v.x, o[1][i] = v.y, o[2][i] = v.z; }
  void set_direction(int i, Vec3f v) { d[0][i] = v.x, d[1][i] = v.y, d[2][i] = v.z; }
};

/// The hits of a RayBatch. Where prim is ~0u, t is +inf and the rest is any number.
struct HitBatch {
  static constexpr int capacity = RayBatch::capacity;
  alignas(64) float t[capacity];
  alignas(64) float u[capacity];
  alignas(64) float v[capacity];
  alignas(64) float corner[9][capacity];  ///< v0.x, v0.y, ... of the triangle
  alignas(64) std::uint32_t prim[capacity];
  alignas(64) std::uint32_t record[capacity];

  bool valid(int i) const { return prim[i] != ~0u; }
  Vec3f corner_of(int i, int k) const {
    return {corner[3 * k][i], corner[3 * k + 1][i], corner[3 * k + 2][i]};
  }

  void set_corners(int i, const BvhTriangle& triangle) {
    corner[0][i] = triangle.v0.x, corner[1][i] = triangle.v0.y, corner[2][i] = triangle.v0.z;
    corner[3][i] = triangle.v1.x, corner[4][i] = triangle.v1.y, corner[5][i] = triangle.v1.z;
    corner[6][i] = triangle.v2.x, corner[7][i] = triangle.v2.y, corner[8][i] = triangle.v2.z;
  }

  void set(int i, const Hit& hit, const SceneView& scene) {
    t[i] = hit.t, u[i] = hit.u, v[i] = hit.v, prim[i] = hit.prim, record[i] = hit.record;
    if (hit.valid()) set_corners(i, scene.triangles[hit.record]);
  }
};

/// One ray after the other, for tracers that know no better.
template <class Tracer>
void closest_one_by_one(const Tracer& tracer, const SceneView& scene, const RayBatch& rays, int count,
                        float t_min, HitBatch& hits) {
  for (int i = 0; i < count; ++i)
    hits.set(i, tracer.closest(rays.origin(i), rays.direction(i), t_min, rays.t_max[i]), scene);
}

}  // namespace shardwise
