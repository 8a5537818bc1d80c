#include "rays/intersect_operation.hpp"

#include "rays/intersect_kernel.hpp"
#include "rays/row_columns.hpp"

namespace shardwise {
namespace {

std::string name_of(IntersectFields fields) {
  if (fields == IntersectFields::none) return "intersect:reduced";
  if (fields == IntersectFields::all) return "intersect:full";
  std::string name = "intersect:t";
  if (has(fields, IntersectFields::geometric)) name += "+geometric";
  if (has(fields, IntersectFields::shading)) name += "+shading";
  if (has(fields, IntersectFields::uv)) name += "+uv";
  return name;
}

}  // namespace

RowOperation intersect_operation(Scene& scene, const IntersectRequest& request) {
  using Columns = IntersectColumns;
  const bool geometric = has(request.fields, IntersectFields::geometric);
  RowOperation operation;
  operation.name = name_of(request.fields);
  operation.family = "intersect";
  operation.inputs = {row_column<Vec3f>("origin"), row_column<Vec3f>("direction"),
                      row_column<float>("tmax", request.tmax),
                      row_column<std::uint8_t>("active", request.active)};
  operation.outputs = {row_column<float>("t"),
                       row_column<Vec3f>("point", geometric),
                       row_column<Vec3f>("geometric_normal", geometric),
                       row_column<Vec3f>("barycentric", geometric),
                       row_column<std::int32_t>("shape_id", geometric),
                       row_column<std::int32_t>("local_prim_id", geometric),
                       row_column<std::int32_t>("global_prim_id", geometric),
                       row_column<Vec3f>("shading_normal", has(request.fields, IntersectFields::shading)),
                       row_column<Vec2f>("uv", has(request.fields, IntersectFields::uv))};
  operation.reads = reads_of(scene);
  operation.launch = [scenes = traced_scenes(scene, "intersect", request.fields != IntersectFields::none)](
                         LaunchContext& context, const RowLaunch& launch) {
    const TracedScene& traced = scenes[static_cast<std::size_t>(launch.device)];
    const IntersectInputs in{launch.input<Vec3f>(Columns::origin), launch.input<Vec3f>(Columns::direction),
                             launch.input<float>(Columns::tmax), launch.input<std::uint8_t>(Columns::active)};
    const IntersectOutputs out{
        launch.output<float>(Columns::t),
        launch.output<Vec3f>(Columns::point),
        launch.output<Vec3f>(Columns::geometric_normal),
        launch.output<Vec3f>(Columns::barycentric),
        launch.output<std::int32_t>(Columns::shape_id),
        launch.output<std::int32_t>(Columns::local_prim_id),
        launch.output<std::int32_t>(Columns::global_prim_id),
        launch.output<Vec3f>(Columns::shading_normal),
        launch.output<Vec2f>(Columns::uv),
    };
    for_each_row(context, traced, launch.count, [&](const auto& queries) {
      return IntersectRows<std::decay_t<decltype(queries)>>{queries, traced.faces, in, out, launch.counters};
    });
  };
  return operation;
}

}  // namespace shardwise
