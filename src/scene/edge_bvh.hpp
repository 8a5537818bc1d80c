#pragma once
// A binary tree over the edges of a scene, made on the host and read by nearest_edge_kernel.hpp everywhere.

#include <cstdint>
#include <span>
#include <vector>

#include "scene/edge_view.hpp"
#include "shardwise/scene/scene_model.hpp"

namespace shardwise {

struct EdgeBvh {
  std::vector<EdgeBvhNode> nodes;  ///< the root first, children behind their parents
  std::vector<EdgeSegment> segments;
  std::vector<EdgeInfo> info;                 ///< [E]
  std::vector<std::int32_t> edge_of_segment;  ///< global_edge_id, masked or not
  double degenerate_length2 = 0;
};

/// A tree over all edges, from positions as they are now; `mask` as SceneModel::edge_mask(). Binned
/// surface-area heuristic; the result depends on the arguments only, not on threads.
EdgeBvh build_edge_bvh(const EdgeTable& table, const SceneGeometry& geometry,
                       std::span<const std::uint8_t> mask);

/// After new positions: the same tree, new segments and boxes. Answers are those of a rebuilt tree, only the
/// speed may differ.
void refit_edge_bvh(EdgeBvh& bvh, const EdgeTable& table, const SceneGeometry& geometry,
                    std::span<const std::uint8_t> mask);

/// Another mask, positions as they were.
void mask_edge_bvh(EdgeBvh& bvh, std::span<const std::uint8_t> mask);

/// For host code.
EdgeView view_of(const EdgeBvh& bvh);

}  // namespace shardwise
