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

/// Weights of star-shaped interpolation for the cells of a grid, one array a halved dimension; empty arrays
/// where the operator's coefficients are constant (1/4 everywhere). In one dimension it is what continuity of
/// the flux asks for: with the conductances t of the face towards the other coarse cell and t' of the one
/// inside, t / (2 (t + t')); where they add up to more than 1, they share it. A cell that conducts well takes
/// nothing from one that does not, so that jumps of the coefficient do no harm.
std::array<std::vector<double>, 3> interpolation_weights(const Operator& op, const CartesianGrid& grid,
                                                         const std::array<bool, 3>& halved);

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
  // Weights of the next finer level's cells, on its blocks and in this level's residual windows.
  std::array<std::optional<Field<T>>, 3> weights;
  std::array<std::optional<WindowCopy<T>>, 3> weight_windows;
};

}  // namespace shardwise
