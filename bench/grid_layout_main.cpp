// Where ghosts lie, measured: the same operators and CG iterations on blocks of every ghost layout.
//
//     bench_grid_layout [DEVICES] [SIZES] [REPEATS]      bench_grid_layout cuda:0 128,256,512 5
//
// Prints one line for each operator, size and layout, then the score of the decision in
// docs/decisions/ghost-layout.md: the geometric mean of the time of a CG iteration.

#include <time.h>

#include <algorithm>
#include <array>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shardwise/grid/solvers.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::bench {
namespace {

/// Seconds on the wall; of the processor for host devices, so that other programs disturb less.
double now(bool processor) {
  if (processor) {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
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
  double apply = 1e30, adjoint = 1e30, cg = 1e30;  ///< seconds, one of each: the least of all rounds
};

/// An operator and its fields on blocks of one layout.
class Subject {
 public:
  Subject(const Operator& op, const Blocks& blocks, int count, int iterations, bool processor)
      : blocks_(blocks),
        a_(op, blocks),
        x_(blocks, "x"),
        y_(blocks, "y"),
        count_(count),
        iterations_(iterations),
        processor_(processor) {
    x_.fill(1);
    y_.fill(0);
  }
  void round(Times& least) {
    least.apply = std::min(least.apply, repeated([&] { a_.apply(y_, x_); }));
    least.adjoint = std::min(least.adjoint, repeated([&] { a_.apply_adjoint(y_, x_); }));
    // The cost of one iteration: what some more of them take.
    const auto [short_time, few] = solve(iterations_ / 4);
    const auto [long_time, many] = solve(iterations_);
    least.cg = std::min(least.cg, (long_time - short_time) / (many - few));
  }

 private:
  template <class F>
  double repeated(F&& once) {
    blocks_.synchronize();
    const double start = now(processor_);
    for (int i = 0; i < count_; ++i) once();
    blocks_.synchronize();
    return (now(processor_) - start) / count_;
  }
  std::pair<double, double> solve(int most) {
    SolverOptions<double> options;
    options.rtol = 0;
    options.max_iterations = most;
    y_.fill(0);
    blocks_.synchronize();
    const double start = now(processor_);
    const SolverResult result = conjugate_gradient(a_, y_, x_, options);
    return {now(processor_) - start, static_cast<double>(result.iterations)};
  }

  Blocks blocks_;
  PreparedOperator<double> a_;
  Field<double> x_, y_;
  int count_, iterations_;
  bool processor_;
};

void run(const std::string& spec, const std::vector<std::int64_t>& sizes, int repeats) {
  const DeviceSet devices = open_devices(spec);
  const bool gpu = devices.master().kind() == PlatformKind::cuda;
  constexpr std::array layouts{GhostLayout::planes, GhostLayout::padded, GhostLayout::pitched};
  std::map<std::string, double> log_sum;
  std::map<std::string, int> rows;
  std::printf("%-5s %-10s %-8s %12s %12s %12s %10s\n", "n", "operator", "layout", "apply us", "adjoint us",
              "CG iter. us", "GB/s (CG)");
  for (const std::int64_t n : sizes) {
    const CartesianGrid grid = cube(n);
    const Coefficient kappa = Coefficient::constant(grid, 1.5);
    for (const auto& [name, op] : {std::pair{"laplacian", -laplacian(grid)},
                                   std::pair{"diffusion", -diffusion(kappa, Mean::harmonic)}}) {
      const int count = gpu ? (n >= 512 ? 20 : 50) : n >= 256 ? 3 : 10;
      const int iterations = gpu ? 40 : n >= 256 ? 8 : 24;
      std::vector<std::unique_ptr<Subject>> subjects;
      for (const GhostLayout layout : layouts)
        subjects.push_back(std::make_unique<Subject>(op, Blocks(grid, LocalDevices{devices, 0}, layout),
                                                     count, iterations, !gpu));
      // In turn, so that a machine that slows down slows all; the first round warms up.
      std::array<Times, 3> times;
      for (int r = 0; r <= repeats; ++r) {
        if (r == 1) times = {};
        for (std::size_t l = 0; l < layouts.size(); ++l) subjects[l]->round(times[l]);
      }
      for (std::size_t l = 0; l < layouts.size(); ++l) {
        const Times& t = times[l];
        const double words = name[0] == 'l' ? 11 : 12;
        std::printf("%-5lld %-10s %-8s %12.1f %12.1f %12.1f %10.0f\n", static_cast<long long>(n), name,
                    to_string(layouts[l]), t.apply * 1e6, t.adjoint * 1e6, t.cg * 1e6,
                    words * 8 * static_cast<double>(grid.cell_count()) / t.cg * 1e-9);
        std::fflush(stdout);
        log_sum[to_string(layouts[l])] += std::log(t.cg);
        ++rows[to_string(layouts[l])];
      }
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
