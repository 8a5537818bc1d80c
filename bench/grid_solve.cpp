#include "bench/grid_solve.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <memory>

#include "shardwise/grid/multigrid.hpp"

namespace shardwise::bench {

namespace {

using Clock = std::chrono::steady_clock;

CartesianGrid cube(std::int64_t n) {
  GridSpec spec;
  spec.lo = {0, 0, 0};
  spec.hi = {1, 1, 1};
  spec.cells = {n, n, n};
  return CartesianGrid(spec);
}

/// Boxes of 1/8 of the length, every other one with the contrast, along a diagonal pattern that no level of
/// halving sees as a constant.
Operator contrasted(const CartesianGrid& grid, double contrast) {
  if (contrast == 1) return -laplacian(grid);
  const Coefficient kappa(grid, [contrast](double x, double y, double z) {
    const int box = static_cast<int>(8 * x) + 2 * static_cast<int>(8 * y) + 4 * static_cast<int>(8 * z);
    return box % 3 == 0 ? contrast : 1.0;
  });
  return -diffusion(kappa, Mean::harmonic);
}

/// A problem that is solved from 0 on every call.
struct Solve {
  Solve(const Operator& op, const Blocks& b, const std::string& preconditioner, Accumulation accumulation)
      : blocks(b), a(op, blocks), u(blocks, "u"), f(blocks, "f") {
    // A right-hand side with all frequencies.
    f.set(
        [](double x, double y, double z) { return (x > 0.4 ? 1 : -0.7) * (y < 0.3 ? 1 : 0.2) + z * z * x; });
    options.accumulation = accumulation;
    options.max_iterations = 2000;
    options.jacobi = preconditioner == "jacobi";
    if (preconditioner == "multigrid") {
      multigrid.emplace(op, blocks);
      options.preconditioner = multigrid->preconditioner();
    }
  }
  double run() {
    u.fill(0);
    blocks.synchronize();
    const auto start = Clock::now();
    result = conjugate_gradient(a, u, f, options);
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
  Blocks blocks;
  PreparedOperator<double> a;
  Field<double> u, f;
  SolverOptions<double> options;
  std::optional<Multigrid<double>> multigrid;
  SolverResult result;
};

struct Work {
  std::string name, preconditioner;
  std::int64_t n = 0;
  double contrast = 1;
  Accumulation accumulation = Accumulation::exact;
};

Case solve_case(const DeviceSet& devices, const Work& w) {
  const CartesianGrid grid = cube(w.n);
  const Operator op = contrasted(grid, w.contrast);
  const auto make = [&](const DeviceSet& d, int parts) {
    return std::make_shared<Solve>(op, Blocks(grid, LocalDevices{d, parts}), w.preconditioner,
                                   w.accumulation);
  };
  const auto all = make(devices, 0);
  Case row;
  row.name = w.name;
  row.work = fmt::format("CG to 1e-8 with {}, contrast {:g}, {} double", w.preconditioner, w.contrast,
                         grid.shape_text());
  row.devices = devices.spec();
  row.mode = "solve";
  row.units = static_cast<double>(grid.cell_count());
  row.all = [all] { return all->run(); };
  if (devices.size() > 1) {
    const auto one = make(devices.first(), 1);
    row.one = [one] { return one->run(); };
    row.work += "; one: on the first";
  }
  row.note_after = [all] {
    return fmt::format("{} after {} iterations, |f - A u| = {:.1e} of |f|", all->result.reason(),
                       all->result.iterations, 1e-8 * all->result.true_residual / all->result.tolerance);
  };
  return row;
}

}  // namespace

void add_solve_cases(std::vector<Case>& cases, const DeviceSet& devices, const Settings& settings) {
  std::vector<Work> works;
  for (const std::int64_t n : {64, 128, 256}) {
    if (settings.quick && n > 64) continue;
    works.push_back({fmt::format("solve-multigrid-{}", n), "multigrid", n});
  }
  const std::int64_t n = settings.quick ? 32 : devices.master().kind() == PlatformKind::cuda ? 128 : 64;
  for (const double contrast : {1.0, 1e4, 1e7})
    for (const std::string preconditioner : {"jacobi", "multigrid"})
      works.push_back(
          {fmt::format("solve-contrast-{:g}-{}", contrast, preconditioner), preconditioner, n, contrast});
  for (const auto& [accumulation, name] :
       {std::pair{Accumulation::fast, "fast"}, std::pair{Accumulation::ordered, "ordered"},
        std::pair{Accumulation::exact, "exact"}})
    works.push_back({fmt::format("solve-sums-{}", name), "jacobi", settings.quick ? 32 : n, 1, accumulation});
  for (const Work& work : works) cases.push_back(solve_case(devices, work));
}

}  // namespace shardwise::bench
