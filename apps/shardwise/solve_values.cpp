#include "solve_values.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "shardwise/runtime/error.hpp"
#include "signals.hpp"
#include "solve_ranks.hpp"
#include "values.hpp"

namespace shardwise::program {

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

namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t n : shape) text += fmt::format("{}{}", text.empty() ? "" : " x ", n);
  return text;
}

/// An array of this shape with finite values; `what` has it.
std::vector<double> array_of(const std::string& option, const std::string& path,
                             const std::vector<std::int64_t>& shape, const char* what = "the grid") {
  NpyArray array = read_npy_on_ranks(path);
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

/// Refuses names that a grid of so many dimensions does not have: they would be 0.
void check_names(const Expression& formula, const std::string& option, std::size_t dims) {
  for (std::size_t d = dims; d < 3; ++d)
    if (formula.uses("xyz"[d]))
      throw_usage(fmt::format("{}: '{}' depends on {}, but the grid has {} dimension{}; leave {} out", option,
                              formula.text(), "xyz"[d], dims, dims == 1 ? "" : "s", "xyz"[d]));
}

}  // namespace

CellValues cell_values(const std::string& option, const std::string& text,
                       const std::vector<std::int64_t>& shape) {
  CellValues values;
  values.option = option;
  if (text.empty()) return values;
  if (text.ends_with(".npy")) {
    values.array = array_of(option, text, shape);
  } else {
    values.formula.emplace(option, text);
    check_names(*values.formula, option, shape.size());
  }
  return values;
}

std::vector<double> CellValues::on(const CartesianGrid& grid, double t) const {
  if (array) return *array;
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(grid.cell_count()));
  for (std::int64_t k = 0; k < grid.cells(2); ++k)
    for (std::int64_t j = 0; j < grid.cells(1); ++j) {
      throw_if_stopped();
      for (std::int64_t i = 0; i < grid.cells(0); ++i) {
        const double v = formula ? (*formula)(grid.centre(0, i), grid.dims() > 1 ? grid.centre(1, j) : 0,
                                              grid.dims() > 2 ? grid.centre(2, k) : 0, t)
                                 : 0;
        if (!std::isfinite(v))
          throw_usage(
              fmt::format("{}: '{}' is {} at cell ({}, {}, {})", option, formula->text(), v, i, j, k));
        values.push_back(v);
      }
    }
  return values;
}

namespace {

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
    check_names(formula, option, static_cast<std::size_t>(plain.dims()));
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

}  // namespace

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

}  // namespace shardwise::program
