#pragma once
// Bodies that move ghosts: fills and folds of padded layouts, packing of faces, the sums of a reduce.

#include <cstdint>

#include "shardwise/numeric/host_device.hpp"

namespace shardwise {

/// Elements of a block by cell index; ghosts have indices outside.
template <class T>
struct CellPointer {
  T* cell = nullptr;
  std::int64_t stride1 = 0, stride2 = 0;
  /// Whether a block of n0 x n1 x .. cells has no gaps (or there is no pointer).
  bool flat(std::int64_t n0, std::int64_t n1) const { return !cell || (stride1 == n0 && stride2 == n0 * n1); }
  SW_HD T* at(std::int64_t i, std::int64_t j, std::int64_t k) const {
    return cell + i + j * stride1 + k * stride2;
  }
};

/// One ghost layer: ghost = multiplier x source (+ offset). The launch's box is the layer; its source lies
/// `to_source` elements away.
template <class T>
struct FillBody {
  CellPointer<T> u;
  std::int64_t to_source;
  T multiplier, offset;
  bool affine;
  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k) const {
    T* const ghost = u.at(i, j, k);
    const T mirrored = multiplier * ghost[to_source];
    *ghost = affine ? mirrored + offset : mirrored;
  }
};

/// Its transpose: source += multiplier x ghost, the ghost is cleared. Rows [skip_lo, skip_hi) are left alone.
template <class T>
struct FoldBody {
  CellPointer<T> u;
  std::int64_t to_source;
  T multiplier;
  std::int64_t skip_lo[2] = {0, 0}, skip_hi[2] = {0, 0};
  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k) const {
    if (j >= skip_lo[0] && j < skip_hi[0] && k >= skip_lo[1] && k < skip_hi[1]) return;
    T* const ghost = u.at(i, j, k);
    ghost[to_source] = ghost[to_source] + multiplier * *ghost;
    *ghost = T(0);
  }
};

template <class T>
struct ClearBody {
  CellPointer<T> u;
  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k) const { *u.at(i, j, k) = T(0); }
};

/// A box of cells as a contiguous piece of memory, the first dimension fastest.
template <class T>
struct PackedBox {
  T* packed;
  std::int64_t lo[3], size[2];
  SW_HD T* at(std::int64_t i, std::int64_t j, std::int64_t k) const {
    return packed + (i - lo[0]) + size[0] * ((j - lo[1]) + size[1] * (k - lo[2]));
  }
};

template <class T>
struct PackBody {
  CellPointer<T> u;
  PackedBox<T> box;
  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k) const { *box.at(i, j, k) = *u.at(i, j, k); }
};

template <class T>
struct UnpackBody {
  CellPointer<T> u;
  PackedBox<T> box;
  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k) const { *u.at(i, j, k) = *box.at(i, j, k); }
};

template <class T>
struct AddPackedBody {
  CellPointer<T> u;
  PackedBox<T> box;
  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k) const {
    T* const cell = u.at(i, j, k);
    *cell = *cell + *box.at(i, j, k);
  }
};

}  // namespace shardwise
