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

  /// Where a cell is in what is read.
  SW_HD std::int64_t place(std::int64_t cell, std::int64_t cells) const {
    if (wraps) cell = cell < 0 ? cell + cells : cell >= cells ? cell - cells : cell;
    return cell - origin;
  }
  /// The coarse cell that a fine one lies in, and the other one that it is close to.
  SW_HD std::int64_t own(std::int64_t f) const { return halved ? f / 2 : f; }
  SW_HD std::int64_t other(std::int64_t f) const { return f % 2 == 0 ? f / 2 - 1 : f / 2 + 1; }
  /// Whether that other one is the image of its own cell behind a wall; then its multiplier.
  SW_HD bool is_image(std::int64_t f, T& multiplier) const {
    const std::int64_t o = other(f);
    multiplier = o < 0 ? low : high;
    return !periodic && (o < 0 || o >= coarse);
  }
};

/// Star-shaped interpolation: a fine cell takes from the coarse cell it lies in and, in each halved
/// dimension, from the one it is close to, with the weight of the fine cell for that dimension. Where the
/// coefficient is constant the weights are 1/4 and linear functions are exact. No values at all: 1/4.
template <class T>
struct TransferWeights {
  CellPointer<const T> weight[3];
  SW_HD T at(int d, std::int64_t i, std::int64_t j, std::int64_t k) const {
    return weight[d].cell ? *weight[d].at(i, j, k) : T(0.25);
  }
};

/// fine += prolonged coarse. The weights are the fine block's.
template <class T>
struct ProlongBody {
  TransferLine<T> line[3];
  TransferWeights<T> weights;
  CellPointer<const T> coarse;
  CellPointer<T> fine;
  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k) const {
    const std::int64_t f[3] = {line[0].first + i, line[1].first + j, line[2].first + k};
    std::int64_t c[3];
    for (int d = 0; d < 3; ++d) c[d] = line[d].place(line[d].own(f[d]), line[d].coarse);
    T own = T(1), sum = T(0);
    for (int d = 0; d < 3; ++d) {
      if (!line[d].halved) continue;
      const T w = weights.at(d, i, j, k);
      own = own - w;
      T multiplier;
      if (line[d].is_image(f[d], multiplier)) {
        own = std::fma(w, multiplier, own);
        continue;
      }
      const std::int64_t mine = c[d];
      c[d] = line[d].place(line[d].other(f[d]), line[d].coarse);
      sum = std::fma(w, *coarse.at(c[0], c[1], c[2]), sum);
      c[d] = mine;
    }
    T* const target = fine.at(i, j, k);
    *target = *target + std::fma(own, *coarse.at(c[0], c[1], c[2]), sum);
  }
};

/// coarse <- scale x transposed prolongation of fine. The weights lie as the fine values do.
template <class T>
struct RestrictBody {
  TransferLine<T> line[3];
  TransferWeights<T> weights;
  CellPointer<const T> fine;
  CellPointer<T> coarse;
  T scale;

  /// What a fine cell gives to the coarse one that it lies in.
  SW_HD T own_share(const std::int64_t (&f)[3], std::int64_t i, std::int64_t j, std::int64_t k) const {
    T own = T(1);
    for (int d = 0; d < 3; ++d) {
      if (!line[d].halved) continue;
      const T w = weights.at(d, i, j, k);
      own = own - w;
      T multiplier;
      if (line[d].is_image(f[d], multiplier)) own = std::fma(w, multiplier, own);
    }
    return own;
  }
  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k) const {
    const std::int64_t c[3] = {line[0].first + i, line[1].first + j, line[2].first + k};
    std::int64_t lo[3], hi[3];
    for (int d = 0; d < 3; ++d) {
      lo[d] = line[d].halved ? 2 * c[d] : c[d];
      hi[d] = line[d].halved ? 2 * c[d] + 2 : c[d] + 1;
    }
    T sum = T(0);
    const auto visit = [&](int along) {  // the cells inside (-1), or those beside it in one dimension
      for (std::int64_t z = lo[2]; z < hi[2]; ++z)
        for (std::int64_t y = lo[1]; y < hi[1]; ++y)
          for (std::int64_t x = lo[0]; x < hi[0]; ++x) {
            const std::int64_t f[3] = {x, y, z};
            const std::int64_t at[3] = {line[0].place(x, line[0].fine), line[1].place(y, line[1].fine),
                                        line[2].place(z, line[2].fine)};
            const T share =
                along < 0 ? own_share(f, at[0], at[1], at[2]) : weights.at(along, at[0], at[1], at[2]);
            sum = std::fma(share, *fine.at(at[0], at[1], at[2]), sum);
          }
    };
    visit(-1);
    for (int d = 0; d < 3; ++d) {
      if (!line[d].halved) continue;
      const std::int64_t first = lo[d], end = hi[d];
      for (int side = 0; side < 2; ++side) {
        lo[d] = side == 0 ? first - 1 : end;
        hi[d] = lo[d] + 1;
        if (line[d].periodic || (lo[d] >= 0 && lo[d] < line[d].fine)) visit(d);
      }
      lo[d] = first;
      hi[d] = end;
    }
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
