// Coverage in pieces, and maps of each transmitter: the same bits as one call, whatever the pieces.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "reference/library.hpp"
#include "scene/scene_test_util.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

using namespace test;

SceneModel room() {
  TestScene scene;
  const int wall = scene.add_material({5.24, 0.12}),
            block = scene.add_material({1, std::numeric_limits<double>::infinity()});
  scene.add_box({0, 0, 0}, {10, 8, 5}, wall);
  scene.add_box({4, 3, 0.5}, {6, 4.5, 2.5}, block, 0.4);
  return model_of(scene);
}

CoverageOptions room_options(std::int64_t samples = 4000) {
  CoverageOptions options;
  options.transmitters = {{{2.2, 2.1, 3.3}, 2.0}, {{8.1, 6.2, 1.2}, 0.5}, {{5, 7.1, 4.2}, 1.0}};
  options.grid = {2, 1.5, 0, 10, 0, 8, 10, 8};
  options.samples = samples;
  options.passes = 4;
  options.bounces = 3;
  options.split.min_rows_per_device = 0;
  return options;
}

CoverageSums sums_of(Scene& scene, CoverageOptions options, std::int64_t begin, std::int64_t end) {
  options.sums = true;
  options.lane_offset = begin;
  options.lane_count = end - begin;
  return coverage(scene, options).get().sums;
}

void expect_same_map(const CoverageResult& one, const CoverageResult& other, const std::string& what) {
  EXPECT_EQ(digest_of(one.gain), digest_of(other.gain)) << what;
  EXPECT_EQ(digest_of(one.standard_error), digest_of(other.standard_error)) << what;
  EXPECT_EQ(one.crossings, other.crossings) << what;
  EXPECT_EQ(digest_of(one.transmitter_gain), digest_of(other.transmitter_gain)) << what;
  EXPECT_EQ(digest_of(one.transmitter_standard_error), digest_of(other.transmitter_standard_error)) << what;
  EXPECT_EQ(one.transmitter_crossings, other.transmitter_crossings) << what;
  EXPECT_EQ(one.lanes, other.lanes) << what;
  EXPECT_EQ(one.segments, other.segments) << what;
}

TEST(CoverageSums, ThreeWindowsInEveryOrderAreTheWhole) {
  for (const bool each : {false, true}) {
    Scene one = open_scene("host:1", room()), three = open_scene("sim:3", room());
    CoverageOptions options = room_options();
    options.per_transmitter = each;
    const CoverageResult whole = coverage(one, options).get();
    ASSERT_FALSE(whole.standard_error.empty());
    const std::int64_t lanes = coverage_lanes(options);
    std::vector<CoverageSums> parts{sums_of(one, options, 0, 1234), sums_of(three, options, 1234, 7001),
                                    sums_of(three, options, 7001, lanes)};
    EXPECT_EQ(races_of(three.devices()), "");
    std::vector<int> order{0, 1, 2};
    do {
      CoverageSums sums;
      for (const int part : order) merge(sums, parts[static_cast<std::size_t>(part)]);
      ASSERT_EQ(sums.windows.size(), 1u);
      EXPECT_EQ(sums.windows[0], (Window{0, lanes}));
      expect_same_map(finish_coverage(options, sums), whole,
                      std::string("per transmitter ") + (each ? "1" : "0"));
    } while (std::ranges::next_permutation(order).found);
  }
}

TEST(CoverageSumsProperty, RandomPieces) {
  Scene one = open_scene("host:1", room()), two = open_scene("sim:2", room());
  std::mt19937_64 random(31);
  for (int round = 0; round < 30; ++round) {
    CoverageOptions options = room_options(static_cast<std::int64_t>(8 + random() % 3000));
    options.per_transmitter = random() % 2;
    options.passes = 1 + static_cast<int>(random() % 6);
    const CoverageResult whole = coverage(one, options).get();
    const std::int64_t lanes = coverage_lanes(options);
    std::vector<std::int64_t> cuts{0, lanes};
    for (int k = 0; k < 4; ++k)
      cuts.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(lanes)));
    std::ranges::sort(cuts);
    std::vector<CoverageSums> parts;
    for (std::size_t k = 0; k + 1 < cuts.size(); ++k)
      if (cuts[k] < cuts[k + 1])
        parts.push_back(sums_of(random() % 2 ? one : two, options, cuts[k], cuts[k + 1]));
    std::ranges::shuffle(parts, random);
    CoverageSums sums;
    for (const CoverageSums& part : parts) merge(sums, part);
    expect_same_map(finish_coverage(options, sums), whole, "round " + std::to_string(round));
  }
}

TEST(CoverageSums, MorePassesOfTheSameRaysExtendARun) {
  Scene scene = open_scene("host:2x1", room());
  CoverageOptions few = room_options(4000), many = room_options(7000);
  many.passes = 7;  // 1000 rays a pass, both
  CoverageSums sums = sums_of(scene, few, 0, coverage_lanes(few));
  const CoverageResult first = coverage(scene, few).get(), all = coverage(scene, many).get();
  expect_same_map(finish_coverage(few, sums), first, "as it was");
  merge(sums, sums_of(scene, many, coverage_lanes(few), coverage_lanes(many)));
  expect_same_map(finish_coverage(many, sums), all, "extended");
  // The later passes are left out where the options know fewer.
  EXPECT_EQ(digest_of(finish_coverage(few, sums).standard_error), digest_of(first.standard_error));
}

TEST(CoverageSums, AWindowAloneIsItsShare) {
  Scene scene = open_scene("host:1", room());
  CoverageOptions options = room_options();
  CoverageSums sums = sums_of(scene, options, 3000, 9000);
  options.lane_offset = 3000, options.lane_count = 6000;
  expect_same_map(finish_coverage(room_options(), sums), coverage(scene, options).get(), "window");
}

TEST(CoverageSums, TransmittersApartAreThoseOfCallsOfTheirOwnLanes) {
  CoverageOptions options = room_options();
  options.per_transmitter = true;
  for (const Accumulation accumulation : {Accumulation::exact, Accumulation::fast, Accumulation::ordered}) {
    options.accumulation = accumulation;
    for (const char* devices : {"host:1", "host:3x1", "sim:2"}) {
      SCOPED_TRACE(devices);
      Scene scene = open_scene(devices, room());
      const CoverageResult map = coverage(scene, options).get();
      EXPECT_EQ(races_of(scene.devices()), "");
      const auto cells = static_cast<std::size_t>(options.grid.cell_count());
      ASSERT_EQ(map.transmitter_gain.size(), 3 * cells);
      ASSERT_EQ(map.transmitter_standard_error.size(), 3 * cells);
      CoverageOptions together = options;
      together.per_transmitter = false;
      const CoverageResult sum = coverage(scene, together).get();
      EXPECT_TRUE(sum.transmitter_gain.empty());
      EXPECT_EQ(map.crossings, sum.crossings);
      for (std::size_t k = 0; k < cells; ++k) {
        const double total =
            map.transmitter_gain[k] + map.transmitter_gain[cells + k] + map.transmitter_gain[2 * cells + k];
        EXPECT_NEAR(total, map.gain[k], 1e-12 * map.gain[k]);
        if (accumulation == Accumulation::exact) {
          EXPECT_EQ(map.gain[k], sum.gain[k]);
          EXPECT_EQ(map.standard_error[k], sum.standard_error[k]);
        } else {
          EXPECT_NEAR(map.gain[k], sum.gain[k], 1e-9 * sum.gain[k]);
        }
      }
      // Transmitter 1 alone, from the lanes that are its own: pass by pass.
      const std::int64_t rays = map.rays_per_pass;
      std::vector<std::int64_t> crossings(cells);
      for (int pass = 0; pass < options.passes; ++pass) {
        CoverageOptions own = together;
        own.lane_offset = (pass * 3 + 1) * rays;
        own.lane_count = rays;
        const CoverageResult part = coverage(scene, own).get();
        for (std::size_t k = 0; k < cells; ++k) crossings[k] += part.crossings[k];
      }
      EXPECT_TRUE(std::equal(crossings.begin(), crossings.end(),
                             map.transmitter_crossings.begin() + static_cast<std::ptrdiff_t>(cells)));
    }
  }
}

TEST(CoverageSums, WhatDoesNotFitIsRefused) {
  Scene scene = open_scene("host:1", room());
  const CoverageOptions options = room_options();
  const CoverageSums a = sums_of(scene, options, 0, 5000), b = sums_of(scene, options, 4000, 6000);
  CoverageSums sums = a;
  expect_error(ErrorClass::usage, {"4000", "5000"}, [&] { merge(sums, b); });
  EXPECT_EQ(sums.windows, a.windows);
  CoverageOptions other = options;
  other.grid.resolution0 = 5;
  expect_error(ErrorClass::usage, {"40", "80"}, [&] { merge(sums, sums_of(scene, other, 6000, 7000)); });
  expect_error(ErrorClass::usage, {"cells"}, [&] { finish_coverage(other, sums); });
  CoverageOptions fast = options;
  fast.sums = true;
  fast.accumulation = Accumulation::fast;
  expect_error(ErrorClass::usage, {"exact"}, [&] { (void)coverage(scene, fast); });
  sums.scale = 3;
  expect_error(ErrorClass::usage, {"scale"}, [&] { finish_coverage(options, sums); });
  EXPECT_EQ(gaps(a.windows, {0, 12000}), (std::vector<Window>{{5000, 7000}}));
  EXPECT_EQ(gaps({}, {3, 4}), (std::vector<Window>{{3, 4}}));
  EXPECT_EQ(gaps({{2, 3}, {9, 1}}, {0, 9}), (std::vector<Window>{{0, 2}, {5, 4}}));
}

}  // namespace
}  // namespace shardwise
