#pragma once
// The binary tree from which the 8-wide one is collapsed: binned surface-area heuristic down to single faces.
// Private to the builder.

#include <cstdint>
#include <vector>

namespace shardwise::bvh8 {

/// Four lanes, the last unused: bounds are grown one vector at a time.
using Lanes = float __attribute__((vector_size(16)));

inline Lanes min_of(Lanes a, Lanes b) {
  return a < b ? a : b;
}
inline Lanes max_of(Lanes a, Lanes b) {
  return a > b ? a : b;
}

struct Box {
  Lanes low{3.40282347e38f, 3.40282347e38f, 3.40282347e38f, 0};
  Lanes high{-3.40282347e38f, -3.40282347e38f, -3.40282347e38f, 0};
  void grow(const Box& other) {
    low = min_of(low, other.low);
    high = max_of(high, other.high);
  }
  /// Half the surface; 0 for an empty box.
  float half_area() const {
    const Lanes e = high - low;
    return e[0] < 0 ? 0.0f : e[0] * e[1] + e[1] * e[2] + e[2] * e[0];
  }
};

struct FaceRef {
  Box box;
  std::uint32_t prim;
  /// Twice the middle of the box: a point to sort by.
  Lanes centre() const { return box.low + box.high; }
};

/// A subtree of n faces takes 2n - 1 nodes in a row: its left child follows it, its right child follows the
/// left subtree. So nodes have their place before they are built, and threads need no counter.
struct BinaryNode {
  Box box;
  std::uint32_t begin, count;  ///< its faces: refs[begin, begin + count)
  std::uint32_t right;         ///< index of the right child; 0 for a single face
};

/// Reorders refs; the result does not depend on the number of threads. No path is longer than max_depth
/// levels: parts that could become deeper are split in the middle (max_depth must be at least 33 for 2^32
/// faces).
std::vector<BinaryNode> build_binary_tree(std::vector<FaceRef>& refs, int max_depth);

}  // namespace shardwise::bvh8
