#pragma once
// Is the way between points free? A segment is blocked by a face that it hits strictly between the offsets
// from both ends; ignored faces (global ids, -1 pads) do not count.

#include <vector>

#include "rays/traced_scene.hpp"
#include "shardwise/rays/visible.hpp"

namespace shardwise {

struct VisibleRequest {
  int ignore_count = 0;  ///< ids a row
  bool first_blocker = false;
  bool active = false;
};
RowOperation visible_operation(Scene& scene, const VisibleRequest& request);

struct VisiblePairRequest {
  int ignore_count = 0;
  bool active = false;
};
RowOperation visible_pair_operation(Scene& scene, const VisiblePairRequest& request);

struct VisibleEdgeRequest {
  std::vector<float> fractions = default_edge_fractions();  ///< 1 to 16 finite numbers
  int ignore_count = 0;
  bool active = false;
};
RowOperation visible_edge_operation(Scene& scene, const VisibleEdgeRequest& request);

struct VisibleChainRequest {
  int points_per_chain = 2;
  int ignore_count = 0;  ///< ids a segment
  bool chain_length = true, active = false;
  bool first_blocked_prim = true;  ///< costs the search for the first blocker
};
RowOperation visible_chain_operation(Scene& scene, const VisibleChainRequest& request);

}  // namespace shardwise
