// Standard errors against what they promise: 95 % of the cells lie within 2.365 of them (Student's t with the
// 7 degrees of freedom of eight passes) of a run fifty times longer, whose own error is seven times smaller.
// And the library call against the plain serial loop.

#include <gtest/gtest.h>

#include "reference/library.hpp"
#if SHARDWISE_WITH_IO
#include "shardwise/scene/scene_io.hpp"
#endif

namespace shardwise {
namespace {

using namespace test;

struct Band {
  int cells = 0, inside = 0;
  double percent() const { return 100.0 * inside / cells; }
};

/// Of the cells with at least `crossings` of them.
Band band_of(const CoverageResult& map, const CoverageResult& longer, std::int64_t crossings) {
  Band band;
  for (std::size_t k = 0; k < map.gain.size(); ++k) {
    if (map.crossings[k] < crossings) continue;
    ++band.cells;
    band.inside += std::fabs(map.gain[k] - longer.gain[k]) <= 2.365 * map.standard_error[k];
  }
  return band;
}

TEST(StandardError, CoversTheDifferenceFromALongerRun) {
  TestScene room;
  const int material = room.add_material({5.24, 0.12});
  room.add_box({0, 0, 0}, {10, 8, 5}, material);
  room.add_box({5, 3, 0.4}, {7, 5, 2.6}, material, 0.5);
  Scene scene = open_scene("host:1", model_of(room));
  CoverageOptions options;
  options.transmitters = {{{3.3, 2.9, 3.6}}};
  options.grid = {2, 1.2, 0, 10, 0, 8, 40, 32};
  options.bounces = 2;
  options.samples = 80'000;
  const CoverageResult map = coverage(scene, options).get();
  options.samples *= 50;
  options.seed = 1234567;
  const Band band = band_of(map, coverage(scene, options).get(), 16);
  std::printf("standard error, room: %d of %d cells (%.1f %%) inside\n", band.inside, band.cells,
              band.percent());
  EXPECT_GT(band.cells, 800);
  EXPECT_GE(band.percent(), 92);
  EXPECT_LE(band.percent(), 98);
}

#if SHARDWISE_WITH_IO
TEST(StandardError, Munich) {
  const auto file = real_scene("munich");
  if (file.empty()) GTEST_SKIP() << "no munich in " << SHARDWISE_TEST_SCENES;
  Scene scene = open_scene("host:1", read_scene(file));
  CoverageOptions options;
  options.transmitters = {{{8.5, 21, 60}}};
  options.grid = grid_over(scene, long_runs() ? 4 : 10);
  options.samples = long_runs() ? 2'000'000 : 300'000;
  const CoverageResult map = coverage(scene, options).get();
  options.samples *= 50;
  options.seed = 1234567;
  const CoverageResult longer = coverage(scene, options).get();
  for (const std::int64_t crossings : {16, 64, 256}) {
    const Band band = band_of(map, longer, crossings);
    if (band.cells < 50) continue;
    std::printf("standard error, munich: %d of %d cells with at least %d crossings (%.1f %%) inside\n",
                band.inside, band.cells, static_cast<int>(crossings), band.percent());
  }
  const Band band = band_of(map, longer, 16);
  EXPECT_GT(band.cells, 300);
  EXPECT_GE(band.percent(), 92);
  EXPECT_LE(band.percent(), 98);
}
#endif

TEST(LibraryCall, EqualsThePlainLoop) {
  // The same lanes by the brute-force tracer in double: hits at edges may differ, so a few crossings do.
  TestScene room;
  room.add_box({0, 0, 0}, {10, 8, 5}, room.add_material({5.24, 0.12}));
  room.add_box({4, 3, 0.5}, {6, 4.5, 2.5}, room.add_material({1, 1e7}), 0.4);
  SimulateOptions options;
  options.transmitters = {{{2.2, 2.1, 3.3}, 2.0}, {{8.1, 6.2, 1.2}, 0.5}};
  options.max0 = 10, options.max1 = 8;
  options.resolution0 = 10, options.resolution1 = 8;
  options.samples = 20'000;
  options.passes = 4;
  options.bounces = 3;
  const SimulateResult plain = simulate(room, options, true),
                       library = simulate_on_library(room, options, true);
  ASSERT_EQ(plain.gain.size(), library.gain.size());
  EXPECT_EQ(plain.lanes, library.lanes);
  EXPECT_NEAR(static_cast<double>(plain.segments), static_cast<double>(library.segments),
              1e-4 * static_cast<double>(plain.segments));
  double worst = 0, worst_error = 0, worst_field = 0, largest = 0;
  for (std::size_t k = 0; k < plain.gain.size(); ++k) {
    worst = std::max(worst, std::fabs(library.gain[k] / plain.gain[k] - 1));
    worst_error = std::max(worst_error, std::fabs(library.standard_error[k] / plain.standard_error[k] - 1));
    for (int axis = 0; axis < 3; ++axis) {
      worst_field = std::max(worst_field, std::abs(library.field[k][axis] - plain.field[k][axis]));
      largest = std::max(largest, std::abs(plain.field[k][axis]));
    }
  }
  std::printf("library against plain loop: gain %.1e, standard error %.1e, field %.1e\n", worst, worst_error,
              worst_field / largest);
  EXPECT_LT(worst, 1e-3);
  EXPECT_LT(worst_error, 1e-2);
  EXPECT_LT(worst_field, 2e-3 * largest);
}

}  // namespace
}  // namespace shardwise
