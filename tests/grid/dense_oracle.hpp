#pragma once
// The operators as dense matrices, from the formulas of the discretisation with walls as changes of rows: no
// padded arrays, no readers, nothing of the library but the grid itself. Small grids only.

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "shardwise/grid/operator.hpp"

namespace shardwise::grid_test {

struct Dense {
  std::int64_t n = 0;
  std::vector<double> a;     ///< row-major
  std::vector<double> lift;  ///< b of L_full
  explicit Dense(std::int64_t size)
      : n(size), a(static_cast<std::size_t>(size * size)), lift(static_cast<std::size_t>(size)) {}
  double& at(std::int64_t r, std::int64_t c) { return a[static_cast<std::size_t>(r * n + c)]; }
  double at(std::int64_t r, std::int64_t c) const { return a[static_cast<std::size_t>(r * n + c)]; }
};

inline std::vector<double> multiply(const Dense& m, const std::vector<double>& x, bool transposed = false) {
  std::vector<double> y(static_cast<std::size_t>(m.n));
  for (std::int64_t r = 0; r < m.n; ++r)
    for (std::int64_t c = 0; c < m.n; ++c)
      if (transposed)
        y[static_cast<std::size_t>(c)] += m.at(r, c) * x[static_cast<std::size_t>(r)];
      else
        y[static_cast<std::size_t>(r)] += m.at(r, c) * x[static_cast<std::size_t>(c)];
  return y;
}

/// Beyond the face of `cell` in dimension d: a ghost = s u[cell'] + c.
struct Beyond {
  std::int64_t cell;
  double s, c;
  bool wall;
  double conormal;  ///< flux of a conormal wall
};

inline std::array<std::int64_t, 3> split_index(const CartesianGrid& g, std::int64_t i) {
  return {i % g.cells(0), i / g.cells(0) % g.cells(1), i / (g.cells(0) * g.cells(1))};
}

inline std::int64_t join_index(const CartesianGrid& g, const std::array<std::int64_t, 3>& p) {
  return p[0] + g.cells(0) * (p[1] + g.cells(1) * p[2]);
}

inline Beyond beyond(const CartesianGrid& g, std::int64_t cell, int d, int side) {
  std::array<std::int64_t, 3> p = split_index(g, cell);
  auto& i = p[static_cast<std::size_t>(d)];
  const bool at_wall = i == (side == 0 ? 0 : g.cells(d) - 1);
  const Boundary& b = g.boundary(d, side);
  if (!at_wall || b.kind == BoundaryKind::periodic) {
    i = (i + (side == 0 ? -1 : 1) + g.cells(d)) % g.cells(d);
    return {join_index(g, p), 1, 0, false, 0};
  }
  double v = b.value;
  if (b.values) {
    std::array<std::int64_t, 2> f{};
    int k = 0;
    std::int64_t first = 0;
    for (int e = 0; e < 3; ++e) {
      if (e == d) continue;
      if (k == 0) first = g.cells(e);
      f[static_cast<std::size_t>(k++)] = p[static_cast<std::size_t>(e)];
    }
    v = (*b.values)[static_cast<std::size_t>(f[0] + first * f[1])];
  }
  const double h = g.spacing(d);
  switch (b.kind) {
    case BoundaryKind::dirichlet:
      return {cell, -1, 2 * v, true, 0};
    case BoundaryKind::neumann:
      return {cell, 1, h * v, true, 0};
    case BoundaryKind::robin:
      return {cell, (b.b / h - b.a / 2) / (b.b / h + b.a / 2), v / (b.b / h + b.a / 2), true, 0};
    default:
      return {cell, 1, 0, true, v};
  }
}

/// Adds w x (value beyond the face) to a row.
inline void add(Dense& m, std::int64_t row, const Beyond& there, double w) {
  m.at(row, there.cell) += w * there.s;
  m.lift[static_cast<std::size_t>(row)] += w * there.c;
}

inline Dense dense_laplacian(const CartesianGrid& g) {
  Dense m(g.cell_count());
  for (std::int64_t r = 0; r < m.n; ++r)
    for (int d = 0; d < g.dims(); ++d) {
      const double w = 1 / (g.spacing(d) * g.spacing(d));
      for (int side = 0; side < 2; ++side) {
        const Beyond there = beyond(g, r, d, side);
        add(m, r, there, w);
        m.lift[static_cast<std::size_t>(r)] += there.conormal / g.spacing(d);
      }
      m.at(r, r) -= 2 * w;
    }
  return m;
}

inline Dense dense_difference(const CartesianGrid& g, int d, Difference kind) {
  Dense m(g.cell_count());
  const double h = g.spacing(d);
  for (std::int64_t r = 0; r < m.n; ++r) {
    const Beyond low = beyond(g, r, d, 0), high = beyond(g, r, d, 1);
    switch (kind) {
      case Difference::centred:
        add(m, r, low, -0.5 / h);
        add(m, r, high, 0.5 / h);
        break;
      case Difference::second:
        add(m, r, low, 1 / (h * h));
        add(m, r, high, 1 / (h * h));
        m.at(r, r) -= 2 / (h * h);
        break;
      case Difference::upwind_minus:
        add(m, r, low, -1 / h);
        m.at(r, r) += 1 / h;
        break;
      case Difference::upwind_plus:
        add(m, r, high, 1 / h);
        m.at(r, r) -= 1 / h;
        break;
    }
  }
  return m;
}

inline double dense_mean(Mean mean, double a, double b) {
  return mean == Mean::arithmetic ? (a + b) / 2
         : mean == Mean::harmonic ? 2 * a * b / (a + b)
                                  : std::sqrt(a * b);
}

/// kappa[component][cell]; wall values by the rule, or `given(d, side)`.
inline Dense dense_diffusion(const CartesianGrid& g, const std::vector<double>& kappa, int components,
                             Mean mean, WallCoefficient::Kind wall, double given = 0) {
  Dense m(g.cell_count());
  for (std::int64_t r = 0; r < m.n; ++r)
    for (int d = 0; d < g.dims(); ++d) {
      const double* const k = kappa.data() + (components > 1 ? d : 0) * m.n;
      const double w = 1 / (g.spacing(d) * g.spacing(d));
      for (int side = 0; side < 2; ++side) {
        const Beyond there = beyond(g, r, d, side);
        double face = dense_mean(mean, k[r], k[there.cell]);
        if (there.wall) {
          face = k[r];
          if (wall == WallCoefficient::Kind::given) face = given;
          if (wall == WallCoefficient::Kind::extrapolate && g.cells(d) > 1) {
            const double value = (3 * k[r] - k[beyond(g, r, d, 1 - side).cell]) / 2;
            if (value > 0) face = value;
          }
        }
        add(m, r, there, face * w);
        m.at(r, r) -= face * w;
        m.lift[static_cast<std::size_t>(r)] += there.conormal / g.spacing(d);
      }
    }
  return m;
}

inline Dense dense_advection(const CartesianGrid& g, const std::vector<double>& v) {
  Dense m(g.cell_count());
  for (int d = 0; d < g.dims(); ++d) {
    const Dense one = dense_difference(g, d, Difference::centred);
    for (std::int64_t r = 0; r < m.n; ++r) {
      const double s = v[static_cast<std::size_t>(d * m.n + r)];
      for (std::int64_t c = 0; c < m.n; ++c) m.at(r, c) += s * one.at(r, c);
      m.lift[static_cast<std::size_t>(r)] += s * one.lift[static_cast<std::size_t>(r)];
    }
  }
  return m;
}

inline Dense product(const Dense& a, const Dense& b) {
  Dense m(a.n);
  for (std::int64_t r = 0; r < a.n; ++r)
    for (std::int64_t k = 0; k < a.n; ++k) {
      const double f = a.at(r, k);
      if (f == 0) continue;
      for (std::int64_t c = 0; c < a.n; ++c) m.at(r, c) += f * b.at(k, c);
      m.lift[static_cast<std::size_t>(r)] += f * b.lift[static_cast<std::size_t>(k)];
    }
  for (std::size_t i = 0; i < m.lift.size(); ++i) m.lift[i] += a.lift[i];
  return m;
}

inline Dense combination(double fa, const Dense& a, double fb, const Dense& b) {
  Dense m(a.n);
  for (std::size_t i = 0; i < m.a.size(); ++i) m.a[i] = fa * a.a[i] + fb * b.a[i];
  for (std::size_t i = 0; i < m.lift.size(); ++i) m.lift[i] = fa * a.lift[i] + fb * b.lift[i];
  return m;
}

inline Dense transpose(const Dense& a) {
  Dense m(a.n);
  for (std::int64_t r = 0; r < a.n; ++r)
    for (std::int64_t c = 0; c < a.n; ++c) m.at(c, r) = a.at(r, c);
  return m;
}

inline Dense dense_diagonal(const std::vector<double>& values) {
  Dense m(static_cast<std::int64_t>(values.size()));
  for (std::int64_t i = 0; i < m.n; ++i) m.at(i, i) = values[static_cast<std::size_t>(i)];
  return m;
}

}  // namespace shardwise::grid_test
