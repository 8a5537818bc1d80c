// A leaf of the user's own from the installed package: on one block and on eight, the same bits, close to the
// exact derivative. Argument: a device set, cuda:0 for instance where the package has CUDA.

#include "grid_leaf.hpp"

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "shardwise/grid/prepared_operator.hpp"
#if CONSUMER_CUDA
#include "shardwise/runtime/cuda.hpp"
#endif

using namespace shardwise;

namespace {

void run_leaf(LaunchContext& context, const UserLeafCall<double>& call) {
  const LeafArguments a{call.x.cell,
                        call.y.cell,
                        call.x.layout.cells[0],
                        call.x.layout.cells[1],
                        call.x.layout.stride[1],
                        call.y.layout.stride[1],
                        call.grid->inverse_square(0) / 12,
                        call.alpha,
                        call.beta};
#if CONSUMER_CUDA
  if (context.device().kind() == PlatformKind::cuda) {
    if (enqueue_leaf(a, cuda_stream(context)) != 0) throw std::runtime_error("the leaf was not launched");
    return;
  }
#endif
  context.parallel_for(a.ny, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j)
      for (std::int64_t i = 0; i < a.nx; ++i) {
        const double* u = a.u + i + j * a.u_stride;
        double& y = a.y[i + j * a.y_stride];
        const double value = (-u[-2] + 16 * u[-1] - 30 * u[0] + 16 * u[1] - u[2]) * a.weight;
        y = a.beta == 0 ? a.alpha * value : a.alpha * value + a.beta * y;
      }
  });
}

template <class Backend>
std::vector<double> apply(const CartesianGrid& grid, const Backend& backend, int& parts) {
  UserLeaf leaf;
  leaf.name = "fourth order";
  leaf.radius = 2;
  leaf.traits.linear = true;
  leaf.run_double = run_leaf;
  const Blocks blocks(grid, backend);
  parts = blocks.partition().parts();
  PreparedOperator<double> op(user_leaf(grid, leaf), blocks);
  Field<double> u(blocks, "u"), y(blocks, "y");
  u.set([](double x, double, double) { return std::sin(2 * 3.14159265358979324 * x); });
  op.apply(y, u);
  return y.gather();
}

}  // namespace

int main(int argc, char** argv) {
  const double two_pi = 2 * 3.14159265358979324;
  const GridSpec spec{{0, 0}, {1, 1}, {64, 24}, {{Boundary::periodic(), Boundary::periodic()}, {}}, {2, 2}};
  const CartesianGrid grid(spec);
  int one = 0, many = 0;
  const std::vector<double> whole = apply(grid, Serial{}, one);
  const LocalDevices devices{open_devices(argc > 1 ? argv[1] : "host:2x1"), 8, {4, 2, 1}};
  const std::vector<double> split = apply(grid, devices, many);
  double worst = 0, apart = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const double exact =
        -two_pi * two_pi * std::sin(two_pi * grid.centre(0, static_cast<std::int64_t>(i) % 64));
    worst = std::fmax(worst, std::fabs(split[i] - exact) / (two_pi * two_pi));
    apart = std::fmax(apart, std::fabs(split[i] - whole[i]) / (two_pi * two_pi));
  }
  std::printf("%d and %d blocks: worst error %.2g of the largest value, %.2g apart\n", one, many, worst,
              apart);
  // One build on one platform gives the same bits; a GPU's compiler may contract a user's own sums.
  return one == 1 && many == 8 && worst < 1e-4 && (argc > 1 ? apart < 1e-12 : apart == 0) ? 0 : 1;
}
