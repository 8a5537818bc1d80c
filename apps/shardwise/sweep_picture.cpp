#include "sweep_picture.hpp"

#include "picture.hpp"
#include "shardwise/runtime/error.hpp"

#if defined(SHARDWISE_WITH_PICTURES)

#include <cairo.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "colour_map.hpp"
#include "ticks.hpp"

namespace shardwise::program {
namespace {

constexpr Rgb kBlank{0.925, 0.925, 0.935}, kInk{0.13, 0.13, 0.15}, kGrey{0.3, 0.3, 0.33};
constexpr double kMargin = 28, kTop = 64, kGap = 18, kLabel = 22, kBarRoom = 130, kPanel = 260;

struct Destroy {
  void operator()(cairo_t* context) const { cairo_destroy(context); }
  void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
};
using Context = std::unique_ptr<cairo_t, Destroy>;
using Surface = std::unique_ptr<cairo_surface_t, Destroy>;

void set_colour(cairo_t* c, const Rgb& colour) {
  cairo_set_source_rgb(c, colour.r, colour.g, colour.b);
}

/// Text from (x, y) in the largest size up to `size` that fits `room`; cut where even the smallest does not.
void fitted(cairo_t* c, double x, double y, std::string text, double size, bool bold, double room) {
  cairo_select_font_face(c, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                         bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  const auto width = [&] {
    cairo_set_font_size(c, size);
    cairo_text_extents_t extents;
    cairo_text_extents(c, text.c_str(), &extents);
    return extents.x_advance;
  };
  while (size > 8 && width() > room) size -= 0.5;
  while (text.size() > 4 && width() > room) text.resize(text.size() - 1);
  cairo_move_to(c, x, y);
  cairo_show_text(c, text.c_str());
}

std::uint32_t packed(const Rgb& colour) {
  const auto byte = [](double v) {
    return static_cast<std::uint32_t>(std::lround(std::clamp(v, 0.0, 1.0) * 255));
  };
  return 0xff000000u | byte(colour.r) << 16 | byte(colour.g) << 8 | byte(colour.b);
}

/// The common range of colours: that of one map with all panels' cells.
ValueRange common_range(const std::vector<OverviewPanel>& panels) {
  std::vector<double> gain;
  for (const OverviewPanel& panel : panels)
    for (const double value : panel.gain)
      if (value > 0) gain.push_back(value);
  const std::vector<std::int64_t> crossings(gain.size(), 1);
  Picture all;
  all.columns = static_cast<std::int64_t>(gain.size());
  all.rows = 1;
  all.gain = gain;
  all.crossings = crossings;
  return value_range(all);
}

Surface cells_of(const OverviewPanel& panel, const ValueRange& range) {
  Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(panel.columns),
                                             static_cast<int>(panel.rows)));
  unsigned char* const data = cairo_image_surface_get_data(surface.get());
  if (!data) throw Error(ErrorClass::memory, "overview: no memory for the pixels of a map");
  const int stride = cairo_image_surface_get_stride(surface.get());
  for (std::int64_t row = 0; row < panel.rows; ++row) {
    auto* const line = reinterpret_cast<std::uint32_t*>(data + (panel.rows - 1 - row) * stride);
    for (std::int64_t column = 0; column < panel.columns; ++column) {
      const double gain = panel.gain[static_cast<std::size_t>(row * panel.columns + column)];
      line[column] = gain > 0
                         ? packed(colour_at((10 * std::log10(gain) - range.low) / (range.high - range.low)))
                         : packed(kBlank);
    }
  }
  cairo_surface_mark_dirty(surface.get());
  return surface;
}

void draw_panel(cairo_t* c, const OverviewPanel& panel, const ValueRange& range, double x, double y,
                double width, double height) {
  set_colour(c, kInk);
  fitted(c, x, y - 6, panel.title, 13, false, width);
  const double scale =
      std::min(width / static_cast<double>(panel.columns), height / static_cast<double>(panel.rows));
  const double w = scale * static_cast<double>(panel.columns), h = scale * static_cast<double>(panel.rows);
  const Surface cells = cells_of(panel, range);
  cairo_save(c);
  cairo_translate(c, x, y);
  cairo_scale(c, scale, scale);
  cairo_set_source_surface(c, cells.get(), 0, 0);
  // Cells larger than a pixel stay sharp, smaller ones are averaged.
  cairo_pattern_set_filter(cairo_get_source(c), scale >= 1 ? CAIRO_FILTER_NEAREST : CAIRO_FILTER_GOOD);
  cairo_paint(c);
  cairo_restore(c);
  set_colour(c, kInk);
  cairo_set_line_width(c, 1);
  cairo_rectangle(c, x, y, w, h);
  cairo_stroke(c);
}

void draw_bar(cairo_t* c, const ValueRange& range, double x, double y, double height) {
  constexpr double width = 18;
  for (int i = 0; i < 256; ++i) {
    set_colour(c, colour_table()[static_cast<std::size_t>(255 - i)]);
    cairo_rectangle(c, x, y + height * i / 256, width, std::min(height / 256 + 1, height - height * i / 256));
    cairo_fill(c);
  }
  set_colour(c, kInk);
  cairo_set_line_width(c, 1.2);
  cairo_rectangle(c, x, y, width, height);
  cairo_stroke(c);
  const Ticks ticks = round_ticks(range.low, range.high, std::clamp(static_cast<int>(height / 50), 3, 12));
  for (const double value : ticks.values) {
    const double at = y + height * (range.high - value) / (range.high - range.low);
    cairo_move_to(c, x + width, at);
    cairo_rel_line_to(c, 5, 0);
    cairo_stroke(c);
    std::string label = ticks.label(value);
    if (label.starts_with('-')) label = "\u2212" + label.substr(1);
    fitted(c, x + width + 8, at + 5, label, 13, false, 60);
  }
  fitted(c, x, y + height + 24, "path gain (dB)", 12, false, kBarRoom - 10);
  cairo_rectangle(c, x, y + height + 34, width, 12);
  set_colour(c, kBlank);
  cairo_fill_preserve(c);
  set_colour(c, kInk);
  cairo_stroke(c);
  fitted(c, x + width + 8, y + height + 45, "not reached", 12, false, 90);
}

cairo_status_t append(void* target, const unsigned char* data, unsigned int length) {
  static_cast<std::string*>(target)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

}  // namespace

std::string overview_png(const std::string& title, const std::vector<OverviewPanel>& panels) {
  if (panels.empty()) throw Error(ErrorClass::internal, "overview: there are no maps");
  // Panels of the mean shape of the maps, as many in a row as make the picture about 3 : 2.
  double aspect = 0;
  for (const OverviewPanel& panel : panels)
    aspect += std::log(static_cast<double>(panel.columns) / static_cast<double>(panel.rows));
  aspect = std::clamp(std::exp(aspect / static_cast<double>(panels.size())), 0.4, 2.5);
  const double width = kPanel * std::sqrt(aspect), height = kPanel / std::sqrt(aspect);
  const auto count = static_cast<double>(panels.size());
  const int across =
      std::clamp(static_cast<int>(std::lround(std::sqrt(1.5 * count * (height + kLabel) / width))), 1,
                 static_cast<int>(panels.size()));
  const int down = (static_cast<int>(panels.size()) + across - 1) / across;
  const int picture_width = static_cast<int>(2 * kMargin + across * (width + kGap) + kBarRoom);
  const int picture_height = static_cast<int>(kTop + down * (height + kGap + kLabel) + kMargin + 20);
  Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, picture_width, picture_height));
  Context context(cairo_create(surface.get()));
  cairo_t* const c = context.get();
  set_colour(c, {1, 1, 1});
  cairo_paint(c);
  const ValueRange range = common_range(panels);
  set_colour(c, kInk);
  fitted(c, kMargin, 38, title, 20, true, picture_width - 2 * kMargin);
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const double x = kMargin + static_cast<double>(static_cast<int>(i) % across) * (width + kGap);
    const double y =
        kTop + kLabel + static_cast<double>(static_cast<int>(i) / across) * (height + kGap + kLabel);
    draw_panel(c, panels[i], range, x, y, width, height);
  }
  set_colour(c, kGrey);
  draw_bar(c, range, kMargin + across * (width + kGap), kTop + kLabel,
           std::min(picture_height - kTop - kLabel - 90, 420.0));
  std::string bytes;
  cairo_status_t status = cairo_status(c);
  if (status == CAIRO_STATUS_SUCCESS) {
    cairo_surface_flush(surface.get());
    status = cairo_surface_write_to_png_stream(surface.get(), append, &bytes);
  }
  if (status != CAIRO_STATUS_SUCCESS)
    throw Error(ErrorClass::io,
                std::string("overview: cairo failed (") + cairo_status_to_string(status) + ")");
  return bytes;
}

}  // namespace shardwise::program

#else

namespace shardwise::program {

std::string overview_png(const std::string&, const std::vector<OverviewPanel>&) {
  throw_usage(
      "overview: this build has no pictures; install libcairo2-dev and pkg-config and configure again");
}

}  // namespace shardwise::program

#endif
