#include "solve_request.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "command.hpp"
#include "picture.hpp"
#include "ranks.hpp"
#include "shardwise/grid/grid_error.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"
#include "shardwise/shard/hash.hpp"
#include "solve_memory.hpp"
#include "solve_ranks.hpp"
#include "solve_values.hpp"
#include "values.hpp"

namespace shardwise::program {

namespace {

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

void refuse_time(const CellValues& values) {
  if (values.formula && values.formula->uses_time())
    throw_usage(
        fmt::format("{}: '{}' depends on t; only --source may", values.option, values.formula->text()));
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
    refuse_time(values);
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

std::string or_default(const std::string& text, const char* otherwise) {
  return text.empty() ? otherwise : text;
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
          {"mean", or_default(o.mean, "arithmetic")},
          {"source", r.source.array ? Json(digest_of(*r.source.array)) : Json(o.source)},
          {"scheme", or_default(o.scheme, "rk4")},
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

/// Parts of one process: what orders their operations takes time with the square of their number.
constexpr std::int64_t most_parts = 1024;

/// Refuses operators whose entries leave no room for the squares that norms are made of.
void check_scale(const SolveRequest& r) {
  const double least = r.single ? 1e-12 : 1e-100, most = r.single ? 1e12 : 1e100;
  if (r.radius >= least && r.radius <= most) return;
  throw_usage(
      fmt::format("solve: kappa over the squared spacing is up to {:.3g} on this grid, out of {:g} to {:g} "
                  "for --precision {}; change the units of --extent or --kappa",
                  r.radius / 4, least, most, r.single ? "float" : "double"));
}

double number_value(const std::string& option, const std::string& text) {
  const double value = Expression(option, text)(0, 0, 0);
  if (!std::isfinite(value) || value < 0)
    throw_usage(fmt::format("{}: '{}' is {}; a number of at least 0", option, text, value));
  return value;
}

/// One route for all dimensions, or one each.
std::array<RankRoute, 3> routes_of(const std::string& text, std::size_t dims) {
  const std::vector<std::string> names = split(text, ',');
  if (names.size() != 1 && names.size() != dims)
    throw_usage(fmt::format("--route: '{}' names {} routes for {} dimensions; give one, or one for each",
                            text, names.size(), dims));
  std::array<RankRoute, 3> routes{};
  for (std::size_t d = 0; d < 3; ++d) {
    const std::string name = word_value("--route", names[std::min(d, names.size() - 1)],
                                        {"auto", "nccl", "device-pointers", "staged"});
    routes[d] = name == "auto"              ? RankRoute::automatic
                : name == "nccl"            ? RankRoute::nccl
                : name == "device-pointers" ? RankRoute::device_pointers
                                            : RankRoute::staged;
  }
  return routes;
}

}  // namespace

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
  only(o.mean, "--mean", r.problem != "poisson", "diffusion and heat, which have a kappa");
  only(o.scheme, "--scheme", heat, "heat");
  // A time step solves nothing: the schemes are explicit.
  constexpr const char* iterating =
      "poisson and diffusion, whose solver iterates (heat takes explicit steps: --dt says how exact they "
      "are)";
  only(o.rtol, "--rtol", !heat, iterating);
  only(o.atol, "--atol", !heat, iterating);
  only(o.max_iterations, "--max-iterations", !heat, iterating);
  only(o.preconditioner, "--preconditioner", !heat, iterating);
  only(o.accumulation, "--accumulation", !heat, iterating);
  GridSpec spec;
  spec.cells = size_value(o.size);
  set_extent(spec, o.extent);
  r.single = word_value("--precision", o.precision, {"float", "double"}) == "float";
  // A plan for another machine makes no arrays here but kappa's.
  if (!plans_for_another_machine(o) || !o.kappa.empty())
    require_host_arrays(spec.cells, r.single,
                        o.kappa.empty() ? 0 : static_cast<std::int64_t>(split_list(o.kappa).size()));
  set_boundaries(spec, o.boundaries, r.warnings);
  r.grid.emplace(spec);
  r.rhs = cell_values("--rhs", o.rhs, spec.cells);
  r.initial = cell_values("--initial", o.initial, spec.cells);
  r.source = cell_values("--source", o.source, spec.cells);
  r.guess = cell_values("--guess", o.guess, spec.cells);
  for (const CellValues* values : {&r.rhs, &r.initial, &r.guess}) refuse_time(*values);
  const std::string mean =
      word_value("--mean", or_default(o.mean, "arithmetic"), {"arithmetic", "harmonic", "geometric"});
  r.mean = mean == "arithmetic" ? Mean::arithmetic : mean == "harmonic" ? Mean::harmonic : Mean::geometric;
  std::array<double, 3> largest{1, 1, 1};
  if (!o.kappa.empty()) largest = set_kappa(r, o.kappa, spec.cells);
  for (int d = 0; d < r.grid->dims(); ++d)
    r.radius += 4 * largest[static_cast<std::size_t>(d)] * r.grid->inverse_square(d);
  check_scale(r);
  r.partition.parts = o.parts.empty() ? 0 : static_cast<int>(count_value("--parts", o.parts, 1, most_parts));
  if (!o.process_grid.empty()) {
    const std::vector<std::string> p = split(o.process_grid, 'x');
    if (p.size() != spec.cells.size())
      throw_usage(fmt::format("--process-grid: '{}' has {} dimensions, --size {}", o.process_grid, p.size(),
                              spec.cells.size()));
    std::int64_t parts = 1;
    for (std::size_t d = 0; d < p.size(); ++d) {
      const std::int64_t along = count_value("--process-grid", p[d], 0, most_parts);
      r.partition.process_grid[d] = static_cast<int>(along);
      parts *= std::max<std::int64_t>(along, 1);
    }
    if (parts > most_parts)
      throw_usage(
          fmt::format("--process-grid: '{}' has {} parts; at most {}", o.process_grid, parts, most_parts));
    r.partition.blocks = true;
  }
  const std::string backend = word_value("--backend", o.backend, {"auto", "serial", "local", "mpi"});
  r.serial = backend == "serial";
  if (r.serial && !o.trace.empty() && !o.dry_run)
    throw_usage("--trace: '--backend serial' runs on no device that has a timeline; leave one of them out");
  r.mpi = backend == "mpi" || has_ranks();
  r.route = routes_of(o.route, spec.cells.size());
  check_rank_request(r, backend);
  r.max_iterations =
      count_value("--max-iterations", or_default(o.max_iterations, "10000"), 1, std::int64_t{1} << 40);
  r.rtol = number_value("--rtol", or_default(o.rtol, "1e-8"));
  r.atol = number_value("--atol", or_default(o.atol, "0"));
  const std::string preconditioner =
      word_value("--preconditioner", or_default(o.preconditioner, "none"), {"none", "jacobi", "multigrid"});
  r.jacobi = preconditioner == "jacobi";
  r.multigrid = preconditioner == "multigrid";
  r.accumulation = accumulation_of(or_default(o.accumulation, "exact"));
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
  const std::string scheme = word_value("--scheme", or_default(o.scheme, "rk4"), {"euler", "ssp-rk3", "rk4"});
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
