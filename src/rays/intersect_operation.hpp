#pragma once

#include "rays/traced_scene.hpp"
#include "shardwise/rays/intersect.hpp"

namespace shardwise {

struct IntersectRequest {
  IntersectFields fields = IntersectFields::all;
  bool tmax = false, active = false;  ///< which optional inputs are given
};

/// The closest surface along each ray, user_ray_t_min <= t <= tmax, t in units of |direction|.
RowOperation intersect_operation(Scene& scene, const IntersectRequest& request);

}  // namespace shardwise
