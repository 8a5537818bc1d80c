// Exact sums, CG, BiCGStab and time steps.

#include <gtest/gtest.h>

#include <cmath>

#include "grid/backends.hpp"
#include "shardwise/grid/grid_error.hpp"
#include "shardwise/grid/solvers.hpp"

namespace shardwise::grid_test {
namespace {

std::vector<Serial> some_partitions() {
  return {{1}, {2}, {3}, {5}, {0, {2, 2, 1}}, {0, {2, 1, 3}}};
}

/// Solves m u = f by elimination with pivots.
std::vector<double> dense_solve(Dense m, std::vector<double> f) {
  const std::int64_t n = m.n;
  for (std::int64_t c = 0; c < n; ++c) {
    std::int64_t pivot = c;
    for (std::int64_t r = c + 1; r < n; ++r)
      if (std::abs(m.at(r, c)) > std::abs(m.at(pivot, c))) pivot = r;
    for (std::int64_t k = 0; k < n; ++k) std::swap(m.at(c, k), m.at(pivot, k));
    std::swap(f[static_cast<std::size_t>(c)], f[static_cast<std::size_t>(pivot)]);
    for (std::int64_t r = c + 1; r < n; ++r) {
      const double factor = m.at(r, c) / m.at(c, c);
      if (factor == 0) continue;
      for (std::int64_t k = c; k < n; ++k) m.at(r, k) -= factor * m.at(c, k);
      f[static_cast<std::size_t>(r)] -= factor * f[static_cast<std::size_t>(c)];
    }
  }
  for (std::int64_t r = n - 1; r >= 0; --r) {
    auto& x = f[static_cast<std::size_t>(r)];
    for (std::int64_t k = r + 1; k < n; ++k) x -= m.at(r, k) * f[static_cast<std::size_t>(k)];
    x /= m.at(r, r);
  }
  return f;
}

TEST(GridSums, ExactOnesDoNotDependOnThePartition) {
  const CartesianGrid g = make_grid({13, 11, 17}, "DNPPRD");
  // Sizes from 1e-12 to 1e12 with both signs, so that any other order of additions shows.
  std::vector<double> a, b;
  for (std::int64_t i = 0; i < g.cell_count(); ++i) {
    const auto cell = static_cast<std::uint64_t>(i);
    a.push_back(random_value(cell, 1) * std::pow(10.0, 12 * random_value(cell, 2)));
    b.push_back(random_value(cell, 3));
  }
  double expected = 0;
  {
    long double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<long double>(a[i] * b[i]);
    expected = static_cast<double>(sum);
  }
  double first = 0, plain_first = 0;
  bool plain_differs = false;
  for (const AnyBackend& p : cuts(g, some_partitions())) {
    const Blocks blocks(g, p);
    const Field<double> x = make_field(blocks, a, "x"), y = make_field(blocks, b, "y");
    const double exact = dot(x, y), ordered = dot(x, y, Accumulation::ordered);
    if (first == 0) first = exact, plain_first = ordered;
    EXPECT_EQ(exact, first);
    EXPECT_NEAR(exact, expected, 1e-15 * std::abs(expected) + 1e-6);
    EXPECT_NEAR(ordered, expected, 1e-2 + 1e-10 * std::abs(expected));
    plain_differs = plain_differs || ordered != plain_first;
  }
  EXPECT_TRUE(plain_differs || (on_ranks() && processes() == 1))
      << "the data is too tame to tell orders apart";
}

TEST(GridSums, SeeWhatIsNotFinite) {
  const CartesianGrid g = make_grid({9, 8}, "DNPP");
  std::vector<double> a = random_cells<double>(g, 1);
  const Blocks blocks(g, cut(g, {2}));
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e300}) {
    std::vector<double> values = a;
    values[17] = bad;
    const Field<double> x = make_field(blocks, values, "x");
    EXPECT_TRUE(std::isnan(dot(x, x))) << bad;
  }
  const Field<double> zero = make_field(blocks, std::vector<double>(72, 0.0), "0");
  EXPECT_EQ(dot(zero, zero), 0);
  const Field<double> tiny = make_field(blocks, std::vector<double>(72, 1e-100), "tiny");
  EXPECT_NEAR(dot(tiny, tiny), 72e-200, 1e-213);
}

TEST(GridSolvers, CgSolvesAndHasOneHistoryForEveryPartition) {
  struct Problem {
    std::string conditions;
    bool diffusion;
  };
  for (const Problem& problem : {Problem{"DDDDDD", false}, Problem{"DNPPRD", false}, Problem{"RDDNDD", true}})
    for (const bool jacobi : {false, true}) {
      const CartesianGrid g = make_grid({7, 6, 10}, problem.conditions);
      std::vector<double> kappa;
      for (std::int64_t i = 0; i < g.cell_count(); ++i)
        kappa.push_back(std::pow(10.0, 2 * random_value(static_cast<std::uint64_t>(i), 4)));  // contrast 1e4
      const Operator l = problem.diffusion ? diffusion(Coefficient(g, kappa), Mean::harmonic) : laplacian(g);
      const Dense dense =
          problem.diffusion ? dense_diffusion(g, kappa, 1, Mean::harmonic, WallCoefficient::Kind::extrapolate)
                            : dense_laplacian(g);
      const std::vector<double> f = random_cells<double>(g, 5);
      std::vector<double> minus_f = f;
      for (double& v : minus_f) v = -v;
      const std::vector<double> exact = dense_solve(dense, minus_f);
      std::vector<double> history, solution;
      for (const AnyBackend& p : cuts(g, some_partitions())) {
        const Blocks blocks(g, p);
        PreparedOperator<double> a(-l, blocks);
        Field<double> u(blocks, "u");
        u.fill(0);
        SolverOptions<double> options;
        options.jacobi = jacobi;
        const SolverResult result = conjugate_gradient(a, u, make_field(blocks, f, "f"), options);
        EXPECT_TRUE(result.converged) << result.reason();
        EXPECT_LE(result.true_residual, 1e-8 * norm(f));
        const std::vector<double> got = u.gather();
        EXPECT_LT(max_difference(got, exact), 1e-7 * max_abs(exact));
        if (history.empty()) history = result.history, solution = got;
        EXPECT_TRUE(same_bits(result.history, history)) << p.text();
        EXPECT_TRUE(same_bits(got, solution)) << p.text();
      }
    }
}

TEST(GridSolvers, RefuseTheWrongSign) {
  const CartesianGrid g = make_grid({8, 8}, "DDDD");
  const Blocks blocks(g, cut(g, {2}));
  PreparedOperator<double> a(laplacian(g), blocks);
  Field<double> u(blocks, "u"), f = make_field(blocks, random_cells<double>(g, 5), "f");
  u.fill(0);
  try {
    conjugate_gradient(a, u, f);
    FAIL() << "not refused";
  } catch (const GridError& error) {
    EXPECT_EQ(error.code(), GridErrorCode::wrong_sign);
    EXPECT_NE(std::string(error.what()).find("(-L)"), std::string::npos) << error.what();
  }
}

TEST(GridSolvers, SingularProblems) {
  const CartesianGrid g = make_grid({9, 8}, "NNPP");
  const Blocks blocks(g, cut(g, {3}));
  PreparedOperator<double> a(-laplacian(g), blocks);
  std::vector<double> f = random_cells<double>(g, 5);
  Field<double> u(blocks, "u");
  u.fill(3);
  SolverOptions<double> options;
  options.null_space = NullSpace::refuse;
  try {
    conjugate_gradient(a, u, make_field(blocks, f, "f"), options);
    FAIL() << "not refused";
  } catch (const GridError& error) {
    EXPECT_EQ(error.code(), GridErrorCode::singular);
  }
  double mean = 0;
  for (const double v : f) mean += v / static_cast<double>(f.size());
  for (double& v : f) v -= mean;
  u.fill(3);
  const SolverResult result = conjugate_gradient(a, u, make_field(blocks, f, "f"), options);
  EXPECT_TRUE(result.converged) << result.reason();
  double sum = 0;
  for (const double v : u.gather()) sum += v;
  EXPECT_NEAR(sum, 0, 1e-10);
}

TEST(GridSolvers, SayThatTheyStagnate) {
  const CartesianGrid g = make_grid({12, 10, 8}, "DDDDDD");
  const Blocks blocks(g, cut(g, {2}));
  PreparedOperator<float> a(-laplacian(g), blocks);
  Field<float> u(blocks, "u");
  u.fill(0);
  SolverOptions<float> options;
  options.rtol = 1e-14;  // far below what float reaches
  options.max_iterations = 2000;
  const SolverResult result =
      conjugate_gradient(a, u, make_field(blocks, random_cells<float>(g, 5), "f"), options);
  EXPECT_FALSE(result.converged);
  EXPECT_TRUE(result.stagnated) << result.reason();
  EXPECT_LT(result.iterations, 2000);
  EXPECT_GT(result.true_residual, result.tolerance);
}

TEST(GridSolvers, BiCgStabSolvesAdvectionDiffusion) {
  const CartesianGrid g = make_grid({8, 7, 9}, "DDPPDN");
  std::vector<double> v = random_cells<double>(g, 8), many;
  for (int d = 0; d < 3; ++d) many.insert(many.end(), v.begin(), v.end());
  const Operator op = advection(Coefficient(g, many, 3)) - laplacian(g);
  const Dense dense = combination(1, dense_advection(g, many), -1, dense_laplacian(g));
  const std::vector<double> f = random_cells<double>(g, 5), exact = dense_solve(dense, f);
  std::vector<double> first;
  for (const int parts : {1, 3, 5}) {
    const Blocks blocks(g, cut(g, {parts}));
    PreparedOperator<double> a(op, blocks);
    Field<double> u(blocks, "u");
    u.fill(0);
    const SolverResult result = bicgstab(a, u, make_field(blocks, f, "f"));
    EXPECT_TRUE(result.converged) << result.reason();
    EXPECT_LT(max_difference(u.gather(), exact), 1e-6 * max_abs(exact));
    if (first.empty()) first = u.gather();
    EXPECT_TRUE(same_bits(u.gather(), first));
  }
}

TEST(GridSteppers, ReachTheSteadyState) {
  const CartesianGrid g = make_grid({8, 7}, "DDDN");
  const Blocks blocks(g, cut(g, {3}));
  PreparedOperator<double> l(laplacian(g), blocks), minus(-laplacian(g), blocks);
  // -L u = b: the steady state of u' = L u + b.
  Field<double> u(blocks, "u"), b(blocks, "b"), steady(blocks, "steady");
  l.boundary_rhs(b);
  steady.fill(0);
  SolverOptions<double> options;
  options.rtol = 1e-12;
  ASSERT_TRUE(conjugate_gradient(minus, steady, b, options).converged);
  for (const TimeScheme scheme : {TimeScheme::euler, TimeScheme::ssp_rk3, TimeScheme::rk4}) {
    u.fill(0);
    TimeStepper<double> stepper(l, scheme);
    const double dt = 0.9 * largest_step(scheme, diffusion_radius(g, 1));
    for (int step = 0; step < 4000; ++step) stepper.step(u, step * dt, dt);
    EXPECT_LT(max_difference(u.gather(), steady.gather()), 1e-8);
  }
}

TEST(GridSteppers, HaveTheirOrder) {
  const CartesianGrid g = make_grid({6}, "DN");
  const Blocks blocks(g, cut(g, {2}));
  PreparedOperator<double> l(laplacian(g), blocks);
  const auto source = [](double t, Field<double>& s) {
    s.set([t](double x, double, double) { return std::sin(40 * t) * x * 100; });
  };
  const auto run = [&](TimeScheme scheme, int steps) {
    Field<double> u = make_field(blocks, random_cells<double>(g, 1), "u");
    TimeStepper<double> stepper(l, scheme, source);
    for (int s = 0; s < steps; ++s) stepper.step(u, 0.05 * s / steps, 0.05 / steps);
    return u.gather();
  };
  const std::vector<double> fine = run(TimeScheme::rk4, 4096);
  for (const auto& [scheme, order, steps] :
       {std::tuple{TimeScheme::euler, 1.0, 256}, std::tuple{TimeScheme::ssp_rk3, 3.0, 64},
        std::tuple{TimeScheme::rk4, 4.0, 64}}) {
    const double coarse = max_difference(run(scheme, steps), fine),
                 half = max_difference(run(scheme, 2 * steps), fine);
    EXPECT_NEAR(std::log2(coarse / half), order, 0.2) << coarse << " " << half;
  }
}

}  // namespace
}  // namespace shardwise::grid_test
