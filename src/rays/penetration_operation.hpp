#pragma once

#include "rays/traced_scene.hpp"
#include "shardwise/rays/penetration.hpp"

namespace shardwise {

struct PenetrationRequest {
  int hit_capacity = 0;
  PenetrationFields fields = PenetrationFields::all;
  bool active = false;
};

/// The surfaces that each segment crosses, in order of (t, global_prim_id). Flagged rows are those with more
/// crossings than slots; they keep the first ones.
RowOperation penetration_operation(Scene& scene, const PenetrationRequest& request);

}  // namespace shardwise
