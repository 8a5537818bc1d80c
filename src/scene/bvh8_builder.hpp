#pragma once
// Builds and refits the 8-wide compressed BVH on the host.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "scene/scene_view.hpp"

namespace shardwise {

/// A built tree, in host memory. nodes[0] is the root; a child's index is larger than its parent's.
struct Bvh8 {
  std::vector<Bvh8Node> nodes;         ///< empty: nothing to hit
  std::vector<BvhTriangle> triangles;  ///< the hittable faces in leaf order
  std::vector<std::uint32_t>
      record_of_prim;        ///< [faces] index into triangles; ~0u for a face that cannot be hit
  float max_coordinate = 0;  ///< largest |coordinate| of a hittable face
  int depth = 0;             ///< levels, at most bvh8_max_depth; 0 when empty
};

/// Three indices into the vertices.
using FaceIndices = std::array<std::int32_t, 3>;

/// Builds a tree over the faces whose `hittable` byte is not 0; faces with zero area or a non-finite corner
/// must have 0 there. The result depends on the arguments only, not on threads: large parts are built in
/// parallel in the caller's TBB arena. Binned surface-area heuristic (Wald, "On fast Construction of
/// SAH-based Bounding Volume Hierarchies", RT 2007), collapsed to 8 children by the dynamic programme of
/// Ylitie, Karras and Laine, HPG 2017, section 3.1. Throws Error(internal) for an index past the end, masks
/// of the wrong length or a hittable non-finite face: the scene checks its input before.
Bvh8 build_bvh8(std::span<const Vec3f> vertices, std::span<const FaceIndices> faces,
                std::span<const std::uint8_t> hittable);

/// After new vertex positions: same tree, new boxes. Rebuilds where `hittable` is no longer the one it was
/// built with. Hits are the same as a rebuilt tree's, only the speed may differ. Throws as build_bvh8.
void refit_bvh8(Bvh8& bvh, std::span<const Vec3f> vertices, std::span<const FaceIndices> faces,
                std::span<const std::uint8_t> hittable);

/// The pointers and counts of a tree; face_material and diagonal are left to the caller.
SceneView view_of(const Bvh8& bvh);

}  // namespace shardwise
