// Stencils and solutions against calculus: eigenpairs, manufactured solutions under every kind of wall,
// constants and polynomials.

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "grid/backends.hpp"
#include "shardwise/grid/multigrid.hpp"

namespace shardwise::grid_test {
namespace {

constexpr double pi = std::numbers::pi;

/// One dimension's eigenvector of the second difference, without data on the walls, and its eigenvalue.
struct Mode {
  std::function<double(std::int64_t)> value;
  double eigenvalue;
};

Mode mode(const std::string& walls, std::int64_t n, double spacing, int k) {
  const double count = static_cast<double>(n);
  const auto at = [](std::int64_t i) { return static_cast<double>(i) + 0.5; };
  const auto square = [&](double angle) {
    return -4 / (spacing * spacing) * std::sin(angle) * std::sin(angle);
  };
  if (walls == "PP")
    return {[=](std::int64_t i) { return std::sin(2 * pi * k * at(i) / count + 0.4); },
            square(pi * k / count)};
  if (walls == "DD")
    return {[=](std::int64_t i) { return std::sin(pi * k * at(i) / count); }, square(pi * k / (2 * count))};
  if (walls == "NN")
    return {[=](std::int64_t i) { return std::cos(pi * k * at(i) / count); }, square(pi * k / (2 * count))};
  return {[=](std::int64_t i) { return std::sin(pi * (2 * k - 1) * at(i) / (2 * count)); },
          square(pi * (2 * k - 1) / (4 * count))};
}

TEST(GridOrder, TheLaplacianHasItsEigenpairs) {
  const std::vector<std::string> kinds{"PP", "DD", "NN", "DN"};
  const std::int64_t sizes[] = {12, 9, 7};
  const double norm_tolerance = 1e-12;
  for (int dims = 1; dims <= 3; ++dims)
    for (std::size_t first = 0; first < kinds.size(); ++first)
      for (int k = 1; k <= 3; ++k) {
        std::string conditions;
        std::vector<std::int64_t> cells;
        for (int d = 0; d < dims; ++d) {
          conditions += kinds[(first + static_cast<std::size_t>(d)) % kinds.size()];
          cells.push_back(sizes[d]);
        }
        const CartesianGrid g = make_grid(cells, conditions);
        std::vector<Mode> modes;
        double eigenvalue = 0, size = 0;
        for (int d = 0; d < dims; ++d) {
          modes.push_back(
              mode(conditions.substr(static_cast<std::size_t>(2 * d), 2), g.cells(d), g.spacing(d), k + d));
          eigenvalue += modes.back().eigenvalue;
          size += 4 * g.inverse_square(d);
        }
        std::vector<double> u, expected;
        for (std::int64_t c = 0; c < g.cell_count(); ++c) {
          const std::int64_t index[] = {c % g.cells(0), c / g.cells(0) % g.cells(1),
                                        c / (g.cells(0) * g.cells(1))};
          double v = 1;
          for (int d = 0; d < dims; ++d) v *= modes[static_cast<std::size_t>(d)].value(index[d]);
          u.push_back(v);
          expected.push_back(eigenvalue * v);
        }
        for (const int parts : {1, 3}) {
          const Blocks blocks(g, cut(g, {parts}));
          PreparedOperator<double> a(laplacian(g), blocks);
          Field<double> y(blocks, "y");
          a.apply(y, make_field(blocks, u, "u"));
          EXPECT_LE(max_difference(y.gather(), expected), norm_tolerance * size) << conditions << " " << k;
        }
      }
}

/// u = prod sin(a x + b), kappa = 1 + 0.3 sum sin(c x + e): smooth, nothing vanishes on a wall.
struct Smooth {
  int dims;
  double a[3] = {2.1, 1.7, 1.3}, b[3] = {0.3, 0.9, 0.5}, c[3] = {1.9, 1.4, 1.1}, e[3] = {0.2, 0.6, 1.0};
  double u(const double* x) const {
    double v = 1;
    for (int d = 0; d < dims; ++d) v *= std::sin(a[d] * x[d] + b[d]);
    return v;
  }
  double slope(const double* x, int along) const {
    double v = 1;
    for (int d = 0; d < dims; ++d)
      v *= d == along ? a[d] * std::cos(a[d] * x[d] + b[d]) : std::sin(a[d] * x[d] + b[d]);
    return v;
  }
  double kappa(const double* x) const {
    double v = 1;
    for (int d = 0; d < dims; ++d) v += 0.3 * std::sin(c[d] * x[d] + e[d]);
    return v;
  }
  /// div(k grad u), k = kappa or 1.
  double divergence(const double* x, bool variable) const {
    double v = 0;
    const double k = variable ? kappa(x) : 1;
    for (int d = 0; d < dims; ++d) {
      v -= k * a[d] * a[d] * u(x);
      if (variable) v += 0.3 * c[d] * std::cos(c[d] * x[d] + e[d]) * slope(x, d);
    }
    return v;
  }
};

/// The centre of cell c of a grid, or of a face where `face` is set.
void place(const CartesianGrid& g, std::int64_t c, double (&x)[3]) {
  const std::int64_t index[] = {c % g.cells(0), c / g.cells(0) % g.cells(1), c / (g.cells(0) * g.cells(1))};
  for (int d = 0; d < g.dims(); ++d) x[d] = g.centre(d, index[d]);
}

template <class F>
std::vector<double> on_face(const CartesianGrid& g, int d, int side, F&& f) {
  std::vector<double> values;
  for (std::int64_t c = 0; c < g.cell_count(); ++c) {
    const std::int64_t index[] = {c % g.cells(0), c / g.cells(0) % g.cells(1), c / (g.cells(0) * g.cells(1))};
    if (index[d] != 0) continue;
    double x[3] = {0, 0, 0};
    place(g, c, x);
    x[d] = side == 0 ? g.lo(d) : g.hi(d);
    values.push_back(f(x));
  }
  return values;
}

struct Setup {
  int dims = 1;
  std::string walls;  ///< two letters, the same in every dimension
  bool variable = false;
  Mean mean = Mean::arithmetic;
  WallCoefficient::Kind wall = WallCoefficient::Kind::extrapolate;
};

/// The largest error of the discrete solution on n cells a dimension.
double worst_error(const Setup& setup, std::int64_t n) {
  const Smooth s{setup.dims};
  GridSpec spec;
  const double lo[] = {0.1, -1.0 / 3, 0.2}, hi[] = {0.9, 1.0 / 3, 1.3};
  for (int d = 0; d < setup.dims; ++d) {
    spec.lo.push_back(lo[d]);
    spec.hi.push_back(hi[d]);
    spec.cells.push_back(n);
  }
  const CartesianGrid plain(spec);
  spec.boundaries.resize(static_cast<std::size_t>(setup.dims));
  WallCoefficient wall{setup.wall, {}};
  for (int d = 0; d < setup.dims; ++d)
    for (int side = 0; side < 2; ++side) {
      const double outward = side == 0 ? -1 : 1;
      const auto values = [&](auto&& f) { return on_face(plain, d, side, f); };
      Boundary b;
      switch (setup.walls[static_cast<std::size_t>(side)]) {
        case 'D':
          b = Boundary::dirichlet().with_values(values([&](const double* x) { return s.u(x); }));
          break;
        case 'N':
          b = Boundary::neumann().with_values(
              values([&](const double* x) { return outward * s.slope(x, d); }));
          break;
        case 'R':
          b = Boundary::robin(2, 0.5, 0).with_values(
              values([&](const double* x) { return 2 * s.u(x) + 0.5 * outward * s.slope(x, d); }));
          break;
        default:
          b = Boundary::conormal_flux().with_values(
              values([&](const double* x) { return s.kappa(x) * outward * s.slope(x, d); }));
      }
      (side == 0 ? spec.boundaries[static_cast<std::size_t>(d)].low
                 : spec.boundaries[static_cast<std::size_t>(d)].high) = b;
      if (setup.wall == WallCoefficient::Kind::given)
        wall.values[static_cast<std::size_t>(d)][static_cast<std::size_t>(side)] =
            values([&](const double* x) { return s.kappa(x); });
    }
  const CartesianGrid g(spec);
  std::vector<double> kappa, f, exact;
  for (std::int64_t c = 0; c < g.cell_count(); ++c) {
    double x[3] = {0, 0, 0};
    place(g, c, x);
    kappa.push_back(s.kappa(x));
    f.push_back(-s.divergence(x, setup.variable));
    exact.push_back(s.u(x));
  }
  const Operator l = setup.variable ? diffusion(Coefficient(g, kappa), setup.mean, wall) : laplacian(g);
  const Blocks blocks(g, cut(g, {3}));
  PreparedOperator<double> a(-l, blocks);
  Field<double> u(blocks, "u"), rhs(blocks, "rhs");
  u.fill(0);
  a.assemble_rhs(rhs, make_field(blocks, f, "f"));
  SolverOptions<double> options;
  options.rtol = 1e-11;
  Multigrid<double> multigrid(-l, blocks);
  options.preconditioner = multigrid.preconditioner();
  const SolverResult result = conjugate_gradient(a, u, rhs, options);
  EXPECT_TRUE(result.converged) << result.reason() << " " << result.true_residual;
  return max_difference(u.gather(), exact);
}

double order(const Setup& setup) {
  const std::int64_t n = setup.dims == 3 ? 24 : 64;
  return std::log2(worst_error(setup, n) / worst_error(setup, 2 * n));
}

TEST(GridOrder, PoissonIsOfSecondOrderUnderEveryWall) {
  for (int dims = 1; dims <= 3; ++dims)
    for (const std::string walls : {"DN", "DD", "RR", "NR"})
      if (thorough() || walls == "DN" || dims == 2) {
        EXPECT_NEAR(order({dims, walls}), 2.0, 0.1) << walls << " " << dims;
      }
}

TEST(GridOrder, DiffusionIsOfSecondOrderWhereTheWallCoefficientIs) {
  for (const Mean mean : {Mean::harmonic, Mean::arithmetic})
    for (int dims = 1; dims <= 2; ++dims) {
      if (!thorough() && mean == Mean::arithmetic) continue;
      for (const auto kind : {WallCoefficient::Kind::extrapolate, WallCoefficient::Kind::given})
        for (const std::string walls : {"DD", "DN", "RD", "NR"})
          EXPECT_NEAR(order({dims, walls, true, mean, kind}), 2.0, 0.15) << walls << " " << dims;
      // The flux needs no coefficient at the wall.
      EXPECT_NEAR(order({dims, "DC", true, mean, WallCoefficient::Kind::mirror}), 2.0, 0.15) << dims;
      EXPECT_NEAR(order({dims, "DD", true, mean, WallCoefficient::Kind::mirror}), 2.0, 0.15) << dims;
      // The trap: a mirrored coefficient where something flows through the wall.
      EXPECT_NEAR(order({dims, "DN", true, mean, WallCoefficient::Kind::mirror}), 1.0, 0.15) << dims;
    }
}

TEST(GridOrder, ConstantsAndSums) {
  for (const std::string conditions : {"NNPP", "PPPP", "NNNN"}) {
    const CartesianGrid g = make_grid({9, 8}, conditions);
    double size = 0;
    for (int d = 0; d < 2; ++d) size += 4 * g.inverse_square(d);
    const Blocks blocks(g, cut(g, {3}));
    Field<double> ones(blocks, "1"), out(blocks, "out");
    ones.fill(1);
    for (const Mean mean : {Mean::arithmetic, Mean::harmonic, Mean::geometric}) {
      PreparedOperator<double> a(diffusion(Coefficient(g, random_cells<double>(g, 90, 0.2, 3)), mean),
                                 blocks);
      a.apply(out, ones);
      EXPECT_LE(max_abs(out.gather()), 1e-13 * size) << "annihilates constants";
      a.apply_adjoint(out, ones);
      EXPECT_LE(max_abs(out.gather()), 1e-12 * size) << "column sums";
      // A constant coefficient is a factor.
      PreparedOperator<double> b(diffusion(Coefficient::constant(g, 1.7), mean), blocks),
          l(1.7 * laplacian(g), blocks);
      const Field<double> x = make_field(blocks, random_cells<double>(g, 1), "x");
      Field<double> expected(blocks, "expected");
      b.apply(out, x);
      l.apply(expected, x);
      EXPECT_LE(max_difference(out.gather(), expected.gather()), 1e-14 * 1.7 * size);
    }
  }
}

TEST(GridOrder, NothingComesOfNothing) {
  for (const std::string conditions : {"DNPP", "RDNR", "PPCD"}) {
    const CartesianGrid g = make_grid({7, 6}, conditions);
    const Blocks blocks(g, cut(g, {2}));
    Field<double> zero(blocks, "0"), out(blocks, "out");
    zero.fill(0);
    for (const LeafCase& c : leaf_cases(g)) {
      PreparedOperator<double> a(c.op, blocks);
      a.apply(out, zero);
      EXPECT_EQ(max_abs(out.gather()), 0) << c.name;
      a.apply_adjoint(out, zero);
      EXPECT_EQ(max_abs(out.gather()), 0) << c.name;
    }
  }
}

TEST(GridOrder, DifferencesAreExactOnPolynomials) {
  const CartesianGrid g = make_grid({9, 8, 7}, "DDDDDD");
  const Blocks blocks(g, cut(g, {2}));
  Field<double> u(blocks, "u"), out(blocks, "out");
  const auto inside = [&](const std::vector<double>& values, int d, auto&& expected) {
    for (std::int64_t c = 0; c < g.cell_count(); ++c) {
      const std::int64_t index[] = {c % 9, c / 9 % 8, c / 72};
      if (index[d] == 0 || index[d] == g.cells(d) - 1) continue;
      double x[3] = {0, 0, 0};
      place(g, c, x);
      EXPECT_NEAR(values[static_cast<std::size_t>(c)], expected(x), 1e-12 * 4 * g.inverse_square(d));
    }
  };
  for (int d = 0; d < 3; ++d) {
    u.set([d](double x, double y, double z) {
      return 3 - 2 * std::array{x, y, z}[static_cast<std::size_t>(d)];
    });
    PreparedOperator<double> first(derivative(g, d), blocks),
        second(derivative(g, d, Difference::second), blocks);
    first.apply(out, u);
    inside(out.gather(), d, [](const double*) { return -2.0; });
    u.set([d](double x, double y, double z) {
      const double v = std::array{x, y, z}[static_cast<std::size_t>(d)];
      return 1 + v - 1.5 * v * v;
    });
    second.apply(out, u);
    inside(out.gather(), d, [](const double*) { return -3.0; });
  }
}

TEST(GridOrder, DifferencesOfDifferencesAreTheWideStencil) {
  const CartesianGrid g = make_grid({9, 8}, "PPPP");
  const std::vector<double> x = random_cells<double>(g, 1);
  std::vector<double> wide(x.size());
  for (std::int64_t j = 0; j < 8; ++j)
    for (std::int64_t i = 0; i < 9; ++i) {
      const auto at = [&](std::int64_t a, std::int64_t b) {
        return x[static_cast<std::size_t>((a + 9) % 9 + 9 * ((b + 8) % 8))];
      };
      wide[static_cast<std::size_t>(i + 9 * j)] =
          (at(i - 2, j) - 2 * at(i, j) + at(i + 2, j)) * g.inverse_square(0) / 4 +
          (at(i, j - 2) - 2 * at(i, j) + at(i, j + 2)) * g.inverse_square(1) / 4;
    }
  const Operator dx = derivative(g, 0), dy = derivative(g, 1);
  for (const AnyBackend& p : cuts(g, {Serial{1}, Serial{3}, Serial{0, {2, 2, 1}}})) {
    const Blocks blocks(g, p);
    PreparedOperator<double> composed(compose(dx, dx) + compose(dy, dy), blocks),
        compact(laplacian(g), blocks);
    const Field<double> field = make_field(blocks, x, "x");
    Field<double> out(blocks, "out");
    composed.apply(out, field);
    EXPECT_LE(max_difference(out.gather(), wide), 1e-13 * 4 * (g.inverse_square(0) + g.inverse_square(1)));
    compact.apply(out, field);
    EXPECT_GT(max_difference(out.gather(), wide), 1);
  }
}

}  // namespace
}  // namespace shardwise::grid_test
