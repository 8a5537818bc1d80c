#pragma once
// A solve that exchanges ghosts and adds up a few times: for tests of what becomes of it when something
// fails.

#include <vector>

#include "grid/grid_cases.hpp"
#include "shardwise/grid/solvers.hpp"

namespace shardwise::grid_test {

/// Four iterations of CG from zero, whatever is left of the residual; all cells.
inline std::vector<double> few_iterations(PreparedOperator<double>& a, const Blocks& blocks,
                                          const CartesianGrid& g) {
  Field<double> u(blocks, "u");
  u.fill(0);
  SolverOptions<double> options;
  options.max_iterations = 4;
  options.rtol = 1e-30;
  (void)conjugate_gradient(a, u, make_field(blocks, random_cells<double>(g, 5), "f"), options);
  return u.gather();
}

}  // namespace shardwise::grid_test
