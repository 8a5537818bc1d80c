#include "shardwise/rays/penetration.hpp"

#include "dispatch/row_dispatcher.hpp"
#include "rays/penetration_operation.hpp"

namespace shardwise {

Penetrations::Penetrations(RowResult result, int hit_capacity) : RowAnswer(std::move(result)) {
  using C = PenetrationColumns;
  num_hits = column_of<std::int32_t>(C::num_hits);
  reached_target = column_of<std::uint8_t>(C::reached_target);
  overflow = column_of<std::uint8_t>(C::overflow);
  distance = column_of<float>(C::distance);
  direction = column_of<Vec3f>(C::direction);
  valid = column_of<std::uint8_t>(C::valid, hit_capacity);
  t = column_of<float>(C::t, hit_capacity);
  position = column_of<Vec3f>(C::position, hit_capacity);
  shading_normal = column_of<Vec3f>(C::shading_normal, hit_capacity);
  geometric_normal = column_of<Vec3f>(C::geometric_normal, hit_capacity);
  global_prim_id = column_of<std::int32_t>(C::global_prim_id, hit_capacity);
}

Pending<Penetrations> segment_penetration(Scene& scene, const RowSource& segments,
                                          const PenetrationOptions& options) {
  PenetrationRequest request;
  request.hit_capacity = options.hit_capacity;
  request.fields = options.fields;
  request.active = segments.gives(PenetrationColumns::active);
  return pending_answer<Penetrations>(
      scene.rows().run(penetration_operation(scene, request), segments, options.sink, options),
      options.hit_capacity);
}

}  // namespace shardwise
