#pragma once
// The faces of a scene by place, for questions that are no rays: which boxes overlap a box or a line.

#include <vector>

#include "scene/bvh8_binary.hpp"
#include "shardwise/scene/scene_model.hpp"

namespace shardwise {

class FaceTree {
 public:
  /// Of the faces that can be hit.
  explicit FaceTree(const SceneGeometry& geometry) {
    for (std::size_t f = 0; f < geometry.faces.size(); ++f) {
      if (!geometry.hittable[f]) continue;
      bvh8::Box box;
      for (const std::int32_t v : geometry.faces[f]) {
        const Vec3f p = geometry.vertices[static_cast<std::size_t>(v)];
        const bvh8::Lanes lanes{p.x, p.y, p.z, 0};
        box.grow({lanes, lanes});
      }
      refs_.push_back({box, static_cast<std::uint32_t>(f)});
    }
    nodes_ = bvh8::build_binary_tree(refs_, 64);
  }

  /// Calls visit(face) for the faces in whose boxes, and all boxes above, overlaps(low, high) is true.
  template <class Overlaps, class Visit>
  void visit(const Overlaps& overlaps, const Visit& visit) const {
    if (nodes_.empty()) return;
    std::uint32_t stack[66];
    int waiting = 0;
    stack[waiting++] = 0;
    while (waiting > 0) {
      const std::uint32_t index = stack[--waiting];
      const bvh8::BinaryNode& node = nodes_[index];
      const bvh8::Lanes low = node.box.low, high = node.box.high;
      if (!overlaps(Vec3f{low[0], low[1], low[2]}, Vec3f{high[0], high[1], high[2]})) continue;
      if (node.right == 0) {
        visit(refs_[node.begin].prim);
        continue;
      }
      stack[waiting++] = node.right;
      stack[waiting++] = index + 1;
    }
  }

 private:
  std::vector<bvh8::FaceRef> refs_;
  std::vector<bvh8::BinaryNode> nodes_;
};

}  // namespace shardwise
