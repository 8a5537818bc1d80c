// The parts of the picture that have right answers: colours, ticks, outlines, range, placement.

#include "picture.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "colour_map.hpp"
#include "ticks.hpp"

namespace shardwise::program {
namespace {

TEST(ColourMap, StepsAreEqualAndLightnessRises) {
  double least = 1e9, largest = 0;
  for (std::size_t i = 1; i < colour_table().size(); ++i) {
    const auto a = to_lab(colour_table()[i - 1]), b = to_lab(colour_table()[i]);
    const double step = std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
    least = std::min(least, step);
    largest = std::max(largest, step);
    EXPECT_GT(b[0], a[0]) << i;
  }
  EXPECT_LT(largest / least, 1.05);
}

TEST(ColourMap, LabOfKnownColours) {
  const auto white = to_lab({1, 1, 1});
  EXPECT_NEAR(white[0], 100, 0.01);
  EXPECT_NEAR(white[1], 0, 0.02);
  EXPECT_NEAR(white[2], 0, 0.02);
  // sRGB red under D65: L* 53.24, a* 80.09, b* 67.20.
  const auto red = to_lab({1, 0, 0});
  EXPECT_NEAR(red[0], 53.24, 0.02);
  EXPECT_NEAR(red[1], 80.09, 0.05);
  EXPECT_NEAR(red[2], 67.20, 0.05);
}

TEST(Ticks, AreRoundInsideAndFew) {
  for (const auto& [low, high] :
       {std::pair{-805.6, 669.9}, {0.0, 1.0}, {-140.0, -90.0}, {691000.2, 691000.9}}) {
    const Ticks ticks = round_ticks(low, high, 8);
    EXPECT_GE(ticks.values.size(), 2u);
    EXPECT_LE(ticks.values.size(), 8u);
    const double mantissa = ticks.step / std::pow(10.0, std::floor(std::log10(ticks.step) + 1e-9));
    EXPECT_TRUE(std::abs(mantissa - 1) < 1e-6 || std::abs(mantissa - 2) < 1e-6 ||
                std::abs(mantissa - 5) < 1e-6);
    for (const double value : ticks.values) {
      EXPECT_GE(value, low - 1e-6);
      EXPECT_LE(value, high + 1e-6);
    }
  }
  EXPECT_EQ(round_ticks(-0.2, 0.2, 5).label(-1e-17), "0.0");
  EXPECT_EQ(round_ticks(-800, 800, 9).label(-200), "-200");
}

void add_quad(TriangleSoup& soup, Vec3f a, Vec3f b, Vec3f c, Vec3f d) {
  soup.push_back({a, b, c});
  soup.push_back({a, c, d});
}

TEST(Outlines, BoxShowsItsFourSidesAndGroundNothing) {
  TriangleSoup box, ground;
  const Vec3f a{0, 0, 0}, b{4, 0, 0}, c{4, 3, 0}, d{0, 3, 0}, A{0, 0, 9}, B{4, 0, 9}, C{4, 3, 9}, D{0, 3, 9};
  add_quad(box, A, B, C, D);
  add_quad(box, d, c, b, a);
  add_quad(box, a, b, B, A);
  add_quad(box, b, c, C, B);
  add_quad(box, c, d, D, C);
  add_quad(box, d, a, A, D);
  add_quad(ground, {-20, -20, 0}, {20, -20, 0}, {20, 20, 0}, {-20, 20, 0});
  const std::vector<Segment> segments = outlines({ground, box}, 2);
  double length = 0;
  for (const Segment& s : segments) {
    // Never the diagonal of the roof, never a point.
    EXPECT_TRUE((s.x0 == s.x1) != (s.y0 == s.y1));
    length += std::hypot(s.x1 - s.x0, s.y1 - s.y0);
  }
  EXPECT_EQ(segments.size(), 8u);  // roof and floor
  EXPECT_DOUBLE_EQ(length, 28);
}

TEST(Outlines, OpenEdgesCountWhateverTheWinding) {
  TriangleSoup roof;
  add_quad(roof, {0, 0, 5}, {0, 2, 5}, {2, 2, 5}, {2, 0, 5});
  const TriangleSoup tower{{Vec3f{0, 0, 0}, Vec3f{90, 0, 0}, Vec3f{0, 90, 40}}};
  EXPECT_EQ(outlines({roof, tower}, 2).size(), 4u + 3u);
}

struct PictureData {
  std::vector<double> gain;
  std::vector<std::int64_t> crossings;
  Picture picture;
  PictureData(double width, double height, double cell) {
    picture.min_x = 100;
    picture.min_y = -50;
    picture.max_x = 100 + width;
    picture.max_y = -50 + height;
    picture.columns = static_cast<std::int64_t>(width / cell);
    picture.rows = static_cast<std::int64_t>(height / cell);
    const auto count = static_cast<std::size_t>(picture.columns * picture.rows);
    for (std::size_t i = 0; i < count; ++i)
      gain.push_back(std::pow(10.0, -8.0 - 3.0 * static_cast<double>(i) / static_cast<double>(count)));
    crossings.assign(count, 20);
    picture.gain = gain;
    picture.crossings = crossings;
  }
};

TEST(PictureLayout, WorldFileMapsTheMapsCorners) {
  for (const auto& [width, height] : {std::pair{1500.0, 1200.0}, {300.0, 900.0}, {4000.0, 300.0}}) {
    const PictureData data(width, height, 10);
    const PictureLayout layout = picture_layout(data.picture);
    EXPECT_LE(layout.width, 1300);
    EXPECT_LE(layout.height, 1100);
    std::istringstream text(world_file(data.picture));
    double a = 0, d = 0, b = 0, e = 0, x = 0, y = 0;
    ASSERT_TRUE(text >> a >> d >> b >> e >> x >> y);
    // Pixel (column, row) has its centre at (x + a column, y + e row); an edge lies half a pixel off.
    EXPECT_NEAR(x + a * (layout.left - 0.5), data.picture.min_x, 1e-6);
    EXPECT_NEAR(y + e * (layout.top - 0.5), data.picture.max_y, 1e-6);
    EXPECT_NEAR(x + a * (layout.left + layout.plot_width - 0.5), data.picture.max_x, 1e-6);
    EXPECT_NEAR(y + e * (layout.top + layout.plot_height - 0.5), data.picture.min_y, 1e-6);
  }
  EXPECT_EQ(world_file_name("a/map.png"), "a/map.pgw");
  EXPECT_EQ(world_file_name("a.b/map"), "a.b/map.pgw");
}

TEST(PictureLayout, RangeIgnoresOutliersAndBlankCells) {
  PictureData data(1000, 1000, 10);
  data.gain[5] = 1e30;
  data.crossings[6] = 0;
  data.gain[6] = 1e-300;
  const ValueRange range = value_range(data.picture);
  EXPECT_EQ(range.low, -110);
  EXPECT_EQ(range.high, -80);
  PictureData empty(100, 100, 10);
  std::fill(empty.crossings.begin(), empty.crossings.end(), 0);
  EXPECT_LT(value_range(empty.picture).low, value_range(empty.picture).high);
}

TEST(Picture, IsAPngOfTheLayoutsSize) {
  if (!pictures_built()) GTEST_SKIP() << "this build has no pictures";
  const PictureData data(300, 200, 10);
  const std::string png = picture_png(data.picture);
  ASSERT_GT(png.size(), 100u);
  const auto number = [&png](std::size_t at) {
    unsigned value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value * 256 + static_cast<unsigned char>(png[at + i]);
    return static_cast<int>(value);
  };
  EXPECT_EQ(number(16), picture_layout(data.picture).width);
  EXPECT_EQ(number(20), picture_layout(data.picture).height);
}

}  // namespace
}  // namespace shardwise::program
