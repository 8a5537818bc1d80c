#include "rays/penetration_operation.hpp"

#include <fmt/format.h>

#include "rays/penetration_kernel.hpp"
#include "rays/row_columns.hpp"

namespace shardwise {

RowOperation penetration_operation(Scene& scene, const PenetrationRequest& request) {
  using Columns = PenetrationColumns;
  check_slots("segment_penetration", "hit_capacity", request.hit_capacity, 0);
  const std::int64_t slots = request.hit_capacity;
  const bool shading = slots > 0 && has(request.fields, PenetrationFields::shading_normal);
  RowOperation operation;
  operation.name = fmt::format("segment_penetration:{}", slots);
  operation.family = "segment_penetration";
  operation.inputs = {row_column<Vec3f>("origin"), row_column<Vec3f>("target"),
                      row_column<std::uint8_t>("active", request.active)};
  operation.outputs = {
      row_column<std::int32_t>("num_hits"),
      row_column<std::uint8_t>("reached_target"),
      row_column<std::uint8_t>("overflow"),
      row_column<float>("distance"),
      row_column<Vec3f>("direction"),
      row_column<std::uint8_t>("valid", true, slots),
      row_column<float>("t", true, slots),
      row_column<Vec3f>("position", has(request.fields, PenetrationFields::position), slots),
      row_column<Vec3f>("shading_normal", shading, slots),
      row_column<Vec3f>("geometric_normal", has(request.fields, PenetrationFields::geometric_normal), slots),
      row_column<std::int32_t>("global_prim_id", true, slots)};
  operation.reads = reads_of(scene);
  operation.launch = [scenes = traced_scenes(scene, "segment_penetration", shading),
                      capacity = request.hit_capacity](LaunchContext& context, const RowLaunch& launch) {
    const TracedScene& traced = scenes[static_cast<std::size_t>(launch.device)];
    const PenetrationInputs in{launch.input<Vec3f>(Columns::origin), launch.input<Vec3f>(Columns::target),
                               launch.input<std::uint8_t>(Columns::active)};
    const PenetrationOutputs out{
        launch.output<std::int32_t>(Columns::num_hits),
        launch.output<std::uint8_t>(Columns::reached_target),
        launch.output<std::uint8_t>(Columns::overflow),
        launch.output<float>(Columns::distance),
        launch.output<Vec3f>(Columns::direction),
        launch.output<std::uint8_t>(Columns::valid),
        launch.output<float>(Columns::t),
        launch.output<Vec3f>(Columns::position),
        launch.output<Vec3f>(Columns::shading_normal),
        launch.output<Vec3f>(Columns::geometric_normal),
        launch.output<std::int32_t>(Columns::global_prim_id),
    };
    for_each_row_by_bvh(context, traced, launch.count, [&](const BvhQueries& queries) {
      return PenetrationRows<BvhQueries>{queries, traced.faces, in, out, capacity, launch.counters};
    });
  };
  return operation;
}

}  // namespace shardwise
