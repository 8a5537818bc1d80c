#pragma once
// What a kernel sees of a scene's edges: plain pointers into one device's replica. Copied by value into
// launches.

#include <cstdint>

#include "shardwise/numeric/vec3.hpp"

namespace shardwise {

/// Two subtrees and the boxes of the edges in them that can be found, 64 bytes. Boxes are exact: the least
/// and greatest coordinates of end points. A side without such edges has low > high.
struct alignas(16) EdgeBvhNode {
  Vec3f low[2], high[2];
  std::uint32_t child[2];  ///< an inner node's index, or the first segment of a leaf
  std::uint32_t count[2];  ///< segments of a leaf, 0 for an inner node
};
static_assert(sizeof(EdgeBvhNode) == 64);

/// An edge in leaf order, 32 bytes.
struct alignas(16) EdgeSegment {
  Vec3f a;            ///< where the edge_t of outputs is 0: the vertex v0
  std::int32_t edge;  ///< global_edge_id; -1 where it must not be found (masked, or an end is not finite)
  Vec3f b;
  std::int32_t geometry;  ///< geometry_id
};
static_assert(sizeof(EdgeSegment) == 32);

/// What outputs say of an edge.
struct EdgeInfo {
  std::int32_t shape_id, local_edge_id;
  std::int32_t is_boundary;
};

/// Levels of a tree; the builder never makes more, a traversal's stack holds as many subtrees.
inline constexpr int edge_bvh_max_depth = 48;

struct EdgeView {
  const EdgeBvhNode* nodes = nullptr;
  const EdgeSegment* segments = nullptr;
  const EdgeInfo* info = nullptr;  ///< [E]
  std::uint32_t node_count = 0;    ///< 0: there are no edges
  std::uint32_t edge_count = 0;
  /// Edges that are no longer count as the point v0: 1e-14 (scene diagonal)^2, square metres.
  double degenerate_length2 = 0;
};

}  // namespace shardwise
