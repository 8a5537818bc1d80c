#pragma once
// Diagonals, transposes by gathering, and derivatives with respect to kappa.

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
};

/// What is done with the two ghosts of a row that lie beyond walls, or in a periodic dimension that is not
/// cut.
template <class T>
struct RowFold {
  bool active = false, wraps = false;
  T multiplier[2] = {T(0), T(0)};
};

/// z[p] = sum over owned cells q of (weight of q's row at p) x[q], for every padded cell p; x is 0 outside.
/// With a y (of x's layout), deep cells go there: y <- alpha z + beta y. Where rows are folded, deep cells
/// have no margin in dimension 0 and rows of them take in their ghosts at once, as FoldBody does.
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
  RowFold<T> fold;

  SW_HD bool owned(const std::int64_t (&p)[3]) const {
    for (int d = 0; d < 3; ++d)
      if (p[d] < 0 || p[d] >= block.cells[d]) return false;
    return true;
  }
  SW_HD WallReader<T> reader(const std::int64_t (&p)[3]) const {
    return {x, block.element(p[0], p[1], p[2]), &block, {p[0], p[1], p[2]}};
  }
  SW_HD T gathered(std::int64_t i, std::int64_t j, std::int64_t k) const {
    std::int64_t p[3] = {i, j, k};
    T value = 0;
    if (owned(p)) {
      const WallReader<T> r = reader(p);
      value = leaf.centre_weight(r) * r.centre();
    }
    for (int d = 0; d < N; ++d)
      for (int side = 0; side < 2; ++side) {
        // The neighbour on this side reads p through its opposite face.
        p[d] += side == 0 ? -1 : 1;
        if (owned(p)) {
          const WallReader<T> r = reader(p);
          value = std::fma(leaf.weight(r, d, 1 - side), r.centre(), value);
        }
        p[d] -= side == 0 ? -1 : 1;
      }
    return value;
  }
  /// Whether this row is folded here.
  SW_HD bool folds(std::int64_t j, std::int64_t k) const {
    return fold.active && deep.has(1, j) && deep.has(2, k);
  }
  /// The ghost that is added to an end of a row: to the low end (0) or the high one.
  SW_HD std::int64_t ghost_of(int end) const { return (end == 0) != fold.wraps ? -1 : block.cells[0]; }
  SW_HD T ghost_multiplier(int end) const { return fold.multiplier[(end == 0) != fold.wraps ? 0 : 1]; }
  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k) const {
    const bool folded = folds(j, k);
    if (folded && (i < 0 || i >= block.cells[0])) return;
    T value = gathered(i, j, k);
    if (folded && (i == 0 || i == block.cells[0] - 1)) {
      const int end = i == 0 ? 0 : 1;
      value = value + ghost_multiplier(end) * gathered(ghost_of(end), j, k);
    }
    if (y && deep.has(i, j, k))
      blend_any(y + block.element(i, j, k), value, alpha, beta);
    else
      z[i + j * z_stride[0] + k * z_stride[1]] = value;
  }

  /// Cells [begin, end) of a row around which every row is owned and reads nothing beyond a face: they need
  /// no questions, and get the same terms in the same order.
  template <class Store>
  void inner(std::int64_t begin, std::int64_t end, std::int64_t j, std::int64_t k, const Store& store) const {
    const std::int64_t row_at = block.element(0, j, k);
    const std::int64_t stride[3] = {1, block.stride[1], block.stride[2]};
#pragma GCC ivdep
    for (std::int64_t i = begin; i < end; ++i) {
      const PlainReader<T> centre{x, row_at + i, stride};
      T value = leaf.centre_weight(centre) * centre.centre();
      for (int d = 0; d < N; ++d)
        for (int side = 0; side < 2; ++side) {
          const PlainReader<T> r{x, centre.at + centre.offset(d, side), stride};
          value = std::fma(leaf.weight(r, d, 1 - side), r.centre(), value);
        }
      store(i, value);
    }
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
          const int end_of = i == 0 ? 0 : 1;
          const T ghost = end_value(ghost_of(end_of), j, k);
          blend_any(to + i, end_value(i, j, k) + ghost_multiplier(end_of) * ghost, alpha, beta);
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

/// What the derivatives of J = <w, Diffusion(kappa) u> with respect to kappa know of walls.
template <class T, int N, MeanKind mean>
struct KappaDerivative {
  StencilBlock<T> block;
  DiffusionCell<T, N, mean> leaf;
  const T* w;
  const T* u;
  std::int64_t first[3], global[3];
  T multiplier[3][2];  ///< of the whole grid's walls
  bool wall[3][2];
  int begin, end;  ///< dimensions

  /// Whether the cell with this index in d touches the whole grid's wall.
  SW_HD bool touches(int d, int side, std::int64_t index) const {
    return wall[d][side] && first[d] + index == (side == 0 ? 0 : global[d] - 1);
  }
  /// d kappa_wall / d kappa of the wall's cell (first) and of the one behind it.
  SW_HD void wall_slopes(int d, T k0, T k1, T& own, T& behind) const {
    own = T(1);
    behind = T(0);
    if (leaf.wall == WallKind::given) own = T(0);
    if (leaf.wall != WallKind::extrapolate || leaf.single[d]) return;
    if (!(std::fma(T(3), k0, -k1) * T(0.5) > T(0))) return;
    own = T(1.5);
    behind = T(-0.5);
  }
  /// w0 (u_ghost - u0) / spacing^2 of a wall cell at element `at`.
  SW_HD T wall_jump(int d, int side, std::int64_t at) const {
    const T ghost = multiplier[d][side] * u[at];
    return w[at] * (ghost - u[at]) * leaf.inverse_square[d];
  }
};

/// g <- alpha dJ/dkappa + 0: every cell sums over its own faces, and its share of a wall that it lies behind.
template <class T, int N, MeanKind mean>
struct KappaGradientBody {
  KappaDerivative<T, N, mean> j;
  T* g;
  T alpha;

  SW_HD void cell(std::int64_t i, std::int64_t jj, std::int64_t k) const {
    const WallReader<T> r{j.u, j.block.element(i, jj, k), &j.block, {i, jj, k}};
    T value = 0;
    for (int d = j.begin; d < N && d < j.end; ++d) {
      const T* const kappa = j.leaf.k[d];
      const T own = kappa[r.at];
      for (int side = 0; side < 2; ++side) {
        if (j.touches(d, side, r.index[d])) {
          T slope = 1, behind = 0;
          const T inner = j.leaf.single[d] ? own : kappa[r.at + r.offset(d, 1 - side)];
          j.wall_slopes(d, own, inner, slope, behind);
          value = std::fma(slope, j.wall_jump(d, side, r.at), value);
          continue;
        }
        const std::int64_t there = r.at + r.offset(d, side);
        const T jump = (j.w[r.at] - j.w[there]) * (j.u[there] - j.u[r.at]) * j.leaf.inverse_square[d];
        value = std::fma(face_mean_slope(mean, own, kappa[there]), jump, value);
        // The neighbour is the wall's cell, and this one lies behind it.
        if (j.touches(d, side, r.index[d] + (side == 0 ? -1 : 1))) {
          T slope = 1, behind = 0;
          j.wall_slopes(d, kappa[there], own, slope, behind);
          value = std::fma(behind, j.wall_jump(d, side, there), value);
        }
      }
    }
    g[r.at] = alpha * value;
  }
};

/// z[p] for every padded cell p: what the rows of this block's owned cells contribute to dJ/dkappa_p. Ghosts
/// then belong to neighbours.
template <class T, int N, MeanKind mean>
struct KappaScatterBody {
  KappaDerivative<T, N, mean> j;
  T* z;
  std::int64_t z_stride[2];

  SW_HD bool owned(const std::int64_t (&p)[3]) const {
    for (int d = 0; d < 3; ++d)
      if (p[d] < 0 || p[d] >= j.block.cells[d]) return false;
    return true;
  }
  /// Row q's flux through its face (d, side): w_q (u_there - u_q) / spacing^2.
  SW_HD T row_jump(const WallReader<T>& q, int d, int side) const {
    return j.w[q.at] * (q.value(d, side) - q.centre()) * j.leaf.inverse_square[d];
  }
  SW_HD void cell(std::int64_t i, std::int64_t jj, std::int64_t k) const {
    std::int64_t p[3] = {i, jj, k};
    T value = 0;
    const bool mine = owned(p);
    for (int d = j.begin; d < N && d < j.end; ++d) {
      const T* const kappa = j.leaf.k[d];
      for (int side = 0; side < 2; ++side) {
        if (mine) {  // its own row
          const WallReader<T> r{j.u, j.block.element(p[0], p[1], p[2]), &j.block, {p[0], p[1], p[2]}};
          T slope = 1, behind = 0;
          if (r.is_wall(d, side)) {
            const T inner = j.leaf.single[d] ? kappa[r.at] : kappa[r.at + r.offset(d, 1 - side)];
            j.wall_slopes(d, kappa[r.at], inner, slope, behind);
          } else {
            slope = face_mean_slope(mean, kappa[r.at], kappa[r.at + r.offset(d, side)]);
          }
          value = std::fma(slope, row_jump(r, d, side), value);
          // A periodic dimension inside one block: the row at the other end reads this cell too.
          if (r.at_face(d, side) && !j.block.face[d][side].plain && !r.is_wall(d, side)) {
            std::int64_t q[3] = {p[0], p[1], p[2]};
            q[d] = side == 0 ? j.block.cells[d] - 1 : 0;
            const WallReader<T> other{j.u, j.block.element(q[0], q[1], q[2]), &j.block, {q[0], q[1], q[2]}};
            value = std::fma(face_mean_slope(mean, kappa[r.at], kappa[other.at]),
                             row_jump(other, d, 1 - side), value);
          }
        }
        p[d] += side == 0 ? -1 : 1;
        if (owned(p)) {  // the row of the neighbour on this side
          const WallReader<T> q{j.u, j.block.element(p[0], p[1], p[2]), &j.block, {p[0], p[1], p[2]}};
          const std::int64_t here = q.at + q.offset(d, 1 - side);
          value = std::fma(face_mean_slope(mean, kappa[here], kappa[q.at]), row_jump(q, d, 1 - side), value);
          if (q.is_wall(d, side)) {  // and the wall that this cell lies behind
            T slope = 1, behind = 0;
            j.wall_slopes(d, kappa[q.at], kappa[here], slope, behind);
            value = std::fma(behind, row_jump(q, d, side), value);
          }
        }
        p[d] -= side == 0 ? -1 : 1;
      }
    }
    z[i + jj * z_stride[0] + k * z_stride[1]] = value;
  }
};

}  // namespace shardwise
