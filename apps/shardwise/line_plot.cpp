#include "line_plot.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "shardwise/runtime/error.hpp"
#include "ticks.hpp"

#if defined(SHARDWISE_WITH_PICTURES)
#include "drawing.hpp"
#endif

namespace shardwise::program {

namespace {

/// What is drawn for a value; NaN where nothing is.
double shown(const LinePlot& plot, double value) {
  if (!plot.log_y) return value;
  return value > 0 ? std::log10(value) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

PlotRange plot_range(const LinePlot& plot) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  const auto include = [&](double value) {
    const double v = shown(plot, value);
    if (!std::isfinite(v)) return;
    low = std::min(low, v);
    high = std::max(high, v);
  };
  for (const auto& [x, y] : plot.points) include(y);
  if (plot.level) include(plot.level->value);
  if (!(low <= high)) return {0, 1};
  if (plot.log_y) {
    low = std::floor(low + 1e-9);
    high = std::ceil(high - 1e-9);
    return {low, std::max(high, low + 1)};
  }
  const double room = low < high ? 0.05 * (high - low) : low == 0 ? 1 : 0.1 * std::abs(low);
  return {low - room, high + room};
}

#if defined(SHARDWISE_WITH_PICTURES)

namespace {

using namespace drawing;

constexpr int width = 1100, height = 720;
constexpr double left = 110, right = width - 40, top = 96, bottom = height - 84;

class Plotting {
 public:
  Plotting(cairo_t* context, const LinePlot& plot) : c(context), plot_(plot), range_(plot_range(plot)) {
    if (!plot.points.empty()) {
      x_low_ = plot.points.front().first;
      x_high_ = std::max(plot.points.back().first, x_low_ + 1e-300);
      if (plot.points.back().first <= x_low_) x_high_ = x_low_ + 1;
    }
  }
  void draw() {
    set_colour(c, {1, 1, 1});
    cairo_paint(c);
    draw_axes();
    draw_level();
    draw_curve();
    set_colour(c, ink);
    draw_fitted(c, left, 40, plot_.title, 22, true, right - left);
    set_colour(c, {0.3, 0.3, 0.33});
    draw_fitted(c, left, 68, plot_.subtitle, 15, false, right - left);
  }

 private:
  double px(double x) const { return left + (x - x_low_) / (x_high_ - x_low_) * (right - left); }
  double py(double y) const {
    return bottom - (y - range_.low) / (range_.high - range_.low) * (bottom - top);
  }

  void draw_axes() {
    set_font(c, 14);
    for (const double value : round_ticks(x_low_, x_high_, 10).values) {
      grid_line(px(value), top, px(value), bottom);
      draw_text(c, px(value), bottom + 24, with_minus(round_ticks(x_low_, x_high_, 10).label(value)), 0.5);
    }
    double widest = 0;
    const Ticks up = round_ticks(range_.low, range_.high, 9);
    for (const double value : up.values) {
      if (plot_.log_y && value != std::round(value)) continue;
      grid_line(left, py(value), right, py(value));
      const std::string label = plot_.log_y ? fmt::format("1e{:+.0f}", value) : with_minus(up.label(value));
      draw_text(c, left - 10, py(value) + 5, label, 1);
      widest = std::max(widest, text_width(c, label));
    }
    set_colour(c, ink);
    cairo_set_line_width(c, 1.2);
    cairo_rectangle(c, left, top, right - left, bottom - top);
    cairo_stroke(c);
    set_font(c, 15);
    draw_text(c, (left + right) / 2, bottom + 52, plot_.x_label, 0.5);
    cairo_save(c);
    cairo_translate(c, left - 26 - widest, (top + bottom) / 2);
    cairo_rotate(c, -std::acos(-1.0) / 2);
    draw_text(c, 0, 0, plot_.y_label, 0.5);
    cairo_restore(c);
  }
  void grid_line(double x0, double y0, double x1, double y1) {
    set_colour(c, {0.88, 0.88, 0.9});
    cairo_set_line_width(c, 1);
    cairo_move_to(c, x0, y0);
    cairo_line_to(c, x1, y1);
    cairo_stroke(c);
    set_colour(c, ink);
  }
  void draw_level() {
    if (!plot_.level) return;
    const double y = py(shown(plot_, plot_.level->value));
    if (!std::isfinite(y)) return;
    const double dashes[] = {8, 5};
    set_colour(c, {0.86, 0.08, 0.16});
    cairo_set_line_width(c, 1.6);
    cairo_set_dash(c, dashes, 2, 0);
    cairo_move_to(c, left, y);
    cairo_line_to(c, right, y);
    cairo_stroke(c);
    cairo_set_dash(c, nullptr, 0, 0);
    set_font(c, 14);
    draw_text(c, left + 10, y - 8, plot_.level->label, 0);
  }
  void draw_curve() {
    cairo_save(c);
    cairo_rectangle(c, left, top, right - left, bottom - top);
    cairo_clip(c);
    set_colour(c, colour_at(0.35));
    cairo_set_line_width(c, 2.4);
    cairo_set_line_join(c, CAIRO_LINE_JOIN_ROUND);
    bool pen = false;
    for (const auto& [x, value] : plot_.points) {
      const double y = shown(plot_, value);
      if (!std::isfinite(y)) {
        pen = false;
        continue;
      }
      pen ? cairo_line_to(c, px(x), py(y)) : cairo_move_to(c, px(x), py(y));
      pen = true;
    }
    cairo_stroke(c);
    if (plot_.points.size() <= 60)
      for (const auto& [x, value] : plot_.points) {
        if (!std::isfinite(shown(plot_, value))) continue;
        cairo_arc(c, px(x), py(shown(plot_, value)), 3.6, 0, 2 * std::acos(-1.0));
        cairo_fill(c);
      }
    cairo_restore(c);
  }

  cairo_t* c;
  const LinePlot& plot_;
  const PlotRange range_;
  double x_low_ = 0, x_high_ = 1;
};

}  // namespace

std::string line_plot_png(const LinePlot& plot) {
  return png_bytes(width, height, [&](cairo_t* context) { Plotting(context, plot).draw(); });
}

#else

std::string line_plot_png(const LinePlot&) {
  throw_usage("plots: this build has no pictures; install libcairo2-dev and pkg-config and configure again");
}

#endif

}  // namespace shardwise::program
