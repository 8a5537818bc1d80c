#include "shardwise/rays/intersect.hpp"

#include "dispatch/row_dispatcher.hpp"
#include "rays/intersect_operation.hpp"

namespace shardwise {

Intersections::Intersections(RowResult result) : RowAnswer(std::move(result)) {
  using C = IntersectColumns;
  t = column_of<float>(C::t);
  point = column_of<Vec3f>(C::point);
  geometric_normal = column_of<Vec3f>(C::geometric_normal);
  barycentric = column_of<Vec3f>(C::barycentric);
  shape_id = column_of<std::int32_t>(C::shape_id);
  local_prim_id = column_of<std::int32_t>(C::local_prim_id);
  global_prim_id = column_of<std::int32_t>(C::global_prim_id);
  shading_normal = column_of<Vec3f>(C::shading_normal);
  uv = column_of<Vec2f>(C::uv);
}

Pending<Intersections> intersect(Scene& scene, const RowSource& rays, const IntersectOptions& options) {
  IntersectRequest request;
  request.fields = options.fields;
  request.tmax = rays.gives(IntersectColumns::tmax);
  request.active = rays.gives(IntersectColumns::active);
  return pending_answer<Intersections>(
      scene.rows().run(intersect_operation(scene, request), rays, options.sink, options));
}

}  // namespace shardwise
