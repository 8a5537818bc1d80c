#include "solve_request.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "command.hpp"
#include "npy.hpp"
#include "shardwise/grid/grid_error.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"
#include "values.hpp"

namespace shardwise::program {

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t n : shape) text += fmt::format("{}{}", text.empty() ? "" : " x ", n);
  return text;
}

/// An array of this shape, or of `components` of them along a last axis.
std::vector<double> array_of(const std::string& option, const std::string& path,
                             const std::vector<std::int64_t>& shape) {
  NpyArray array = read_npy(path);
  if (array.shape == shape) return std::move(array.values);
  const std::vector<std::int64_t> reversed(array.shape.rbegin(), array.shape.rend());
  throw_data(fmt::format(
      "{}: '{}' has the shape {}, the grid {}; {}", option, path, shape_text(array.shape), shape_text(shape),
      reversed == shape ? "arrays are [x, y, z]: save the transpose (array.T)" : "give one value a cell"));
}

CellValues cell_values(const std::string& option, const std::string& text,
                       const std::vector<std::int64_t>& shape) {
  CellValues values;
  values.option = option;
  if (text.empty()) return values;
  if (text.ends_with(".npy")) {
    values.array = array_of(option, text, shape);
    for (std::size_t i = 0; i < values.array->size(); ++i)
      if (!std::isfinite((*values.array)[i]))
        throw_data(fmt::format("{}: '{}' has {} at cell {} (first index fastest); values must be finite",
                               option, text, (*values.array)[i], i));
  } else {
    values.formula.emplace(option, text);
  }
  return values;
}

std::vector<std::int64_t> size_value(const std::string& text) {
  if (text.empty())
    throw_usage("solve: --size is missing; give the cells of each dimension, such as --size 64x64");
  std::vector<std::int64_t> cells;
  for (const std::string& part : split(text, 'x'))
    cells.push_back(count_value("--size", part, 1, std::int64_t{1} << 31));
  if (cells.size() > 3)
    throw_usage(fmt::format("--size: '{}' has {} dimensions; 1 to 3", text, cells.size()));
  return cells;
}

/// `LxLxL`, or `lo:hi` in place of an L; default 1 each.
void set_extent(GridSpec& spec, const std::string& text) {
  const std::size_t dims = spec.cells.size();
  spec.lo.assign(dims, 0);
  spec.hi.assign(dims, 1);
  if (text.empty()) return;
  const std::vector<std::string> parts = split(text, 'x');
  if (parts.size() != dims)
    throw_usage(fmt::format("--extent: '{}' has {} dimensions, --size {}; give a length or lo:hi for each",
                            text, parts.size(), dims));
  for (std::size_t d = 0; d < dims; ++d) {
    const std::vector<std::string> ends = split(parts[d], ':');
    const auto number = [&](const std::string& t) { return Expression("--extent", t)(0, 0, 0); };
    if (ends.size() > 2) throw_usage(fmt::format("--extent: '{}' is no length and no lo:hi", parts[d]));
    if (ends.size() == 2) spec.lo[d] = number(ends[0]);
    spec.hi[d] = number(ends.back());
    if (!(spec.lo[d] < spec.hi[d]))
      throw_usage(fmt::format("--extent: '{}' goes from {} to {}; the end must be larger", parts[d],
                              spec.lo[d], spec.hi[d]));
  }
}

/// Values at the centres of a face of the grid; a formula without x, y, z is one number.
Boundary face_boundary(const Boundary& condition, const std::string& option, const std::string& text,
                       const CartesianGrid& plain, int d, int side) {
  if (text.empty()) return condition;
  const Expression formula(option, text);
  if (formula.uses_time())
    throw_usage(fmt::format("{}: boundary values cannot depend on t in this version", option));
  const int e0 = d == 0 ? 1 : 0, e1 = d == 2 ? 1 : 2;
  std::vector<double> values;
  bool same = true;
  for (std::int64_t j = 0; j < plain.cells(e1); ++j)
    for (std::int64_t i = 0; i < plain.cells(e0); ++i) {
      double p[3] = {0, 0, 0};
      if (e0 < plain.dims()) p[e0] = plain.centre(e0, i);
      if (e1 < plain.dims()) p[e1] = plain.centre(e1, j);
      p[d] = side == 0 ? plain.lo(d) : plain.hi(d);
      values.push_back(formula(p[0], p[1], p[2]));
      same = same && values.back() == values.front();
    }
  if (!same) return condition.with_values(std::move(values));
  Boundary uniform = condition;
  uniform.value = values.front();
  if (!std::isfinite(uniform.value))
    throw_usage(fmt::format("{}: the value '{}' is {}", option, text, uniform.value));
  return uniform;
}

void set_boundaries(GridSpec& spec, const std::vector<std::string>& texts) {
  const CartesianGrid plain(GridSpec{spec.lo, spec.hi, spec.cells, {}, {}});
  spec.boundaries.assign(spec.cells.size(), {});
  for (const std::string& text : texts) {
    const std::string option = fmt::format("--bc {}", text);
    const std::size_t colon = text.find(':');
    const std::string face = text.substr(0, colon);
    const int d = face.size() == 2 ? static_cast<int>(std::string("xyz").find(face[0])) : -1;
    if (colon == std::string::npos || d < 0 || d >= plain.dims() || (face[1] != '-' && face[1] != '+'))
      throw_usage(
          fmt::format("{}: FACE:KIND=VALUE is needed, with a face {} and a kind dirichlet, neumann, flux, "
                      "robin or periodic",
                      option,
                      plain.dims() == 1   ? "x- or x+"
                      : plain.dims() == 2 ? "x- x+ y- y+"
                                          : "x- x+ y- y+ z- z+"));
    const int side = face[1] == '-' ? 0 : 1;
    const std::size_t equal = text.find('=', colon);
    const std::string kind =
        word_value(option, text.substr(colon + 1, equal == std::string::npos ? equal : equal - colon - 1),
                   {"dirichlet", "neumann", "flux", "robin", "periodic"});
    std::string value = equal == std::string::npos ? "" : text.substr(equal + 1);
    Boundary condition = Boundary::periodic();
    if (kind == "dirichlet") condition = Boundary::dirichlet();
    if (kind == "neumann") condition = Boundary::neumann();
    if (kind == "flux") condition = Boundary::conormal_flux();
    if (kind == "robin") {
      const std::vector<std::string> abf = split(value, ',');
      if (abf.size() != 3) throw_usage(fmt::format("{}: robin=A,B,F is needed: A u + B du/dn = F", option));
      const double a = Expression(option, abf[0])(0, 0, 0), b = Expression(option, abf[1])(0, 0, 0);
      condition = Boundary::robin(a, b, 0);
      // Constructed as Dirichlet or Neumann where one of them is 0: the value is divided likewise.
      value = b == 0   ? fmt::format("({})/({})", abf[2], abf[0])
              : a == 0 ? fmt::format("({})/({})", abf[2], abf[1])
                       : abf[2];
    }
    if (kind == "periodic" && !value.empty()) throw_usage(fmt::format("{}: periodic has no value", option));
    Boundary& target = side == 0 ? spec.boundaries[static_cast<std::size_t>(d)].low
                                 : spec.boundaries[static_cast<std::size_t>(d)].high;
    target = face_boundary(condition, option, value, plain, d, side);
    // Periodic means both faces.
    if (kind == "periodic")
      spec.boundaries[static_cast<std::size_t>(d)] = {Boundary::periodic(), Boundary::periodic()};
  }
}

double number_value(const std::string& option, const std::string& text) {
  const double value = Expression(option, text)(0, 0, 0);
  if (!std::isfinite(value) || value < 0)
    throw_usage(fmt::format("{}: '{}' is {}; a number of at least 0", option, text, value));
  return value;
}

}  // namespace

std::vector<double> CellValues::on(const CartesianGrid& grid, double t) const {
  if (array) return *array;
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(grid.cell_count()));
  for (std::int64_t k = 0; k < grid.cells(2); ++k)
    for (std::int64_t j = 0; j < grid.cells(1); ++j)
      for (std::int64_t i = 0; i < grid.cells(0); ++i) {
        const double v = formula ? (*formula)(grid.centre(0, i), grid.dims() > 1 ? grid.centre(1, j) : 0,
                                              grid.dims() > 2 ? grid.centre(2, k) : 0, t)
                                 : 0;
        if (!std::isfinite(v))
          throw_usage(
              fmt::format("{}: '{}' is {} at cell ({}, {}, {})", option, formula->text(), v, i, j, k));
        values.push_back(v);
      }
  return values;
}

void add_solve_options(CLI::App& app, SolveOptions& o) {
  app.add_option(
         "problem", o.problem,
         "poisson: -lap u = f; diffusion: -div(kappa grad u) = f; heat: u_t = div(kappa grad u) + source")
      ->type_name("PROBLEM");
  app.add_option("--size", o.size, "Cells of each dimension: 64x64x32")->type_name("NxNxN");
  app.add_option("--extent", o.extent, "Lengths, or lo:hi, of each dimension: 1x1x0.5 (1 each)")
      ->type_name("LxLxL");
  app.add_option("--bc", o.boundaries,
                 "FACE:KIND=VALUE: x-:dirichlet=1, y+:neumann=0, z-:flux=sin(x), x+:robin=A,B,F, y-:periodic "
                 "(dirichlet=0 everywhere)")
      ->type_name("BC");
  app.add_option("--rhs", o.rhs, "f: a number, a formula in x, y, z, or FILE.npy (0)")->type_name("F");
  app.add_option("--initial", o.initial, "u at t = 0, for heat (0)")->type_name("F");
  app.add_option("--source", o.source, "Source of heat, may depend on t (0)")->type_name("F");
  app.add_option("--guess", o.guess, "Where the solver begins (0)")->type_name("F");
  app.add_option("--kappa", o.kappa, "Coefficient, for diffusion and heat (1)")->type_name("F");
  app.add_option("--mean", o.mean, "arithmetic | harmonic | geometric: the coefficient of a face")
      ->type_name("MEAN");
  app.add_option("--parts", o.parts, "Slabs, spread over the devices (one a device)")->type_name("N");
  app.add_option("--process-grid", o.process_grid, "Blocks: parts along each dimension, 0 is free")
      ->type_name("PxPxP");
  app.add_option("--backend", o.backend, "auto | serial | local (auto: local)")->type_name("NAME");
  app.add_option("--precision", o.precision, "float | double (double)")->type_name("TYPE");
  app.add_option("--steps", o.steps, "Time steps, for heat")->type_name("N");
  app.add_option("--dt", o.dt, "Length of a time step (0.9 of the stability limit)")->type_name("S");
  app.add_option("--scheme", o.scheme, "euler | ssp-rk3 | rk4 (rk4)")->type_name("NAME");
  app.add_option("--rtol", o.rtol, "Stops at |f - A u| <= max(rtol |f|, atol) (1e-8)")->type_name("R");
  app.add_option("--atol", o.atol, "The same, absolute (0)")->type_name("R");
  app.add_option("--max-iterations", o.max_iterations, "Most iterations (10000)")->type_name("N");
  app.add_option("--preconditioner", o.preconditioner, "none | jacobi | multigrid (none)")->type_name("NAME");
  app.add_option("--accumulation", o.accumulation, "fast | ordered | exact: the sums of the solver (exact)")
      ->type_name("NAME");
  app.add_option("--field", o.field, "Write u: FILE.npy ([x, y, z]) or FILE.vti (VTK image)")
      ->type_name("FILE");
  app.add_option("--residuals", o.residuals, "Write iteration and residual, as CSV")->type_name("FILE");
  app.add_option("--json", o.json, "Write the report as JSON ('-': to standard output, alone)")
      ->type_name("FILE");
  app.add_flag("--verify", o.verify, "Repeat on one block on the host and compare the bits");
  app.add_flag("--dry-run", o.dry_run, "Check and print the plan, run nothing");
  add_device_options(app, o.devices);
  add_refused(
      app, {"--slice", "--png", "--checkpoint", "--every", "--restart", "--memory", "--weights", "--trace"});
}

SolveRequest solve_request(const SolveOptions& o) {
  SolveRequest r;
  if (o.problem.empty()) throw_usage("solve needs a problem: 'poisson', 'diffusion' or 'heat'");
  r.problem = word_value("solve", o.problem, {"poisson", "diffusion", "heat"});
  const bool heat = r.problem == "heat";
  const auto only = [&](const std::string& value, const char* option, bool allowed, const char* who) {
    if (!value.empty() && !allowed)
      throw_usage(fmt::format("{} is for {}; leave it out of {}", option, who, r.problem));
  };
  only(o.rhs, "--rhs", !heat, "poisson and diffusion (heat has --source)");
  only(o.guess, "--guess", !heat, "poisson and diffusion (heat has --initial)");
  only(o.initial, "--initial", heat, "heat");
  only(o.source, "--source", heat, "heat");
  only(o.steps, "--steps", heat, "heat");
  only(o.dt, "--dt", heat, "heat");
  only(o.residuals, "--residuals", !heat, "poisson and diffusion");
  only(o.kappa, "--kappa", r.problem != "poisson", "diffusion and heat");
  GridSpec spec;
  spec.cells = size_value(o.size);
  set_extent(spec, o.extent);
  set_boundaries(spec, o.boundaries);
  r.grid.emplace(spec);
  r.rhs = cell_values("--rhs", o.rhs, spec.cells);
  r.initial = cell_values("--initial", o.initial, spec.cells);
  r.source = cell_values("--source", o.source, spec.cells);
  r.guess = cell_values("--guess", o.guess, spec.cells);
  const std::string mean = word_value("--mean", o.mean, {"arithmetic", "harmonic", "geometric"});
  r.mean = mean == "arithmetic" ? Mean::arithmetic : mean == "harmonic" ? Mean::harmonic : Mean::geometric;
  if (!o.kappa.empty()) {
    const std::vector<double> kappa = cell_values("--kappa", o.kappa, spec.cells).on(*r.grid);
    const auto least = std::min_element(kappa.begin(), kappa.end());
    if (!(*least > 0))
      throw_usage(fmt::format("--kappa: cell {} (first index fastest) has {}; it must be positive everywhere",
                              least - kappa.begin(), *least));
    // A wall's face may have up to 3/2 of its cell's kappa: its row sums to 5 kappa / spacing^2, not 4.
    const double most = *std::max_element(kappa.begin(), kappa.end());
    r.kappa_max = most == *least ? most : 1.25 * most;
    r.kappa.emplace(*r.grid, kappa);
  }
  if (!o.parts.empty())
    r.partition.parts = static_cast<int>(count_value("--parts", o.parts, 1, 1'000'000));
  else
    r.partition.parts = 0;
  if (!o.process_grid.empty()) {
    const std::vector<std::string> p = split(o.process_grid, 'x');
    if (p.size() != spec.cells.size())
      throw_usage(fmt::format("--process-grid: '{}' has {} dimensions, --size {}", o.process_grid, p.size(),
                              spec.cells.size()));
    for (std::size_t d = 0; d < p.size(); ++d)
      r.partition.process_grid[d] = static_cast<int>(count_value("--process-grid", p[d], 0, 1'000'000));
    r.partition.blocks = true;
  }
  r.serial = word_value("--backend", o.backend, {"auto", "serial", "local"}) == "serial";
  r.single = word_value("--precision", o.precision, {"float", "double"}) == "float";
  r.max_iterations = count_value("--max-iterations", o.max_iterations, 1, std::int64_t{1} << 40);
  r.rtol = number_value("--rtol", o.rtol);
  r.atol = number_value("--atol", o.atol);
  const std::string preconditioner =
      word_value("--preconditioner", o.preconditioner, {"none", "jacobi", "multigrid"});
  r.jacobi = preconditioner == "jacobi";
  r.multigrid = preconditioner == "multigrid";
  r.accumulation = accumulation_of(o.accumulation);
  if (!o.field.empty() && !o.field.ends_with(".npy") && !o.field.ends_with(".vti"))
    throw_usage(fmt::format("--field: '{}' has to end in .npy or .vti", o.field));
  if (!heat) return r;
  const std::string scheme = word_value("--scheme", o.scheme, {"euler", "ssp-rk3", "rk4"});
  r.scheme = scheme == "euler" ? TimeScheme::euler : scheme == "rk4" ? TimeScheme::rk4 : TimeScheme::ssp_rk3;
  if (o.steps.empty()) throw_usage("solve heat: --steps is missing; say how many time steps to take");
  r.steps = count_value("--steps", o.steps, 1, std::int64_t{1} << 40);
  const double limit = largest_step(r.scheme, diffusion_radius(*r.grid, r.kappa_max));
  r.dt = o.dt.empty() ? 0.9 * limit : positive_value("--dt", o.dt);
  if (r.dt > limit)
    throw_usage(fmt::format(
        "--dt: {} is above the stability limit {} of {} on this grid (largest kappa {}); use less, or "
        "fewer cells",
        r.dt, limit, scheme, r.kappa_max));
  return r;
}

}  // namespace shardwise::program
