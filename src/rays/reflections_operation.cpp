#include "rays/reflections_operation.hpp"

#include <fmt/format.h>

#include "rays/reflections_kernel.hpp"
#include "rays/row_columns.hpp"

namespace shardwise {

RowOperation reflections_operation(Scene& scene, const ReflectionRequest& request) {
  using Columns = ReflectionColumns;
  check_slots("trace_reflections", "max_bounces", request.max_bounces, 1);
  const std::int64_t slots = request.max_bounces;
  const bool images = has(request.fields, ReflectionFields::image_sources);
  const bool hits = has(request.fields, ReflectionFields::hits);
  const bool shapes = has(request.fields, ReflectionFields::shapes);
  const bool trailing = has(request.fields, ReflectionFields::trailing);
  RowOperation operation;
  operation.name = fmt::format("trace_reflections:{}", slots);
  operation.family = "trace_reflections";
  operation.inputs = {row_column<Vec3f>("origin"), row_column<Vec3f>("direction"),
                      row_column<float>("tmax", request.tmax),
                      row_column<std::uint8_t>("active", request.active)};
  operation.outputs = {
      row_column<std::uint8_t>("valid", true, slots),
      row_column<float>("t", true, slots),
      row_column<std::int32_t>("prim_ids", true, slots),
      row_column<Vec3f>("image_sources", images, slots),
      row_column<std::int32_t>("bounce_count", has(request.fields, ReflectionFields::bounce_count)),
      row_column<Vec3f>("hit_points", hits, slots),
      row_column<Vec3f>("geo_normals", hits, slots),
      row_column<std::int32_t>("shape_ids", shapes, slots),
      row_column<std::int32_t>("local_prim_ids", shapes, slots),
      row_column<float>("trailing_t", trailing),
      row_column<std::int32_t>("trailing_prim", trailing),
      row_column<Vec3f>("trailing_direction", trailing),
      row_column<Vec3f>("trailing_origin", trailing)};
  operation.reads = reads_of(scene);
  operation.launch = [scenes = traced_scenes(scene, "trace_reflections", shapes),
                      bounces = request.max_bounces](LaunchContext& context, const RowLaunch& launch) {
    const TracedScene& traced = scenes[static_cast<std::size_t>(launch.device)];
    const ReflectionInputs in{launch.input<Vec3f>(Columns::origin), launch.input<Vec3f>(Columns::direction),
                              launch.input<float>(Columns::tmax),
                              launch.input<std::uint8_t>(Columns::active)};
    const ReflectionOutputs out{
        launch.output<std::uint8_t>(Columns::valid),
        launch.output<float>(Columns::t),
        launch.output<std::int32_t>(Columns::prim_ids),
        launch.output<Vec3f>(Columns::image_sources),
        launch.output<std::int32_t>(Columns::bounce_count),
        launch.output<Vec3f>(Columns::hit_points),
        launch.output<Vec3f>(Columns::geo_normals),
        launch.output<std::int32_t>(Columns::shape_ids),
        launch.output<std::int32_t>(Columns::local_prim_ids),
        launch.output<float>(Columns::trailing_t),
        launch.output<std::int32_t>(Columns::trailing_prim),
        launch.output<Vec3f>(Columns::trailing_direction),
        launch.output<Vec3f>(Columns::trailing_origin),
    };
    for_each_row(context, traced, launch.count, [&](const auto& queries) {
      return ReflectionRows<std::decay_t<decltype(queries)>>{queries, traced.faces, in,
                                                             out,     bounces,      launch.counters};
    });
  };
  return operation;
}

}  // namespace shardwise
