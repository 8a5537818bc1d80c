#pragma once
// Closest hit in the 8-wide compressed BVH, one source for host and device.
//
// The winner is the least (t, global_prim_id) over all triangles that the shared test accepts, whatever the
// shape of the tree: boxes are only skipped where near > best t, strictly (triangle_kernel.hpp has the
// proof).
//
// Order of visits, after Ylitie, Karras and Laine, HPG 2017: the builder gives children the slots of the
// octants they lie in, so for a ray whose octant is c the children in order of (slot ^ c) come roughly front
// to back. Masks here are indexed by slot ^ c, the lowest bit is visited first. What waits is a group: the
// children of one node that are still to be visited, at most one group per level of the tree.

#include <bit>
#include <cstdint>

#include "scene/scene_view.hpp"
#include "scene/triangle_kernel.hpp"
#include "shardwise/numeric/bits.hpp"

namespace shardwise {

/// Levels of a tree; the builder never makes more, the traversal's stack holds as many groups.
inline constexpr int bvh8_max_depth = 32;

SW_HD inline int lowest_bit(std::uint32_t mask) {
#if defined(__CUDA_ARCH__)
  return __ffs(static_cast<int>(mask)) - 1;
#else
  return std::countr_zero(mask);
#endif
}

SW_HD inline std::uint32_t count_bits(std::uint32_t mask) {
#if defined(__CUDA_ARCH__)
  return static_cast<std::uint32_t>(__popc(mask));
#else
  return static_cast<std::uint32_t>(std::popcount(mask));
#endif
}

/// Bit s of an 8-bit mask moves to s ^ octant.
SW_HD inline std::uint32_t permute_by_octant(std::uint32_t mask, std::uint32_t octant) {
  if (octant & 1) mask = ((mask & 0x55u) << 1) | ((mask >> 1) & 0x55u);
  if (octant & 2) mask = ((mask & 0x33u) << 2) | ((mask >> 2) & 0x33u);
  if (octant & 4) mask = ((mask & 0x0fu) << 4) | ((mask >> 4) & 0x0fu);
  return mask;
}

/// A ray as the node test wants it: per axis the origin moved by twice the pad against the ray (near planes)
/// and along it (far planes).
struct NodeRay {
  float near_origin[3], far_origin[3], inv[3];
  std::uint32_t octant;
  alignas(32) std::uint32_t bit[8];  ///< of slot s in a visiting-order mask: 1 << (s ^ octant)

  SW_HD explicit NodeRay(const RayData& ray) : octant(ray.octant) {
    for (int axis = 0; axis < 3; ++axis) {
      inv[axis] = component(ray.inv, axis);
      const float pad = (inv[axis] < 0 ? -2.0f : 2.0f) * ray.pad, o = component(ray.o, axis);
      near_origin[axis] = o + pad;
      far_origin[axis] = o - pad;
    }
    for (std::uint32_t s = 0; s < 8; ++s) bit[s] = 1u << (s ^ octant);
  }
};

/// The children whose boxes the ray meets within [t_min, t_max], in visiting order. Empty slots have inverted
/// boxes, which can still count as met in a node without extent; their meta is 0, so nothing comes of it.
SW_HD inline std::uint32_t hit_children(const Bvh8Node& node, const NodeRay& ray, float t_min, float t_max) {
  float step[3], near_base[3], far_base[3];
  const std::uint8_t* near_plane[3];
  const std::uint8_t* far_plane[3];
  for (int axis = 0; axis < 3; ++axis) {
    step[axis] = power_of_two_f(node.exponent[axis]) * ray.inv[axis];
    near_base[axis] = (node.origin[axis] - ray.near_origin[axis]) * ray.inv[axis];
    far_base[axis] = (node.origin[axis] - ray.far_origin[axis]) * ray.inv[axis];
    const bool down = (ray.octant >> axis) & 1;
    near_plane[axis] = down ? node.high[axis] : node.low[axis];
    far_plane[axis] = down ? node.low[axis] : node.high[axis];
  }
  std::uint32_t mask = 0;
  for (int s = 0; s < 8; ++s) {
    const float near_x = __builtin_fmaf(static_cast<float>(near_plane[0][s]), step[0], near_base[0]);
    const float near_y = __builtin_fmaf(static_cast<float>(near_plane[1][s]), step[1], near_base[1]);
    const float near_z = __builtin_fmaf(static_cast<float>(near_plane[2][s]), step[2], near_base[2]);
    const float far_x = __builtin_fmaf(static_cast<float>(far_plane[0][s]), step[0], far_base[0]);
    const float far_y = __builtin_fmaf(static_cast<float>(far_plane[1][s]), step[1], far_base[1]);
    const float far_z = __builtin_fmaf(static_cast<float>(far_plane[2][s]), step[2], far_base[2]);
    const float near = greater(greater(near_x, near_y), greater(near_z, t_min));
    const float far = lesser(lesser(far_x, far_y), lesser(far_z, t_max));
    mask |= near <= far ? ray.bit[s] : 0u;
  }
  return mask;
}

/// The BVH body. A miss is {+inf, 0, 0, ~0u, ~0u}.
struct BvhTracer {
  SceneView scene;

  /// The least (t, prim) with t_min <= t <= t_max. Rays that are not finite, whose |d|^2 is not a normal
  /// number, or whose t_max is NaN or <= 0 miss.
  SW_HD Hit closest(Vec3f o, Vec3f d, float t_min, float t_max) const {
    Hit best{__builtin_inff(), 0.0f, 0.0f, ~0u, ~0u};
    RayData ray;
    if (scene.node_count == 0 || !(t_max > 0.0f) || !ray.prepare(o, d, scene.max_coordinate)) return best;
    const NodeRay node_ray(ray);
    float limit = t_max < 3.40282347e38f ? t_max : 3.40282347e38f;

    struct Group {
      std::uint32_t base;   // the first inner child's index
      std::uint32_t masks;  // low byte: to be visited, in visiting order; next byte: inner_mask, by slot
    };
    Group stack[bvh8_max_depth];
    int waiting = 0;
    Group group{0, 1u << 8 | 1u << ray.octant};
    for (;;) {
      const auto slot = static_cast<std::uint32_t>(lowest_bit(group.masks)) ^ ray.octant;
      const std::uint32_t node_index = group.base + count_bits((group.masks >> 8) & ((1u << slot) - 1u));
      group.masks &= group.masks - 1;
      if (group.masks & 0xffu) stack[waiting++] = group;

      const Bvh8Node& node = scene.nodes[node_index];
      const std::uint32_t hits = hit_children(node, node_ray, t_min, limit);
      const std::uint32_t inner = permute_by_octant(node.inner_mask, ray.octant);
      for (std::uint32_t leaves = hits & ~inner; leaves != 0; leaves &= leaves - 1) {
        const std::uint32_t meta = node.meta[static_cast<std::uint32_t>(lowest_bit(leaves)) ^ ray.octant];
        const std::uint32_t first = node.triangle_base + (meta & 31u), end = first + (meta >> 5);
        for (std::uint32_t record = first; record < end; ++record) {
          const BvhTriangle& triangle = scene.triangles[record];
          TriangleHit hit;
          if (!intersect_triangle(ray, triangle.v0, triangle.v1, triangle.v2, t_min, limit, hit)) continue;
          if (hit.t < limit || triangle.prim < best.prim) {
            best = {hit.t, hit.u, hit.v, triangle.prim, record};
            limit = hit.t;
          }
        }
      }
      group = {node.child_base, static_cast<std::uint32_t>(node.inner_mask) << 8 | (hits & inner)};
      if ((group.masks & 0xffu) == 0) {
        if (waiting == 0) return best;
        group = stack[--waiting];
      }
    }
  }
};

}  // namespace shardwise
