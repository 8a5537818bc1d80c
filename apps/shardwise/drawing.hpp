#pragma once
// What pictures share: text, colours, the PNG's bytes. Builds without cairo do not include this.

#include <cairo.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "colour_map.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::program::drawing {

struct Destroy {
  void operator()(cairo_t* context) const { cairo_destroy(context); }
  void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
};
using Context = std::unique_ptr<cairo_t, Destroy>;
using Surface = std::unique_ptr<cairo_surface_t, Destroy>;

inline constexpr Rgb blank{0.925, 0.925, 0.935};  ///< cells without a value
inline constexpr Rgb ink{0.13, 0.13, 0.15};

inline void set_colour(cairo_t* c, const Rgb& colour, double alpha = 1) {
  cairo_set_source_rgba(c, colour.r, colour.g, colour.b, alpha);
}

inline void set_font(cairo_t* c, double size, bool bold = false) {
  cairo_select_font_face(c, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                         bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(c, size);
}

inline double text_width(cairo_t* c, const std::string& text) {
  cairo_text_extents_t extents;
  cairo_text_extents(c, text.c_str(), &extents);
  return extents.x_advance;
}

/// Text whose baseline starts at (x, y), moved left by `align` of its width (0 left, 0.5 centred, 1 right).
inline void draw_text(cairo_t* c, double x, double y, const std::string& text, double align) {
  cairo_move_to(c, x - align * text_width(c, text), y);
  cairo_show_text(c, text.c_str());
}

/// A true minus sign, as wide as a plus.
inline std::string with_minus(const std::string& number) {
  return number.starts_with('-') ? "\u2212" + number.substr(1) : number;
}

/// Text in the largest size up to `size` that fits `room`, then cut with an ellipsis.
inline void draw_fitted(cairo_t* c, double x, double y, std::string text, double size, bool bold,
                        double room) {
  set_font(c, size, bold);
  while (size > 11 && text_width(c, text) > room) set_font(c, size -= 0.5, bold);
  while (text.size() > 4 && text_width(c, text + "…") > room && text_width(c, text) > room) {
    do text.pop_back();
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0xC0);
    if (text_width(c, text + "…") <= room) text += "…";
  }
  draw_text(c, x, y, text, 0);
}

inline std::uint32_t pack(const Rgb& colour) {
  const auto byte = [](double v) {
    return static_cast<std::uint32_t>(std::lround(std::clamp(v, 0.0, 1.0) * 255));
  };
  return 0xff000000u | byte(colour.r) << 16 | byte(colour.g) << 8 | byte(colour.b);
}

inline cairo_status_t append(void* target, const unsigned char* data, unsigned int length) {
  static_cast<std::string*>(target)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

/// The bytes of a PNG of `width` x `height` pixels that `draw` fills. Throws Error{io} where cairo fails.
template <class F>
std::string png_bytes(int width, int height, F&& draw) {
  Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height));
  Context context(cairo_create(surface.get()));
  draw(context.get());
  cairo_status_t status = cairo_status(context.get());
  std::string bytes;
  if (status == CAIRO_STATUS_SUCCESS) {
    cairo_surface_flush(surface.get());
    status = cairo_surface_write_to_png_stream(surface.get(), append, &bytes);
  }
  if (status != CAIRO_STATUS_SUCCESS) {
    throw Error(ErrorClass::io, std::string("picture: cairo failed (") + cairo_status_to_string(status) +
                                    "); write the values instead and draw them elsewhere");
  }
  return bytes;
}

}  // namespace shardwise::program::drawing
