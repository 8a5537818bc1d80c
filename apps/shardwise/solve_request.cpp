#include "solve_request.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "command.hpp"
#include "npy.hpp"
#include "picture.hpp"
#include "shardwise/grid/grid_error.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"
#include "shardwise/shard/hash.hpp"
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

/// At commas outside of parentheses, which belong to functions.
std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts{""};
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t n : shape) text += fmt::format("{}{}", text.empty() ? "" : " x ", n);
  return text;
}

/// An array of this shape with finite values; `what` has it.
std::vector<double> array_of(const std::string& option, const std::string& path,
                             const std::vector<std::int64_t>& shape, const char* what = "the grid") {
  NpyArray array = read_npy(path);
  if (array.shape != shape) {
    const std::vector<std::int64_t> reversed(array.shape.rbegin(), array.shape.rend());
    throw_data(fmt::format(
        "{}: '{}' has the shape {}, {} {}; {}", option, path, shape_text(array.shape), what,
        shape_text(shape),
        reversed == shape ? "arrays are [x, y, z]: save the transpose (array.T)" : "give one value a cell"));
  }
  for (std::size_t i = 0; i < array.values.size(); ++i)
    if (!std::isfinite(array.values[i]))
      throw_data(fmt::format("{}: '{}' has {} at cell {} (first index fastest); values must be finite",
                             option, path, array.values[i], i));
  return std::move(array.values);
}

CellValues cell_values(const std::string& option, const std::string& text,
                       const std::vector<std::int64_t>& shape) {
  CellValues values;
  values.option = option;
  if (text.empty()) return values;
  if (text.ends_with(".npy")) {
    values.array = array_of(option, text, shape);
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

/// Values on a face of the grid, divided by `by`: a number, a formula at the centres of its cells, or an
/// array of the face's dimensions in ascending order.
Boundary face_boundary(const Boundary& condition, const std::string& option, const std::string& text,
                       double by, const CartesianGrid& plain, int d, int side) {
  if (text.empty()) return condition;
  const int e0 = d == 0 ? 1 : 0, e1 = d == 2 ? 1 : 2;
  std::vector<double> values;
  if (text.ends_with(".npy")) {
    std::vector<std::int64_t> shape;
    for (const int e : {e0, e1})
      if (e < plain.dims()) shape.push_back(plain.cells(e));
    if (shape.empty()) shape.push_back(1);
    values = array_of(option, text, shape, "the face");
    for (double& v : values) v /= by;
  } else {
    const Expression formula(option, text);
    if (formula.uses_time())
      throw_usage(fmt::format("{}: boundary values cannot depend on t in this version", option));
    for (std::int64_t j = 0; j < plain.cells(e1); ++j)
      for (std::int64_t i = 0; i < plain.cells(e0); ++i) {
        double p[3] = {0, 0, 0};
        if (e0 < plain.dims()) p[e0] = plain.centre(e0, i);
        if (e1 < plain.dims()) p[e1] = plain.centre(e1, j);
        p[d] = side == 0 ? plain.lo(d) : plain.hi(d);
        values.push_back(formula(p[0], p[1], p[2]) / by);
        if (!std::isfinite(values.back()))
          throw_usage(fmt::format("{}: the value '{}' is {} at ({}, {}, {})", option, text, values.back(),
                                  p[0], p[1], p[2]));
      }
  }
  const bool same = std::all_of(values.begin(), values.end(), [&](double v) { return v == values.front(); });
  if (!same) return condition.with_values(std::move(values));
  Boundary uniform = condition;
  uniform.value = values.front();
  return uniform;
}

void set_boundaries(GridSpec& spec, const std::vector<std::string>& texts,
                    std::vector<std::string>& warnings) {
  std::vector<std::string> seen;
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
    if (std::find(seen.begin(), seen.end(), face) != seen.end())
      throw_usage(
          fmt::format("{}: the face {} has a condition already; give one for each face", option, face));
    seen.push_back(face);
    const std::size_t equal = text.find('=', colon);
    const std::string kind =
        word_value(option, text.substr(colon + 1, equal == std::string::npos ? equal : equal - colon - 1),
                   {"dirichlet", "neumann", "flux", "robin", "periodic"});
    std::string value = equal == std::string::npos ? "" : text.substr(equal + 1);
    double by = 1;
    Boundary condition = Boundary::periodic();
    if (kind == "dirichlet") condition = Boundary::dirichlet();
    if (kind == "neumann") condition = Boundary::neumann();
    if (kind == "flux") condition = Boundary::conormal_flux();
    if (kind == "robin") {
      const std::vector<std::string> abf = split_list(value);
      if (abf.size() != 3) throw_usage(fmt::format("{}: robin=A,B,F is needed: A u + B du/dn = F", option));
      const double a = Expression(option, abf[0])(0, 0, 0), b = Expression(option, abf[1])(0, 0, 0);
      condition = Boundary::robin(a, b, 0);
      // Constructed as Dirichlet or Neumann where one of them is 0: the value is divided likewise.
      by = b == 0 ? a : a == 0 ? b : 1;
      value = abf[2];
      if (a * b < 0)
        warnings.push_back(fmt::format(
            "{}: A and B have different signs: the wall feeds what it should damp, and the problem "
            "may have no stable solution",
            option));
    }
    if (kind == "periodic" && !value.empty()) throw_usage(fmt::format("{}: periodic has no value", option));
    Boundary& target = side == 0 ? spec.boundaries[static_cast<std::size_t>(d)].low
                                 : spec.boundaries[static_cast<std::size_t>(d)].high;
    target = face_boundary(condition, option, value, by, plain, d, side);
    // Periodic means both faces.
    if (kind == "periodic") {
      spec.boundaries[static_cast<std::size_t>(d)] = {Boundary::periodic(), Boundary::periodic()};
      seen.push_back(std::string{face[0], side == 0 ? '+' : '-'});
    }
  }
}

/// One coefficient, or one for each dimension; its largest value in each.
std::array<double, 3> set_kappa(SolveRequest& r, const std::string& text,
                                const std::vector<std::int64_t>& shape) {
  const std::vector<std::string> texts = split_list(text);
  if (texts.size() != 1 && texts.size() != shape.size())
    throw_usage(
        fmt::format("--kappa: '{}' has {} values for {} dimensions; give one, or one for each dimension",
                    text, texts.size(), shape.size()));
  std::vector<double> all;
  std::array<double, 3> largest{1, 1, 1};
  for (std::size_t d = 0; d < texts.size(); ++d) {
    if (texts[d].empty()) throw_usage(fmt::format("--kappa: '{}' has an empty entry", text));
    const CellValues values = cell_values("--kappa", texts[d], shape);
    if (values.formula && values.formula->uses_time())
      throw_usage("--kappa: it cannot depend on t in this version");
    const std::vector<double> kappa = values.on(*r.grid);
    const auto least = std::min_element(kappa.begin(), kappa.end());
    if (!(*least > 0)) {
      const std::string what = fmt::format(
          "--kappa: '{}' is {} at cell {} (first index fastest); it must be "
          "positive everywhere",
          texts[d], *least, least - kappa.begin());
      values.array ? throw_data(what) : throw_usage(what);
    }
    // A wall's face may have up to 3/2 of its cell's kappa: its row sums to 5 kappa / spacing^2, not 4.
    const double most = *std::max_element(kappa.begin(), kappa.end());
    largest[d] = most == *least ? most : 1.25 * most;
    all.insert(all.end(), kappa.begin(), kappa.end());
  }
  if (texts.size() == 1) largest = {largest[0], largest[0], largest[0]};
  r.kappa.emplace(*r.grid, std::move(all), static_cast<int>(texts.size()));
  return largest;
}

std::string digest_of(const std::vector<double>& values) {
  return Blake3().update(values.data(), values.size() * sizeof(double)).hex();
}

/// What decides the bits of a time step: not the parts, nor the devices.
Json step_parameters(const SolveRequest& r, const SolveOptions& o) {
  const CartesianGrid& g = *r.grid;
  Json cells = Json::array(), extent = Json::array(), walls = Json::array();
  for (int d = 0; d < g.dims(); ++d) {
    cells.push_back(g.cells(d));
    extent.push_back({g.lo(d), g.hi(d)});
    for (int side = 0; side < 2; ++side) {
      const Boundary& b = g.boundary(d, side);
      walls.push_back({to_string(b.kind), b.a, b.b, b.values ? Json(digest_of(*b.values)) : Json(b.value)});
    }
  }
  return {{"problem", r.problem},
          {"cells", cells},
          {"extent", extent},
          {"boundaries", walls},
          {"kappa", r.kappa ? Json(digest_of(r.kappa->values())) : Json(1)},
          {"mean", o.mean},
          {"source", r.source.array ? Json(digest_of(*r.source.array)) : Json(o.source)},
          {"scheme", o.scheme},
          {"dt", r.dt},
          {"precision", o.precision}};
}

/// `z=0.5`: the cells that this plane goes through.
void set_slice(SolveRequest& r, const SolveOptions& o) {
  const CartesianGrid& g = *r.grid;
  if (o.png.empty()) {
    if (!o.slice.empty()) throw_usage("--slice says what --png shows; give --png FILE.png too");
    return;
  }
  if (!o.png.ends_with(".png")) throw_usage(fmt::format("--png: '{}' has to end in .png", o.png));
  if (!pictures_built())
    throw_usage(
        "--png: this build has no pictures; install libcairo2-dev and pkg-config and configure again");
  double at = 0;
  if (o.slice.empty()) {
    if (g.dims() < 3) return;
    r.slice_dimension = 2;
    at = (g.lo(2) + g.hi(2)) / 2;
  } else {
    const std::string names = std::string("xyz").substr(0, static_cast<std::size_t>(g.dims()));
    const std::size_t d =
        o.slice.size() > 2 && o.slice[1] == '=' ? names.find(o.slice[0]) : std::string::npos;
    if (d == std::string::npos || g.dims() == 1)
      throw_usage(fmt::format("--slice: '{}' is none; {}", o.slice,
                              g.dims() == 1 ? "a grid of one dimension is shown whole: leave it out"
                                            : fmt::format("write {}=POSITION", fmt::join(names, "=.., "))));
    r.slice_dimension = static_cast<int>(d);
    at = Expression("--slice", o.slice.substr(2))(0, 0, 0);
  }
  const int d = r.slice_dimension;
  if (!(at >= g.lo(d) && at <= g.hi(d)))
    throw_usage(fmt::format("--slice: {} = {} is outside of the grid, which goes from {} to {}", "xyz"[d], at,
                            g.lo(d), g.hi(d)));
  r.slice_index = std::min(static_cast<std::int64_t>((at - g.lo(d)) / g.spacing(d)), g.cells(d) - 1);
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
  app.add_option(
         "--bc", o.boundaries,
         "FACE:KIND=VALUE: x-:dirichlet=1, y+:neumann=0, z-:flux=sin(x), x+:robin=A,B,F, y-:periodic; "
         "a VALUE may be FILE.npy (dirichlet=0 everywhere)")
      ->type_name("BC");
  app.add_option("--rhs", o.rhs, "f: a number, a formula in x, y, z, or FILE.npy (0)")->type_name("F");
  app.add_option("--initial", o.initial, "u at t = 0, for heat (0)")->type_name("F");
  app.add_option("--source", o.source, "Source of heat, may depend on t (0)")->type_name("F");
  app.add_option("--guess", o.guess, "Where the solver begins (0)")->type_name("F");
  app.add_option("--kappa", o.kappa, "Coefficient, for diffusion and heat: one, or KX,KY,KZ (1)")
      ->type_name("F");
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
  app.add_option("--field", o.field, "Write u: FILE.npy ([x, y, z]) or FILE.vti (VTK image); repeatable")
      ->type_name("FILE");
  app.add_option("--residuals", o.residuals, "Write |f - A u| by iteration: FILE.csv or FILE.png; repeatable")
      ->type_name("FILE");
  app.add_option("--png", o.png, "Draw u: a plane of it, or the curve of one dimension")->type_name("FILE");
  app.add_option("--slice", o.slice, "The plane (line) that --png shows: z=0.5 (the middle in z)")
      ->type_name("D=POS");
  app.add_option("--checkpoint", o.checkpoint, "Write the state of heat to this file as it runs")
      ->type_name("FILE");
  app.add_option("--every", o.every, "Steps between two checkpoints (a tenth of --steps)")->type_name("N");
  app.add_option("--restart", o.restart,
                 "Go on from a checkpoint; one that does not exist yet, but is --checkpoint too, begins")
      ->type_name("FILE");
  app.add_option("--json", o.json, "Write the report as JSON ('-': to standard output, alone)")
      ->type_name("FILE");
  app.add_flag("--verify", o.verify, "Repeat on one block on the host and compare the bits");
  app.add_flag("--dry-run", o.dry_run, "Check and print the plan, run nothing");
  add_device_options(app, o.devices);
  add_refused(app, {"--memory", "--weights", "--trace"});
  // An empty text is a variable that was not set, not a wish for the default.
  for (CLI::Option* option : app.get_options())
    if (option->get_type_size() != 0 && !option->get_name().starts_with("--help"))
      option->check([](const std::string& text) { return text.empty() ? "is empty; give a value" : ""; });
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
  only(o.residuals.empty() ? "" : o.residuals.front(), "--residuals", !heat, "poisson and diffusion");
  only(o.checkpoint, "--checkpoint", heat, "heat (a solver goes on from the field it wrote: --guess)");
  only(o.restart, "--restart", heat, "heat (a solver goes on from the field it wrote: --guess)");
  only(o.every, "--every", heat, "heat");
  only(o.kappa, "--kappa", r.problem != "poisson", "diffusion and heat");
  GridSpec spec;
  spec.cells = size_value(o.size);
  set_extent(spec, o.extent);
  set_boundaries(spec, o.boundaries, r.warnings);
  r.grid.emplace(spec);
  r.rhs = cell_values("--rhs", o.rhs, spec.cells);
  r.initial = cell_values("--initial", o.initial, spec.cells);
  r.source = cell_values("--source", o.source, spec.cells);
  r.guess = cell_values("--guess", o.guess, spec.cells);
  const std::string mean = word_value("--mean", o.mean, {"arithmetic", "harmonic", "geometric"});
  r.mean = mean == "arithmetic" ? Mean::arithmetic : mean == "harmonic" ? Mean::harmonic : Mean::geometric;
  std::array<double, 3> largest{1, 1, 1};
  if (!o.kappa.empty()) largest = set_kappa(r, o.kappa, spec.cells);
  for (int d = 0; d < r.grid->dims(); ++d)
    r.radius += 4 * largest[static_cast<std::size_t>(d)] * r.grid->inverse_square(d);
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
  for (const std::string& file : o.field)
    if (!file.ends_with(".npy") && !file.ends_with(".vti"))
      throw_usage(fmt::format("--field: '{}' has to end in .npy or .vti", file));
  for (const std::string& file : o.residuals) {
    if (!file.ends_with(".csv") && !file.ends_with(".png"))
      throw_usage(fmt::format("--residuals: '{}' has to end in .csv or .png", file));
    if (file.ends_with(".png") && !pictures_built())
      throw_usage("--residuals: this build has no pictures; write a .csv");
  }
  set_slice(r, o);
  if (!heat) return r;
  const std::string scheme = word_value("--scheme", o.scheme, {"euler", "ssp-rk3", "rk4"});
  r.scheme = scheme == "euler" ? TimeScheme::euler : scheme == "rk4" ? TimeScheme::rk4 : TimeScheme::ssp_rk3;
  if (o.steps.empty()) throw_usage("solve heat: --steps is missing; say how many time steps to take");
  r.steps = count_value("--steps", o.steps, 1, std::int64_t{1} << 40);
  const double limit = largest_step(r.scheme, r.radius);
  r.dt = o.dt.empty() ? 0.9 * limit : positive_value("--dt", o.dt);
  if (r.dt > limit)
    throw_usage(
        fmt::format("--dt: {} is above the stability limit {} of {} on this grid; use less, or fewer cells",
                    r.dt, limit, scheme));
  if (!o.every.empty() && o.checkpoint.empty())
    throw_usage("--every says how often --checkpoint is written; give --checkpoint FILE too");
  r.every = o.every.empty() ? std::max<std::int64_t>(1, r.steps / 10)
                            : count_value("--every", o.every, 1, std::int64_t{1} << 40);
  r.parameters = step_parameters(r, o);
  return r;
}

}  // namespace shardwise::program
