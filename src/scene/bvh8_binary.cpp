#include "scene/bvh8_binary.hpp"

#include <tbb/parallel_invoke.h>

#include <algorithm>
#include <bit>

namespace shardwise::bvh8 {
namespace {

constexpr int max_bins = 32;
constexpr std::uint32_t parallel_from = 1u << 13;  ///< faces; below, a task costs more than it brings

struct Range {
  std::uint32_t node, begin, count;
  int depth;
  Box box, centres;
};

struct Bins {
  Lanes origin, scale;
  int count;
  /// One formula for counting and for partitioning, so that both agree on every face.
  int index(Lanes centre, int axis) const {
    const int i = static_cast<int>((centre[axis] - origin[axis]) * scale[axis]);
    return i < count - 1 ? i : count - 1;
  }
};

struct Split {
  int axis = -1;  ///< -1: none
  int bin = 0;    ///< faces of bins below go left
};

Split best_split(const FaceRef* refs, std::uint32_t count, const Bins& bins) {
  Box boxes[3][max_bins];
  std::uint32_t counts[3][max_bins] = {};
  for (std::uint32_t i = 0; i < count; ++i) {
    const Lanes centre = refs[i].centre();
    for (int axis = 0; axis < 3; ++axis) {
      const int bin = bins.index(centre, axis);
      boxes[axis][bin].grow(refs[i].box);
      ++counts[axis][bin];
    }
  }
  Split split;
  float least = 3.40282347e38f;
  for (int axis = 0; axis < 3; ++axis) {
    if (bins.scale[axis] == 0) continue;
    float right_cost[max_bins];
    Box box;
    std::uint32_t faces = 0;
    for (int b = bins.count - 1; b > 0; --b) {
      box.grow(boxes[axis][b]);
      faces += counts[axis][b];
      right_cost[b] = box.half_area() * static_cast<float>(faces);
    }
    box = Box{};
    faces = 0;
    for (int b = 1; b < bins.count; ++b) {
      box.grow(boxes[axis][b - 1]);
      faces += counts[axis][b - 1];
      if (faces == 0 || faces == count) continue;
      const float cost = box.half_area() * static_cast<float>(faces) + right_cost[b];
      if (cost < least) {
        least = cost;
        split = {axis, b};
      }
    }
  }
  return split;
}

/// Halves by the middle of the centres' longest axis; equal centres by id, so the halves are determined.
std::uint32_t split_in_the_middle(FaceRef* refs, std::uint32_t count, const Box& centres) {
  const Lanes extent = centres.high - centres.low;
  const int axis =
      extent[0] >= extent[1] ? (extent[0] >= extent[2] ? 0 : 2) : (extent[1] >= extent[2] ? 1 : 2);
  const std::uint32_t half = count / 2;
  std::nth_element(refs, refs + half, refs + count, [axis](const FaceRef& a, const FaceRef& b) {
    const float ca = a.centre()[axis], cb = b.centre()[axis];
    return ca < cb || (ca == cb && a.prim < b.prim);
  });
  return half;
}

class BinaryBuilder {
 public:
  BinaryBuilder(std::vector<FaceRef>& refs, std::vector<BinaryNode>& nodes, int max_depth)
      : refs_(refs), nodes_(nodes), max_depth_(max_depth) {}

  void build(const Range& range) {
    BinaryNode& node = nodes_[range.node];
    node = {range.box, range.begin, range.count, 0};
    if (range.count == 1) return;
    FaceRef* refs = refs_.data() + range.begin;
    std::uint32_t left_count = 0;
    // What is left of max_depth must hold a balanced tree of these faces.
    const int levels = std::bit_width(range.count - 1);
    if (range.depth + levels < max_depth_ && range.count > 2) left_count = split_by_area(refs, range);
    if (left_count == 0) left_count = split_in_the_middle(refs, range.count, range.centres);
    Range left{range.node + 1, range.begin, left_count, range.depth + 1, {}, {}};
    Range right{range.node + 2 * left_count,
                range.begin + left_count,
                range.count - left_count,
                range.depth + 1,
                {},
                {}};
    bound(left);
    bound(right);
    node.right = right.node;
    if (range.count >= parallel_from) {
      tbb::parallel_invoke([&] { build(left); }, [&] { build(right); });
    } else {
      build(left);
      build(right);
    }
  }

  void bound(Range& range) const {
    for (std::uint32_t i = range.begin; i < range.begin + range.count; ++i) {
      range.box.grow(refs_[i].box);
      const Lanes centre = refs_[i].centre();
      range.centres.grow({centre, centre});
    }
  }

 private:
  /// The left half's size; 0 where the centres do not tell the faces apart.
  std::uint32_t split_by_area(FaceRef* refs, const Range& range) const {
    Bins bins;
    bins.origin = range.centres.low;
    bins.count = range.count < max_bins / 2 ? static_cast<int>(2 * range.count) : max_bins;
    const Lanes extent = range.centres.high - range.centres.low;
    for (int axis = 0; axis < 3; ++axis) {
      const float scale = static_cast<float>(bins.count) * 0.9999f / extent[axis];
      bins.scale[axis] = extent[axis] > 0 && scale < 3.40282347e38f ? scale : 0.0f;
    }
    const Split split = best_split(refs, range.count, bins);
    if (split.axis < 0) return 0;
    const FaceRef* middle = std::partition(refs, refs + range.count, [&](const FaceRef& ref) {
      return bins.index(ref.centre(), split.axis) < split.bin;
    });
    return static_cast<std::uint32_t>(middle - refs);
  }

  std::vector<FaceRef>& refs_;
  std::vector<BinaryNode>& nodes_;
  int max_depth_;
};

}  // namespace

std::vector<BinaryNode> build_binary_tree(std::vector<FaceRef>& refs, int max_depth) {
  std::vector<BinaryNode> nodes;
  if (refs.empty()) return nodes;
  nodes.resize(2 * refs.size() - 1);
  BinaryBuilder builder(refs, nodes, max_depth);
  Range root{0, 0, static_cast<std::uint32_t>(refs.size()), 0, {}, {}};
  builder.bound(root);
  builder.build(root);
  return nodes;
}

}  // namespace shardwise::bvh8
