#include "picture.hpp"

#include <algorithm>
#include <cmath>

#include "shardwise/runtime/error.hpp"
#include "ticks.hpp"

#if defined(SHARDWISE_WITH_PICTURES)

#include "drawing.hpp"

namespace shardwise::program {
namespace {

using namespace drawing;

/// The map at the picture's resolution: a pixel shows its cell, or the mean of the covered cells it spans.
Surface map_surface(const Picture& picture, const PictureLayout& layout, const ValueRange& range) {
  const int width = std::max(1, static_cast<int>(std::lround(layout.plot_width)));
  const int height = std::max(1, static_cast<int>(std::lround(layout.plot_height)));
  Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height));
  cairo_surface_flush(surface.get());
  unsigned char* data = cairo_image_surface_get_data(surface.get());
  const int stride = cairo_image_surface_get_stride(surface.get());
  if (data == nullptr) throw Error(ErrorClass::memory, "picture: no memory for the map's pixels");
  const auto cells_of = [](std::int64_t count, int pixels, int pixel) {
    const std::int64_t first = count * pixel / pixels;
    return std::pair{first, std::max(first + 1, count * (pixel + 1) / pixels)};
  };
  for (int y = 0; y < height; ++y) {
    auto* line = reinterpret_cast<std::uint32_t*>(data + static_cast<std::ptrdiff_t>(y) * stride);
    const auto [row0, row1] = cells_of(picture.rows, height, height - 1 - y);
    for (int x = 0; x < width; ++x) {
      const auto [column0, column1] = cells_of(picture.columns, width, x);
      double sum = 0;
      int covered = 0;
      for (std::int64_t row = row0; row < row1; ++row) {
        for (std::int64_t column = column0; column < column1; ++column) {
          const auto cell = static_cast<std::size_t>(row * picture.columns + column);
          if (!picture.is_covered(cell)) continue;
          sum += picture.gain[cell];
          ++covered;
        }
      }
      if (covered == 0) {
        line[x] = pack(blank);
      } else {
        const double mean = sum / covered;
        const double shown = picture.scale == Scale::linear ? mean
                             : mean > 0                     ? 10 * std::log10(mean)
                                                            : range.low;
        line[x] = pack(colour_at((shown - range.low) / (range.high - range.low)));
      }
    }
  }
  cairo_surface_mark_dirty(surface.get());
  return surface;
}

class Drawing {
 public:
  Drawing(cairo_t* context, const Picture& picture, const PictureLayout& layout)
      : c(context), picture_(picture), layout_(layout), range_(value_range(picture)) {}

  void draw() {
    set_colour(c, {1, 1, 1});
    cairo_paint(c);
    draw_map();
    draw_outlines();
    draw_axes();
    draw_markers();
    draw_colour_bar();
    draw_titles();
  }

 private:
  double px(double x) const { return layout_.left + (x - picture_.min_x) * layout_.pixels_per_metre; }
  double py(double y) const { return layout_.top + (picture_.max_y - y) * layout_.pixels_per_metre; }
  double right() const { return layout_.left + layout_.plot_width; }
  double bottom() const { return layout_.top + layout_.plot_height; }
  void clip_to_map() {
    cairo_rectangle(c, layout_.left, layout_.top, layout_.plot_width, layout_.plot_height);
    cairo_clip(c);
  }

  void draw_map() {
    const Surface map = map_surface(picture_, layout_, range_);
    cairo_save(c);
    clip_to_map();
    cairo_translate(c, layout_.left, layout_.top);
    cairo_scale(c, layout_.plot_width / cairo_image_surface_get_width(map.get()),
                layout_.plot_height / cairo_image_surface_get_height(map.get()));
    cairo_set_source_surface(c, map.get(), 0, 0);
    cairo_pattern_set_filter(cairo_get_source(c), CAIRO_FILTER_NEAREST);
    cairo_paint(c);
    cairo_restore(c);
  }

  void draw_outlines() {
    cairo_save(c);
    clip_to_map();
    for (const Segment& s : picture_.outlines) {
      cairo_move_to(c, px(s.x0), py(s.y0));
      cairo_line_to(c, px(s.x1), py(s.y1));
    }
    set_colour(c, {0.1, 0.1, 0.12}, 0.75);
    cairo_set_line_width(c, 0.8);
    cairo_set_line_cap(c, CAIRO_LINE_CAP_ROUND);
    cairo_stroke(c);
    cairo_restore(c);
  }

  void draw_axes() {
    set_colour(c, ink);
    cairo_set_line_width(c, 1.2);
    cairo_rectangle(c, layout_.left, layout_.top, layout_.plot_width, layout_.plot_height);
    cairo_stroke(c);
    set_font(c, 14);
    const Ticks across = round_ticks(picture_.min_x, picture_.max_x,
                                     std::clamp(static_cast<int>(layout_.plot_width / 90), 2, 10));
    for (const double value : across.values) {
      cairo_move_to(c, px(value), bottom());
      cairo_rel_line_to(c, 0, 6);
      cairo_stroke(c);
      draw_text(c, px(value), bottom() + 22, with_minus(across.label(value)), 0.5);
    }
    const Ticks up = round_ticks(picture_.min_y, picture_.max_y,
                                 std::clamp(static_cast<int>(layout_.plot_height / 60), 2, 12));
    double widest = 0;
    for (const double value : up.values) {
      cairo_move_to(c, layout_.left, py(value));
      cairo_rel_line_to(c, -6, 0);
      cairo_stroke(c);
      draw_text(c, layout_.left - 10, py(value) + 5, with_minus(up.label(value)), 1);
      widest = std::max(widest, text_width(c, with_minus(up.label(value))));
    }
    set_font(c, 15);
    draw_text(c, (layout_.left + right()) / 2, bottom() + 48, picture_.x_label, 0.5);
    cairo_save(c);
    cairo_translate(c, layout_.left - 22 - widest, (layout_.top + bottom()) / 2);
    cairo_rotate(c, -std::acos(-1.0) / 2);
    draw_text(c, 0, 0, picture_.y_label, 0.5);
    cairo_restore(c);
  }

  /// Text with a white rim, readable on any colour.
  void draw_rimmed(double x, double y, const std::string& text) {
    cairo_move_to(c, x, y);
    cairo_text_path(c, text.c_str());
    set_colour(c, {1, 1, 1}, 0.95);
    cairo_set_line_width(c, 4);
    cairo_set_line_join(c, CAIRO_LINE_JOIN_ROUND);
    cairo_stroke_preserve(c);
    set_colour(c, ink);
    cairo_fill(c);
  }

  void draw_markers() {
    const bool labelled = picture_.markers.size() <= 24;
    for (const PictureMarker& marker : picture_.markers) {
      if (marker.x < picture_.min_x || marker.x > picture_.max_x || marker.y < picture_.min_y ||
          marker.y > picture_.max_y) {
        continue;
      }
      const double x = px(marker.x), y = py(marker.y), radius = 10;
      cairo_move_to(c, x, y - radius);
      cairo_line_to(c, x + 0.87 * radius, y + 0.5 * radius);
      cairo_line_to(c, x - 0.87 * radius, y + 0.5 * radius);
      cairo_close_path(c);
      cairo_set_line_join(c, CAIRO_LINE_JOIN_ROUND);
      set_colour(c, {1, 1, 1});
      cairo_set_line_width(c, 5.5);
      cairo_stroke_preserve(c);
      set_colour(c, {0.86, 0.08, 0.16});
      cairo_fill_preserve(c);
      set_colour(c, ink);
      cairo_set_line_width(c, 1.4);
      cairo_stroke(c);
      if (!labelled) continue;
      set_font(c, 14, true);
      const double width = text_width(c, marker.label);
      const double text_x = x + 15 + width > right() - 3 ? x - 15 - width : x + 15;
      draw_rimmed(text_x, std::clamp(y + 5, layout_.top + 16, bottom() - 6), marker.label);
    }
  }

  void draw_colour_bar() {
    const double least = 200, height = std::max(layout_.plot_height, least), width = 20;
    const double x = right() + 24;
    const double top = layout_.top + (layout_.plot_height - height) / 2;
    for (int i = 0; i < 256; ++i) {
      set_colour(c, colour_table()[static_cast<std::size_t>(255 - i)]);
      // One pixel of overlap, so that no seam shows.
      cairo_rectangle(c, x, top + height * i / 256, width,
                      std::min(height / 256 + 1, height - height * i / 256));
      cairo_fill(c);
    }
    set_colour(c, ink);
    cairo_set_line_width(c, 1.2);
    cairo_rectangle(c, x, top, width, height);
    cairo_stroke(c);
    set_font(c, 14);
    const Ticks ticks =
        round_ticks(range_.low, range_.high, std::clamp(static_cast<int>(height / 50), 3, 13));
    double widest = 0;
    for (const double value : ticks.values) {
      const double y = top + height * (range_.high - value) / (range_.high - range_.low);
      cairo_move_to(c, x + width, y);
      cairo_rel_line_to(c, 5, 0);
      cairo_stroke(c);
      const std::string label = with_minus(ticks.label(value));
      draw_text(c, x + width + 9, y + 5, label, 0);
      widest = std::max(widest, text_width(c, label));
    }
    set_font(c, 15);
    cairo_save(c);
    cairo_translate(c, x + width + 9 + widest + 22, top + height / 2);
    cairo_rotate(c, -std::acos(-1.0) / 2);
    draw_text(c, 0, 0, picture_.value_label, 0.5);
    cairo_restore(c);
    if (picture_.blank_label.empty()) return;
    // What a blank cell means.
    set_font(c, 12);
    const double y = std::min(top + height + 34, layout_.height - 30.0);
    cairo_rectangle(c, x, y, width, 13);
    set_colour(c, blank);
    cairo_fill_preserve(c);
    set_colour(c, ink);
    cairo_set_line_width(c, 1);
    cairo_stroke(c);
    draw_text(c, x + width + 7, y + 11, picture_.blank_label, 0);
  }

  void draw_titles() {
    const double x = std::min(layout_.left, 96.0), room = layout_.width - x - 20;
    set_colour(c, ink);
    draw_fitted(c, x, 38, picture_.title, 22, true, room);
    set_colour(c, {0.3, 0.3, 0.33});
    draw_fitted(c, x, 66, picture_.subtitle, 15, false, room);
  }

  cairo_t* c;
  const Picture& picture_;
  const PictureLayout layout_;
  const ValueRange range_;
};

}  // namespace

bool pictures_built() {
  return true;
}

std::string picture_png(const Picture& picture) {
  const PictureLayout layout = picture_layout(picture);
  return png_bytes(layout.width, layout.height,
                   [&](cairo_t* context) { Drawing(context, picture, layout).draw(); });
}

}  // namespace shardwise::program

#else

namespace shardwise::program {

bool pictures_built() {
  return false;
}

std::string picture_png(const Picture&) {
  throw_usage("--png: this build has no pictures; install libcairo2-dev and pkg-config and configure again");
}

}  // namespace shardwise::program

#endif
