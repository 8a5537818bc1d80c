// A leaf of your own: a fourth-order second derivative along x, which reads two cells to each side.

#include <cmath>
#include <cstdio>

#include "shardwise/grid/prepared_operator.hpp"

using namespace shardwise;

UserLeaf fourth_order() {
  UserLeaf leaf;
  leaf.name = "fourth order";
  leaf.radius = 2;
  leaf.traits.linear = true;  // all that it claims
  leaf.run_double = [](LaunchContext& context, const UserLeafCall<double>& call) {
    const auto cells = call.x.layout.cells;
    const double weight = call.grid->inverse_square(0) / 12;
    context.parallel_for(cells[1], 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t j = begin; j < end; ++j)
        for (std::int64_t i = 0; i < cells[0]; ++i) {
          const double* u = call.x.cell + i + j * call.x.layout.stride[1];
          double& y = call.y.cell[i + j * call.y.layout.stride[1]];
          const double value = (-u[-2] + 16 * u[-1] - 30 * u[0] + 16 * u[1] - u[2]) * weight;
          y = call.beta == 0 ? call.alpha * value : call.alpha * value + call.beta * y;
        }
    });
  };
  return leaf;
}

int main() {
  GridSpec spec{{0, 0}, {1, 1}, {32, 24}, {{Boundary::periodic(), Boundary::periodic()}, {}}, {2, 2}};
  const CartesianGrid grid(spec);
  const double two_pi = 6.283185307179586;
  for (const Serial& backend : {Serial{1}, Serial{0, {4, 2, 1}}}) {
    const Blocks blocks(grid, backend);
    PreparedOperator<double> a(user_leaf(grid, fourth_order()) + derivative(grid, 1, Difference::second),
                               blocks);
    Field<double> u(blocks, "u"), y(blocks, "y");
    u.set([&](double x, double, double) { return std::sin(two_pi * x); });
    a.apply(y, u);
    double worst = 0;
    const std::vector<double> values = y.gather();
    for (std::int64_t i = 0; i < 32; ++i) {
      const double exact = -two_pi * two_pi * std::sin(two_pi * grid.centre(0, i));
      // A row in the middle: Dirichlet walls in y do not reach it.
      worst = std::max(worst, std::abs(values[static_cast<std::size_t>(i + 32 * 12)] - exact));
    }
    std::printf("%d blocks: worst error %s\n", blocks.partition().parts(),
                worst < 2e-3 * two_pi * two_pi ? "below 0.2 %" : "too large");
  }
  return 0;
}
