#pragma once
// What row operations ask of a tracer. The winner of every query is the least (t, global_prim_id) of what
// counts, whatever the shape of the tree.

#include <cstdint>

#include "scene/bvh8_visit_kernel.hpp"
#include "shardwise/numeric/bits.hpp"

namespace shardwise {

/// Smallest t of rays that the caller gives, in units of |d|.
inline constexpr float user_ray_t_min = 1e-6f;
/// Smallest t of a leg whose origin already lies off its surface: t > 0.
inline constexpr float leg_ray_t_min = smallest_normal_f;

/// Faces that a row passes through. Padding (-1) and ids out of range match nothing.
struct IgnoreList {
  const std::int32_t* ids = nullptr;
  int count = 0;
  SW_HD bool has(std::uint32_t prim) const {
    for (int k = 0; k < count; ++k)
      if (static_cast<std::uint32_t>(ids[k]) == prim) return true;
    return false;
  }
};

SW_HD inline Hit no_hit() {
  return {infinity_f, 0.0f, 0.0f, ~0u, ~0u};
}

/// The next float above t >= 0, and below t > 0: an open interval becomes a closed one.
SW_HD inline float next_above(float t) {
  return bit_cast<float>(bit_cast<std::uint32_t>(t + 0.0f) + 1u);  // + 0: of -0 makes +0
}
SW_HD inline float next_below(float t) {
  return bit_cast<float>(bit_cast<std::uint32_t>(t) - 1u);
}

namespace detail {

/// Keeps the least (t, prim) that is not ignored.
struct FirstVisitor {
  IgnoreList ignore;
  Hit best;
  float limit;
  SW_HD bool visit(const TriangleHit& hit, std::uint32_t prim, std::uint32_t record) {
    // At the limit itself the interval's closed end counts too, so compare with best, not with limit.
    if (!(hit.t < best.t || (hit.t == best.t && prim < best.prim)) || ignore.has(prim)) return false;
    best = {hit.t, hit.u, hit.v, prim, record};
    limit = hit.t;
    return false;
  }
};

/// Ends at the first triangle that is not ignored.
struct AnyVisitor {
  IgnoreList ignore;
  float limit;
  bool found;
  SW_HD bool visit(const TriangleHit&, std::uint32_t prim, std::uint32_t) {
    found = !ignore.has(prim);
    return found;
  }
};

/// Keeps the least (t, prim) above (from_t, from_prim); the walk's t_min is from_t.
struct NextVisitor {
  float from_t;
  std::uint32_t from_prim;
  Hit best;
  float limit;
  SW_HD bool visit(const TriangleHit& hit, std::uint32_t prim, std::uint32_t record) {
    if (hit.t == from_t && prim <= from_prim) return false;
    if (!(hit.t < best.t || (hit.t == best.t && prim < best.prim))) return false;
    best = {hit.t, hit.u, hit.v, prim, record};
    limit = hit.t;
    return false;
  }
};

}  // namespace detail

/// All queries by the BVH.
struct BvhQueries {
  SceneView scene;

  /// See BvhTracer.
  SW_HD Hit closest(Vec3f o, Vec3f d, float t_min, float t_max) const {
    return BvhTracer{scene}.closest(o, d, t_min, t_max);
  }

  /// The first hit with low < t < high that is not ignored; low >= 0, high finite. Rays that hit nothing by
  /// contract (RayData::can_hit) miss.
  SW_HD Hit first_between(Vec3f o, Vec3f d, float low, float high, const IgnoreList& ignore) const {
    detail::FirstVisitor visitor{ignore, no_hit(), 0};
    RayData ray;
    if (!(low < high) || !ray.prepare(o, d, scene.max_coordinate)) return visitor.best;
    visitor.limit = next_below(high);
    visit_triangles(scene, ray, next_above(low), visitor);
    return visitor.best;
  }

  /// Whether first_between() finds one.
  SW_HD bool any_between(Vec3f o, Vec3f d, float low, float high, const IgnoreList& ignore) const {
    RayData ray;
    if (!(low < high) || !ray.prepare(o, d, scene.max_coordinate)) return false;
    detail::AnyVisitor visitor{ignore, next_below(high), false};
    visit_triangles(scene, ray, next_above(low), visitor);
    return visitor.found;
  }

  /// The first hit after `previous` in the order of (t, prim), with t < high.
  SW_HD Hit next_after(Vec3f o, Vec3f d, const Hit& previous, float high) const {
    detail::NextVisitor visitor{previous.t, previous.prim, no_hit(), 0};
    RayData ray;
    if (!(previous.t < high) || !ray.prepare(o, d, scene.max_coordinate)) return visitor.best;
    visitor.limit = next_below(high);
    visit_triangles(scene, ray, previous.t, visitor);
    return visitor.best;
  }
};

}  // namespace shardwise
