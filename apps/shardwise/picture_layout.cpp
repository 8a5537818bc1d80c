#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "picture.hpp"

namespace shardwise::program {
namespace {

// Room around the map, pixels: axis labels left and below, title above, colour bar right.
constexpr double margin_left = 96, margin_right = 150, margin_top = 92, margin_bottom = 78;
constexpr double largest_width = 960, largest_height = 860;
constexpr double least_content_width = 560, least_content_height = 240;

/// The value below which `share` of the sorted values lie.
double percentile(std::vector<double>& values, double share) {
  const auto index = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + index, values.end());
  return values[static_cast<std::size_t>(index)];
}

}  // namespace

PictureLayout picture_layout(const Picture& picture) {
  PictureLayout layout;
  const double width = picture.max_x - picture.min_x, height = picture.max_y - picture.min_y;
  layout.pixels_per_metre = std::min(largest_width / width, largest_height / height);
  layout.plot_width = width * layout.pixels_per_metre;
  layout.plot_height = height * layout.pixels_per_metre;
  const double content_width = std::max(layout.plot_width, least_content_width);
  const double content_height = std::max(layout.plot_height, least_content_height);
  layout.left = std::round(margin_left + (content_width - layout.plot_width) / 2);
  layout.top = std::round(margin_top + (content_height - layout.plot_height) / 2);
  layout.width = static_cast<int>(std::ceil(margin_left + content_width + margin_right));
  layout.height = static_cast<int>(std::ceil(margin_top + content_height + margin_bottom));
  return layout;
}

ValueRange value_range(const Picture& picture) {
  std::vector<double> values;
  if (picture.scale == Scale::linear) {
    for (std::size_t i = 0; i < picture.gain.size(); ++i)
      if (picture.is_covered(i)) values.push_back(picture.gain[i]);
    if (values.empty()) return {-1, 0};
    const auto [least, largest] = std::minmax_element(values.begin(), values.end());
    const double room = *least < *largest ? 0 : *least == 0 ? 1 : 0.1 * std::abs(*least);
    return {*least - room, *largest + room};
  }
  for (std::size_t i = 0; i < picture.gain.size(); ++i) {
    if (picture.is_covered(i) && picture.gain[i] > 0) values.push_back(10 * std::log10(picture.gain[i]));
  }
  if (values.empty()) return {-1, 0};
  const double low = percentile(values, 0.01), high = percentile(values, 0.995);
  const double step = high - low < 15 ? 5 : 10;
  ValueRange range{std::floor(low / step) * step, std::ceil(high / step) * step};
  if (range.high - range.low < step) range.high = range.low + step;
  return range;
}

std::string world_file(const Picture& picture) {
  const PictureLayout layout = picture_layout(picture);
  const double size = 1 / layout.pixels_per_metre;
  return fmt::format("{:.12g}\n0\n0\n{:.12g}\n{:.12g}\n{:.12g}\n", size, -size,
                     picture.min_x + (0.5 - layout.left) * size, picture.max_y - (0.5 - layout.top) * size);
}

std::string world_file_name(const std::string& picture_name) {
  const std::size_t slash = picture_name.find_last_of('/');
  const std::size_t dot = picture_name.find_last_of('.');
  if (dot == std::string::npos || (slash != std::string::npos && dot < slash) ||
      dot + 1 >= picture_name.size()) {
    return picture_name + ".pgw";
  }
  return picture_name.substr(0, dot + 2) + picture_name.back() + "w";
}

}  // namespace shardwise::program
