#include "rays/nearest_edge_operation.hpp"

#include <fmt/format.h>

#include "rays/nearest_edge_rows.hpp"
#include "rays/row_columns.hpp"
#include "rays/traced_scene.hpp"
#include "runtime/for_each.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

static_assert(most_nearest_edges == max_nearest_edges);

/// One a device, as it is when the call is made.
std::vector<EdgeView> edge_views(Scene& scene, const std::string& op) {
  scene.require_edges(op);
  std::vector<EdgeView> views;
  for (int d = 0; d < scene.devices().size(); ++d) views.push_back(scene.replica(d).edges());
  return views;
}

/// Rows a thread takes at a time: a row costs some microseconds.
constexpr std::int64_t edge_row_grain = 512;

}  // namespace

RowOperation nearest_edge_of_point_operation(Scene& scene, bool active, bool echo) {
  using Columns = NearestEdgeOfPointColumns;
  RowOperation operation;
  operation.name = "nearest_edge:point";
  operation.family = "nearest_edge";
  operation.inputs = {row_column<Vec3f>("point"), row_column<std::uint8_t>("active", active)};
  operation.outputs = {row_column<float>("distance"),
                       row_column<Vec3f>("edge_point"),
                       row_column<float>("edge_t"),
                       row_column<std::int32_t>("shape_id"),
                       row_column<std::int32_t>("local_edge_id"),
                       row_column<std::int32_t>("global_edge_id"),
                       row_column<std::uint8_t>("is_boundary"),
                       row_column<Vec3f>("echo", echo)};
  operation.reads = reads_of(scene);
  operation.launch = [views = edge_views(scene, "nearest_edge")](LaunchContext& context,
                                                                 const RowLaunch& launch) {
    NearestEdgeOutputs out;
    out.distance = launch.output<float>(Columns::distance);
    out.edge_point = launch.output<Vec3f>(Columns::edge_point);
    out.edge_t = launch.output<float>(Columns::edge_t);
    out.shape_id = launch.output<std::int32_t>(Columns::shape_id);
    out.local_edge_id = launch.output<std::int32_t>(Columns::local_edge_id);
    out.global_edge_id = launch.output<std::int32_t>(Columns::global_edge_id);
    out.is_boundary = launch.output<std::uint8_t>(Columns::is_boundary);
    out.point = launch.output<Vec3f>(Columns::echo);
    for_each(context, launch.count,
             NearestEdgeOfPointRows{views[static_cast<std::size_t>(launch.device)],
                                    launch.input<Vec3f>(Columns::point),
                                    launch.input<std::uint8_t>(Columns::active), out, launch.counters},
             edge_row_grain);
  };
  return operation;
}

RowOperation nearest_edge_of_ray_operation(Scene& scene, bool tmax, bool active) {
  using Columns = NearestEdgeOfRayColumns;
  RowOperation operation;
  operation.name = "nearest_edge:ray";
  operation.family = "nearest_edge";
  operation.inputs = {row_column<Vec3f>("origin"), row_column<Vec3f>("direction"),
                      row_column<float>("tmax", tmax), row_column<std::uint8_t>("active", active)};
  operation.outputs = {row_column<float>("distance"),
                       row_column<float>("ray_t"),
                       row_column<Vec3f>("point"),
                       row_column<float>("edge_t"),
                       row_column<Vec3f>("edge_point"),
                       row_column<std::int32_t>("shape_id"),
                       row_column<std::int32_t>("local_edge_id"),
                       row_column<std::int32_t>("global_edge_id"),
                       row_column<std::uint8_t>("is_boundary")};
  operation.reads = reads_of(scene);
  operation.launch = [views = edge_views(scene, "nearest_edge")](LaunchContext& context,
                                                                 const RowLaunch& launch) {
    NearestEdgeOutputs out;
    out.distance = launch.output<float>(Columns::distance);
    out.ray_t = launch.output<float>(Columns::ray_t);
    out.point = launch.output<Vec3f>(Columns::point);
    out.edge_t = launch.output<float>(Columns::edge_t);
    out.edge_point = launch.output<Vec3f>(Columns::edge_point);
    out.shape_id = launch.output<std::int32_t>(Columns::shape_id);
    out.local_edge_id = launch.output<std::int32_t>(Columns::local_edge_id);
    out.global_edge_id = launch.output<std::int32_t>(Columns::global_edge_id);
    out.is_boundary = launch.output<std::uint8_t>(Columns::is_boundary);
    for_each(context, launch.count,
             NearestEdgeOfRayRows{views[static_cast<std::size_t>(launch.device)],
                                  launch.input<Vec3f>(Columns::origin),
                                  launch.input<Vec3f>(Columns::direction), launch.input<float>(Columns::tmax),
                                  launch.input<std::uint8_t>(Columns::active), out, launch.counters},
             edge_row_grain);
  };
  return operation;
}

RowOperation nearest_edges_operation(Scene& scene, const NearestEdgesRequest& request, bool active) {
  using Columns = NearestEdgesColumns;
  if (request.k < 1 || request.k > most_nearest_edges)
    throw_usage(fmt::format("nearest_edges: k must be in [1, {}] (got {})", most_nearest_edges, request.k));
  const std::int64_t k = request.k;
  RowOperation operation;
  operation.name = fmt::format("nearest_edges:{}", request.k);
  operation.family = "nearest_edges";
  operation.inputs = {row_column<Vec3f>("point"), row_column<std::uint8_t>("active", active)};
  operation.outputs = {row_column<std::uint8_t>("is_valid", true, k),
                       row_column<float>("distance", true, k),
                       row_column<Vec3f>("echo", true, k),
                       row_column<float>("edge_t", true, k),
                       row_column<Vec3f>("edge_point", true, k),
                       row_column<std::int32_t>("shape_id", true, k),
                       row_column<std::int32_t>("local_edge_id", true, k),
                       row_column<std::int32_t>("global_edge_id", true, k),
                       row_column<std::uint8_t>("is_boundary", true, k)};
  operation.reads = reads_of(scene);
  operation.launch = [views = edge_views(scene, "nearest_edges"), request](LaunchContext& context,
                                                                           const RowLaunch& launch) {
    NearestEdgeOutputs out;
    out.is_valid = launch.output<std::uint8_t>(Columns::is_valid);
    out.distance = launch.output<float>(Columns::distance);
    out.point = launch.output<Vec3f>(Columns::echo);
    out.edge_t = launch.output<float>(Columns::edge_t);
    out.edge_point = launch.output<Vec3f>(Columns::edge_point);
    out.shape_id = launch.output<std::int32_t>(Columns::shape_id);
    out.local_edge_id = launch.output<std::int32_t>(Columns::local_edge_id);
    out.global_edge_id = launch.output<std::int32_t>(Columns::global_edge_id);
    out.is_boundary = launch.output<std::uint8_t>(Columns::is_boundary);
    for_each(context, launch.count,
             NearestEdgesOfPointRows{views[static_cast<std::size_t>(launch.device)],
                                     launch.input<Vec3f>(Columns::point),
                                     launch.input<std::uint8_t>(Columns::active), request.k,
                                     request.unique_geometry, out, launch.counters},
             edge_row_grain);
  };
  return operation;
}

}  // namespace shardwise
