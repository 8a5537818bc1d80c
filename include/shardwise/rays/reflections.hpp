#pragma once
// Specular reflections of each ray, bounce by bounce.

#include "shardwise/rays/intersect.hpp"

namespace shardwise {

/// Columns of trace_reflections, in order. Inputs as IntersectColumns; outputs have max_bounces slots a row
/// unless said otherwise.
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

struct ReflectionOptions : RowCallOptions {
  int max_bounces = 1;  ///< B, at least 1
  ReflectionFields fields = ReflectionFields::full;
};

/// [N, B] slots; bounce b is valid only where b - 1 is.
struct Reflections : RowAnswer {
  Reflections() = default;
  Reflections(RowResult result, int max_bounces);
  Column<std::uint8_t> valid;
  Column<float> t;  ///< of each leg from the true point before: no offset in it
  Column<std::int32_t> prim_ids;
  Column<Vec3f> image_sources;            ///< the origin mirrored in the planes of hits 0 to b
  Column<std::int32_t> bounce_count;      ///< [N]
  Column<Vec3f> hit_points, geo_normals;  ///< normals turned against the incoming ray
  Column<std::int32_t> shape_ids, local_prim_ids;
  Column<float> trailing_t;                           ///< [N] to the hit after the last slot; +inf
  Column<std::int32_t> trailing_prim;                 ///< [N]
  Column<Vec3f> trailing_direction, trailing_origin;  ///< [N]
};

/// Reflects every ray until it leaves the scene or max_bounces is reached. `tmax` limits the first leg.
/// Errors as intersect(); max_bounces below 1 is a usage error.
Pending<Reflections> trace_reflections(Scene& scene, const RowSource& rays,
                                       const ReflectionOptions& options = {});

}  // namespace shardwise
