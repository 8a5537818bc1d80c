#pragma once
// Small results of large batches: sinks for reduce().

#include <cstdint>

#include "shardwise/dispatch/rows.hpp"

namespace shardwise {

/// The finite values of a float column.
struct ColumnSum {
  std::int64_t count = 0;  ///< of finite values: hits, for a column of distances
  double sum = 0;          ///< exact, rounded once: the same bits for every split
};

/// Counts and sums the finite values of output column `column` of f32 with `slots` values a row. `bound`:
/// what |value| should not exceed; it sets the scale of the exact sum, which has 2^-64 of it as its last bit.
/// A value above 2^20 x bound is an error at column_sum().
RowReducer sum_of_column(int column, int slots = 1, double bound = 4096);

/// What sum_of_column() left. Throws a data error where a value was too large for the bound.
ColumnSum column_sum(const RowResult& result, double bound = 4096);

}  // namespace shardwise
