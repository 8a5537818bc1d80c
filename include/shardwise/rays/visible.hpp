#pragma once
// Is the way between points free? A segment is blocked by a face that it hits strictly between the offsets
// from both ends; ignored faces (global ids, -1 pads) do not count. A row with a point that is not finite is
// not visible, and counted in `rejected`.

#include <vector>

#include "shardwise/rays/intersect.hpp"

namespace shardwise {

struct Segments {
  std::span<const Vec3f> starts, ends;   ///< [N] metres
  std::span<const std::int32_t> ignore;  ///< [N x K] optional
  std::span<const std::uint8_t> active;  ///< [N] optional
  std::vector<RowInput> columns() const { return {starts, ends, ignore, active}; }
};
struct VisibleColumns {
  enum Input { start, end, ignore, active };
  enum Output { visible, first_blocker };
};
struct VisibleOptions : RowCallOptions {
  bool first_blocker = false;  ///< which face blocks, too
  int ignore_count = 0;        ///< K, with `ignore`: ids a row. 0: what `ignore` divided by the rows gives
};
struct Visibility : RowAnswer {
  Visibility() = default;
  explicit Visibility(RowResult result);
  Column<std::uint8_t> visible;
  Column<std::int32_t> first_blocker;  ///< the least (t, global_prim_id); -1: nothing blocks
};
Pending<Visibility> visible(Scene& scene, const RowSource& segments, const VisibleOptions& options = {});

struct SegmentPairs {
  std::span<const Vec3f> starts, ends_a, ends_b;
  std::span<const std::int32_t> ignore;  ///< [N x K] optional, for both
  std::span<const std::uint8_t> active;
  std::vector<RowInput> columns() const { return {starts, ends_a, ends_b, ignore, active}; }
};
struct VisiblePairColumns {
  enum Input { start, end_a, end_b, ignore, active };
  enum Output { visible_a, visible_b };
};
struct VisiblePairOptions : RowCallOptions {
  int ignore_count = 0;
};
struct PairVisibility : RowAnswer {
  PairVisibility() = default;
  explicit PairVisibility(RowResult result);
  Column<std::uint8_t> visible_a, visible_b;
};
/// Two segments from one start, each by itself: a bad end of one does not hide the other.
Pending<PairVisibility> visible_pair(Scene& scene, const RowSource& pairs,
                                     const VisiblePairOptions& options = {});

struct EdgeSegments {
  std::span<const Vec3f> sources, edge_positions, edge_directions;
  std::span<const float> t_min, t_max;   ///< the part of the edge that counts, along edge_directions
  std::span<const std::int32_t> ignore;  ///< [N x K] optional: the faces of the edge, say
  std::span<const std::uint8_t> active;
  std::vector<RowInput> columns() const {
    return {sources, edge_positions, edge_directions, t_min, t_max, ignore, active};
  }
};
struct VisibleEdgeColumns {
  enum Input { source, edge_position, edge_direction, t_min, t_max, ignore, active };
  enum Output { visible };
};
struct VisibleEdgeOptions : RowCallOptions {
  std::vector<float> fractions = default_edge_fractions();  ///< where along the edge to look: 1 to 16 numbers
  int ignore_count = 0;
};
struct EdgeVisibility : RowAnswer {
  EdgeVisibility() = default;
  explicit EdgeVisibility(RowResult result);
  Column<std::uint8_t> visible;  ///< any of the points is
};
Pending<EdgeVisibility> visible_edge(Scene& scene, const RowSource& edges,
                                     const VisibleEdgeOptions& options = {});

struct Chains {
  std::span<const Vec3f> points;               ///< [N x P]
  std::span<const std::int32_t> chain_length;  ///< [N] optional: segments that count, clamped to P - 1;
                                               ///< negative: an inactive row
  std::span<const std::int32_t> ignore;        ///< [N x (P - 1) x K] optional
  std::span<const std::uint8_t> active;        ///< [N] optional
  std::vector<RowInput> columns() const { return {points, chain_length, ignore, active}; }
};
struct VisibleChainColumns {
  enum Input { points, chain_length, ignore, active };
  enum Output { all_visible, first_blocked_segment, first_blocked_prim };
};
struct VisibleChainOptions : RowCallOptions {
  int points_per_chain = 2;        ///< P, at least 2
  int ignore_count = 0;            ///< K, ids a segment
  bool first_blocked_prim = true;  ///< costs the search for the first blocker
};
struct ChainVisibility : RowAnswer {
  ChainVisibility() = default;
  explicit ChainVisibility(RowResult result);
  Column<std::uint8_t> all_visible;
  Column<std::int32_t> first_blocked_segment, first_blocked_prim;  ///< -1: none
};
/// Whether all segments of a chain of points are free. Padding behind chain_length is not read.
Pending<ChainVisibility> visible_chain(Scene& scene, const RowSource& chains,
                                       const VisibleChainOptions& options = {});

}  // namespace shardwise
