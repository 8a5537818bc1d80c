#pragma once
// Grids, fields and operators that the tests share. Random values are keyed by the global cell, so that every
// partition sees the same field.

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "grid/dense_oracle.hpp"
#include "shardwise/grid/grid_error.hpp"
#include "shardwise/grid/prepared_operator.hpp"
#include "shardwise/numeric/philox.hpp"

namespace shardwise::grid_test {

/// In (-1, 1).
inline double random_value(std::uint64_t cell, std::uint32_t what) {
  return 2 * philox(7, cell, 0x70000000u + what).uniform_double(0) - 1;
}

template <class T>
std::vector<T> random_cells(const CartesianGrid& grid, std::uint32_t what, double lo = -1, double hi = 1) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < grid.global_cell_count(); ++i)
    values.push_back(
        static_cast<T>(lo + (hi - lo) * 0.5 * (random_value(static_cast<std::uint64_t>(i), what) + 1)));
  return values;
}

template <class T>
Field<T> make_field(const Blocks& blocks, const std::vector<T>& values, const char* name) {
  Field<T> field(blocks, name);
  field.scatter_global(values);
  return field;
}

/// Letters: P periodic, D Dirichlet, N Neumann, R Robin, C conormal flux; with data other than 0.
inline Boundary boundary_of(char kind, double v) {
  switch (kind) {
    case 'P':
      return Boundary::periodic();
    case 'D':
      return Boundary::dirichlet(v);
    case 'N':
      return Boundary::neumann(v);
    case 'R':
      return Boundary::robin(2, 0.5, v);
    default:
      return Boundary::conormal_flux(v);
  }
}

/// A grid on awkward extents; `conditions` has two letters a dimension.
inline CartesianGrid make_grid(const std::vector<std::int64_t>& cells, const std::string& conditions,
                               int halo = 1) {
  GridSpec spec;
  const double lo[] = {0.1, -1.0 / 3, 0.2}, hi[] = {0.9, 1.0 / 3, 1.3};
  for (std::size_t d = 0; d < cells.size(); ++d) {
    spec.lo.push_back(lo[d]);
    spec.hi.push_back(hi[d]);
    spec.cells.push_back(cells[d]);
    spec.boundaries.push_back({boundary_of(conditions[2 * d], 0.7 + static_cast<double>(d)),
                               boundary_of(conditions[2 * d + 1], -0.4 - static_cast<double>(d))});
    spec.halo.push_back(halo);
  }
  return CartesianGrid(spec);
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

inline double max_abs(const std::vector<double>& a) {
  double m = 0;
  for (const double v : a) m = std::max(m, std::abs(v));
  return m;
}

template <class A, class B>
double max_difference(const A& a, const B& b) {
  double m = a.size() == b.size() ? 0 : 1e300;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double e = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    m = e <= m ? m : e;  // NaN counts
    if (std::isnan(e)) return 1e300;
  }
  return m;
}

template <class T>
double inner(const std::vector<T>& a, const std::vector<T>& b) {
  double s = 0;
  for (std::size_t i = 0; i < a.size(); ++i) s += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return s;
}
template <class T>
double norm(const std::vector<T>& a) {
  return std::sqrt(inner(a, a));
}

/// One leaf by name, with its dense twin.
struct LeafCase {
  std::string name;
  Operator op;
  Dense dense;
};

inline std::vector<LeafCase> leaf_cases(const CartesianGrid& g) {
  std::vector<LeafCase> cases;
  const std::vector<double> kappa = random_cells<double>(g, 90, 0.2, 3);
  cases.push_back({"laplacian", laplacian(g), dense_laplacian(g)});
  const int last = g.dims() - 1;
  for (const auto& [difference, name] :
       {std::pair{Difference::centred, "centred"}, std::pair{Difference::second, "second"},
        std::pair{Difference::upwind_minus, "upwind-"}, std::pair{Difference::upwind_plus, "upwind+"}}) {
    cases.push_back({name, derivative(g, last, difference), dense_difference(g, last, difference)});
  }
  if (last > 0) cases.push_back({"centred 0", derivative(g, 0), dense_difference(g, 0, Difference::centred)});
  const Coefficient scalar(g, kappa);
  for (const auto& [mean, name] :
       {std::pair{Mean::arithmetic, "arithmetic"}, std::pair{Mean::harmonic, "harmonic"},
        std::pair{Mean::geometric, "geometric"}})
    cases.push_back({std::string("diffusion ") + name, diffusion(scalar, mean),
                     dense_diffusion(g, kappa, 1, mean, WallCoefficient::Kind::extrapolate)});
  cases.push_back({"diffusion mirror", diffusion(scalar, Mean::harmonic, {WallCoefficient::Kind::mirror, {}}),
                   dense_diffusion(g, kappa, 1, Mean::harmonic, WallCoefficient::Kind::mirror)});
  WallCoefficient given{WallCoefficient::Kind::given, {}};
  for (auto& pair : given.values)
    for (auto& face : pair) face = {1.7};
  cases.push_back({"diffusion given", diffusion(scalar, Mean::arithmetic, given),
                   dense_diffusion(g, kappa, 1, Mean::arithmetic, WallCoefficient::Kind::given, 1.7)});
  std::vector<double> many;
  for (int d = 0; d < g.dims(); ++d) {
    const std::vector<double> one = random_cells<double>(g, 91 + static_cast<std::uint32_t>(d), 0.2, 3);
    many.insert(many.end(), one.begin(), one.end());
  }
  cases.push_back({"diffusion by dimension", diffusion(Coefficient(g, many, g.dims())),
                   dense_diffusion(g, many, g.dims(), Mean::arithmetic, WallCoefficient::Kind::extrapolate)});
  cases.push_back({"advection", advection(Coefficient(g, many, g.dims())), dense_advection(g, many)});
  cases.push_back({"scaling field", scaling(scalar), dense_diagonal(kappa)});
  return cases;
}

}  // namespace shardwise::grid_test
