// accumulate_reflections(): the caller's own rays.

#include "shardwise/radio/accumulate.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "radio/coverage_setup.hpp"
#include "reference/library.hpp"
#include "scene/scene_test_util.hpp"

namespace shardwise {
namespace {

using namespace test;

class Accumulate : public ::testing::Test {
 protected:
  Accumulate() : scene_(open_scene("host:2x1", model_of(room()))) {
    options_.grid = {2, 1.5, 0, 10, 0, 8, 10, 8};
    options_.solid_angle_per_ray = 4 * 3.14159265358979323846 / 500;
    options_.field = true;
    options_.split.min_rows_per_device = 0;
  }
  static TestScene room() {
    TestScene scene;
    scene.add_box({0, 0, 0}, {10, 8, 5}, scene.add_material({5.24, 0.12}));
    scene.add_box({4, 3, 0.5}, {6, 4.5, 2.5}, scene.add_material({3, 0.01}), 0.4);
    return scene;
  }
  /// The rays that a coverage call of these options launches.
  void fill(const CoverageOptions& coverage_options) {
    const std::int64_t n = rays_per_pass(coverage_options.samples, coverage_options.passes);
    const auto rotations = launch_rotations(coverage_options.seed, coverage_options.passes,
                                            coverage_options.transmitters.size());
    std::vector<LaunchTransmitter> table;
    for (const Transmitter& tx : coverage_options.transmitters)
      table.push_back(launch_transmitter(tx.position, tx.gain));
    LaunchView view{};
    view.rays_per_pass = static_cast<std::uint64_t>(n);
    view.transmitter_count = table.size();
    view.transmitters = table.data();
    view.rotations = rotations.data();
    view.polarization = make_polarization(coverage_options.polarization);
    for (std::int64_t lane = 0; lane < coverage_lanes(coverage_options); ++lane) {
      LaunchedRay ray;
      launch_generated(view, static_cast<std::uint64_t>(lane), ray);
      origins_.push_back(ray.origin);
      directions_.push_back(ray.direction);
      transmitters_.push_back(to_float(ray.source));
      polarizations_.push_back(to_float(coverage_options.polarization));
      tmax_.push_back(std::numeric_limits<float>::infinity());
      active_.push_back(1);
    }
  }
  CoverageOptions generated() const {
    CoverageOptions options;
    options.transmitters = {{{2.25, 2.125, 3.25}}, {{8.125, 6.25, 1.25}}};  // floats exactly
    options.grid = options_.grid;
    options.samples = 500;
    options.passes = 1;
    options.field = true;
    options.bounces = options_.bounces;
    return options;
  }
  RayRows rows() const { return {origins_, directions_, tmax_, active_, transmitters_, polarizations_}; }
  CoverageResult run() { return accumulate_reflections(scene_, rows(), options_).get(); }

  Scene scene_;
  AccumulateOptions options_;
  std::vector<Vec3f> origins_, directions_, transmitters_, polarizations_;
  std::vector<float> tmax_;
  std::vector<std::uint8_t> active_;
};

TEST_F(Accumulate, GeneratedRaysGiveTheGeneratedMap) {
  const CoverageOptions from = generated();
  fill(from);
  ASSERT_EQ(origins_.size(), 1000u);
  const CoverageResult want = coverage(scene_, from).get(), got = run();
  EXPECT_EQ(got.crossings, want.crossings);
  EXPECT_EQ(got.segments, want.segments);
  EXPECT_EQ(got.rejected, 0);
  EXPECT_TRUE(got.standard_error.empty());
  double worst = 0, worst_field = 0, largest = 0;
  for (std::size_t k = 0; k < want.gain.size(); ++k)
    if (want.gain[k] > 0) worst = std::max(worst, std::fabs(got.gain[k] / want.gain[k] - 1));
  for (std::size_t k = 0; k < want.field.size(); ++k) {
    worst_field = std::max(worst_field, std::abs(got.field[k] - want.field[k]));
    largest = std::max(largest, std::abs(want.field[k]));
  }
  std::printf("caller's rays against generated ones: gain %.1e, field %.1e (relative)\n", worst,
              worst_field / largest);
  EXPECT_LE(worst, 1e-6);  // the row's direction is normalised once more, in float
  EXPECT_LE(worst_field, 1e-4 * largest);
}

TEST_F(Accumulate, TwentyCallsOfOneRayAreOneOfTwenty) {
  fill(generated());
  const auto keep = [&](auto& rows) {
    for (std::size_t i = 0; i < 20; ++i) rows[i] = rows[i * 50 + 3];
    rows.resize(20);
  };
  keep(origins_), keep(directions_), keep(transmitters_), keep(polarizations_), keep(tmax_), keep(active_);
  for (std::size_t i = 0; i < 20; i += 2) polarizations_[i] = {1, 0.5f, 0};
  options_.bounces = 6;
  const CoverageResult all = run();
  ASSERT_GT(std::accumulate(all.crossings.begin(), all.crossings.end(), std::int64_t{0}), 20);
  std::vector<double> gain(all.gain.size());
  std::vector<std::complex<double>> field(all.field.size());
  std::vector<std::int64_t> crossings(all.gain.size());
  const std::vector<Vec3f> origins = origins_, directions = directions_, transmitters = transmitters_,
                           polarizations = polarizations_;
  std::int64_t segments = 0;
  tmax_.clear();
  active_.clear();
  for (std::size_t i = 0; i < 20; ++i) {
    origins_ = {origins[i]};
    directions_ = {directions[i]};
    transmitters_ = {transmitters[i]};
    polarizations_ = {polarizations[i]};
    const CoverageResult one = run();
    segments += one.segments;
    for (std::size_t k = 0; k < gain.size(); ++k) gain[k] += one.gain[k], crossings[k] += one.crossings[k];
    for (std::size_t k = 0; k < field.size(); ++k) field[k] += one.field[k];
  }
  EXPECT_EQ(crossings, all.crossings);
  EXPECT_EQ(segments, all.segments);
  for (std::size_t k = 0; k < gain.size(); ++k) EXPECT_NEAR(gain[k], all.gain[k], 1e-12 * all.gain[k]);
  double largest = 0;
  for (const auto& f : all.field) largest = std::max(largest, std::abs(f));
  for (std::size_t k = 0; k < field.size(); ++k)
    EXPECT_LT(std::abs(field[k] - all.field[k]), 1e-12 * largest);
}

TEST_F(Accumulate, EverySplitGivesTheSameBits) {
  fill(generated());
  for (std::size_t i = 0; i < polarizations_.size(); i += 3) polarizations_[i] = {1, 2, 3};
  const std::string want = digest_of(run());
  for (const char* devices : {"host:1", "host:3x1", "sim:3"}) {
    Scene scene = open_scene(devices, model_of(room()));
    for (const std::int64_t chunk : {0, 1, 37, 400}) {
      if (chunk == 1 && scene.devices().sim_world()) continue;
      options_.split.chunk_rows = chunk;
      const CoverageResult map = accumulate_reflections(scene, rows(), options_).get();
      EXPECT_EQ(digest_of(map), want) << devices << " chunk " << chunk;
      EXPECT_EQ(races_of(scene.devices()), "");
      for (const DeviceReport& device : map.dispatch.devices) EXPECT_GT(device.lanes, 0);
    }
  }
  // One polarisation for all; transmitters left out: the origins.
  options_.split = {};
  std::fill(polarizations_.begin(), polarizations_.end(), Vec3f{0, 0, 1});
  const std::string same = digest_of(run());
  RayRows few = rows();
  few.polarizations = few.polarizations.first(1);
  EXPECT_EQ(digest_of(accumulate_reflections(scene_, few, options_).get()), same);
  few.transmitters = {};
  few.tmax = {};
  few.active = {};
  EXPECT_EQ(digest_of(accumulate_reflections(scene_, few, options_).get()), same);
  // Windows of rows add up.
  options_.lane_count = 333;
  const CoverageResult a = run();
  options_.lane_offset = 333, options_.lane_count = -1;
  const CoverageResult b = run();
  options_.lane_offset = 0;
  const CoverageResult whole = run();
  EXPECT_EQ(a.lanes, 333);
  EXPECT_EQ(b.lanes, 667);
  for (std::size_t k = 0; k < whole.gain.size(); ++k) {
    EXPECT_NEAR(a.gain[k] + b.gain[k], whole.gain[k], 1e-12 * whole.gain[k]);
    EXPECT_EQ(a.crossings[k] + b.crossings[k], whole.crossings[k]);
  }
}

TEST_F(Accumulate, BadRowsAreCountedMaskedOnesAreNot) {
  fill(generated());
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const CoverageResult before = run();
  active_[5] = active_[6] = active_[7] = 0;
  const CoverageResult masked = run();
  EXPECT_EQ(masked.rejected, 0);
  EXPECT_LT(masked.segments, before.segments);
  origins_[5] = {nan, 0, 0};  // masked and bad: masked
  origins_[10].y = nan;
  origins_[11].z = inf;
  directions_[12] = {0, 0, 0};
  directions_[13].x = nan;
  directions_[14].x = -inf;
  tmax_[15] = 0;
  tmax_[16] = -1;
  tmax_[17] = nan;
  transmitters_[18].x = nan;
  polarizations_[19].z = nan;
  const CoverageResult bad = run();
  EXPECT_EQ(bad.rejected, 10);
  EXPECT_EQ(bad.lanes, 1000);
  for (std::size_t i = 10; i < 20; ++i) active_[i] = 0;
  const CoverageResult without = run();
  EXPECT_EQ(without.rejected, 0);
  EXPECT_EQ(digest_of(without), digest_of(bad)) << "bad rows disturb no others";
}

TEST_F(Accumulate, CountsThatDoNotMatchAreUsageErrors) {
  fill(generated());
  const auto refused = [&](std::initializer_list<std::string> fragments, auto change) {
    RayRows bad = rows();
    change(bad);
    expect_error(ErrorClass::usage, fragments, [&] { (void)accumulate_reflections(scene_, bad, options_); });
  };
  refused({"directions must match the ray batch size", "1000 origins", "999 directions"},
          [](RayRows& r) { r.directions = r.directions.first(999); });
  refused({"tmax must match the ray batch size", "got 1"}, [](RayRows& r) { r.tmax = r.tmax.first(1); });
  refused({"active must match the ray batch size", "got 2"},
          [](RayRows& r) { r.active = r.active.first(2); });
  refused({"transmitters must match the ray batch size", "got 2 for 1000"},
          [](RayRows& r) { r.transmitters = r.transmitters.first(2); });
  refused({"polarizations must match the ray batch size", "got 0 for 1000"},
          [](RayRows& r) { r.polarizations = {}; });
  refused({"polarizations must match the ray batch size", "got 999"},
          [](RayRows& r) { r.polarizations = r.polarizations.first(999); });
  for (const double bad : {0.0, -1.0, std::nan("")}) {
    options_.solid_angle_per_ray = bad;
    refused({"solid_angle_per_ray"}, [](RayRows&) {});
  }
}

TEST_F(Accumulate, NoRaysAreLegal) {
  polarizations_ = {{0, 0, 1}};
  for (const char* devices : {"host:1", "host:3x1", "sim:3"}) {
    Scene scene = open_scene(devices, model_of(room()));
    const CoverageResult none = accumulate_reflections(scene, rows(), options_).get();
    EXPECT_EQ(none.lanes, 0);
    EXPECT_EQ(none.segments, 0);
    ASSERT_EQ(none.gain.size(), 80u);
    for (const double gain : none.gain) EXPECT_EQ(gain, 0);
    EXPECT_EQ(races_of(scene.devices()), "");
  }
}

}  // namespace
}  // namespace shardwise
