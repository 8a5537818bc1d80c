#pragma once

#include "rays/traced_scene.hpp"
#include "shardwise/rays/row_requests.hpp"

namespace shardwise {

/// Columns of trace_reflections, in order. Outputs have max_bounces slots a row unless said otherwise.
struct ReflectionColumns {
  enum Input { origin, direction, tmax, active };
  enum Output {
    valid,               ///< bool
    t,                   ///< f32, in units of |direction|, from the hit before
    prim_ids,            ///< i32, global
    image_sources,       ///< f32 x 3, with ReflectionFields::image_sources
    bounce_count,        ///< i32, one a row, with ReflectionFields::bounce_count
    hit_points,          ///< f32 x 3, with ReflectionFields::hits
    geo_normals,         ///< f32 x 3, with ReflectionFields::hits
    shape_ids,           ///< i32, with ReflectionFields::shapes
    local_prim_ids,      ///< i32, with ReflectionFields::shapes
    trailing_t,          ///< f32, one a row, with ReflectionFields::trailing, as all below
    trailing_prim,       ///< i32, one a row
    trailing_direction,  ///< f32 x 3, one a row
    trailing_origin,     ///< f32 x 3, one a row
  };
};

struct ReflectionRequest {
  int max_bounces = 1;
  ReflectionFields fields = ReflectionFields::full;
  bool tmax = false, active = false;
};

/// Up to max_bounces specular reflections of each ray; flagged rows: none.
RowOperation reflections_operation(Scene& scene, const ReflectionRequest& request);

}  // namespace shardwise
