#include "scene/edge_bvh.hpp"

#include <algorithm>

#include "scene/bvh8_binary.hpp"

namespace shardwise {
namespace {

using bvh8::BinaryNode;
using bvh8::FaceRef;
using bvh8::Lanes;

constexpr std::uint32_t leaf_edges = 2;

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

/// Fills bvh.nodes from a binary tree that ends in single edges.
class Emitter {
 public:
  Emitter(EdgeBvh& bvh, const std::vector<BinaryNode>& tree) : bvh_(bvh), tree_(tree) {}

  void emit() {
    bvh_.nodes.reserve(tree_.size() / 2 + 1);
    bvh_.nodes.emplace_back();
    std::vector<std::pair<std::uint32_t, std::uint32_t>> todo;  // inner binary node, its place
    if (tree_[0].right == 0)
      place(0, 0, 0, todo);  // one edge; the other side stays without any
    else
      todo.push_back({0, 0});
    while (!todo.empty()) {
      const auto [binary, node] = todo.back();
      todo.pop_back();
      place(node, 0, binary + 1, todo);
      place(node, 1, tree_[binary].right, todo);
    }
  }

 private:
  void place(std::uint32_t node, std::size_t side, std::uint32_t binary,
             std::vector<std::pair<std::uint32_t, std::uint32_t>>& todo) {
    const BinaryNode& child = tree_[binary];
    if (child.count <= leaf_edges) {
      bvh_.nodes[node].child[side] = child.begin;
      bvh_.nodes[node].count[side] = child.count;
      return;
    }
    const auto index = static_cast<std::uint32_t>(bvh_.nodes.size());
    bvh_.nodes[node].child[side] = index;
    bvh_.nodes.emplace_back();
    todo.push_back({binary, index});
  }

  EdgeBvh& bvh_;
  const std::vector<BinaryNode>& tree_;
};

struct Extent {
  Vec3f low{3.40282347e38f, 3.40282347e38f, 3.40282347e38f};
  Vec3f high{-3.40282347e38f, -3.40282347e38f, -3.40282347e38f};
  void grow(Vec3f from, Vec3f to) {
    low = {std::min(low.x, from.x), std::min(low.y, from.y), std::min(low.z, from.z)};
    high = {std::max(high.x, to.x), std::max(high.y, to.y), std::max(high.z, to.z)};
  }
};

}  // namespace

EdgeBvh build_edge_bvh(const EdgeTable& table, const SceneGeometry& geometry,
                       std::span<const std::uint8_t> mask) {
  EdgeBvh bvh;
  std::vector<FaceRef> refs;
  refs.reserve(table.edges.size());
  bvh.info.reserve(table.edges.size());
  for (const EdgeRecord& edge : table.edges) {
    const Vec3f a = geometry.vertices[at(edge.v0)], b = geometry.vertices[at(edge.v1)];
    FaceRef ref{{Lanes{}, Lanes{}}, static_cast<std::uint32_t>(edge.global_edge_id)};
    if (is_finite(a) && is_finite(b)) {
      const Lanes la{a.x, a.y, a.z, 0}, lb{b.x, b.y, b.z, 0};
      ref.box = {bvh8::min_of(la, lb), bvh8::max_of(la, lb)};
    }
    refs.push_back(ref);
    bvh.info.push_back({edge.shape_id, edge.local_edge_id, edge.is_boundary ? 1 : 0});
  }
  if (!refs.empty()) {
    const std::vector<BinaryNode> tree = bvh8::build_binary_tree(refs, edge_bvh_max_depth);
    Emitter(bvh, tree).emit();
  }
  bvh.edge_of_segment.reserve(refs.size());
  for (const FaceRef& ref : refs) bvh.edge_of_segment.push_back(static_cast<std::int32_t>(ref.prim));
  refit_edge_bvh(bvh, table, geometry, mask);
  return bvh;
}

void refit_edge_bvh(EdgeBvh& bvh, const EdgeTable& table, const SceneGeometry& geometry,
                    std::span<const std::uint8_t> mask) {
  bvh.degenerate_length2 = 1e-14 * geometry.diagonal * geometry.diagonal;
  bvh.segments.resize(bvh.edge_of_segment.size());
  for (std::size_t s = 0; s < bvh.segments.size(); ++s) {
    const EdgeRecord& edge = table.edges[at(bvh.edge_of_segment[s])];
    const Vec3f a = geometry.vertices[at(edge.v0)], b = geometry.vertices[at(edge.v1)];
    bvh.segments[s] = {a, -1, b, edge.geometry_id};
  }
  mask_edge_bvh(bvh, mask);
}

void mask_edge_bvh(EdgeBvh& bvh, std::span<const std::uint8_t> mask) {
  for (std::size_t s = 0; s < bvh.segments.size(); ++s) {
    EdgeSegment& segment = bvh.segments[s];
    const std::int32_t edge = bvh.edge_of_segment[s];
    const bool shown = (mask.empty() || mask[at(edge)]) && is_finite(segment.a) && is_finite(segment.b);
    segment.edge = shown ? edge : -1;
  }
  // Children come after their parents, so walking down the indices sees them first.
  std::vector<Extent> extents(bvh.nodes.size());
  for (std::size_t n = bvh.nodes.size(); n-- > 0;) {
    EdgeBvhNode& node = bvh.nodes[n];
    for (std::size_t side = 0; side < 2; ++side) {
      Extent extent;
      if (node.count[side] == 0) {
        if (node.child[side] != 0) extent = extents[node.child[side]];
      } else {
        for (std::uint32_t s = node.child[side]; s < node.child[side] + node.count[side]; ++s) {
          const EdgeSegment& segment = bvh.segments[s];
          if (segment.edge < 0) continue;
          extent.grow(segment.a, segment.a);
          extent.grow(segment.b, segment.b);
        }
      }
      node.low[side] = extent.low;
      node.high[side] = extent.high;
      extents[n].grow(extent.low, extent.high);
    }
  }
}

EdgeView view_of(const EdgeBvh& bvh) {
  EdgeView view;
  view.nodes = bvh.nodes.data();
  view.segments = bvh.segments.data();
  view.info = bvh.info.data();
  view.node_count = static_cast<std::uint32_t>(bvh.nodes.size());
  view.edge_count = static_cast<std::uint32_t>(bvh.info.size());
  view.degenerate_length2 = bvh.degenerate_length2;
  return view;
}

}  // namespace shardwise
