#pragma once
// What `shardwise solve` is asked, checked and turned into a grid and values on its cells.

#include <CLI/CLI.hpp>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "device_options.hpp"
#include "expression.hpp"
#include "report_file.hpp"
#include "shardwise/grid/solvers.hpp"

namespace shardwise::program {

/// As typed; empty where not given.
struct SolveOptions {
  std::string problem, size, extent;
  std::vector<std::string> boundaries;
  std::string rhs, initial, source, guess, kappa;
  std::string parts, process_grid, backend = "auto", route = "auto", precision = "double", mean;
  std::string steps, dt, scheme, rtol, atol, max_iterations, preconditioner, accumulation;
  std::vector<std::string> field, residuals;
  std::string json, trace, slice, png, checkpoint, every, restart;
  bool verify = false, dry_run = false;
  DeviceOptions devices;
};

/// A number, a formula or an array on the cells of a grid.
struct CellValues {
  std::string option;
  std::optional<Expression> formula;
  std::optional<std::vector<double>> array;
  bool given() const { return formula || array; }
  std::vector<double> on(const CartesianGrid& grid, double t = 0) const;
};

struct SolveRequest {
  std::string problem;
  std::optional<CartesianGrid> grid;
  CellValues rhs, initial, source, guess;
  std::optional<Coefficient> kappa;  ///< none: 1
  double radius = 0;                 ///< a bound for the spectral radius, of heat
  Mean mean = Mean::arithmetic;
  PartitionRequest partition;
  bool serial = false, mpi = false, single = false;  ///< backend; float
  std::array<RankRoute, 3> route{};                  ///< of mpi
  std::int64_t steps = 0, max_iterations = 0;
  double dt = 0, rtol = 0, atol = 0;
  TimeScheme scheme = TimeScheme::rk4;
  bool jacobi = false, multigrid = false;
  Accumulation accumulation = Accumulation::exact;
  /// A plane (a line, in two dimensions) through the cells `index` of a dimension; -1: all is shown.
  int slice_dimension = -1;
  std::int64_t slice_index = 0;
  std::int64_t every = 0;  ///< steps between two checkpoints
  std::vector<std::string> warnings;
  Json parameters;  ///< of heat: what decides the bits of a step
};

/// A dry run on simulated devices: what this host has does not matter.
inline bool plans_for_another_machine(const SolveOptions& options) {
  return options.dry_run && options.devices.devices.starts_with("sim");
}

void add_solve_options(CLI::App& app, SolveOptions& options);
/// Checks everything that needs no device. Throws usage and data errors.
SolveRequest solve_request(const SolveOptions& options);

}  // namespace shardwise::program
