// Gradients through a solve, as optimisers and inversions use them.

#include <gtest/gtest.h>

#include <cmath>

#include "grid/backends.hpp"
#include "shardwise/grid/multigrid.hpp"

namespace shardwise::grid_test {
namespace {

/// J(kappa) = |u - d|^2 / 2 with A(kappa) u = f, A = -div(kappa grad .).
class Misfit {
 public:
  Misfit(const Blocks& blocks, const std::vector<double>& kappa, Mean mean)
      : blocks_(blocks),
        grid_(blocks.grid()),
        a_(-diffusion(Coefficient(grid_, kappa), mean), blocks),
        f_(make_field(blocks, random_cells<double>(grid_, 5), "f")),
        d_(make_field(blocks, random_cells<double>(grid_, 6, -0.02, 0.02), "d")),
        u_(blocks, "u"),
        rhs_(blocks, "rhs"),
        work_(blocks, "work") {}

  double value(const std::vector<double>& kappa) {
    a_.update_coefficient(make_field(blocks_, kappa, "kappa"));
    // Walls with data: the lift depends on kappa too.
    a_.assemble_rhs(rhs_, f_);
    solve(u_, rhs_);
    std::vector<double> u = u_.gather(), d = d_.gather();
    double j = 0;
    for (std::size_t i = 0; i < u.size(); ++i) j += 0.5 * (u[i] - d[i]) * (u[i] - d[i]);
    return j;
  }
  /// dJ = -<lambda, dA u>, A lambda = u - d (A is self-adjoint, homogeneous walls).
  std::vector<double> gradient() {
    std::vector<double> u = u_.gather(), d = d_.gather();
    for (std::size_t i = 0; i < u.size(); ++i) u[i] -= d[i];
    Field<double> lambda(blocks_, "lambda");
    solve(lambda, make_field(blocks_, u, "residual"));
    a_.coefficient_gradient(work_, lambda, u_);
    std::vector<double> g = work_.gather();
    for (double& v : g) v = -v;
    return g;
  }

 private:
  void solve(Field<double>& x, const Field<double>& b) {
    SolverOptions<double> options;
    options.rtol = 1e-13;
    options.jacobi = true;
    x.fill(0);
    const SolverResult result = conjugate_gradient(a_, x, b, options);
    EXPECT_LT(result.true_residual, 1e-11 * norm2(b)) << result.reason();
  }

  Blocks blocks_;
  CartesianGrid grid_;
  PreparedOperator<double> a_;
  Field<double> f_, d_, u_, rhs_, work_;
};

/// Homogeneous conditions: with data on the walls the lift's own derivative would have to be added.
CartesianGrid homogeneous_grid(const std::vector<std::int64_t>& cells, const std::string& conditions) {
  GridSpec spec;
  const double hi[] = {0.8, 0.7, 1.1};
  for (std::size_t d = 0; d < cells.size(); ++d) {
    spec.lo.push_back(0.1);
    spec.hi.push_back(hi[d]);
    spec.cells.push_back(cells[d]);
    spec.boundaries.push_back({boundary_of(conditions[2 * d], 0), boundary_of(conditions[2 * d + 1], 0)});
  }
  return CartesianGrid(spec);
}

/// |J(kappa + h dk) - J(kappa) - h <g, dk>| falls with h^2.
TEST(GridAdjointState, TaylorRemaindersAreOfSecondOrderAndBitsOfThePartitionNone) {
  struct Problem {
    std::vector<std::int64_t> cells;
    std::string conditions;
    Mean mean;
  };
  for (const Problem& problem :
       {Problem{{12, 11}, "DNRD", Mean::arithmetic}, Problem{{12, 11}, "DDPP", Mean::harmonic},
        Problem{{8, 7, 9}, "DNPPRD", Mean::harmonic}}) {
    const CartesianGrid g = homogeneous_grid(problem.cells, problem.conditions);
    const std::vector<double> kappa = random_cells<double>(g, 90, 0.5, 2),
                              direction = random_cells<double>(g, 91);
    std::vector<double> first;
    for (const AnyBackend& p : cuts(g, {Serial{1}, Serial{2}, Serial{3}, Serial{0, {2, 2, 1}}})) {
      SCOPED_TRACE(problem.conditions + " " + p.text());
      Misfit misfit(Blocks(g, p), kappa, problem.mean);
      const double j0 = misfit.value(kappa);
      const std::vector<double> gradient = misfit.gradient();
      const double slope = inner(gradient, direction);
      EXPECT_GT(std::abs(slope), 1e-8 * j0) << "the direction sees nothing";
      if (first.empty()) first = gradient;
      EXPECT_TRUE(same_bits(gradient, first));
      std::vector<double> remainders, zeroth;
      for (const double h : {4e-2, 2e-2, 1e-2, 5e-3}) {
        std::vector<double> moved = kappa;
        for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += h * direction[i];
        const double j = misfit.value(moved);
        zeroth.push_back(std::abs(j - j0));
        remainders.push_back(std::abs(j - j0 - h * slope));
      }
      EXPECT_NEAR(std::log2(remainders[2] / remainders[3]), 2.0, 0.05)
          << remainders[0] << " " << remainders[1] << " " << remainders[2] << " " << remainders[3];
      // A control: without the gradient the remainder is of first order.
      EXPECT_NEAR(std::log2(zeroth[2] / zeroth[3]), 1.0, 0.2);
    }
  }
}

}  // namespace
}  // namespace shardwise::grid_test
