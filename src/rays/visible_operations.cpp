#include "rays/visible_operations.hpp"

#include <fmt/format.h>

#include "rays/row_columns.hpp"
#include "rays/visible_chain_kernel.hpp"
#include "rays/visible_edge_kernel.hpp"
#include "rays/visible_kernel.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

IgnoreColumn ignore_of(const RowLaunch& launch, int column, int count) {
  return {launch.input<std::int32_t>(column), count};
}
RowColumn ignore_column(int count, std::int64_t segments = 1) {
  return row_column<std::int32_t>("ignore", count > 0, count * segments);
}

EdgeFractions checked_fractions(const std::vector<float>& fractions) {
  if (fractions.empty() || fractions.size() > max_edge_fractions)
    throw_usage(fmt::format("visible_edge: fractions must hold 1 to {} numbers (got {})", max_edge_fractions,
                            fractions.size()));
  EdgeFractions result;
  for (const float fraction : fractions) {
    if (!is_finite(fraction))
      throw_usage(
          fmt::format("visible_edge: fractions must be finite (got {} at index {})", fraction, result.count));
    result.values[result.count++] = fraction;
  }
  return result;
}

}  // namespace

RowOperation visible_operation(Scene& scene, const VisibleRequest& request) {
  using Columns = VisibleColumns;
  check_slots("visible", "ignore (ids a row)", request.ignore_count, 0);
  RowOperation operation;
  operation.name = request.first_blocker ? "visible:first_blocker" : "visible";
  operation.family = "visible";
  operation.inputs = {row_column<Vec3f>("start"), row_column<Vec3f>("end"),
                      ignore_column(request.ignore_count),
                      row_column<std::uint8_t>("active", request.active)};
  operation.outputs = {row_column<std::uint8_t>("visible"),
                       row_column<std::int32_t>("first_blocker", request.first_blocker)};
  operation.reads = reads_of(scene);
  operation.launch = [scenes = traced_scenes(scene, "visible", false), count = request.ignore_count](
                         LaunchContext& context, const RowLaunch& launch) {
    const VisibleInputs in{launch.input<Vec3f>(Columns::start), launch.input<Vec3f>(Columns::end),
                           ignore_of(launch, Columns::ignore, count),
                           launch.input<std::uint8_t>(Columns::active)};
    for_each_row_by_bvh(context, scenes[static_cast<std::size_t>(launch.device)], launch.count,
                        [&](const BvhQueries& queries) {
                          return VisibleRows<BvhQueries>{
                              queries, in, launch.output<std::uint8_t>(Columns::visible),
                              launch.output<std::int32_t>(Columns::first_blocker), launch.counters};
                        });
  };
  return operation;
}

RowOperation visible_pair_operation(Scene& scene, const VisiblePairRequest& request) {
  using Columns = VisiblePairColumns;
  check_slots("visible_pair", "ignore (ids a row)", request.ignore_count, 0);
  RowOperation operation;
  operation.name = operation.family = "visible_pair";
  operation.inputs = {row_column<Vec3f>("start"), row_column<Vec3f>("end_a"), row_column<Vec3f>("end_b"),
                      ignore_column(request.ignore_count),
                      row_column<std::uint8_t>("active", request.active)};
  operation.outputs = {row_column<std::uint8_t>("visible_a"), row_column<std::uint8_t>("visible_b")};
  operation.reads = reads_of(scene);
  operation.launch = [scenes = traced_scenes(scene, "visible_pair", false), count = request.ignore_count](
                         LaunchContext& context, const RowLaunch& launch) {
    const VisiblePairInputs in{launch.input<Vec3f>(Columns::start), launch.input<Vec3f>(Columns::end_a),
                               launch.input<Vec3f>(Columns::end_b), ignore_of(launch, Columns::ignore, count),
                               launch.input<std::uint8_t>(Columns::active)};
    for_each_row_by_bvh(context, scenes[static_cast<std::size_t>(launch.device)], launch.count,
                        [&](const BvhQueries& queries) {
                          return VisiblePairRows<BvhQueries>{
                              queries, in, launch.output<std::uint8_t>(Columns::visible_a),
                              launch.output<std::uint8_t>(Columns::visible_b), launch.counters};
                        });
  };
  return operation;
}

RowOperation visible_edge_operation(Scene& scene, const VisibleEdgeRequest& request) {
  using Columns = VisibleEdgeColumns;
  check_slots("visible_edge", "ignore (ids a row)", request.ignore_count, 0);
  const EdgeFractions fractions = checked_fractions(request.fractions);
  RowOperation operation;
  operation.name = fmt::format("visible_edge:{}", fractions.count);
  operation.family = "visible_edge";
  operation.inputs = {row_column<Vec3f>("source"),
                      row_column<Vec3f>("edge_position"),
                      row_column<Vec3f>("edge_direction"),
                      row_column<float>("t_min"),
                      row_column<float>("t_max"),
                      ignore_column(request.ignore_count),
                      row_column<std::uint8_t>("active", request.active)};
  operation.outputs = {row_column<std::uint8_t>("visible")};
  operation.reads = reads_of(scene);
  operation.launch = [scenes = traced_scenes(scene, "visible_edge", false), count = request.ignore_count,
                      fractions](LaunchContext& context, const RowLaunch& launch) {
    const VisibleEdgeInputs in{
        launch.input<Vec3f>(Columns::source),         launch.input<Vec3f>(Columns::edge_position),
        launch.input<Vec3f>(Columns::edge_direction), launch.input<float>(Columns::t_min),
        launch.input<float>(Columns::t_max),          ignore_of(launch, Columns::ignore, count),
        launch.input<std::uint8_t>(Columns::active)};
    for_each_row_by_bvh(context, scenes[static_cast<std::size_t>(launch.device)], launch.count,
                        [&](const BvhQueries& queries) {
                          return VisibleEdgeRows<BvhQueries>{queries, in, fractions,
                                                             launch.output<std::uint8_t>(Columns::visible),
                                                             launch.counters};
                        });
  };
  return operation;
}

RowOperation visible_chain_operation(Scene& scene, const VisibleChainRequest& request) {
  using Columns = VisibleChainColumns;
  if (request.points_per_chain < 2)
    throw_usage(fmt::format("visible_chain: points must have at least two points a chain (got {})",
                            request.points_per_chain));
  check_slots("visible_chain", "points (points a chain)", request.points_per_chain, 2);
  check_slots("visible_chain", "ignore (ids a segment)", request.ignore_count, 0);
  const std::int64_t segments = request.points_per_chain - 1;
  check_slots("visible_chain", "ignore (segments x ids a segment)", segments * request.ignore_count, 0);
  RowOperation operation;
  operation.name = fmt::format("visible_chain:{}", request.points_per_chain);
  operation.family = "visible_chain";
  operation.inputs = {row_column<Vec3f>("points", true, request.points_per_chain),
                      row_column<std::int32_t>("chain_length", request.chain_length),
                      ignore_column(request.ignore_count, segments),
                      row_column<std::uint8_t>("active", request.active)};
  operation.outputs = {row_column<std::uint8_t>("all_visible"),
                       row_column<std::int32_t>("first_blocked_segment"),
                       row_column<std::int32_t>("first_blocked_prim", request.first_blocked_prim)};
  operation.reads = reads_of(scene);
  operation.launch = [scenes = traced_scenes(scene, "visible_chain", false),
                      points = request.points_per_chain,
                      count = request.ignore_count](LaunchContext& context, const RowLaunch& launch) {
    const VisibleChainInputs in{
        launch.input<Vec3f>(Columns::points), launch.input<std::int32_t>(Columns::chain_length), points,
        ignore_of(launch, Columns::ignore, count), launch.input<std::uint8_t>(Columns::active)};
    const VisibleChainOutputs out{launch.output<std::uint8_t>(Columns::all_visible),
                                  launch.output<std::int32_t>(Columns::first_blocked_segment),
                                  launch.output<std::int32_t>(Columns::first_blocked_prim)};
    for_each_row_by_bvh(context, scenes[static_cast<std::size_t>(launch.device)], launch.count,
                        [&](const BvhQueries& queries) {
                          return VisibleChainRows<BvhQueries>{queries, in, out, launch.counters};
                        });
  };
  return operation;
}

}  // namespace shardwise
