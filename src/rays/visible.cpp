#include "shardwise/rays/visible.hpp"

#include <fmt/format.h>

#include "dispatch/row_dispatcher.hpp"
#include "rays/visible_operations.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

namespace {

/// Ids a row of the ignore column: as said, or what its length and the batch's rows give.
int ignore_count(const char* op, const RowSource& source, std::size_t column, int said, std::int64_t rows) {
  if (said < 0) throw_usage(fmt::format("{}: ignore_count must not be negative (got {})", op, said));
  if (!source.gives(column)) return 0;
  if (said > 0) return said;
  if (source.columns.empty())
    throw_usage(fmt::format(
        "{}: say ignore_count, the ids a row, for rows that are not in columns of the caller", op));
  const std::int64_t ids = source.columns[column].rows;
  if (rows == 0 || ids % rows != 0)
    throw_usage(fmt::format("{}: ignore has {} ids, which is no multiple of the {} rows", op, ids, rows));
  return static_cast<int>(ids / rows);
}

std::int64_t rows_of(const RowSource& source) {
  return source.columns.empty() ? 0 : source.columns.front().rows;
}

}  // namespace

Visibility::Visibility(RowResult result) : RowAnswer(std::move(result)) {
  visible = column_of<std::uint8_t>(VisibleColumns::visible);
  first_blocker = column_of<std::int32_t>(VisibleColumns::first_blocker);
}

PairVisibility::PairVisibility(RowResult result) : RowAnswer(std::move(result)) {
  visible_a = column_of<std::uint8_t>(VisiblePairColumns::visible_a);
  visible_b = column_of<std::uint8_t>(VisiblePairColumns::visible_b);
}

EdgeVisibility::EdgeVisibility(RowResult result) : RowAnswer(std::move(result)) {
  visible = column_of<std::uint8_t>(VisibleEdgeColumns::visible);
}

ChainVisibility::ChainVisibility(RowResult result) : RowAnswer(std::move(result)) {
  all_visible = column_of<std::uint8_t>(VisibleChainColumns::all_visible);
  first_blocked_segment = column_of<std::int32_t>(VisibleChainColumns::first_blocked_segment);
  first_blocked_prim = column_of<std::int32_t>(VisibleChainColumns::first_blocked_prim);
}

Pending<Visibility> visible(Scene& scene, const RowSource& segments, const VisibleOptions& options) {
  VisibleRequest request;
  request.ignore_count =
      ignore_count("visible", segments, VisibleColumns::ignore, options.ignore_count, rows_of(segments));
  request.first_blocker = options.first_blocker;
  request.active = segments.gives(VisibleColumns::active);
  return pending_answer<Visibility>(
      scene.rows().run(visible_operation(scene, request), segments, options.sink, options));
}

Pending<PairVisibility> visible_pair(Scene& scene, const RowSource& pairs,
                                     const VisiblePairOptions& options) {
  VisiblePairRequest request;
  request.ignore_count =
      ignore_count("visible_pair", pairs, VisiblePairColumns::ignore, options.ignore_count, rows_of(pairs));
  request.active = pairs.gives(VisiblePairColumns::active);
  return pending_answer<PairVisibility>(
      scene.rows().run(visible_pair_operation(scene, request), pairs, options.sink, options));
}

Pending<EdgeVisibility> visible_edge(Scene& scene, const RowSource& edges,
                                     const VisibleEdgeOptions& options) {
  VisibleEdgeRequest request;
  request.fractions = options.fractions;
  request.ignore_count =
      ignore_count("visible_edge", edges, VisibleEdgeColumns::ignore, options.ignore_count, rows_of(edges));
  request.active = edges.gives(VisibleEdgeColumns::active);
  return pending_answer<EdgeVisibility>(
      scene.rows().run(visible_edge_operation(scene, request), edges, options.sink, options));
}

Pending<ChainVisibility> visible_chain(Scene& scene, const RowSource& chains,
                                       const VisibleChainOptions& options) {
  VisibleChainRequest request;
  request.points_per_chain = options.points_per_chain;
  const std::int64_t points = std::max(1, options.points_per_chain);
  request.ignore_count =
      ignore_count("visible_chain", chains, VisibleChainColumns::ignore, options.ignore_count,
                   rows_of(chains) / points * std::max<std::int64_t>(1, points - 1));
  request.chain_length = chains.gives(VisibleChainColumns::chain_length);
  request.first_blocked_prim = options.first_blocked_prim;
  request.active = chains.gives(VisibleChainColumns::active);
  return pending_answer<ChainVisibility>(
      scene.rows().run(visible_chain_operation(scene, request), chains, options.sink, options));
}

}  // namespace shardwise
