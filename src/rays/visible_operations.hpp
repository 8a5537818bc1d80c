#pragma once
// Is the way between points free? A segment is blocked by a face that it hits strictly between the offsets
// from both ends; ignored faces (global ids, -1 pads) do not count.

#include <vector>

#include "rays/traced_scene.hpp"
#include "shardwise/rays/row_requests.hpp"

namespace shardwise {

struct VisibleColumns {
  enum Input { start, end, ignore, active };
  enum Output {
    visible,        ///< bool
    first_blocker,  ///< i32, the least (t, global_prim_id); -1: nothing blocks
  };
};
struct VisibleRequest {
  int ignore_count = 0;  ///< ids a row
  bool first_blocker = false;
  bool active = false;
};
RowOperation visible_operation(Scene& scene, const VisibleRequest& request);

struct VisiblePairColumns {
  enum Input { start, end_a, end_b, ignore, active };
  enum Output { visible_a, visible_b };
};
struct VisiblePairRequest {
  int ignore_count = 0;
  bool active = false;
};
RowOperation visible_pair_operation(Scene& scene, const VisiblePairRequest& request);

struct VisibleEdgeColumns {
  enum Input { source, edge_position, edge_direction, t_min, t_max, ignore, active };
  enum Output { visible };
};
struct VisibleEdgeRequest {
  std::vector<float> fractions = default_edge_fractions();  ///< 1 to 16 finite numbers
  int ignore_count = 0;
  bool active = false;
};
RowOperation visible_edge_operation(Scene& scene, const VisibleEdgeRequest& request);

struct VisibleChainColumns {
  enum Input {
    points,        ///< f32 x 3 x points_per_chain
    chain_length,  ///< i32, segments
    ignore,        ///< i32 x (points_per_chain - 1) x ignore_count
    active,
  };
  enum Output { all_visible, first_blocked_segment, first_blocked_prim };
};
struct VisibleChainRequest {
  int points_per_chain = 2;
  int ignore_count = 0;  ///< ids a segment
  bool chain_length = true, active = false;
  bool first_blocked_prim = true;  ///< costs the search for the first blocker
};
RowOperation visible_chain_operation(Scene& scene, const VisibleChainRequest& request);

}  // namespace shardwise
