#pragma once
// What a V-cycle needs on each level: a coarser operator on a coarser grid, and where its blocks live.

#include <optional>

#include "grid/window_copy.hpp"
#include "shardwise/grid/prepared_operator.hpp"

namespace shardwise {

/// The same operator on a coarser grid: coefficients are averaged over the cells that become one. Throws
/// bad_argument, naming the node, for what has no coarse counterpart.
Operator coarsened(const Operator& op, const CartesianGrid& grid);

/// The dimensions that the next grid halves: those with an even number of cells, and more than two.
std::array<bool, 3> halved_dimensions(const CartesianGrid& grid);

/// Blocks of a coarser grid on the streams of other blocks: cut by the same process grid where every part
/// still has its halo and the grid has at least 32^3 cells, else one block on the first part.
Blocks coarse_blocks(const CartesianGrid& grid, const Blocks& finest);

/// The inverse of an operator on few cells, column by column, symmetric; where constants map to 0 it inverts
/// on what is orthogonal to them.
template <class T>
std::vector<T> dense_inverse(PreparedOperator<T>& a);

template <class T>
struct MultigridLevel {
  MultigridLevel(const Operator& op, const Blocks& b);
  Blocks blocks;
  PreparedOperator<T> a;
  Field<T> r, inverse_diagonal;
  // Of all but the finest, whose are the caller's.
  std::optional<Field<T>> x, b;
  // Between the next finer level and this one; none where both are one block on the same part.
  std::optional<WindowCopy<T>> fine_residual, coarse_correction;
  std::vector<Window> residual_windows, correction_windows;
};

}  // namespace shardwise
