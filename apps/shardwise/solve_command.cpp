// shardwise solve: Poisson, diffusion and heat on a Cartesian grid, on any number of blocks.

#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>

#include "command.hpp"
#include "npy.hpp"
#include "progress.hpp"
#include "report_file.hpp"
#include "shardwise/grid/multigrid.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/shard/hash.hpp"
#include "signals.hpp"
#include "solve_request.hpp"

namespace shardwise::program {
namespace {

using Clock = std::chrono::steady_clock;

struct Outcome {
  std::vector<double> field;  ///< first index fastest
  SolverResult solver;        ///< of poisson and diffusion
  std::int64_t applies = 0, exchanges = 0;
  double seconds = 0;
};

template <class T>
Field<T> field_of(const Blocks& blocks, const std::vector<double>& values, const char* name) {
  std::vector<T> converted(values.begin(), values.end());
  Field<T> field(blocks, name);
  field.scatter_global(converted);
  return field;
}

template <class T>
Outcome run_on(const SolveRequest& r, const Blocks& blocks, bool show) {
  const CartesianGrid& grid = *r.grid;
  const Operator l = r.kappa ? diffusion(*r.kappa, r.mean) : laplacian(grid);
  const bool heat = r.problem == "heat";
  PreparedOperator<T> a(heat ? l : -l, blocks);
  Outcome outcome;
  std::unique_ptr<Progress> progress;
  if (show) progress = std::make_unique<Progress>("solve " + r.problem, heat ? "steps" : "iterations");
  Field<T> u = field_of<T>(blocks, (heat ? r.initial : r.guess).on(grid), "u");
  if (heat) {
    std::function<void(double, Field<T>&)> source;
    std::optional<Field<T>> steady;
    if (r.source.given()) {
      if (r.source.formula && r.source.formula->uses_time()) {
        source = [&](double t, Field<T>& s) {
          s.set([&](double x, double y, double z) { return (*r.source.formula)(x, y, z, t); });
        };
      } else {
        steady = field_of<T>(blocks, r.source.on(grid), "source");
        source = [&](double, Field<T>& s) { s.copy_from(*steady); };
      }
    }
    TimeStepper<T> stepper(a, r.scheme, source);
    const auto start = Clock::now();
    for (std::int64_t step = 0; step < r.steps; ++step) {
      if (stop_requested().load()) throw Error(ErrorClass::interrupted, "solve: stopped");
      stepper.step(u, static_cast<double>(step) * r.dt, r.dt);
      // The queue is bounded, and progress is true.
      if (step % 16 == 15 || step + 1 == r.steps) {
        blocks.synchronize();
        if (progress) progress->update(step + 1, r.steps);
      }
    }
    outcome.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  } else {
    // (-L) u = f + b, where b is what the walls add to L u.
    Field<T> f = field_of<T>(blocks, r.rhs.on(grid), "f"), b(blocks, "b");
    a.assemble_rhs(b, f);
    SolverOptions<T> options;
    options.rtol = r.rtol;
    options.atol = r.atol;
    options.max_iterations = r.max_iterations;
    options.accumulation = r.accumulation;
    options.jacobi = r.jacobi;
    std::optional<Multigrid<T>> multigrid;
    if (r.multigrid) {
      multigrid.emplace(-l, blocks);
      options.preconditioner = multigrid->preconditioner();
    }
    options.cancel = &stop_requested();
    if (progress)
      options.progress = [&](std::int64_t iteration, double) {
        progress->update(iteration, r.max_iterations);
      };
    const auto start = Clock::now();
    outcome.solver = conjugate_gradient(a, u, b, options);
    outcome.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (outcome.solver.cancelled) throw Error(ErrorClass::interrupted, "solve: stopped");
  }
  outcome.applies = a.stats().applies;
  outcome.exchanges = a.stats().exchanges;
  const std::vector<T> values = u.gather();
  outcome.field.assign(values.begin(), values.end());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      throw Error(
          ErrorClass::not_converged,
          fmt::format(
              "solve: u is {} at cell {} (first index fastest); look at the boundary values and kappa",
              outcome.field[i], i));
  return outcome;
}

Outcome run_on(const SolveRequest& r, const Blocks& blocks, bool show) {
  return r.single ? run_on<float>(r, blocks, show) : run_on<double>(r, blocks, show);
}

Blocks blocks_of(const SolveRequest& r, const DeviceSet& devices) {
  if (r.serial) {
    Serial serial;
    serial.parts = r.partition.parts > 0 || r.partition.blocks ? r.partition.parts : 1;
    serial.process_grid = r.partition.process_grid;
    serial.blocks = r.partition.blocks;
    return Blocks(*r.grid, serial);
  }
  LocalDevices local{devices, r.partition.parts, r.partition.process_grid, r.partition.blocks};
  return Blocks(*r.grid, local);
}

/// [x, y, z] in C order: the last index fastest.
std::string npy_of(const CartesianGrid& g, const std::vector<double>& field) {
  std::vector<double> c(field.size());
  const std::int64_t n0 = g.cells(0), n1 = g.cells(1), n2 = g.cells(2);
  for (std::int64_t k = 0; k < n2; ++k)
    for (std::int64_t j = 0; j < n1; ++j)
      for (std::int64_t i = 0; i < n0; ++i)
        c[static_cast<std::size_t>(k + n2 * (j + n1 * i))] =
            field[static_cast<std::size_t>(i + n0 * (j + n1 * k))];
  std::vector<std::int64_t> shape;
  for (int d = 0; d < g.dims(); ++d) shape.push_back(g.cells(d));
  return npy_bytes(c, shape);
}

/// VTK XML image data (vtk.org, VTK file formats), cell values, raw appended with 64-bit sizes.
std::string vti_of(const CartesianGrid& g, const std::vector<double>& field) {
  std::string extent, origin, spacing;
  for (int d = 0; d < 3; ++d) {
    const bool has = d < g.dims();
    extent += fmt::format("{}0 {}", d == 0 ? "" : " ", g.cells(d));
    origin += fmt::format("{}{:.17g}", d == 0 ? "" : " ", has ? g.lo(d) : 0.0);
    spacing += fmt::format("{}{:.17g}", d == 0 ? "" : " ", has ? g.spacing(d) : g.spacing(0));
  }
  std::string text = fmt::format(
      "<?xml version=\"1.0\"?>\n<VTKFile type=\"ImageData\" version=\"1.0\" byte_order=\"LittleEndian\" "
      "header_type=\"UInt64\">\n <ImageData WholeExtent=\"{0}\" Origin=\"{1}\" Spacing=\"{2}\">\n  <Piece "
      "Extent=\"{0}\">\n"
      "   <CellData Scalars=\"u\">\n    <DataArray type=\"Float64\" Name=\"u\" format=\"appended\" "
      "offset=\"0\"/>\n"
      "   </CellData>\n  </Piece>\n </ImageData>\n <AppendedData encoding=\"raw\">\n_",
      extent, origin, spacing);
  const std::uint64_t bytes = field.size() * sizeof(double);
  char size[8];
  std::memcpy(size, &bytes, 8);
  text.append(size, 8);
  text.append(reinterpret_cast<const char*>(field.data()), bytes);
  return text + "\n </AppendedData>\n</VTKFile>\n";
}

Json grid_json(const CartesianGrid& g) {
  Json cells = Json::array(), extent = Json::array(), boundaries = Json::array();
  for (int d = 0; d < g.dims(); ++d) {
    cells.push_back(g.cells(d));
    extent.push_back({g.lo(d), g.hi(d)});
    boundaries.push_back({to_string(g.boundary(d, 0).kind), to_string(g.boundary(d, 1).kind)});
  }
  return {{"cells", cells}, {"extent", extent}, {"boundaries", boundaries}};
}

int run(const SolveOptions& options) {
  SolveRequest r = solve_request(options);
  for (const auto& [path, name] :
       {std::pair{options.field, "--field"}, std::pair{options.residuals, "--residuals"},
        std::pair{options.json, "--json"}})
    if (!path.empty()) check_output(path, name);
  const DeviceSet devices = r.serial ? DeviceSet() : open(options.devices);
  const Blocks blocks = blocks_of(r, devices);
  const Partition& partition = blocks.partition();
  const bool heat = r.problem == "heat";
  if (options.dry_run) {
    const auto& p = partition.process_grid();
    write_stdout(fmt::format("{}: {} cells in {} blocks ({} x {} x {}) on {}{}\n", r.problem,
                             r.grid->shape_text(), partition.parts(), p[0], p[1], p[2], blocks.transport(),
                             heat ? fmt::format("; {} steps of {:.6g}", r.steps, r.dt) : ""));
    return 0;
  }
  const Outcome outcome = run_on(r, blocks, !log_options().quiet);
  Json verify = {{"ran", options.verify}};
  bool equal = true;
  if (options.verify) {
    const Outcome one = run_on(r, Blocks(*r.grid, Serial{1}), false);
    equal = std::memcmp(one.field.data(), outcome.field.data(), one.field.size() * sizeof(double)) == 0;
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < one.field.size(); ++i) {
      difference = std::max(difference, std::abs(one.field[i] - outcome.field[i]));
      size = std::max(size, std::abs(one.field[i]));
    }
    verify["equal"] = equal;
    verify["max_relative"] = size > 0 ? difference / size : 0;
  }
  Blake3 hasher;
  hasher.update(outcome.field.data(), outcome.field.size() * sizeof(double));
  const SolverResult& s = outcome.solver;
  // Words a cell: 11 an iteration of CG; a stage reads and writes u, k and the lift several times.
  const double cells = static_cast<double>(r.grid->cell_count()), word = r.single ? 4 : 8;
  const double moved = heat ? 0 : 11 * word * cells * static_cast<double>(s.iterations);
  const Json report = {
      {"schema", 1},
      {"command", "solve"},
      {"problem", r.problem},
      {"grid", grid_json(*r.grid)},
      {"precision", r.single ? "float" : "double"},
      {"parts", partition.parts()},
      {"process_grid", partition.process_grid()},
      {"transport", blocks.transport()},
      {"applies", outcome.applies},
      {"exchanges_per_apply", static_cast<double>(outcome.exchanges) /
                                  static_cast<double>(std::max<std::int64_t>(outcome.applies, 1))},
      {"steps", heat ? Json(r.steps) : Json(nullptr)},
      {"dt", heat ? Json(r.dt) : Json(nullptr)},
      {"converged", heat ? Json(nullptr) : Json(s.converged)},
      {"reason", heat ? Json(nullptr) : Json(s.reason())},
      {"iterations", heat ? Json(nullptr) : Json(s.iterations)},
      {"tolerance", heat ? Json(nullptr) : number_or_null(s.tolerance)},
      {"true_residual", heat ? Json(nullptr) : number_or_null(s.true_residual)},
      {"history", s.history},
      {"seconds", outcome.seconds},
      {"t_eff_gb_s", heat ? Json(nullptr) : Json(moved / outcome.seconds * 1e-9)},
      {"digest", hasher.hex()},
      {"verify", verify}};
  OutputSet outputs;
  if (!options.field.empty())
    outputs.stage(options.field, options.field.ends_with(".vti") ? vti_of(*r.grid, outcome.field)
                                                                 : npy_of(*r.grid, outcome.field));
  if (!options.residuals.empty()) {
    std::string csv = "iteration,residual\n";
    for (std::size_t i = 0; i < s.history.size(); ++i) csv += fmt::format("{},{:.17g}\n", i, s.history[i]);
    outputs.stage(options.residuals, csv);
  }
  stage_json(outputs, options.json, report);
  outputs.commit();
  if (options.json == "-") {
    write_stdout(json_text(report));
  } else {
    std::string text = fmt::format("{}: {} cells, {}, {} block{} on {}\n", r.problem, r.grid->shape_text(),
                                   r.single ? "float" : "double", partition.parts(),
                                   partition.parts() == 1 ? "" : "s", blocks.transport());
    text += heat ? fmt::format("{} steps of {:.6g} in {}\n", r.steps, r.dt, short_time(outcome.seconds))
                 : fmt::format("{} after {} iterations, |f - A u| = {:.3e} (asked {:.3e}), {}\n", s.reason(),
                               s.iterations, s.true_residual, s.tolerance, short_time(outcome.seconds));
    if (options.verify)
      text += equal ? "verify: the bits of one block on the host\n" : "verify: other bits than one block\n";
    write_stdout(text + fmt::format("digest {}\n", report["digest"].get<std::string>()));
  }
  if (!equal)
    throw Error(ErrorClass::mismatch,
                fmt::format("--verify: u differs from one block on the host by {:.3e} of its largest value",
                            verify["max_relative"].get<double>()));
  if (!heat && !s.converged)
    throw Error(
        ErrorClass::not_converged,
        fmt::format("solve: {} after {} iterations with |f - A u| = {:.3e}, asked was {:.3e}; raise "
                    "--max-iterations or --rtol, or use --preconditioner jacobi (outputs were written)",
                    s.reason(), s.iterations, s.true_residual, s.tolerance));
  return 0;
}

}  // namespace

void add_solve(Commands& commands, CLI::App& root) {
  const auto options = std::make_shared<SolveOptions>();
  CLI::App* app = add_command(
      commands, root, "solve", "Solve Poisson, diffusion and heat problems on a Cartesian grid",
      "shardwise solve poisson --size 64x64x64 --rhs \"sin(3*x)*y\" --devices host:2 --field u.npy");
  add_solve_options(*app, *options);
  commands.actions[app] = [options] { return run(*options); };
}

}  // namespace shardwise::program
