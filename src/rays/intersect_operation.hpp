#pragma once

#include "rays/traced_scene.hpp"
#include "shardwise/rays/row_requests.hpp"

namespace shardwise {

/// Columns of intersect, in order.
struct IntersectColumns {
  enum Input { origin, direction, tmax, active };
  enum Output {
    t,                 ///< f32
    point,             ///< f32 x 3, with IntersectFields::geometric, as all up to global_prim_id
    geometric_normal,  ///< f32 x 3
    barycentric,       ///< f32 x 3
    shape_id,          ///< i32
    local_prim_id,     ///< i32
    global_prim_id,    ///< i32
    shading_normal,    ///< f32 x 3, with IntersectFields::shading
    uv,                ///< f32 x 2, with IntersectFields::uv
  };
};

struct IntersectRequest {
  IntersectFields fields = IntersectFields::all;
  bool tmax = false, active = false;  ///< which optional inputs are given
};

/// The closest surface along each ray, user_ray_t_min <= t <= tmax, t in units of |direction|.
RowOperation intersect_operation(Scene& scene, const IntersectRequest& request);

}  // namespace shardwise
