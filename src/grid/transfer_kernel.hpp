#pragma once
// Between a grid and the one with half the cells in some dimensions.

#include <cmath>

#include "grid/ghost_kernel.hpp"

namespace shardwise {

/// One dimension of a transfer. Not halved: one to one. Cells are numbered over the whole grids; what is read
/// is a window that begins at cell `origin`, what is written a block that begins at `first`.
template <class T>
struct TransferLine {
  bool halved = false, periodic = false;
  bool wraps = true;  ///< periodic: beyond an end is the other one; false: the window goes on beyond it
  std::int64_t fine = 1, coarse = 1;
  std::int64_t origin = 0, first = 0;
  T low = 1, high = 1;  ///< multipliers of the coarse grid's walls

  SW_HD std::int64_t place(std::int64_t cell, std::int64_t cells) const {
    if (wraps) cell = cell < 0 ? cell + cells : cell >= cells ? cell - cells : cell;
    return cell - origin;
  }
  /// The coarse cells that fine cell f takes from, and with what weights.
  SW_HD int sources(std::int64_t f, std::int64_t (&index)[2], T (&weight)[2]) const {
    if (!halved) {
      index[0] = f - origin;
      weight[0] = T(1);
      return 1;
    }
    const std::int64_t c = f / 2;
    std::int64_t other = f % 2 == 0 ? c - 1 : c + 1;
    weight[0] = T(0.75);
    weight[1] = T(0.25);
    if (!periodic && other < 0) {
      other = 0;
      weight[1] = weight[1] * low;
    } else if (!periodic && other >= coarse) {
      other = coarse - 1;
      weight[1] = weight[1] * high;
    }
    index[0] = place(c, coarse);
    index[1] = place(other, coarse);
    return 2;
  }
  /// The transpose: the fine cells that coarse cell c gives to.
  SW_HD int targets(std::int64_t c, std::int64_t (&index)[4], T (&weight)[4]) const {
    if (!halved) {
      index[0] = c - origin;
      weight[0] = T(1);
      return 1;
    }
    int count = 0;
    for (std::int64_t f = 2 * c - 1; f <= 2 * c + 2; ++f) {
      const bool own = f == 2 * c || f == 2 * c + 1;
      if (!own && !periodic && (f < 0 || f >= fine)) continue;
      T w = own ? T(0.75) : T(0.25);
      // At a wall the ghost that a fine cell leans on is this cell's image.
      if (!periodic && f == 2 * c && c == 0) w = w + T(0.25) * low;
      if (!periodic && f == 2 * c + 1 && c == coarse - 1) w = w + T(0.25) * high;
      index[count] = place(f, fine);
      weight[count++] = w;
    }
    return count;
  }
};

/// fine += prolonged coarse.
template <class T>
struct ProlongBody {
  TransferLine<T> line[3];
  CellPointer<const T> coarse;
  CellPointer<T> fine;
  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k) const {
    std::int64_t at[3][2];
    T w[3][2];
    const int n0 = line[0].sources(line[0].first + i, at[0], w[0]),
              n1 = line[1].sources(line[1].first + j, at[1], w[1]),
              n2 = line[2].sources(line[2].first + k, at[2], w[2]);
    T sum = 0;
    for (int c = 0; c < n2; ++c)
      for (int b = 0; b < n1; ++b)
        for (int a = 0; a < n0; ++a)
          sum = std::fma(w[2][c] * w[1][b] * w[0][a], *coarse.at(at[0][a], at[1][b], at[2][c]), sum);
    T* const target = fine.at(i, j, k);
    *target = *target + sum;
  }
};

/// coarse <- scale x transposed prolongation of fine.
template <class T>
struct RestrictBody {
  TransferLine<T> line[3];
  CellPointer<const T> fine;
  CellPointer<T> coarse;
  T scale;
  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k) const {
    std::int64_t at[3][4];
    T w[3][4];
    const int n0 = line[0].targets(line[0].first + i, at[0], w[0]),
              n1 = line[1].targets(line[1].first + j, at[1], w[1]),
              n2 = line[2].targets(line[2].first + k, at[2], w[2]);
    T sum = 0;
    for (int c = 0; c < n2; ++c)
      for (int b = 0; b < n1; ++b)
        for (int a = 0; a < n0; ++a)
          sum = std::fma(w[2][c] * w[1][b] * w[0][a], *fine.at(at[0][a], at[1][b], at[2][c]), sum);
    *coarse.at(i, j, k) = scale * sum;
  }
};

/// Cells from one place to another.
template <class T>
struct CopyCellsBody {
  CellPointer<const T> from;
  CellPointer<T> to;
  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k) const {
    *to.at(i, j, k) = *from.at(i, j, k);
  }
};

/// y <- M x for a dense matrix over the cells of a small grid without gaps.
template <class T>
struct DenseBody {
  const T* matrix;
  const T* x;
  T* y;
  std::int64_t n;
  SW_HD void operator()(std::int64_t row) const {
    T sum = 0;
    for (std::int64_t c = 0; c < n; ++c) sum = std::fma(matrix[row + c * n], x[c], sum);
    y[row] = sum;
  }
};

}  // namespace shardwise
