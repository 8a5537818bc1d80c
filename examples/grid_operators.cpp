// A diffusion problem on three blocks: an operator, its adjoint, a solve, and the gradient with respect to
// the coefficient.

#include <cmath>
#include <cstdio>

#include "shardwise/grid/solvers.hpp"

using namespace shardwise;

int main() {
  GridSpec spec;
  spec.lo = {0, 0};
  spec.hi = {1, 2};
  spec.cells = {40, 60};
  spec.boundaries = {{Boundary::dirichlet(1), Boundary::neumann(0)},
                     {Boundary::periodic(), Boundary::periodic()}};
  const CartesianGrid grid(spec);
  const Coefficient kappa(
      grid, [](double x, double y, double) { return 1 + 0.5 * std::sin(3 * x) * std::cos(3 * y); });
  const Operator op = -diffusion(kappa, Mean::harmonic);

  // Where it runs is said here and nowhere else. Bits do not depend on it.
  const Blocks blocks(grid, LocalDevices{open_devices("host:3x1")});
  PreparedOperator<double> a(op, blocks);

  Field<double> x(blocks, "x"), y(blocks, "y"), ax(blocks, "A x"), aty(blocks, "A^T y");
  x.set([](double px, double py, double) { return std::sin(7 * px) + py; });
  y.set([](double px, double py, double) { return px * px - std::cos(5 * py); });
  a.apply(ax, x);
  a.apply_adjoint(aty, y);
  const double forward = dot(ax, y), backward = dot(x, aty);
  std::printf("<A x, y> and <x, A^T y> differ by less than 1e-12 of themselves: %s\n",
              std::abs(forward - backward) < 1e-12 * std::abs(forward) ? "yes" : "no");

  // A u = f - b, where b is what the walls add.
  Field<double> f(blocks, "f"), rhs(blocks, "f - b"), u(blocks, "u");
  f.set([](double px, double, double) { return px < 0.5 ? 1.0 : -1.0; });
  a.assemble_rhs(rhs, f);
  u.fill(0);
  SolverOptions<double> options;
  options.jacobi = true;
  const SolverResult result = conjugate_gradient(a, u, rhs, options);
  std::printf("solver: %s\n", result.reason());

  // J = <y, A(kappa) u>: one gradient for all cells.
  Field<double> gradient(blocks, "dJ/dkappa");
  a.coefficient_gradient(gradient, y, u);
  std::printf("gradient: %s\n", std::isfinite(norm2(gradient)) ? "finite" : "not finite");

  // The same on one block: the same bits.
  const Blocks one(grid, Serial{1});
  PreparedOperator<double> b(op, one);
  Field<double> f1(one, "f"), rhs1(one, "f - b"), u1(one, "u");
  f1.set([](double px, double, double) { return px < 0.5 ? 1.0 : -1.0; });
  b.assemble_rhs(rhs1, f1);
  u1.fill(0);
  conjugate_gradient(b, u1, rhs1, options);
  std::printf("three blocks and one: %s\n", u.gather() == u1.gather() ? "the same bits" : "different");

  // One part a rank. Under mpirun the ranks are mpi_world()'s (shardwise/cluster/mpi.hpp, shardwise::mpi).
  const auto ranks = single_process();
  const Blocks parts(grid, Mpi{ranks, open_devices("host:1")});
  PreparedOperator<double> c(op, parts);
  Field<double> f2(parts, "f"), rhs2(parts, "f - b"), u2(parts, "u");
  f2.set([](double px, double, double) { return px < 0.5 ? 1.0 : -1.0; });
  c.assemble_rhs(rhs2, f2);
  u2.fill(0);
  conjugate_gradient(c, u2, rhs2, options);
  if (u2.gather() != u1.gather()) return 1;
  return 0;
}
