#pragma once
// The PNG of a curve: residuals of a solver, values along a line.

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::program {

struct LinePlot {
  std::string title, subtitle, x_label, y_label;
  std::vector<std::pair<double, double>> points;  ///< x ascending
  bool log_y = false;                             ///< values that are not positive are left out
  struct Level {
    double value;
    std::string label;
  };
  std::optional<Level> level;  ///< a horizontal line
};

struct PlotRange {
  double low, high;
};
/// What the y axis shows: log10 of whole decades with log_y, else the values and a little room.
PlotRange plot_range(const LinePlot& plot);

/// The bytes of the PNG. Throws Error{usage} in a build without pictures, Error{io} where cairo fails.
std::string line_plot_png(const LinePlot& plot);

}  // namespace shardwise::program
