#pragma once
// What a kernel sees of a scene: plain pointers into one device's replica. Copied by value into launches.

#include <cstdint>

#include "shardwise/numeric/vec3.hpp"

namespace shardwise {

/// One node of the 8-wide compressed BVH, 80 bytes: child boxes are 8-bit offsets from `origin` in steps of
/// 2^exponent per axis, rounded outward. After Ylitie, Karras and Laine, "Efficient Incoherent Ray Traversal
/// on GPUs Through Compressed Wide BVHs", HPG 2017.
struct alignas(16) Bvh8Node {
  float origin[3];
  std::int8_t exponent[3];      ///< -60 or more, so that 2^exponent / d stays a normal float
  std::uint8_t inner_mask;      ///< bit s set: slot s is an inner node
  std::uint32_t child_base;     ///< index of the first inner child
  std::uint32_t triangle_base;  ///< index of the first triangle record of this node's leaves
  /// Per slot: a leaf has its triangle count (1 to 3) << 5 | offset from triangle_base (0 to 23); an inner or
  /// an empty slot has 0. Bit a of a slot's number says on which side of the node's middle its child lies on
  /// axis a.
  std::uint8_t meta[8];
  std::uint8_t low[3][8];
  std::uint8_t high[3][8];
};
static_assert(sizeof(Bvh8Node) == 80);

/// A triangle in leaf order, 48 bytes (three 16-byte words).
struct alignas(16) BvhTriangle {
  Vec3f v0;
  std::uint32_t prim;  ///< global_prim_id
  Vec3f v1;
  std::uint32_t unused1;
  Vec3f v2;
  std::uint32_t unused2;
};
static_assert(sizeof(BvhTriangle) == 48);

struct SceneView {
  const Bvh8Node* nodes = nullptr;
  const BvhTriangle* triangles = nullptr;
  const std::uint32_t* record_of_prim = nullptr;  ///< [faces] index into triangles; ~0u for a dropped face
  const std::int32_t* face_material = nullptr;    ///< [faces] index into the scene's material table
  std::uint32_t node_count = 0;                   ///< 0: nothing to hit
  std::uint32_t triangle_count = 0;               ///< records: faces that can be hit
  std::uint32_t face_count = 0;                   ///< all faces, dropped ones included
  float max_coordinate = 0;                       ///< largest |coordinate| of a vertex
  float diagonal = 0;                             ///< of the bounds, fixed at build()

  /// Self-intersection offset at p, metres: 1e-8 x diagonal + 2e-6 x |p|_inf.
  SW_HD float offset_at(Vec3f p) const { return 1e-8f * diagonal + 2e-6f * max_abs(p); }
};

/// A closest hit; prim == ~0u and t == +inf for a miss.
struct Hit {
  float t;
  float u, v;            ///< barycentric weights of corners 1 and 2
  std::uint32_t prim;    ///< global_prim_id
  std::uint32_t record;  ///< index into SceneView::triangles
  SW_HD bool valid() const { return prim != ~0u; }
};

}  // namespace shardwise
