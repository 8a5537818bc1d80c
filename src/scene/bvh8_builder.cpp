#include "scene/bvh8_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scene/bvh8_binary.hpp"
#include "scene/bvh8_kernel.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace bvh8 {
namespace {

constexpr std::uint32_t leaf_faces = 3;
// Costs of the collapse, in node visits: a visit tests eight boxes at once.
constexpr float cost_of_node = 1.0f, cost_of_face = 0.4f;

struct Input {
  std::span<const Vec3f> vertices;
  std::span<const FaceIndices> faces;
  std::span<const std::uint8_t> hittable;

  void check() const {
    if (hittable.size() != faces.size())
      throw Error(ErrorClass::internal,
                  fmt::format("build_bvh8: {} faces but a hittable mask of {} bytes; give one byte a face",
                              faces.size(), hittable.size()));
    if (faces.size() >= 0x7fffffffu)
      throw Error(ErrorClass::internal,
                  fmt::format("build_bvh8: {} faces, at most 2^31 - 2 fit 32-bit ids", faces.size()));
    for (std::size_t f = 0; f < faces.size(); ++f) {
      if (!hittable[f]) continue;
      for (const std::int32_t index : faces[f]) {
        if (index < 0 || static_cast<std::size_t>(index) >= vertices.size())
          throw Error(
              ErrorClass::internal,
              fmt::format(
                  "build_bvh8: face {} has vertex index {}, there are {} vertices; check faces before", f,
                  index, vertices.size()));
        const Vec3f v = vertices[static_cast<std::size_t>(index)];
        if (!is_finite(v))
          throw Error(ErrorClass::internal,
                      fmt::format("build_bvh8: face {} is marked hittable but its vertex {} is ({}, {}, {})",
                                  f, index, v.x, v.y, v.z));
      }
    }
  }
  Vec3f corner(std::uint32_t face, int k) const {
    return vertices[static_cast<std::size_t>(faces[face][static_cast<std::size_t>(k)])];
  }
  BvhTriangle triangle(std::uint32_t face) const {
    return {corner(face, 0), face, corner(face, 1), 0, corner(face, 2), 0};
  }
};

Lanes lanes(Vec3f v) {
  return Lanes{v.x, v.y, v.z, 0};
}

Box box_of(const BvhTriangle& t) {
  const Lanes a = lanes(t.v0), b = lanes(t.v1), c = lanes(t.v2);
  return {min_of(min_of(a, b), c), max_of(max_of(a, b), c)};
}

/// The smallest step 2^e, as e, with which 255 steps from low reach high.
int step_exponent(float low, float high) {
  const double extent = static_cast<double>(high) - low;
  int e = -60;
  if (extent > 0) {
    std::frexp(extent / 255.0, &e);  // extent / 255 = m 2^e with m < 1
    e = std::max(e - 1, -60);
    while (low + 255.0 * std::ldexp(1.0, e) < high) ++e;
  }
  return e;
}

/// Writes a node's origin, steps and planes from its children's boxes (slots with has[s]; inverted
/// elsewhere).
void encode_boxes(Bvh8Node& node, const Box (&child)[8], const bool (&has)[8]) {
  Box all;
  for (int s = 0; s < 8; ++s)
    if (has[s]) all.grow(child[s]);
  for (int axis = 0; axis < 3; ++axis) {
    const float low = all.low[axis];
    const int e = step_exponent(low, all.high[axis]);
    const double step = std::ldexp(1.0, e), per_step = std::ldexp(1.0, -e);
    node.origin[axis] = low;
    node.exponent[axis] = static_cast<std::int8_t>(e);
    for (int s = 0; s < 8; ++s) {
      if (!has[s]) {
        node.low[axis][s] = 255;
        node.high[axis][s] = 0;
        continue;
      }
      // Nearest guesses, then moved outward until the decoded planes enclose the box.
      int q_low =
          std::clamp(static_cast<int>((child[s].low[axis] - static_cast<double>(low)) * per_step), 0, 255);
      int q_high =
          std::clamp(static_cast<int>((child[s].high[axis] - static_cast<double>(low)) * per_step), 0, 255);
      while (q_low > 0 && low + q_low * step > child[s].low[axis]) --q_low;
      while (q_high < 255 && low + q_high * step < child[s].high[axis]) ++q_high;
      node.low[axis][s] = static_cast<std::uint8_t>(q_low);
      node.high[axis][s] = static_cast<std::uint8_t>(q_high);
    }
  }
}

/// How a binary subtree spends at most i slots of a wide node, i = 1 to 7 (index i - 1).
struct Plan {
  float cost[7];
  std::uint8_t used[7];    ///< slots that the least cost takes; 1: the subtree stays whole
  std::uint8_t left[7];    ///< of them, slots of the left child
  std::uint8_t root_left;  ///< of eight, slots of the left child when this subtree is a wide node
  bool leaf;               ///< whole means a leaf, else a wide node
};

class Collapse {
 public:
  Collapse(const Input& input, const std::vector<FaceRef>& refs, const std::vector<BinaryNode>& tree)
      : input_(input), refs_(refs), tree_(tree), plans_(tree.size()) {
    // Children come after their parents, so walking down the indices sees them first.
    for (std::size_t i = tree.size(); i-- > 0;) plan(static_cast<std::uint32_t>(i));
  }

  void emit(Bvh8& out) {
    struct Item {
      std::uint32_t binary, wide;
      int depth;
    };
    out.nodes.reserve(tree_.size() / 6 + 1);
    out.triangles.reserve(refs_.size());
    out.nodes.emplace_back();
    std::vector<Item> todo{{0, 0, 1}};
    while (!todo.empty()) {
      const Item item = todo.back();
      todo.pop_back();
      out.depth = std::max(out.depth, item.depth);
      std::uint32_t children[8];
      int count = 0;
      if (tree_[item.binary].right == 0) {
        children[count++] = item.binary;  // a scene of one face
      } else {
        const int left_slots = plans_[item.binary].root_left;
        open(item.binary + 1, left_slots, children, count);
        open(tree_[item.binary].right, 8 - left_slots, children, count);
      }
      std::uint32_t in_slot[8];
      bool has[8] = {};
      assign_slots(tree_[item.binary].box, children, count, in_slot, has);
      Box boxes[8];
      Bvh8Node node{};
      node.child_base = static_cast<std::uint32_t>(out.nodes.size());
      node.triangle_base = static_cast<std::uint32_t>(out.triangles.size());
      for (int s = 0; s < 8; ++s) {
        if (!has[s]) continue;
        const BinaryNode& child = tree_[in_slot[s]];
        boxes[s] = child.box;
        if (plans_[in_slot[s]].leaf) {
          const auto offset = static_cast<std::uint32_t>(out.triangles.size()) - node.triangle_base;
          node.meta[s] = static_cast<std::uint8_t>(child.count << 5 | offset);
          for (std::uint32_t r = child.begin; r < child.begin + child.count; ++r) {
            out.record_of_prim[refs_[r].prim] = static_cast<std::uint32_t>(out.triangles.size());
            out.triangles.push_back(input_.triangle(refs_[r].prim));
          }
        } else {
          node.inner_mask = static_cast<std::uint8_t>(node.inner_mask | 1u << s);
          todo.push_back({in_slot[s], static_cast<std::uint32_t>(out.nodes.size()), item.depth + 1});
          out.nodes.emplace_back();
        }
      }
      encode_boxes(node, boxes, has);
      out.nodes[item.wide] = node;
    }
  }

 private:
  void plan(std::uint32_t index) {
    const BinaryNode& node = tree_[index];
    Plan& p = plans_[index];
    const float area = node.box.half_area();
    const float leaf =
        node.count <= leaf_faces ? area * static_cast<float>(node.count) * cost_of_face : 3.40282347e38f;
    if (node.right == 0) {
      p.leaf = true;
      for (int i = 0; i < 7; ++i) p.cost[i] = leaf, p.used[i] = 1, p.left[i] = 0;
      return;
    }
    const Plan& left = plans_[index + 1];
    const Plan& right = plans_[node.right];
    const auto distribute = [&](int slots, std::uint8_t& best_left) {
      float best = 3.40282347e38f;
      best_left = 1;
      for (int k = 1; k < slots; ++k) {
        const float cost = left.cost[k - 1] + right.cost[slots - k - 1];
        if (cost < best) best = cost, best_left = static_cast<std::uint8_t>(k);
      }
      return best;
    };
    const float inner = distribute(8, p.root_left) + area * cost_of_node;
    p.leaf = leaf <= inner;
    p.cost[0] = std::min(leaf, inner);
    p.used[0] = 1;
    p.left[0] = 0;
    for (int slots = 2; slots <= 7; ++slots) {
      const int i = slots - 1;
      std::uint8_t left_slots;
      const float cost = distribute(slots, left_slots);
      const bool opened = cost < p.cost[i - 1];
      p.cost[i] = opened ? cost : p.cost[i - 1];
      p.used[i] = opened ? static_cast<std::uint8_t>(slots) : p.used[i - 1];
      p.left[i] = opened ? left_slots : p.left[i - 1];
    }
  }

  /// Appends the roots of the subtrees that fill at most `slots` slots below `index`.
  void open(std::uint32_t index, int slots, std::uint32_t (&children)[8], int& count) const {
    const Plan& p = plans_[index];
    const int used = p.used[slots - 1], left = p.left[slots - 1];
    if (used == 1) {
      children[count++] = index;
      return;
    }
    open(index + 1, left, children, count);
    open(tree_[index].right, used - left, children, count);
  }

  /// Slot bit a says "upper side of axis a". Greedily, the child that fits some free slot best takes it.
  void assign_slots(const Box& box, const std::uint32_t (&children)[8], int count,
                    std::uint32_t (&in_slot)[8], bool (&has)[8]) const {
    const Lanes middle = box.low + box.high;
    float fit[8][8];
    for (int c = 0; c < count; ++c) {
      const Lanes offset = tree_[children[c]].box.low + tree_[children[c]].box.high - middle;
      for (int s = 0; s < 8; ++s)
        fit[c][s] = (s & 1 ? offset[0] : -offset[0]) + (s & 2 ? offset[1] : -offset[1]) +
                    (s & 4 ? offset[2] : -offset[2]);
    }
    std::uint32_t open_children = (1u << count) - 1u;
    while (open_children != 0) {
      int best_child = 0, best_slot = 0;
      float best = -3.40282347e38f;
      for (int c = 0; c < count; ++c) {
        if (!(open_children >> c & 1)) continue;
        for (int s = 0; s < 8; ++s)
          if (!has[s] && fit[c][s] > best) best = fit[c][s], best_child = c, best_slot = s;
      }
      in_slot[best_slot] = children[best_child];
      has[best_slot] = true;
      open_children &= ~(1u << best_child);
    }
  }

  const Input& input_;
  const std::vector<FaceRef>& refs_;
  const std::vector<BinaryNode>& tree_;
  std::vector<Plan> plans_;
};

float max_coordinate_of(const std::vector<BvhTriangle>& triangles) {
  float largest = 0;
  for (const BvhTriangle& t : triangles)
    for (const Vec3f& v : {t.v0, t.v1, t.v2}) largest = std::max(largest, max_abs(v));
  return largest;
}

Bvh8 build(const Input& input) {
  input.check();
  std::vector<FaceRef> refs;
  refs.reserve(input.faces.size());
  for (std::uint32_t f = 0; f < input.faces.size(); ++f)
    if (input.hittable[f]) refs.push_back({box_of(input.triangle(f)), f});
  // A binary tree of 64 levels nearly always becomes a wide one of less than half; where it does not, 33
  // levels cannot become more than 32.
  for (const int max_binary_depth : {64, bvh8_max_depth}) {
    Bvh8 out;
    out.record_of_prim.assign(input.faces.size(), ~0u);
    if (refs.empty()) return out;
    const std::vector<BinaryNode> tree = build_binary_tree(refs, max_binary_depth);
    Collapse(input, refs, tree).emit(out);
    out.max_coordinate = max_coordinate_of(out.triangles);
    if (out.depth <= bvh8_max_depth) return out;
  }
  throw Error(ErrorClass::internal, "build_bvh8: the tree is deeper than its bound; please report this");
}

void refit(Bvh8& bvh, const Input& input) {
  for (BvhTriangle& triangle : bvh.triangles) triangle = input.triangle(triangle.prim);
  bvh.max_coordinate = max_coordinate_of(bvh.triangles);
  // Children come after their parents, so walking down the indices sees them first.
  std::vector<Box> bounds(bvh.nodes.size());
  for (std::size_t n = bvh.nodes.size(); n-- > 0;) {
    Bvh8Node& node = bvh.nodes[n];
    Box boxes[8];
    bool has[8] = {};
    std::uint32_t inner = node.child_base;
    for (int s = 0; s < 8; ++s) {
      if (node.inner_mask >> s & 1) {
        boxes[s] = bounds[inner++];
        has[s] = true;
      } else if (node.meta[s] != 0) {
        const std::uint32_t first = node.triangle_base + (node.meta[s] & 31u);
        for (std::uint32_t r = first; r < first + (node.meta[s] >> 5u); ++r)
          boxes[s].grow(box_of(bvh.triangles[r]));
        has[s] = true;
      }
      if (has[s]) bounds[n].grow(boxes[s]);
    }
    encode_boxes(node, boxes, has);
  }
}

}  // namespace
}  // namespace bvh8

Bvh8 build_bvh8(std::span<const Vec3f> vertices, std::span<const FaceIndices> faces,
                std::span<const std::uint8_t> hittable) {
  return bvh8::build({vertices, faces, hittable});
}

void refit_bvh8(Bvh8& bvh, std::span<const Vec3f> vertices, std::span<const FaceIndices> faces,
                std::span<const std::uint8_t> hittable) {
  const bvh8::Input input{vertices, faces, hittable};
  input.check();
  bool same = bvh.record_of_prim.size() == faces.size();
  for (std::size_t f = 0; same && f < faces.size(); ++f)
    same = (hittable[f] != 0) == (bvh.record_of_prim[f] != ~0u);
  if (same)
    bvh8::refit(bvh, input);
  else
    bvh = bvh8::build(input);
}

SceneView view_of(const Bvh8& bvh) {
  SceneView view;
  view.nodes = bvh.nodes.data();
  view.triangles = bvh.triangles.data();
  view.record_of_prim = bvh.record_of_prim.data();
  view.node_count = static_cast<std::uint32_t>(bvh.nodes.size());
  view.triangle_count = static_cast<std::uint32_t>(bvh.triangles.size());
  view.face_count = static_cast<std::uint32_t>(bvh.record_of_prim.size());
  view.max_coordinate = bvh.max_coordinate;
  return view;
}

}  // namespace shardwise
