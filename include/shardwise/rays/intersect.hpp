#pragma once
// The closest surface along each ray.

#include <cstdint>
#include <span>

#include "shardwise/dispatch/row_answer.hpp"
#include "shardwise/numeric/vec3.hpp"
#include "shardwise/rays/row_requests.hpp"
#include "shardwise/scene/mesh.hpp"
#include "shardwise/scene/scene.hpp"

namespace shardwise {

/// Rays as columns of N rows.
struct Rays {
  std::span<const Vec3f> origins;        ///< [N] metres
  std::span<const Vec3f> directions;     ///< [N] of any length but 0; distances are in units of it
  std::span<const float> tmax;           ///< [N] optional: no hit beyond; +inf
  std::span<const std::uint8_t> active;  ///< [N] optional: 0 makes a row a miss
  std::vector<RowInput> columns() const { return {origins, directions, tmax, active}; }
};

/// Columns of intersect, in order: for resident(), to_master({...}) and hooks.
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

struct IntersectOptions : RowCallOptions {
  IntersectFields fields = IntersectFields::all;
};

/// N rows. A miss has t = +inf, ids -1 and zeros.
struct Intersections : RowAnswer {
  Intersections() = default;
  explicit Intersections(RowResult result);
  Column<float> t;                 ///< distance in units of |direction|, 1e-6 <= t <= tmax
  Column<Vec3f> point;             ///< metres, interpolated in the triangle
  Column<Vec3f> geometric_normal;  ///< unit, by winding, not turned towards the ray
  Column<Vec3f> barycentric;       ///< weights of corners 0, 1, 2
  Column<std::int32_t> shape_id, local_prim_id, global_prim_id;
  Column<Vec3f> shading_normal;  ///< unit
  Column<Vec2f> uv;
};

/// The closest hit of every ray; ties go to the least global_prim_id. Rays that are not finite, have no
/// direction, or tmax <= 0 or NaN miss, and are counted in `rejected`. State errors: a scene that is not
/// built, has pending updates or is poisoned. Usage errors: columns of unlike lengths or in the wrong memory,
/// weights, budgets. The rays' memory stays alive and unchanged until the Pending was waited for. Triangle
/// test: Woop, Benthin and Wald, JCGT 2(1), 2013.
Pending<Intersections> intersect(Scene& scene, const RowSource& rays, const IntersectOptions& options = {});

}  // namespace shardwise
