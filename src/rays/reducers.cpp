#include "shardwise/rays/reducers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "dispatch/row_operation.hpp"
#include "rays/reducers_kernel.hpp"
#include "runtime/for_each.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

namespace {

constexpr std::int64_t most_parts = 1 << 15;

}  // namespace

RowReducer sum_of_column(int column, int slots, double bound) {
  RowReducer reducer;
  reducer.name = "sum of a column";
  reducer.partial_bytes = sizeof(SumPartial);
  reducer.fold = [column, slots, scale = exact_scale(bound)](LaunchContext& context, const RowLaunch& rows,
                                                             void* partial) {
    const auto* values = rows.output<float>(column);
    if (!values)
      throw_usage(fmt::format("sum_of_column: the call was not asked for output column {}", column));
    const std::int64_t count = rows.count * slots;
    const std::int64_t parts = std::clamp<std::int64_t>(count / 64, 1, most_parts);
    for_each(context, parts, SumColumnParts{values, count, parts, scale, static_cast<SumPartial*>(partial)},
             64);
  };
  reducer.merge = [](LaunchContext& context, void* into, const void* from) {
    for_each(context, 1, MergeSums{static_cast<SumPartial*>(into), static_cast<const SumPartial*>(from)});
  };
  return reducer;
}

ColumnSum column_sum(const RowResult& result, double bound) {
  if (result.reduced.size() != sizeof(SumPartial))
    throw_usage(fmt::format("column_sum: the result holds {} reduced bytes, not those of sum_of_column()",
                            result.reduced.size()));
  SumPartial partial;
  std::memcpy(&partial, result.reduced.data(), sizeof partial);
  if (partial.overflow > 0)
    throw_data(fmt::format("column_sum: {} values exceed 2^20 x the bound of {}; give a larger bound",
                           partial.overflow, bound));
  return {partial.cell.count, to_double(partial.cell) / static_cast<double>(exact_scale(bound))};
}

}  // namespace shardwise
