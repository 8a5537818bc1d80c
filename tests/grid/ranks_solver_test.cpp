// Solvers on ranks: every iterate has the bits of one process.

#include <gtest/gtest.h>

#include "grid/rank_cases.hpp"
#include "shardwise/grid/multigrid.hpp"

namespace shardwise::grid_test {
namespace {

struct Solved {
  std::vector<double> u, history;
  std::int64_t iterations = 0;
  bool converged = false;
};

enum class Method { plain, jacobi, multigrid, bicgstab };

Solved solve(const Operator& op, const Blocks& blocks, Method method, Accumulation accumulation,
             std::int64_t most = 1000) {
  const CartesianGrid& g = blocks.grid();
  PreparedOperator<double> a(op, blocks);
  Field<double> u(blocks, "u"), f = make_field(blocks, random_cells<double>(g, 1), "f");
  u.fill(0);
  SolverOptions<double> options;
  options.accumulation = accumulation;
  options.max_iterations = most;
  options.jacobi = method == Method::jacobi;
  std::atomic<bool> cancel{false};
  options.cancel = &cancel;
  std::optional<Multigrid<double>> multigrid;
  if (method == Method::multigrid) {
    multigrid.emplace(op, blocks);
    options.preconditioner = multigrid->preconditioner();
  }
  const SolverResult result =
      method == Method::bicgstab ? bicgstab(a, u, f, options) : conjugate_gradient(a, u, f, options);
  return {u.gather(), result.history, result.iterations, result.converged};
}

void check(const Operator& op, const CartesianGrid& g, Method method) {
  const Solved one = solve(op, Blocks(g, Serial{1}), method, Accumulation::exact);
  EXPECT_TRUE(one.converged);
  EXPECT_GT(one.iterations, 2);
  for (const Mpi& backend : rank_backends(g.dims(), false)) {
    SCOPED_TRACE(op.text() + " " + g.shape_text() + " " + text_of(backend));
    const Solved got = solve(op, Blocks(g, backend), method, Accumulation::exact);
    EXPECT_TRUE(same_bits(got.history, one.history));
    EXPECT_TRUE(same_bits(got.u, one.u)) << max_difference(got.u, one.u);
  }
}

TEST(GridRankSolvers, ExactSumsHaveTheBitsOfOneProcess) {
  const CartesianGrid g = make_grid({10, 9, 12}, "DNPPRD");
  const Operator d = -diffusion(Coefficient(g, random_cells<double>(g, 90, 0.2, 30)), Mean::harmonic);
  check(-laplacian(g), g, Method::plain);
  check(d, g, Method::jacobi);
  check(d + 3.0 * derivative(g, 2), g, Method::bicgstab);
  // A null space, which a mean over all ranks is taken out of.
  const CartesianGrid closed = make_grid({8, 8, 12}, "NNPPNN");
  check(-laplacian(closed), closed, Method::plain);
}

TEST(GridRankSolvers, MultigridHasTheBitsOfOneProcess) {
  struct Case {
    std::vector<std::int64_t> cells;
    std::int64_t most;
  };
  std::vector<Case> cases{{{32, 32, 16}, 1000}};  // one level on all ranks, the others on the first one
  if (ranks().size() == 2) cases.push_back({{64, 64, 64}, 2});  // two levels on all ranks
  for (const Case& c : cases) {
    const CartesianGrid g = make_grid(c.cells, "DNPPRD");
    std::vector<double> kappa;
    for (std::int64_t cell = 0; cell < g.cell_count(); ++cell) kappa.push_back((cell / 8) % 3 == 0 ? 1e3 : 1);
    const Operator d = -diffusion(Coefficient(g, kappa), Mean::harmonic);
    const Solved one = solve(d, Blocks(g, Serial{1}), Method::multigrid, Accumulation::exact, c.most);
    EXPECT_EQ(one.converged, c.most > 2);
    Mpi backend = rank_backend();
    if (ranks().size() == 4) backend.process_grid = {2, 2, 1};
    const Solved got = solve(d, Blocks(g, backend), Method::multigrid, Accumulation::exact, c.most);
    EXPECT_TRUE(same_bits(got.history, one.history)) << g.shape_text();
    EXPECT_TRUE(same_bits(got.u, one.u)) << g.shape_text();
  }
}

TEST(GridRankSolvers, PlainSumsAreTheSameOnAllRanksAndRepeat) {
  const CartesianGrid g = make_grid({10, 9, 12}, "DNPPRD");
  const Solved exact = solve(-laplacian(g), Blocks(g, Serial{1}), Method::plain, Accumulation::exact);
  for (const Accumulation accumulation : {Accumulation::ordered, Accumulation::fast}) {
    const Blocks blocks(g, rank_backend());
    const Solved first = solve(-laplacian(g), blocks, Method::plain, accumulation);
    EXPECT_NEAR(static_cast<double>(first.iterations), static_cast<double>(exact.iterations), 2);
    EXPECT_TRUE(same_bits(solve(-laplacian(g), blocks, Method::plain, accumulation).u, first.u));
  }
}

TEST(GridRankSolvers, TimeStepsHaveTheBitsOfOneProcess) {
  const CartesianGrid g = make_grid({8, 7, 12}, "DNPPRD");
  const auto run = [&](const Blocks& blocks) {
    PreparedOperator<double> l(diffusion(Coefficient(g, random_cells<double>(g, 90, 0.2, 3))), blocks);
    Field<double> u = make_field(blocks, random_cells<double>(g, 1), "u");
    TimeStepper<double> stepper(l, TimeScheme::rk4, [](double t, Field<double>& s) {
      s.set([t](double x, double y, double z) { return x + t * y - z; });
    });
    for (int step = 0; step < 10; ++step) stepper.step(u, 1e-3 * step, 1e-3);
    return u.gather();
  };
  const std::vector<double> one = run(Blocks(g, Serial{1}));
  for (const Mpi& backend : rank_backends(3))
    EXPECT_TRUE(same_bits(run(Blocks(g, backend)), one)) << text_of(backend);
}

/// Few round trips: what scripts/two-hosts has time for.
TEST(GridRankSolvers, TheFirstIteratesHaveTheBitsOfOneProcess) {
  const CartesianGrid g = make_grid({10, 9, 12}, "DNPPRD");
  const Operator op = -diffusion(Coefficient(g, random_cells<double>(g, 90, 0.2, 30)), Mean::harmonic);
  const auto run = [&](const Blocks& blocks) {
    PreparedOperator<double> a(op, blocks);
    Field<double> u(blocks, "u"), f = make_field(blocks, random_cells<double>(g, 1), "f");
    u.fill(0);
    SolverOptions<double> options;
    options.max_iterations = 8;
    options.jacobi = true;
    std::vector<double> result = conjugate_gradient(a, u, f, options).history;
    a.apply_adjoint(u, f);
    const std::vector<double> back = u.gather();
    result.insert(result.end(), back.begin(), back.end());
    return result;
  };
  EXPECT_TRUE(same_bits(run(Blocks(g, rank_backend())), run(Blocks(g, Serial{1}))));
}

TEST(GridRankSolvers, OneRanksCancelEndsAllAtTheSameIteration) {
  const CartesianGrid g = make_grid({10, 9, 12}, "DNPPRD");
  const Blocks blocks(g, rank_backend());
  PreparedOperator<double> a(-laplacian(g), blocks);
  Field<double> u(blocks, "u"), f = make_field(blocks, random_cells<double>(g, 1), "f");
  u.fill(0);
  std::atomic<bool> cancel{false};
  SolverOptions<double> options;
  options.cancel = &cancel;
  options.progress = [&](std::int64_t iteration, double) {
    if (iteration == 4 && ranks().rank() == ranks().size() - 1) cancel = true;
  };
  const SolverResult result = conjugate_gradient(a, u, f, options);
  EXPECT_TRUE(result.cancelled);
  EXPECT_EQ(result.iterations, 4);
}

}  // namespace
}  // namespace shardwise::grid_test
