#include "solve_outputs.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "line_plot.hpp"
#include "npy.hpp"
#include "picture.hpp"

namespace shardwise::program {

std::string field_npy(const CartesianGrid& g, std::span<const double> field) {
  std::vector<double> c(field.size());
  const std::int64_t n0 = g.cells(0), n1 = g.cells(1), n2 = g.cells(2);
  for (std::int64_t k = 0; k < n2; ++k)
    for (std::int64_t j = 0; j < n1; ++j)
      for (std::int64_t i = 0; i < n0; ++i)
        c[static_cast<std::size_t>(k + n2 * (j + n1 * i))] =
            field[static_cast<std::size_t>(i + n0 * (j + n1 * k))];
  std::vector<std::int64_t> shape;
  for (int d = 0; d < g.dims(); ++d) shape.push_back(g.cells(d));
  return npy_bytes(std::span<const double>(c), shape);
}

std::string field_vti(const CartesianGrid& g, std::span<const double> field) {
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
  const std::uint64_t bytes = field.size_bytes();
  char size[8];
  std::memcpy(size, &bytes, 8);
  text.append(size, 8);
  text.append(reinterpret_cast<const char*>(field.data()), bytes);
  return text + "\n </AppendedData>\n</VTKFile>\n";
}

std::string residuals_csv(const SolverResult& result) {
  std::string csv = "iteration,residual\n";
  for (std::size_t i = 0; i < result.history.size(); ++i)
    csv += fmt::format("{},{:.17g}\n", i, result.history[i]);
  return csv;
}

namespace {

/// "poisson, 64 x 64 x 64 cells"
std::string problem_text(const SolveRequest& r) {
  return fmt::format("{}, {} cells", r.problem, r.grid->shape_text());
}

/// A power of ten that brings values into a range where ticks are short, and how it is written.
struct Factor {
  double by = 1;
  std::string text;
};
Factor factor_of(std::span<const double> values) {
  double largest = 0;
  for (const double v : values) largest = std::max(largest, std::abs(v));
  if (largest == 0 || (largest >= 1e-2 && largest < 1e5)) return {};
  const int power = static_cast<int>(std::floor(std::log10(largest)));
  return {std::pow(10.0, -power), fmt::format(" (1e{})", power)};
}

}  // namespace

std::string residuals_png(const SolveRequest& r, const SolverResult& result) {
  LinePlot plot;
  plot.title = "Residual: " + problem_text(r);
  plot.subtitle = fmt::format("conjugate gradients, {}; {} after {} iterations",
                              r.multigrid ? "multigrid"
                              : r.jacobi  ? "Jacobi"
                                          : "no preconditioner",
                              result.reason(), result.iterations);
  plot.x_label = "iteration";
  plot.y_label = "|f \u2212 A u|";
  plot.log_y = true;
  for (std::size_t i = 0; i < result.history.size(); ++i)
    plot.points.emplace_back(static_cast<double>(i), result.history[i]);
  plot.level = {result.tolerance, "tolerance"};
  return line_plot_png(plot);
}

std::string field_png(const SolveRequest& r, std::span<const double> field, const std::string& subtitle) {
  const CartesianGrid& g = *r.grid;
  std::vector<int> shown;  ///< dimensions
  for (int d = 0; d < g.dims(); ++d)
    if (d != r.slice_dimension) shown.push_back(d);
  std::array<std::int64_t, 3> index{};
  std::string where;
  if (r.slice_dimension >= 0) {
    index[static_cast<std::size_t>(r.slice_dimension)] = r.slice_index;
    where =
        fmt::format(", {} = {:.4g}", "xyz"[r.slice_dimension], g.centre(r.slice_dimension, r.slice_index));
  }
  std::vector<double> values;
  const bool plane = shown.size() == 2;
  for (std::int64_t row = 0; row < (plane ? g.cells(shown[1]) : 1); ++row)
    for (std::int64_t column = 0; column < g.cells(shown[0]); ++column) {
      index[static_cast<std::size_t>(shown[0])] = column;
      if (plane) index[static_cast<std::size_t>(shown[1])] = row;
      values.push_back(
          field[static_cast<std::size_t>(index[0] + g.cells(0) * (index[1] + g.cells(1) * index[2]))]);
    }
  const Factor factor = factor_of(values);
  for (double& v : values) v *= factor.by;
  const std::string title = fmt::format("u: {}{}", problem_text(r), where);
  const std::string axis(1, "xyz"[shown[0]]);
  if (!plane) {
    LinePlot plot{title, subtitle, axis, "u" + factor.text, {}, false, {}};
    for (std::size_t i = 0; i < values.size(); ++i)
      plot.points.emplace_back(g.centre(shown[0], static_cast<std::int64_t>(i)), values[i]);
    return line_plot_png(plot);
  }
  Picture picture;
  picture.title = title;
  picture.subtitle = subtitle;
  picture.x_label = axis;
  picture.y_label = "xyz"[shown[1]];
  picture.value_label = "u" + factor.text;
  picture.blank_label = "";
  picture.scale = Scale::linear;
  picture.min_x = g.lo(shown[0]);
  picture.max_x = g.hi(shown[0]);
  picture.min_y = g.lo(shown[1]);
  picture.max_y = g.hi(shown[1]);
  picture.columns = g.cells(shown[0]);
  picture.rows = g.cells(shown[1]);
  picture.gain = values;
  return picture_png(picture);
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

}  // namespace shardwise::program
