#pragma once

#include "rays/traced_scene.hpp"
#include "shardwise/rays/row_requests.hpp"

namespace shardwise {

/// Columns of segment_penetration, in order.
struct PenetrationColumns {
  enum Input { origin, target, active };
  enum Output {
    num_hits,          ///< i32
    reached_target,    ///< bool: all crossings are in the slots
    overflow,          ///< bool
    distance,          ///< f32, metres from origin to target; +inf for an inactive row
    direction,         ///< f32 x 3, unit; 0 for a segment without length
    valid,             ///< bool x hit_capacity
    t,                 ///< f32 x hit_capacity, metres from the origin
    position,          ///< f32 x 3 x hit_capacity, with PenetrationFields::position
    shading_normal,    ///< f32 x 3 x hit_capacity, with PenetrationFields::shading_normal
    geometric_normal,  ///< f32 x 3 x hit_capacity, with PenetrationFields::geometric_normal
    global_prim_id,    ///< i32 x hit_capacity
  };
};

struct PenetrationRequest {
  int hit_capacity = 0;
  PenetrationFields fields = PenetrationFields::all;
  bool active = false;
};

/// The surfaces that each segment crosses, in order of (t, global_prim_id). Flagged rows are those with more
/// crossings than slots; they keep the first ones.
RowOperation penetration_operation(Scene& scene, const PenetrationRequest& request);

}  // namespace shardwise
