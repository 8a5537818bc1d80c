#include "solve_run.hpp"

#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <memory>

#include "progress.hpp"
#include "ranks.hpp"
#include "shardwise/grid/grid_error.hpp"
#include "shardwise/grid/multigrid.hpp"
#include "shardwise/runtime/error.hpp"
#include "signals.hpp"
#include "solve_ranks.hpp"

namespace shardwise::program {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <class T>
Field<T> field_of(const Blocks& blocks, const std::vector<double>& values, const char* name) {
  std::vector<T> converted(values.begin(), values.end());
  Field<T> field(blocks, name);
  field.scatter_global(converted);
  return field;
}

/// The cells' values as doubles, on rank 0; refuses what is not finite.
template <class T>
std::vector<double> finite_values(const Field<T>& u, const std::string& when) {
  const std::vector<T> values = u.gather(0);
  const CartesianGrid& g = u.blocks().grid();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i])) {
      const auto cell = static_cast<std::int64_t>(i);
      throw Error(
          ErrorClass::not_converged,
          fmt::format("solve: u is {} at cell ({}, {}, {}){}; look at the boundary values, the source "
                      "and kappa, or use --precision double",
                      static_cast<double>(values[i]), cell % g.cells(0), cell / g.cells(0) % g.cells(1),
                      cell / (g.cells(0) * g.cells(1)), when));
    }
  return {values.begin(), values.end()};
}

/// Iterations in all, as the residual's fall so far foretells them.
std::int64_t expected_iterations(const std::vector<double>& history, double tolerance, std::int64_t most) {
  const double done = static_cast<double>(history.size()) - 1;
  if (done < 1 || !(tolerance > 0)) return most;
  const double fallen = std::log(history.front() / history.back()),
               wanted = std::log(history.front() / tolerance);
  if (!(fallen > 0) || !(wanted > 0)) return most;
  return std::min(most, static_cast<std::int64_t>(std::ceil(done * std::max(1.0, wanted / fallen))));
}

template <class T>
void run_heat(const SolveRequest& r, const Blocks& blocks, const SolveHooks& hooks, SolveOutcome& outcome) {
  const CartesianGrid& grid = *r.grid;
  PreparedOperator<T> l(r.kappa ? diffusion(*r.kappa, r.mean) : laplacian(grid), blocks);
  const std::int64_t first = hooks.restart ? hooks.restart->step : 0;
  Field<T> u = field_of<T>(blocks, hooks.restart ? hooks.restart->u : r.initial.on(grid), "u");
  std::function<void(double, Field<T>&)> source;
  std::optional<Field<T>> steady;
  if (r.source.formula && r.source.formula->uses_time()) {
    source = [&](double t, Field<T>& s) {
      s.set([&](double x, double y, double z) { return (*r.source.formula)(x, y, z, t); });
    };
  } else if (r.source.given()) {
    steady = field_of<T>(blocks, r.source.on(grid), "source");
    source = [&](double, Field<T>& s) { s.copy_from(*steady); };
  }
  TimeStepper<T> stepper(l, r.scheme, source);
  std::optional<Progress> progress;
  if (hooks.show) progress.emplace("solve heat", "steps");
  const auto save = [&](std::int64_t step) {
    if (!hooks.checkpoint) return;
    const double time = static_cast<double>(step) * r.dt;
    SolveState state{r.parameters, step, time, finite_values(u, fmt::format(" after step {}", step))};
    if (is_first_rank()) hooks.checkpoint(state);
  };
  const auto start = Clock::now();
  for (std::int64_t step = first; step < r.steps; ++step) {
    if (stop_on_any_rank()) {
      save(step);
      throw Error(ErrorClass::interrupted, fmt::format("solve: stopped before step {} of {}", step, r.steps));
    }
    stepper.step(u, static_cast<double>(step) * r.dt, r.dt);
    const std::int64_t done = step + 1;
    // The queue is bounded, and progress is true.
    if (done % 16 == 0 || done == r.steps) {
      blocks.synchronize();
      if (progress) progress->update(done - first, r.steps - first);
    }
    if (hooks.checkpoint && done % r.every == 0 && done != r.steps) save(done);
  }
  outcome.seconds = seconds_since(start);
  outcome.applies = l.stats().applies;
  outcome.exchanges = l.stats().exchanges;
  save(r.steps);
  outcome.field = finite_values(u, fmt::format(" after step {}", r.steps));
}

template <class T>
void run_solver(const SolveRequest& r, const Blocks& blocks, const SolveHooks& hooks, SolveOutcome& outcome) {
  const CartesianGrid& grid = *r.grid;
  const Operator op = -(r.kappa ? diffusion(*r.kappa, r.mean) : laplacian(grid));
  PreparedOperator<T> a(op, blocks);
  Field<T> u = field_of<T>(blocks, r.guess.on(grid), "u");
  // (-L) u = f + b, where b is what the walls add to L u.
  Field<T> f = field_of<T>(blocks, r.rhs.on(grid), "f"), b(blocks, "b");
  a.assemble_rhs(b, f);
  SolverOptions<T> options;
  options.rtol = r.rtol;
  options.atol = r.atol;
  options.max_iterations = r.max_iterations;
  options.accumulation = r.accumulation;
  options.jacobi = r.jacobi;
  options.null_space = NullSpace::refuse;
  options.cancel = &stop_requested();
  std::optional<Multigrid<T>> multigrid;
  if (r.multigrid) {
    multigrid.emplace(op, blocks);
    options.preconditioner = multigrid->preconditioner();
  }
  std::optional<Progress> progress;
  std::vector<double> history;
  if (hooks.show) progress.emplace("solve " + r.problem, "iterations");
  const double tolerance = std::max(r.rtol * norm2(b, Accumulation::ordered), r.atol);
  options.progress = [&](std::int64_t iteration, double residual) {
    history.push_back(residual);
    if (progress) progress->update(iteration, expected_iterations(history, tolerance, r.max_iterations));
  };
  const auto start = Clock::now();
  try {
    outcome.solver = conjugate_gradient(a, u, b, options);
  } catch (const GridError& error) {
    // Nothing fixes a constant and the right-hand side has a mean: solved without it, and said.
    if (error.code() != GridErrorCode::singular) throw;
    outcome.removed_mean = error.numbers().front();
    options.null_space = NullSpace::project;
    outcome.solver = conjugate_gradient(a, u, b, options);
  }
  outcome.seconds = seconds_since(start);
  if (outcome.solver.cancelled) throw Error(ErrorClass::interrupted, "solve: stopped");
  outcome.applies = a.stats().applies;
  outcome.exchanges = a.stats().exchanges;
  outcome.field = finite_values(u, "");
}

}  // namespace

Blocks solve_blocks(const SolveRequest& r, const DeviceSet& devices) {
  if (r.serial) {
    Serial serial;
    serial.parts = r.partition.parts > 0 || r.partition.blocks ? r.partition.parts : 1;
    serial.process_grid = r.partition.process_grid;
    serial.blocks = r.partition.blocks;
    return Blocks(*r.grid, serial);
  }
  if (r.mpi) return solve_rank_blocks(r, devices);
  LocalDevices local{devices, r.partition.parts, r.partition.process_grid, r.partition.blocks};
  return Blocks(*r.grid, local);
}

SolveOutcome run_solve(const SolveRequest& r, const Blocks& blocks, const SolveHooks& hooks) {
  SolveOutcome outcome;
  if (r.problem == "heat")
    r.single ? run_heat<float>(r, blocks, hooks, outcome) : run_heat<double>(r, blocks, hooks, outcome);
  else
    r.single ? run_solver<float>(r, blocks, hooks, outcome) : run_solver<double>(r, blocks, hooks, outcome);
  return outcome;
}

}  // namespace shardwise::program
