#include "shardwise/rays/reflections.hpp"

#include "dispatch/row_dispatcher.hpp"
#include "rays/reflections_operation.hpp"

namespace shardwise {

Reflections::Reflections(RowResult result, int max_bounces) : RowAnswer(std::move(result)) {
  using C = ReflectionColumns;
  valid = column_of<std::uint8_t>(C::valid, max_bounces);
  t = column_of<float>(C::t, max_bounces);
  prim_ids = column_of<std::int32_t>(C::prim_ids, max_bounces);
  image_sources = column_of<Vec3f>(C::image_sources, max_bounces);
  bounce_count = column_of<std::int32_t>(C::bounce_count);
  hit_points = column_of<Vec3f>(C::hit_points, max_bounces);
  geo_normals = column_of<Vec3f>(C::geo_normals, max_bounces);
  shape_ids = column_of<std::int32_t>(C::shape_ids, max_bounces);
  local_prim_ids = column_of<std::int32_t>(C::local_prim_ids, max_bounces);
  trailing_t = column_of<float>(C::trailing_t);
  trailing_prim = column_of<std::int32_t>(C::trailing_prim);
  trailing_direction = column_of<Vec3f>(C::trailing_direction);
  trailing_origin = column_of<Vec3f>(C::trailing_origin);
}

Pending<Reflections> trace_reflections(Scene& scene, const RowSource& rays,
                                       const ReflectionOptions& options) {
  ReflectionRequest request;
  request.max_bounces = options.max_bounces;
  request.fields = options.fields;
  request.tmax = rays.gives(ReflectionColumns::tmax);
  request.active = rays.gives(ReflectionColumns::active);
  return pending_answer<Reflections>(
      scene.rows().run(reflections_operation(scene, request), rays, options.sink, options),
      options.max_bounces);
}

}  // namespace shardwise
