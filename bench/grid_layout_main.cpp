// Where ghosts lie, measured: the same operators and CG iterations on blocks of every ghost layout.
//
//     bench_grid_layout [DEVICES] [SIZES] [REPEATS]      bench_grid_layout cuda:0 128,256,512 5
//
// Prints one line for each operator, size and layout, then the score of the decision in
// docs/decisions/ghost-layout.md: the geometric mean of the time of a CG iteration.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "shardwise/grid/solvers.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.size() % 2 == 1 ? v[v.size() / 2] : 0.5 * (v[v.size() / 2 - 1] + v[v.size() / 2]);
}

CartesianGrid cube(std::int64_t n) {
  GridSpec spec;
  spec.lo = {0, 0, 0};
  spec.hi = {1, 1, 1};
  spec.cells = {n, n, n};
  spec.boundaries = {{Boundary::dirichlet(), Boundary::neumann()},
                     {Boundary::periodic(), Boundary::periodic()},
                     {Boundary::robin(2, 0.5, 0), Boundary::dirichlet()}};
  return CartesianGrid(spec);
}

struct Times {
  double apply = 0, adjoint = 0, cg = 0;  ///< seconds, one of each
};

Times measure(const Operator& op, const Blocks& blocks, int repeats, int count, int iterations) {
  PreparedOperator<double> a(op, blocks);
  Field<double> x(blocks, "x"), y(blocks, "y");
  x.fill(1);
  y.fill(0);
  SolverOptions<double> options;
  options.rtol = 0;
  options.max_iterations = iterations;
  std::vector<double> apply, adjoint, cg;
  for (int r = 0; r <= repeats; ++r) {
    const auto repeated = [&](auto&& once) {
      blocks.synchronize();
      const auto start = Clock::now();
      for (int i = 0; i < count; ++i) once();
      blocks.synchronize();
      return seconds_since(start) / count;
    };
    const double forward = repeated([&] { a.apply(y, x); }), back = repeated([&] { a.apply_adjoint(y, x); });
    y.fill(0);
    blocks.synchronize();
    // The cost of one iteration: what some more of them take.
    const auto solve = [&](int most) {
      options.max_iterations = most;
      y.fill(0);
      blocks.synchronize();
      const auto start = Clock::now();
      const SolverResult result = conjugate_gradient(a, y, x, options);
      return std::pair{seconds_since(start), static_cast<double>(result.iterations)};
    };
    const auto [short_time, few] = solve(iterations / 4);
    const auto [long_time, many] = solve(iterations);
    if (r == 0) continue;  // warm-up
    apply.push_back(forward);
    adjoint.push_back(back);
    cg.push_back((long_time - short_time) / (many - few));
  }
  return {median(apply), median(adjoint), median(cg)};
}

void run(const std::string& spec, const std::vector<std::int64_t>& sizes, int repeats) {
  const DeviceSet devices = open_devices(spec);
  const bool gpu = devices.master().kind() == PlatformKind::cuda;
  std::map<std::string, double> log_sum;
  std::map<std::string, int> rows;
  std::printf("%-5s %-10s %-8s %12s %12s %12s %10s\n", "n", "operator", "layout", "apply us", "adjoint us",
              "CG iter. us", "GB/s (CG)");
  for (const std::int64_t n : sizes) {
    const CartesianGrid grid = cube(n);
    const Coefficient kappa = Coefficient::constant(grid, 1.5);
    for (const auto& [name, op] : {std::pair{"laplacian", -laplacian(grid)},
                                   std::pair{"diffusion", -diffusion(kappa, Mean::harmonic)}})
      for (const GhostLayout layout : {GhostLayout::planes, GhostLayout::padded, GhostLayout::pitched}) {
        const Blocks blocks(grid, LocalDevices{devices, 0}, layout);
        const int count = gpu ? (n >= 512 ? 20 : 50) : n >= 256 ? 3 : 10;
        const Times t = measure(op, blocks, repeats, count, gpu ? 40 : n >= 256 ? 8 : 24);
        const double words = name[0] == 'l' ? 11 : 12;
        std::printf("%-5lld %-10s %-8s %12.1f %12.1f %12.1f %10.0f\n", static_cast<long long>(n), name,
                    to_string(layout), t.apply * 1e6, t.adjoint * 1e6, t.cg * 1e6,
                    words * 8 * static_cast<double>(grid.cell_count()) / t.cg * 1e-9);
        std::fflush(stdout);
        log_sum[to_string(layout)] += std::log(t.cg);
        ++rows[to_string(layout)];
      }
  }
  for (const auto& [layout, sum] : log_sum)
    std::printf("score %-8s %.1f us (geometric mean of CG iterations, %s)\n", layout.c_str(),
                std::exp(sum / rows[layout]) * 1e6, spec.c_str());
}

}  // namespace
}  // namespace shardwise::bench

int main(int argc, char** argv) {
  try {
    const std::string sizes = argc > 2 ? argv[2] : "64,128";
    std::vector<std::int64_t> n;
    for (std::size_t at = 0; at < sizes.size();) {
      const std::size_t comma = std::min(sizes.find(',', at), sizes.size());
      n.push_back(std::atoll(sizes.substr(at, comma - at).c_str()));
      if (n.back() < 8) throw std::invalid_argument("bench_grid_layout: sizes are numbers of at least 8");
      at = comma + 1;
    }
    const int repeats = argc > 3 ? std::max(1, std::atoi(argv[3])) : 3;
    shardwise::bench::run(argc > 1 ? argv[1] : "host:1", n, repeats);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_grid_layout: %s\n", error.what());
    return 1;
  }
  return 0;
}
