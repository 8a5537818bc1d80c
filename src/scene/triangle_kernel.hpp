#pragma once
// The one formula that decides whether, and at which t, a ray hits a triangle. Every tracer ranks its
// candidates with it, so the winner does not depend on the tracer.
//
// Edge functions: Woop, Benthin and Wald, "Watertight Ray/Triangle Intersection", JCGT 2(1), 2013, two-sided,
// with their re-evaluation in double where one comes out exactly 0. A product rounds monotonically, so the
// sign of a non-zero difference of two products is right, and the two triangles at a shared edge see exactly
// opposite values: no ray slips between them.
//
// Why t is clamped. For slivers T / det can be far from the triangle, and then a box hierarchy that prunes by
// distance would find or lose the hit depending on its shape. So every triangle has a reference interval [n,
// f]: the slab test of its own bounds, widened by `pad` on every side; t is clamped to it, and a hierarchy
// whose boxes give near <= n and far >= f for all triangles inside may prune with near > t_best (strictly)
// and never loses the least (t, prim).
//
// Proof that nodes do so. M = scene.max_coordinate, O = |o|_inf, S = M + O, u = 2^-24, pad = 2^-20 S = 16 u S
// (plus 2^-60, which keeps every product below a normal float). Take inv > 0; the other sign mirrors it.
//   Reference: n_a = fl(fl(b - fl(o + pad)) inv), b the lower bound of the triangle. The inner rounding errs
//   by at most u (O + pad), the difference by u (S + pad), together 2 u S = pad / 8 to first order; the
//   product by u S inv = inv pad / 16. So n_a >= inv (b - o - 1.19 pad). Node: near_a = fma(q, 2^e inv,
//   fl(fl(p - fl(o + 2 pad)) inv)) with real p + q 2^e <= b, which the builder checks, and 2^e inv exact.
//   Errors: pad / 8, inv pad / 16, and for the fma u (1.02 S) inv, 1.02 because the last step of the grid may
//   lie 2 x 2 M / 255 outside. So near_a <= inv (b - o - (2 - 0.26) pad) < n_a. The far sides are the same
//   with all signs turned. Maxima and minima over the axes keep the order. Where a product overflows,
//   rounding is monotone and both sides saturate in the right order.
// The guard itself never rejects what the edge functions accept: roundings of the shear move the ray by at
// most 5 u S = 0.31 pad against the triangle, less than the 0.81 pad that the computed interval grants for
// certain.

#include <cstdint>

#include "scene/scene_view.hpp"
#include "shardwise/numeric/bits.hpp"
#include "shardwise/numeric/vec3.hpp"

namespace shardwise {

/// v[axis] without local memory on a device, and without selects on the host.
SW_HD inline float component(const Vec3f& v, int axis) {
#if defined(__CUDA_ARCH__)
  return axis == 0 ? v.x : axis == 1 ? v.y : v.z;
#else
  return (&v.x)[axis];
#endif
}

/// What the tests of one ray need, computed once. d need not be unit; t is in units of |d|.
struct RayData {
  Vec3f o;
  int kx, ky, kz;        ///< kz: the axis of the largest |d|
  float sx, sy, sz;      ///< shear of the edge functions
  Vec3f inv;             ///< 1 / d, bounded to 2^32 / |d|_inf with d's sign
  float pad;             ///< metres, see above
  Vec3f o_up, o_down;    ///< o + pad and o - pad
  std::uint32_t octant;  ///< bit a: d goes down axis a

  /// False for a ray that hits nothing by contract: a non-finite component, or |d|^2 that is zero, subnormal
  /// or infinite.
  SW_HD static bool can_hit(Vec3f origin, Vec3f d) {
    const float norm2 = dot(d, d);
    return is_finite(origin) && norm2 >= 1.17549435e-38f && norm2 <= 3.40282347e38f;
  }
  SW_HD static float pad_of(Vec3f origin, float max_coordinate) {
    return 9.53674316e-7f * (max_coordinate + max_abs(origin)) + 8.67361738e-19f;
  }

  /// False, and nothing else to rely on, unless can_hit().
  SW_HD bool prepare(Vec3f origin, Vec3f d, float max_coordinate) {
    if (!can_hit(origin, d)) return false;
    set(origin, d, max_coordinate);
    return true;
  }

  /// For a ray that can hit.
  SW_HD void set(Vec3f origin, Vec3f d, float max_coordinate) {
    const float ax = absolute(d.x), ay = absolute(d.y), az = absolute(d.z);
    kz = ax > ay ? (ax > az ? 0 : 2) : (ay > az ? 1 : 2);
    kx = kz == 2 ? 0 : kz + 1;
    ky = kx == 2 ? 0 : kx + 1;
    const float dz = component(d, kz);
    sx = component(d, kx) / dz;
    sy = component(d, ky) / dz;
    sz = 1.0f / dz;
    set_box(origin, d, max_coordinate);
    octant = (inv.x < 0 ? 1u : 0u) | (inv.y < 0 ? 2u : 0u) | (inv.z < 0 ? 4u : 0u);
  }

  /// What the tests of boxes need, without octant.
  SW_HD void set_box(Vec3f origin, Vec3f d, float max_coordinate) {
    o = origin;
    // A component below 2^-32 of the largest moves the ray by less than 2^-32 S inside the scene, nothing
    // against pad; the bound keeps inv finite.
    const float least = max_abs(d) * 2.32830644e-10f;
    inv = {1.0f / bounded(d.x, least), 1.0f / bounded(d.y, least), 1.0f / bounded(d.z, least)};
    pad = pad_of(o, max_coordinate);
    o_up = {o.x + pad, o.y + pad, o.z + pad};
    o_down = {o.x - pad, o.y - pad, o.z - pad};
  }

 private:
  SW_HD static float bounded(float x, float least) {
    if (absolute(x) >= least) return x;
    return x < 0 ? -least : least;
  }
};

/// Where a ray meets a triangle's plane inside the triangle.
struct TriangleHit {
  float t;
  float u, v;  ///< weights of corners 1 and 2
};

/// Branch-free on both platforms, unlike fmin; the second operand where one is NaN.
SW_HD inline float lesser(float a, float b) {
  return a < b ? a : b;
}
SW_HD inline float greater(float a, float b) {
  return a > b ? a : b;
}

/// The reference interval [near, far] of a triangle's bounds, see above. The bound that is near is the one
/// with the lesser t: the pads spread the two bounds apart, and rounding is monotone.
SW_HD inline void reference_interval(const RayData& ray, const Vec3f& a, const Vec3f& b, const Vec3f& c,
                                     float& near, float& far) {
  const float x0 = (lesser(lesser(a.x, b.x), c.x) - ray.o_up.x) * ray.inv.x;
  const float x1 = (greater(greater(a.x, b.x), c.x) - ray.o_down.x) * ray.inv.x;
  const float y0 = (lesser(lesser(a.y, b.y), c.y) - ray.o_up.y) * ray.inv.y;
  const float y1 = (greater(greater(a.y, b.y), c.y) - ray.o_down.y) * ray.inv.y;
  const float z0 = (lesser(lesser(a.z, b.z), c.z) - ray.o_up.z) * ray.inv.z;
  const float z1 = (greater(greater(a.z, b.z), c.z) - ray.o_down.z) * ray.inv.z;
  near = greater(greater(lesser(x0, x1), lesser(y0, y1)), lesser(z0, z1));
  far = lesser(lesser(greater(x0, x1), greater(y0, y1)), greater(z0, z1));
}

/// A triangle seen along the ray: corners relative to the origin, sheared so that the ray is the axis z.
struct ShearedTriangle {
  float ax, ay, az, bx, by, bz, cx, cy, cz;
};

/// All vectors in the order of axes kx, ky, kz.
SW_HD inline ShearedTriangle shear(Vec3f o, float sx, float sy, Vec3f v0, Vec3f v1, Vec3f v2) {
  ShearedTriangle s;
  s.az = v0.z - o.z;
  s.bz = v1.z - o.z;
  s.cz = v2.z - o.z;
  s.ax = (v0.x - o.x) - sx * s.az;
  s.ay = (v0.y - o.y) - sy * s.az;
  s.bx = (v1.x - o.x) - sx * s.bz;
  s.by = (v1.y - o.y) - sy * s.bz;
  s.cx = (v2.x - o.x) - sx * s.cz;
  s.cy = (v2.y - o.y) - sy * s.cz;
  return s;
}

/// The edge functions opposite corners 0, 1 and 2.
struct EdgeValues {
  float u, v, w;
  SW_HD bool any_zero() const { return (u == 0.0f) | (v == 0.0f) | (w == 0.0f); }
  SW_HD bool outside() const { return (lesser(lesser(u, v), w) < 0.0f) & (greater(greater(u, v), w) > 0.0f); }
};

SW_HD inline EdgeValues edge_values(const ShearedTriangle& s) {
  return {s.cx * s.by - s.cy * s.bx, s.ax * s.cy - s.ay * s.cx, s.bx * s.ay - s.by * s.ax};
}

/// In double; these count where one of edge_values() is 0.
SW_HD inline EdgeValues edge_values_wide(const ShearedTriangle& s) {
  return {static_cast<float>(static_cast<double>(s.cx) * s.by - static_cast<double>(s.cy) * s.bx),
          static_cast<float>(static_cast<double>(s.ax) * s.cy - static_cast<double>(s.ay) * s.cx),
          static_cast<float>(static_cast<double>(s.bx) * s.ay - static_cast<double>(s.by) * s.ax)};
}

/// t before it is clamped.
SW_HD inline float distance_along(float sz, const ShearedTriangle& s, const EdgeValues& e, float det) {
  return (e.u * (sz * s.az) + e.v * (sz * s.bz) + e.w * (sz * s.cz)) / det;
}

/// True, with hit filled, if the ray meets the triangle at t_min <= t <= t_max (closed; the caller keeps
/// t_max finite). Both sides count. Non-finite corners never hit.
SW_HD inline bool intersect_triangle(const RayData& ray, const Vec3f& v0, const Vec3f& v1, const Vec3f& v2,
                                     float t_min, float t_max, TriangleHit& hit) {
  const auto turned = [&](const Vec3f& v) {
    return Vec3f{component(v, ray.kx), component(v, ray.ky), component(v, ray.kz)};
  };
  const ShearedTriangle sheared = shear(turned(ray.o), ray.sx, ray.sy, turned(v0), turned(v1), turned(v2));
  EdgeValues e = edge_values(sheared);
  if (e.any_zero()) e = edge_values_wide(sheared);
  if (e.outside()) return false;
  const float det = e.u + e.v + e.w;
  if (det == 0.0f) return false;
  float t = distance_along(ray.sz, sheared, e, det);
  float near, far;
  reference_interval(ray, v0, v1, v2, near, far);
  if (near > far) return false;
  t = lesser(far, greater(near, t));  // a NaN stays one, and fails below
  if (!(t >= t_min && t <= t_max)) return false;
  hit = {t, e.v / det, e.w / det};
  return true;
}

/// intersect_triangle() over any interval without a branch, for loops over many rays.
struct LockstepHit {
  TriangleHit hit;
  std::uint32_t sure;  ///< 1: a hit; 0: none, or one that takes intersect_triangle() to tell
};

/// `mask` is all ones or zero; g++ would make branches of nested conditions.
SW_HD inline float pick(std::uint32_t mask, float a, float b) {
  return bit_cast<float>((bit_cast<std::uint32_t>(a) & mask) | (bit_cast<std::uint32_t>(b) & ~mask));
}

/// For a ray that can hit.
SW_HD inline LockstepHit intersect_lockstep(Vec3f o, Vec3f d, float max_coordinate, Vec3f v0, Vec3f v1,
                                            Vec3f v2) {
  RayData ray;
  ray.set_box(o, d, max_coordinate);
  const float ax = absolute(d.x), ay = absolute(d.y), az = absolute(d.z);
  const std::uint32_t x = 0u - static_cast<std::uint32_t>((ax > ay) & (ax > az));
  const std::uint32_t y = 0u - static_cast<std::uint32_t>(!(ax > ay) & (ay > az));
  const auto turned = [x, y](const Vec3f& v) {
    return Vec3f{pick(x, v.y, pick(y, v.z, v.x)), pick(x, v.z, pick(y, v.x, v.y)),
                 pick(x, v.x, pick(y, v.y, v.z))};
  };
  const Vec3f along = turned(d);
  const ShearedTriangle sheared =
      shear(turned(o), along.x / along.z, along.y / along.z, turned(v0), turned(v1), turned(v2));
  const EdgeValues e = edge_values(sheared);
  const float det = e.u + e.v + e.w;
  float near, far;
  reference_interval(ray, v0, v1, v2, near, far);
  const float t = lesser(far, greater(near, distance_along(1.0f / along.z, sheared, e, det)));
  const bool sure =
      !e.any_zero() & !e.outside() & (det != 0.0f) & !(near > far) & (absolute(t) <= 3.40282347e38f);
  return {{t, e.v / det, e.w / det}, sure ? 1u : 0u};
}

}  // namespace shardwise
