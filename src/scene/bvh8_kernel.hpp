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
#include <cstddef>
#include <cstdint>

#if defined(__AVX2__) && defined(__FMA__) && !defined(__CUDACC__)
#include <immintrin.h>
#endif

#include "scene/scene_view.hpp"
#include "scene/triangle_kernel.hpp"
#include "scene/warp_kernel.hpp"
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
  const std::uint32_t by1 = octant & 1u, by2 = octant & 2u, by4 = octant & 4u;
  mask = ((mask & 0x55u) << by1) | ((mask & 0xaau) >> by1);
  mask = ((mask & 0x33u) << by2) | ((mask & 0xccu) >> by2);
  return ((mask & 0x0fu) << by4) | ((mask & 0xf0u) >> by4);
}

/// A ray as the node test wants it: per axis the origin moved by twice the pad against the ray (near planes)
/// and along it (far planes).
struct NodeRay {
  float near_origin[3], far_origin[3], inv[3];
  std::uint32_t near_offset[3], far_offset[3];  ///< bytes from the start of a node to the planes of an axis

  SW_HD explicit NodeRay(const RayData& ray) {
    for (int axis = 0; axis < 3; ++axis) {
      const float o = component(ray.o, axis);
      inv[axis] = component(ray.inv, axis);
      const bool down = inv[axis] < 0;
      const float pad = down ? -2.0f * ray.pad : 2.0f * ray.pad;
      near_origin[axis] = o + pad;
      far_origin[axis] = o - pad;
      const auto low =
          static_cast<std::uint32_t>(offsetof(Bvh8Node, low) + 8 * static_cast<std::size_t>(axis));
      const auto high =
          static_cast<std::uint32_t>(offsetof(Bvh8Node, high) + 8 * static_cast<std::size_t>(axis));
      near_offset[axis] = down ? high : low;
      far_offset[axis] = down ? low : high;
    }
  }
};

/// A node's boxes in t: a plane lies at q * step + base.
struct NodeFrame {
  float step[3], near_base[3], far_base[3];

  SW_HD NodeFrame(const Bvh8Node& node, const NodeRay& ray) {
    for (int axis = 0; axis < 3; ++axis) {
      step[axis] = power_of_two_f(node.exponent[axis]) * ray.inv[axis];
      near_base[axis] = (node.origin[axis] - ray.near_origin[axis]) * ray.inv[axis];
      far_base[axis] = (node.origin[axis] - ray.far_origin[axis]) * ray.inv[axis];
    }
  }
};

/// The slots whose boxes the ray meets within [t_min, t_max], as bits. Empty slots have inverted boxes, which
/// can still count as met in a node without extent; their meta is 0, so nothing comes of it.
SW_HD inline std::uint32_t hit_slots(const Bvh8Node& node, const NodeRay& ray, float t_min, float t_max) {
  const NodeFrame frame(node, ray);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&node);
  std::uint32_t mask = 0;
  for (std::uint32_t s = 0; s < 8; ++s) {
    float near[3], far[3];
    for (int axis = 0; axis < 3; ++axis) {
      near[axis] = __builtin_fmaf(static_cast<float>(bytes[ray.near_offset[axis] + s]), frame.step[axis],
                                  frame.near_base[axis]);
      far[axis] = __builtin_fmaf(static_cast<float>(bytes[ray.far_offset[axis] + s]), frame.step[axis],
                                 frame.far_base[axis]);
    }
    const float near_all = greater(greater(near[0], near[1]), greater(near[2], t_min));
    const float far_all = lesser(lesser(far[0], far[1]), lesser(far[2], t_max));
    mask |= static_cast<std::uint32_t>(near_all <= far_all) << s;
  }
  return mask;
}

#if defined(__AVX2__) && defined(__FMA__) && !defined(__CUDACC__)
/// hit_slots, all eight at once: the same operations in the same order, so the same bits. Written with
/// intrinsics because g++ 12 does not find the widening from bytes by itself and leaves the loop scalar, at
/// half the speed.
inline std::uint32_t hit_slots_x8(const Bvh8Node& node, const NodeRay& ray, float t_min, float t_max) {
  const NodeFrame frame(node, ray);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&node);
  const auto planes = [&](std::uint32_t offset, int axis, const float(&base)[3]) {
    const __m128i q = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes + offset));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(q)), _mm256_set1_ps(frame.step[axis]),
                           _mm256_set1_ps(base[axis]));
  };
  const __m256 near_x = planes(ray.near_offset[0], 0, frame.near_base);
  const __m256 near_y = planes(ray.near_offset[1], 1, frame.near_base);
  const __m256 near_z = planes(ray.near_offset[2], 2, frame.near_base);
  const __m256 far_x = planes(ray.far_offset[0], 0, frame.far_base);
  const __m256 far_y = planes(ray.far_offset[1], 1, frame.far_base);
  const __m256 far_z = planes(ray.far_offset[2], 2, frame.far_base);
  const __m256 near =
      _mm256_max_ps(_mm256_max_ps(near_x, near_y), _mm256_max_ps(near_z, _mm256_set1_ps(t_min)));
  const __m256 far = _mm256_min_ps(_mm256_min_ps(far_x, far_y), _mm256_min_ps(far_z, _mm256_set1_ps(t_max)));
  return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(near, far, _CMP_LE_OQ)));
}
#else
/// hit_slots for devices: planes come as words in registers, chosen by the ray's signs, instead of byte by
/// byte.
SW_HD inline std::uint32_t hit_slots_x8(const Bvh8Node& node, const NodeRay& ray, float t_min, float t_max) {
#if defined(__CUDA_ARCH__)
  const NodeFrame frame(node, ray);
  std::uint32_t near_word[3][2], far_word[3][2];
  const auto* words = reinterpret_cast<const std::uint32_t*>(&node);
#pragma unroll
  for (int axis = 0; axis < 3; ++axis) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t low = words[8 + 2 * axis + half], high = words[14 + 2 * axis + half];
      const bool down = ray.inv[axis] < 0;
      near_word[axis][half] = down ? high : low;
      far_word[axis][half] = down ? low : high;
    }
  }
  std::uint32_t mask = 0;
#pragma unroll
  for (int s = 0; s < 8; ++s) {
    float near[3], far[3];
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
      const auto q_near = static_cast<float>((near_word[axis][s >> 2] >> (8 * (s & 3))) & 0xffu);
      const auto q_far = static_cast<float>((far_word[axis][s >> 2] >> (8 * (s & 3))) & 0xffu);
      near[axis] = __builtin_fmaf(q_near, frame.step[axis], frame.near_base[axis]);
      far[axis] = __builtin_fmaf(q_far, frame.step[axis], frame.far_base[axis]);
    }
    const float near_all = greater(greater(near[0], near[1]), greater(near[2], t_min));
    const float far_all = lesser(lesser(far[0], far[1]), lesser(far[2], t_max));
    mask |= near_all <= far_all ? 1u << s : 0u;
  }
  return mask;
#else
  return hit_slots(node, ray, t_min, t_max);
#endif
}
#endif

/// A node by value: five 16-byte loads on a device. On the host a reference, the cache is next to the core.
#if defined(__CUDA_ARCH__)
struct NodeCopy {
  Bvh8Node node;
  __device__ explicit NodeCopy(const Bvh8Node* from) {
    const auto* source = reinterpret_cast<const uint4*>(from);
    auto* target = reinterpret_cast<uint4*>(&node);
#pragma unroll
    for (int i = 0; i < 5; ++i) target[i] = __ldg(source + i);
  }
  __device__ std::uint32_t meta(int slot) const {
    const auto* words = reinterpret_cast<const std::uint32_t*>(&node);
    return ((slot < 4 ? words[6] : words[7]) >> (8 * (slot & 3))) & 0xffu;
  }
};
struct TriangleCopy {
  BvhTriangle triangle;
  __device__ explicit TriangleCopy(const BvhTriangle* from) {
    const auto* source = reinterpret_cast<const float4*>(from);
    auto* target = reinterpret_cast<float4*>(&triangle);
#pragma unroll
    for (int i = 0; i < 3; ++i) target[i] = __ldg(source + i);
  }
};
#else
struct NodeCopy {
  const Bvh8Node& node;
  SW_HD explicit NodeCopy(const Bvh8Node* from) : node(*from) {}
  SW_HD std::uint32_t meta(int slot) const { return node.meta[slot]; }
};
struct TriangleCopy {
  const BvhTriangle& triangle;
  SW_HD explicit TriangleCopy(const BvhTriangle* from) : triangle(*from) {}
};
#endif

/// The BVH body. A miss is {+inf, 0, 0, ~0u, ~0u}.
struct BvhTracer {
  SceneView scene;

  /// The least (t, prim) with t_min <= t <= t_max. Rays that are not finite, whose |d|^2 is not a normal
  /// number, or whose t_max is NaN or <= 0 miss.
  SW_HD Hit closest(Vec3f o, Vec3f d, float t_min, float t_max) const {
    Hit best{__builtin_inff(), 0.0f, 0.0f, ~0u, ~0u};
    RayData ray;
    if (scene.node_count == 0 || !(t_max > 0.0f) || !ray.prepare(o, d, scene.max_coordinate)) return best;
    const Together all;
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
      const Together together;
      const auto slot = static_cast<std::uint32_t>(lowest_bit(group.masks)) ^ ray.octant;
      const std::uint32_t node_index = group.base + count_bits((group.masks >> 8) & ((1u << slot) - 1u));
      group.masks &= group.masks - 1;
      if (group.masks & 0xffu) stack[waiting++] = group;

      const NodeCopy copy(scene.nodes + node_index);
      const Bvh8Node& node = copy.node;
      const std::uint32_t hits = hit_slots_x8(node, node_ray, t_min, limit);
      const std::uint32_t inner = node.inner_mask;
      for (std::uint32_t leaves = hits & ~inner; leaves != 0; leaves &= leaves - 1) {
        const std::uint32_t meta = copy.meta(lowest_bit(leaves));
        const std::uint32_t first = node.triangle_base + (meta & 31u), end = first + (meta >> 5);
        for (std::uint32_t record = first; record < end; ++record) {
          const TriangleCopy triangle_copy(scene.triangles + record);
          const BvhTriangle& triangle = triangle_copy.triangle;
          TriangleHit hit;
          if (!intersect_triangle(ray, triangle.v0, triangle.v1, triangle.v2, t_min, limit, hit)) continue;
          if (hit.t < limit || triangle.prim < best.prim) {
            best = {hit.t, hit.u, hit.v, triangle.prim, record};
            limit = hit.t;
          }
        }
      }
      together.meet();
      group = {node.child_base, inner << 8 | permute_by_octant(hits & inner, ray.octant)};
      if ((group.masks & 0xffu) == 0) {
        if (waiting == 0) break;
        group = stack[--waiting];
      }
    }
    all.meet();
    return best;
  }
};

}  // namespace shardwise
