#pragma once
// Derivatives with respect to kappa.

#include "grid/leaf_kernel.hpp"

namespace shardwise {

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
