#pragma once
// Diagonals, and transposes by gathering.

#include "grid/cell_launch.hpp"
#include "grid/leaf_kernel.hpp"

namespace shardwise {

/// y <- alpha diag + beta y: the centre's weight, and that of every neighbour that is the cell itself (a
/// mirror image, or a periodic dimension of one cell).
template <class T, int N, class Leaf>
struct DiagonalBody {
  StencilBlock<T> block;
  Leaf leaf;
  T* y;
  T alpha, beta;

  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k) const {
    const WallReader<T> r{nullptr, block.element(i, j, k), &block, {i, j, k}};
    T value = leaf.centre_weight(r);
    for (int d = 0; d < N; ++d)
      for (int side = 0; side < 2; ++side)
        if (r.at_face(d, side) && r.offset(d, side) == 0)
          value = std::fma(block.face[d][side].multiplier, leaf.weight(r, d, side), value);
    blend_any(y + r.at, value, alpha, beta);
  }
};

/// The cells of a block that no fold and no reduce adds to: those at least `margin` from every face. A gather
/// gives them their final value, so that they need not wait in a field of their own.
struct DeepCells {
  std::int64_t cells[3] = {1, 1, 1}, margin[3] = {0, 0, 0};
  SW_HD bool has(int d, std::int64_t index) const {
    return index >= margin[d] && index < cells[d] - margin[d];
  }
  SW_HD bool has(std::int64_t i, std::int64_t j, std::int64_t k) const {
    return has(0, i) && has(1, j) && has(2, k);
  }
  CellBox box() const {
    CellBox result;
    for (int d = 0; d < 3; ++d) {
      result.lo[d] = margin[d];
      result.hi[d] = cells[d] - margin[d];
    }
    return result;
  }
};

/// Which ghosts a gather folds into the cells that they are images of, beyond walls and in periodic
/// dimensions that are not cut, so that no launch of its own does it.
template <class T>
struct GatherFold {
  bool rows = false;   ///< the two ghosts of every row that is deep in the other dimensions
  bool whole = false;  ///< all: the block is cut nowhere, and has one layer of ghosts
  bool wraps[3] = {};
  T multiplier[3][2] = {};
};

/// z[p] = sum over owned cells q of (weight of q's row at p) x[q], for every padded cell p; x is 0 outside.
/// With a y (of x's layout), deep cells go there: y <- alpha z + beta y. Where rows are folded, deep cells
/// have no margin in dimension 0 and rows of them take in their ghosts at once, as FoldBody does. Where the
/// whole block is, all owned cells go into y, and there is no z.
template <class T, int N, class Leaf>
struct TransposeBody {
  StencilBlock<T> block;
  Leaf leaf;
  const T* x;
  T* z;
  std::int64_t z_stride[2];
  T* y = nullptr;
  T alpha = 1, beta = 0;
  DeepCells deep;
  GatherFold<T> fold;

  SW_HD WallReader<T> reader(const std::int64_t (&p)[3]) const {
    return {x, block.element(p[0], p[1], p[2]), &block, {p[0], p[1], p[2]}};
  }
  SW_HD bool owned(int d, std::int64_t index) const { return index >= 0 && index < block.cells[d]; }
  SW_HD T gathered(std::int64_t i, std::int64_t j, std::int64_t k) const {
    std::int64_t p[3] = {i, j, k};
    const bool mine[3] = {owned(0, i), owned(1, j), owned(2, k)};
    T value = 0;
    if (mine[0] && mine[1] && mine[2]) {
      const WallReader<T> r = reader(p);
      value = leaf.centre_weight(r) * r.centre();
    }
    for (int d = 0; d < N; ++d) {
      if (!(mine[(d + 1) % 3] && mine[(d + 2) % 3])) continue;
      for (int side = 0; side < 2; ++side) {
        // The neighbour on this side reads p through its opposite face.
        p[d] += side == 0 ? -1 : 1;
        if (owned(d, p[d])) {
          const WallReader<T> r = reader(p);
          value = std::fma(leaf.weight(r, d, 1 - side), r.centre(), value);
        }
        p[d] -= side == 0 ? -1 : 1;
      }
    }
    return value;
  }
  /// Whether this row is folded here.
  SW_HD bool folds(std::int64_t j, std::int64_t k) const {
    return fold.rows && deep.has(1, j) && deep.has(2, k);
  }
  /// Which of its two ghosts is added to the low end (0) of a row, and to the high one (1).
  SW_HD int ghost_side(int end) const { return (end == 0) != fold.wraps[0] ? 0 : 1; }
  /// gathered() of the ghost beyond (d, side) of the row through cell p: one cell reads it.
  SW_HD T ghost(int d, int side, const std::int64_t (&p)[3]) const {
    std::int64_t q[3] = {p[0], p[1], p[2]};
    q[d] = side == 0 ? 0 : block.cells[d] - 1;
    const WallReader<T> r = reader(q);
    return std::fma(leaf.weight(r, d, side), r.centre(), T(0));
  }
  /// gathered(), and what FoldBody adds in all dimensions, the last first, the high layer before the low.
  /// Ghosts of ghosts are zeros.
  SW_HD T folded(std::int64_t i, std::int64_t j, std::int64_t k) const {
    const std::int64_t p[3] = {i, j, k};
    T value = gathered(i, j, k);
    for (int d = N - 1; d >= 0; --d)
      for (int side = 1; side >= 0; --side) {
        const bool low_end = (side == 0) != fold.wraps[d];
        if (p[d] == (low_end ? 0 : block.cells[d] - 1))
          value = value + fold.multiplier[d][side] * ghost(d, side, p);
      }
    return value;
  }
  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k) const {
    if (fold.whole) return blend_any(y + block.element(i, j, k), folded(i, j, k), alpha, beta);
    const bool folds_row = folds(j, k);
    if (folds_row && (i < 0 || i >= block.cells[0])) return;
    T value = gathered(i, j, k);
    if (folds_row && (i == 0 || i == block.cells[0] - 1)) {
      const int side = ghost_side(i == 0 ? 0 : 1);
      value = value + fold.multiplier[0][side] * ghost(0, side, {i, j, k});
    }
    if (y && deep.has(i, j, k))
      blend_any(y + block.element(i, j, k), value, alpha, beta);
    else
      z[i + j * z_stride[0] + k * z_stride[1]] = value;
  }

  /// A cell around which every row is owned and reads nothing beyond a face: it needs no questions, and gets
  /// the same terms in the same order. value(d, side): of its neighbours.
  template <class Value>
  SW_HD T inner_value(std::int64_t at, const std::int64_t* stride, T own, const Value& value) const {
    const PlainReader<T> centre{x, at, stride};
    T result = leaf.centre_weight(centre) * own;
    for (int d = 0; d < N; ++d)
      for (int side = 0; side < 2; ++side) {
        const PlainReader<T> r{x, at + centre.offset(d, side), stride};
        result = std::fma(leaf.weight(r, d, 1 - side), value(d, side), result);
      }
    return result;
  }
  /// Inner cells [begin, end) of a row.
  template <class Store>
  void inner(std::int64_t begin, std::int64_t end, std::int64_t j, std::int64_t k, const Store& store) const {
    const std::int64_t row_at = block.element(0, j, k);
    const std::int64_t stride[3] = {1, block.stride[1], block.stride[2]};
#pragma GCC ivdep
    for (std::int64_t i = begin; i < end; ++i) {
      const PlainReader<T> centre{x, row_at + i, stride};
      store(i, inner_value(centre.at, stride, centre.centre(),
                           [&](int d, int side) { return centre.value(d, side); }));
    }
  }
  /// The cells that column() can do: inner and deep ones. Empty without a y.
  CellBox inner_cells() const {
    CellBox box;
    for (int d = 0; d < 3; ++d) {
      const std::int64_t margin = d >= N ? 0 : deep.margin[d] > 1 ? deep.margin[d] : 1;
      box.lo[d] = margin;
      box.hi[d] = y ? block.cells[d] - margin : margin;
    }
    return box;
  }
  /// Cells (i, j, [begin, end)), the same as cell() does. Reads all of some planes before it writes: as much
  /// as that is under way at once.
  SW_HD void column(std::int64_t i, std::int64_t j, std::int64_t begin, std::int64_t end) const {
    std::int64_t at = block.element(i, j, begin), k = begin;
    T low = N > 2 ? x[at - block.stride[2]] : T(0), own = x[at];
    for (; k + planes_at_once <= end; k += planes_at_once) part_of_column<planes_at_once>(at, low, own);
    for (; k < end; ++k) part_of_column<1>(at, low, own);
  }
  static constexpr int planes_at_once = 4;
  /// The next cells of a column, from `at` on, whose value is `own`, with `low` below; all three move on.
  template <int planes>
  SW_HD void part_of_column(std::int64_t& at, T& low, T& own) const {
    const std::int64_t stride[3] = {1, block.stride[1], block.stride[2]};
    T column[planes + 2] = {low, own}, beside[planes][2][2] = {}, value[planes];
    for (int p = 0; p < planes && N > 2; ++p) column[p + 2] = x[at + (p + 1) * stride[2]];
    for (int p = 0; p < planes; ++p)
      for (int d = 0; d < N && d < 2; ++d)
        for (int side = 0; side < 2; ++side)
          beside[p][d][side] = x[at + p * stride[2] + (side == 0 ? -stride[d] : stride[d])];
    for (int p = 0; p < planes; ++p)
      value[p] = inner_value(at + p * stride[2], stride, column[p + 1], [&](int d, int side) {
        return d == 2 ? column[p + 2 * side] : beside[p][d][side];
      });
    for (int p = 0; p < planes; ++p) blend_any(y + at + p * stride[2], value[p], alpha, beta);
    low = column[planes];
    own = column[planes + 1];
    at += planes * stride[2];
  }
  bool owned_row(std::int64_t j, std::int64_t k) const {
    return j >= 0 && j < block.cells[1] && k >= 0 && k < block.cells[2];
  }
  /// Cells [begin, end), none of them at an end of its row, of any row: term by term, each for all of them.
  void wall_row(std::int64_t begin, std::int64_t end, std::int64_t j, std::int64_t k) const {
    T* const out = z + j * z_stride[0] + k * z_stride[1];
    const std::int64_t stride[3] = {1, block.stride[1], block.stride[2]};
    const bool mine = owned_row(j, k);
    const auto on_row = [&](std::int64_t row_j, std::int64_t row_k, auto&& use) {
      const typename RowReader<T>::Rules rules = row_rules(block, row_j, row_k);
      const std::int64_t at = block.element(0, row_j, row_k);
      for (std::int64_t i = begin; i < end; ++i)
        use(i, RowReader<T>{
                   x,
                   at + i,
                   &rules,
                   {row_j + block.cells[1] * row_k, i + block.cells[0] * row_k, i + block.cells[0] * row_j}});
    };
    if (mine)
      on_row(j, k,
             [&](std::int64_t i, const RowReader<T>& r) { out[i] = leaf.centre_weight(r) * r.centre(); });
    else
      for (std::int64_t i = begin; i < end; ++i) out[i] = T(0);
    for (int d = mine ? 0 : 1; d < N; ++d)
      for (int side = 0; side < 2; ++side) {
        const std::int64_t step = side == 0 ? -1 : 1;
        const std::int64_t row_j = d == 1 ? j + step : j, row_k = d == 2 ? k + step : k;
        if (!owned_row(row_j, row_k)) continue;
        if (mine) {  // seen from a neighbour, an owned cell lies behind no wall
          const std::int64_t at = block.element(d == 0 ? step : 0, row_j, row_k);
#pragma GCC ivdep
          for (std::int64_t i = begin; i < end; ++i) {
            const PlainReader<T> r{x, at + i, stride};
            out[i] = std::fma(leaf.weight(r, d, 1 - side), r.centre(), out[i]);
          }
        } else {
          on_row(row_j, row_k, [&](std::int64_t i, const RowReader<T>& r) {
            out[i] = std::fma(leaf.weight(r, d, 1 - side), r.centre(), out[i]);
          });
        }
      }
  }
  /// A cell at or beyond an end of a row that is inside in the other dimensions.
  T end_value(std::int64_t i, std::int64_t j, std::int64_t k) const {
    const std::int64_t stride[3] = {1, block.stride[1], block.stride[2]}, at = block.element(i, j, k);
    const bool mine = i >= 0 && i < block.cells[0];
    T value = 0;
    if (mine) {
      const EndReader<T> r = end_reader(x, block, i, j, k);
      value = leaf.centre_weight(r) * r.centre();
    }
    for (int side = 0; side < 2; ++side) {
      const std::int64_t q = side == 0 ? i - 1 : i + 1;
      if (q < 0 || q >= block.cells[0]) continue;
      const EndReader<T> r = end_reader(x, block, q, j, k);
      value = std::fma(leaf.weight(r, 0, 1 - side), r.centre(), value);
    }
    for (int d = 1; d < N && mine; ++d)
      for (int side = 0; side < 2; ++side) {
        const PlainReader<T> r{x, at + (side == 0 ? -stride[d] : stride[d]), stride};
        value = std::fma(leaf.weight(r, d, 1 - side), r.centre(), value);
      }
    return value;
  }

  void row(std::int64_t begin, std::int64_t end, std::int64_t j, std::int64_t k) const {
    const auto inside = [this](int d, std::int64_t index) { return index > 0 && index < block.cells[d] - 1; };
    const bool inner_row = (N < 2 || inside(1, j)) && (N < 3 || inside(2, k));
    // [begin, first) and [last, end) are ends; of the rest, [deep_first, deep_last) goes into y.
    std::int64_t first = begin > 1 ? begin : 1;
    std::int64_t last = end < block.cells[0] - 1 ? end : block.cells[0] - 1;
    if (last < first) first = last = begin;
    if (fold.whole) {
      if (!inner_row) first = last = begin;
      for (std::int64_t i = begin; i < first; ++i) cell(i, j, k);
      T* const to = y + block.element(0, j, k);
      inner(first, last, j, k, [&](std::int64_t i, T value) { blend_any(to + i, value, alpha, beta); });
      for (std::int64_t i = last; i < end; ++i) cell(i, j, k);
      return;
    }
    T* const out = z + j * z_stride[0] + k * z_stride[1];
    if (!inner_row) {
      for (std::int64_t i = begin; i < first; ++i) cell(i, j, k);
      wall_row(first, last, j, k);
      for (std::int64_t i = last; i < end; ++i) cell(i, j, k);
      return;
    }
    std::int64_t deep_first = last, deep_last = last;
    if (y && deep.has(1, j) && deep.has(2, k)) {
      const std::int64_t low = deep.margin[0], high = block.cells[0] - deep.margin[0];
      deep_first = first > low ? first : low;
      deep_last = last < high ? last : high;
      if (deep_last <= deep_first) deep_first = deep_last = last;
    }
    const auto into_z = [out](std::int64_t i, T value) { out[i] = value; };
    T* const to = y ? y + block.element(0, j, k) : nullptr;
    const bool folded = folds(j, k);
    const auto end_cells = [&](std::int64_t from, std::int64_t until) {
      for (std::int64_t i = from; i < until; ++i) {
        if (!folded) {
          into_z(i, end_value(i, j, k));
        } else if (i >= 0 && i < block.cells[0]) {
          const int side = ghost_side(i == 0 ? 0 : 1);
          blend_any(to + i, end_value(i, j, k) + fold.multiplier[0][side] * ghost(0, side, {i, j, k}), alpha,
                    beta);
        }
      }
    };
    end_cells(begin, first);
    inner(first, deep_first, j, k, into_z);
    if (deep_first < deep_last) {
      const T a = alpha, b = beta;
      if (b == T(0))
        inner(deep_first, deep_last, j, k,
              [to, a, b](std::int64_t i, T value) { blend<false>(to + i, value, a, b); });
      else
        inner(deep_first, deep_last, j, k,
              [to, a, b](std::int64_t i, T value) { blend<true>(to + i, value, a, b); });
    }
    inner(deep_last, last, j, k, into_z);
    end_cells(last, end);
  }
};

/// y <- alpha z + beta y over the owned cells that are not deep.
template <class T>
struct BlendShellBody {
  std::int64_t z_stride[2], y_stride[2];
  const T* z;
  T* y;
  T alpha, beta;
  DeepCells deep;

  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k) const {
    if (deep.has(i, j, k)) return;
    blend_any(y + i + j * y_stride[0] + k * y_stride[1], z[i + j * z_stride[0] + k * z_stride[1]], alpha,
              beta);
  }
  void row(std::int64_t begin, std::int64_t end, std::int64_t j, std::int64_t k) const {
    if (deep.has(1, j) && deep.has(2, k)) {  // its ends only
      const std::int64_t low = deep.margin[0], high = deep.cells[0] - deep.margin[0];
      if (low < high) {
        for (std::int64_t i = begin; i < end && i < low; ++i) cell(i, j, k);
        for (std::int64_t i = begin > high ? begin : high; i < end; ++i) cell(i, j, k);
        return;
      }
    }
    for (std::int64_t i = begin; i < end; ++i) cell(i, j, k);
  }
};

}  // namespace shardwise
