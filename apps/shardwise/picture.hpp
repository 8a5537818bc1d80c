#pragma once
// The PNG of values on a plane: title, axes, colour bar; of a coverage map also buildings, transmitters and
// its world file.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "outline.hpp"

namespace shardwise::program {

struct PictureMarker {
  double x, y;  ///< in-plane metres, in the map's coordinates
  std::string label;
};

enum class Scale {
  decibel,  ///< 10 log10 of the values
  linear,
};

struct Picture {
  std::string title;     ///< first line, bold
  std::string subtitle;  ///< second line: mechanisms, transmitters, ...
  std::string x_label, y_label, value_label;
  double min_x = 0, max_x = 1, min_y = 0, max_y = 1;  ///< metres
  std::int64_t columns = 0, rows = 0;
  std::span<const double> gain;             ///< linear, [rows, columns], row 0 at min_y
  std::span<const std::int64_t> crossings;  ///< 0: the cell is left blank; empty: none is
  Scale scale = Scale::decibel;
  std::string blank_label = "not reached";  ///< empty: no legend for blank cells
  std::vector<Segment> outlines;
  std::vector<PictureMarker> markers;

  bool is_covered(std::size_t cell) const { return crossings.empty() || crossings[cell] > 0; }
};

/// Where the map lies in the picture, pixels from the top left corner.
struct PictureLayout {
  int width = 0, height = 0;  ///< of the whole picture
  double left = 0, top = 0, plot_width = 0, plot_height = 0;
  double pixels_per_metre = 1;
};

/// About 1200 x 900 for any shape of map; portrait maps give portrait pictures.
PictureLayout picture_layout(const Picture& picture);

/// The range of the colours: the 1st and 99.5th percentile of the covered cells in dB, widened to whole tens
/// (fives where they lie within 15 dB). {-1, 0} where no cell is covered. Linear: the least and the largest
/// value.
struct ValueRange {
  double low, high;
};
ValueRange value_range(const Picture& picture);

/// The six lines of an ESRI world file: it maps the centre of a pixel (column, row) of the picture to metres.
std::string world_file(const Picture& picture);

/// The world file's name beside a picture: the extension's first and last letter and a `w` (map.png:
/// map.pgw).
std::string world_file_name(const std::string& picture_name);

/// True where this build can draw (cairo).
bool pictures_built();

/// The bytes of the PNG. Throws Error{usage} in a build without pictures, Error{io} where cairo fails.
std::string picture_png(const Picture& picture);

}  // namespace shardwise::program
