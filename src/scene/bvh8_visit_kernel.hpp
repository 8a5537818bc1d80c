#pragma once
// The walk through the 8-wide BVH with a visitor that decides what counts, one source for host and device.
//
// BvhTracer::closest (bvh8_kernel.hpp) is this walk with its visitor written in: it is the hottest loop of
// the library and stays apart, so that nothing added here can slow it.

#include <cstdint>

#include "scene/bvh8_kernel.hpp"

namespace shardwise {

/// Calls visitor.visit(hit, prim, record) for triangles that the shared test accepts at
/// t_min <= t <= visitor.limit, roughly front to back; true ends the walk. `limit` is finite and may shrink
/// in visit(): boxes are skipped only where they begin beyond it, strictly, so every accepted triangle with
/// t <= the final limit is visited (proof in triangle_kernel.hpp). A box's far side is no nearer than any t
/// inside it for the same reason, so a t_min above 0 loses nothing either. `ray` is prepared.
template <class Visitor>
SW_HD inline void visit_triangles(const SceneView& scene, const RayData& ray, float t_min, Visitor& visitor) {
  if (scene.node_count == 0) return;
  const Together all;
  const NodeRay node_ray(ray);
  struct Group {
    std::uint32_t base;   // the first inner child's index
    std::uint32_t masks;  // low byte: to be visited, in visiting order; next byte: inner_mask, by slot
  };
  Group stack[bvh8_max_depth];
  int waiting = 0;
  bool ended = false;
  Group group{0, 1u << 8 | 1u << ray.octant};
  for (;;) {
    const Together together;
    const auto slot = static_cast<std::uint32_t>(lowest_bit(group.masks)) ^ ray.octant;
    const std::uint32_t node_index = group.base + count_bits((group.masks >> 8) & ((1u << slot) - 1u));
    group.masks &= group.masks - 1;
    if (group.masks & 0xffu) stack[waiting++] = group;

    const NodeCopy copy(scene.nodes + node_index);
    const Bvh8Node& node = copy.node;
    const std::uint32_t hits = hit_slots_x8(node, node_ray, t_min, visitor.limit);
    const std::uint32_t inner = node.inner_mask;
    for (std::uint32_t leaves = hits & ~inner; leaves != 0 && !ended; leaves &= leaves - 1) {
      const std::uint32_t meta = copy.meta(lowest_bit(leaves));
      const std::uint32_t first = node.triangle_base + (meta & 31u), end = first + (meta >> 5);
      for (std::uint32_t record = first; record < end && !ended; ++record) {
        const TriangleCopy triangle_copy(scene.triangles + record);
        const BvhTriangle& triangle = triangle_copy.triangle;
        TriangleHit hit;
        if (!intersect_triangle(ray, triangle.v0, triangle.v1, triangle.v2, t_min, visitor.limit, hit))
          continue;
        ended = visitor.visit(hit, triangle.prim, record);
      }
    }
    together.meet();
    if (ended) break;
    group = {node.child_base, inner << 8 | permute_by_octant(hits & inner, ray.octant)};
    if ((group.masks & 0xffu) == 0) {
      if (waiting == 0) break;
      group = stack[--waiting];
    }
  }
  all.meet();
}

}  // namespace shardwise
