// One map whatever the split: device counts, weights, chunks, budgets, windows, platforms.

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "radio/coverage_plan.hpp"
#include "reference/library.hpp"
#include "scene/scene_test_util.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/scene/city.hpp"
#include "shardwise/scene/scene_io.hpp"

namespace shardwise {
namespace {

using namespace test;

struct Split {
  const char* devices;
  std::vector<double> weights = {};
  std::int64_t chunk = 0;
  std::uint64_t memory = 0;
};

const Split splits[] = {
    {"host:1"}, {"host:2x1"}, {"host:3", {5, 1, 0}}, {"host:4", {}, 100'000}, {"host:2", {}, 0, 64 << 20},
    {"sim:3"}};

std::string label(const Split& split) {
  std::string text = split.devices;
  for (const double w : split.weights) text += " w" + std::to_string(static_cast<int>(w));
  if (split.chunk) text += " chunk " + std::to_string(split.chunk);
  if (split.memory) text += " memory " + std::to_string(split.memory);
  return text;
}

/// A room with a conductor, a lossy block and a floor that is not flat to the axes.
TestScene room() {
  TestScene scene;
  const int wall = scene.add_material({5.24, 0.12}),
            block = scene.add_material({1, std::numeric_limits<double>::infinity()});
  scene.add_box({0, 0, 0}, {10, 8, 5}, wall);
  scene.add_box({4, 3, 0.5}, {6, 4.5, 2.5}, block, 0.4);
  return scene;
}

CoverageOptions room_options(std::int64_t samples = 4000) {
  CoverageOptions options;
  options.transmitters = {{{2.2, 2.1, 3.3}, 2.0}, {{8.1, 6.2, 1.2}, 0.5}};
  options.grid = {2, 1.5, 0, 10, 0, 8, 10, 8};
  options.samples = samples;
  options.passes = 5;
  options.bounces = 3;
  options.field = true;
  options.split.min_rows_per_device = 0;
  return options;
}

/// The devices that the weights give lanes to had lanes and busy time, and nobody else; no races; no more
/// memory than promised.
void expect_all_worked(const Scene& scene, const CoverageResult& map, const std::string& what) {
  const DispatchReport& report = map.dispatch;
  std::int64_t lanes = 0;
  for (std::size_t d = 0; d < report.devices.size(); ++d) {
    const DeviceReport& device = report.devices[d];
    lanes += device.lanes;
    if (report.weights[d] > 0) {
      EXPECT_GT(device.lanes, 0) << what << ": " << device.name;
      EXPECT_GT(device.busy_s, 0) << what << ": " << device.name;
    } else {
      EXPECT_EQ(device.lanes, 0) << what << ": " << device.name;
    }
    EXPECT_GT(device.scene_bytes, 0u);
  }
  EXPECT_EQ(lanes, map.lanes) << what;
  EXPECT_EQ(races_of(scene.devices()), "") << what;
}

/// Runs the command of every split; all digests are one.
void expect_one_digest(const SceneModel& model, CoverageOptions options, double cell) {
  std::string first;
  std::vector<double> reference;
  for (const Split& split : splits) {
    Scene scene = open_scene(split.devices, model);
    if (cell > 0) options.grid = grid_over(scene, cell);
    options.split = {split.weights, split.chunk, split.memory, 0};
    const CoverageResult map = coverage(scene, options).get();
    const std::string digest = digest_of(map);
    if (first.empty()) {
      first = digest;
      reference = map.gain;
      std::printf("gain digest %s, stderr digest %s, %zu cells, %lld segments\n",
                  digest_of(map.gain).substr(0, 16).c_str(),
                  digest_of(map.standard_error).substr(0, 16).c_str(), map.gain.size(),
                  static_cast<long long>(map.segments));
      EXPECT_GT(*std::max_element(map.gain.begin(), map.gain.end()), 0);
    }
    EXPECT_EQ(digest, first) << label(split);
    EXPECT_GT(*std::max_element(map.standard_error.begin(), map.standard_error.end()), 0);
    expect_all_worked(scene, map, label(split));
    if (split.memory > 0) {
      EXPECT_EQ(map.dispatch.mode, "chunked");
      for (const DeviceReport& device : map.dispatch.devices) {
        EXPECT_LE(device.peak_bytes, split.memory) << device.name;
        EXPECT_GT(device.peak_bytes, 0u) << device.name;
      }
    }
    if (split.chunk > 0) {
      EXPECT_EQ(map.dispatch.source, "explicit");
      EXPECT_EQ(map.dispatch.chunk_rows, std::min(split.chunk, map.dispatch.devices[0].lanes));
    }
  }
  // fast on the most divided set: the same counts, sums to 1e-9.
  Scene scene = open_scene("host:4", model);
  options.split = {{}, 100'000, 0, 0};
  options.accumulation = Accumulation::fast;
  const CoverageResult fast = coverage(scene, options).get();
  double worst = 0;
  for (std::size_t k = 0; k < reference.size(); ++k)
    if (reference[k] > 0)
      worst = std::max(worst, std::fabs(fast.gain[k] / reference[k] - 1));
    else
      EXPECT_EQ(fast.gain[k], 0);
  EXPECT_LE(worst, 1e-9);
  EXPECT_EQ(digest_of(fast.crossings), first.substr(130, 64));
  std::printf("fast: worst relative difference %.2e\n", worst);
}

TEST(CoverageSplit, RoomHasOneDigest) {
  expect_one_digest(model_of(room()), room_options(300'000), 0);
}

#if SHARDWISE_WITH_IO
TEST(CoverageSplit, GeneratedCityHasOneDigest) {
  const TemporaryFolder folder;
  CityOptions city;
  city.blocks_x = city.blocks_y = 3;
  const SceneModel model = read_scene(write_city(folder.path() / "city", city).scene_file);
  CoverageOptions options;
  options.transmitters = {{{0, 0, 45}}};
  options.samples = 400'000;
  expect_one_digest(model, options, 4);
}

TEST(CoverageSplit, MunichHasOneDigest) {
  const auto file = real_scene("munich");
  if (file.empty()) GTEST_SKIP() << "no munich in " << SHARDWISE_TEST_SCENES;
  CoverageOptions options;
  options.transmitters = {{{8.5, 21, 60}}};
  options.samples = 2'000'000;
  expect_one_digest(read_scene(file), options, 4);
}

TEST(CoverageSplit, SimpleScenesHaveOneDigestOnOneAndThreeDevices) {
  int run = 0;
  for (const char* name : {"box", "double_reflector", "floor_wall", "simple_street_canyon",
                           "simple_street_canyon_with_cars", "simple_wedge", "triple_reflector"}) {
    const auto file = real_scene(name);
    if (file.empty()) continue;
    ++run;
    const SceneModel model = read_scene(file);
    std::set<std::string> digests;
    for (const char* devices : {"host:1", "host:3", "sim:1", "sim:3"}) {
      Scene scene = open_scene(devices, model);
      const Bounds& b = scene.model().geometry().bounds;
      const Vec3d middle{(b.low.x + b.high.x) / 2, (b.low.y + b.high.y) / 2, (b.low.z + b.high.z) / 2};
      CoverageOptions options;
      options.transmitters = {{{middle.x + 0.3, middle.y - 0.2, b.high.z + 1.7}},
                              {{middle.x - 0.1, middle.y + 0.4, middle.z + 0.11}}};
      options.grid = grid_over(scene, std::max(b.high.x - b.low.x, b.high.y - b.low.y) / 40, middle.z + 0.07);
      options.samples = 40'000;
      options.split.min_rows_per_device = 0;
      const CoverageResult map = coverage(scene, options).get();
      EXPECT_GT(*std::max_element(map.gain.begin(), map.gain.end()), 0) << name;
      expect_all_worked(scene, map, std::string(name) + " on " + devices);
      digests.insert(digest_of(map));
    }
    EXPECT_EQ(digests.size(), 1u) << name;
  }
  if (run == 0) GTEST_SKIP() << "no simple scenes in " << SHARDWISE_TEST_SCENES;
  std::printf("%d simple scenes\n", run);
}
#endif

TEST(CoverageSplit, BvhAndSeveralPlanesToo) {
  for (const int axis : {0, 1, 2}) {
    std::set<std::string> digests;
    for (const char* devices : {"host:1", "host:3x1", "sim:2"}) {
      Scene scene = open_scene(devices, model_of(room()), 1, TracerChoice::bvh);
      CoverageOptions options = room_options();
      options.grid.axis = axis;
      options.grid.position = 2.05;
      options.grid.max0 = 5, options.grid.max1 = 5;
      digests.insert(digest_of(coverage(scene, options).get()));
    }
    EXPECT_EQ(digests.size(), 1u) << "axis " << axis;
  }
}

TEST(CoverageSplit, EmptyDevicesAndSmallCalls) {
  // Fewer lanes than devices; all weight on a device that is not the master; one lane.
  CoverageOptions options = room_options(5);
  Scene one = open_scene("host:1", model_of(room()));
  const std::string want = digest_of(coverage(one, options).get());
  for (const auto& weights : std::vector<std::vector<double>>{{}, {0, 1, 0}, {0, 0, 7}, {1, 0, 1e-9}}) {
    Scene three = open_scene("sim:3", model_of(room()));
    options.split.weights = weights;
    EXPECT_EQ(digest_of(coverage(three, options).get()), want);
    EXPECT_EQ(races_of(three.devices()), "");
  }
}

TEST(CoverageSplitProperty, RandomSplitsGiveTheSameBits) {
  Scene one = open_scene("host:1", model_of(room()));
  CoverageOptions options = room_options(3000);
  const std::string want = digest_of(coverage(one, options).get());
  std::map<std::string, Scene> scenes;
  for (const char* devices : {"host:2x1", "host:3x1", "sim:2", "sim:5"})
    scenes.emplace(devices, open_scene(devices, model_of(room())));
  std::mt19937_64 random(71);
  int distinct = 0;
  const int rounds = long_runs() ? 2000 : 120;
  for (int round = 0; round < rounds; ++round) {
    auto scene = scenes.begin();
    std::advance(scene, static_cast<long>(random() % scenes.size()));
    options.split = {};
    options.split.min_rows_per_device = random() % 4 == 0 ? 1 + random() % 5000 : 0;
    double sum = 0;
    for (int d = 0; d < scene->second.devices().size(); ++d) {
      options.split.weights.push_back(
          random() % 4 == 0 ? 0 : std::uniform_real_distribution<double>(1e-3, 1)(random));
      sum += options.split.weights.back();
    }
    if (sum == 0) options.split.weights[0] = 1;
    if (random() % 2) options.split.chunk_rows = static_cast<std::int64_t>(500 + random() % 20000);
    const CoverageResult map = coverage(scene->second, options).get();
    ASSERT_EQ(digest_of(map), want) << "round " << round << " on " << scene->first;
    ASSERT_EQ(races_of(scene->second.devices()), "") << "round " << round;
    int working = 0;
    for (const DeviceReport& device : map.dispatch.devices) working += device.lanes > 0;
    distinct += working > 1;
  }
  std::printf("%d random splits, %d of them on several devices\n", rounds, distinct);
  EXPECT_GT(distinct, rounds / 3);
}

TEST(CoverageSplitProperty, WindowsAddUpToTheWhole) {
  Scene one = open_scene("host:1", model_of(room())), three = open_scene("host:3x1", model_of(room()));
  CoverageOptions options = room_options(3000);
  const CoverageResult whole = coverage(one, options).get();
  ASSERT_EQ(whole.lanes, coverage_lanes(options));
  std::mt19937_64 random(72);
  for (int round = 0; round < 20; ++round) {
    std::set<std::int64_t> cuts{0, whole.lanes};
    for (int k = 0; k < 3; ++k) cuts.insert(static_cast<std::int64_t>(random() % whole.lanes));
    std::vector<double> gain(whole.gain.size());
    std::vector<std::int64_t> crossings(whole.gain.size());
    std::vector<std::complex<double>> field(whole.field.size());
    std::int64_t segments = 0;
    for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
      options.lane_offset = *cut;
      options.lane_count = *std::next(cut) == whole.lanes ? -1 : *std::next(cut) - *cut;
      options.split.weights = {1.0, static_cast<double>(random() % 3), 2.0};
      const CoverageResult part = coverage(round % 2 ? three : one,
                                           [&] {
                                             CoverageOptions o = options;
                                             if (round % 2 == 0) o.split.weights = {};
                                             return o;
                                           }())
                                      .get();
      EXPECT_TRUE(part.standard_error.empty()) << "of a part there is none";
      segments += part.segments;
      for (std::size_t k = 0; k < gain.size(); ++k)
        gain[k] += part.gain[k], crossings[k] += part.crossings[k];
      for (std::size_t k = 0; k < field.size(); ++k) field[k] += part.field[k];
    }
    EXPECT_EQ(crossings, whole.crossings);
    EXPECT_EQ(segments, whole.segments);
    double largest = 0;
    for (const auto& f : whole.field) largest = std::max(largest, std::abs(f));
    for (std::size_t k = 0; k < gain.size(); ++k) ASSERT_NEAR(gain[k], whole.gain[k], 1e-12 * whole.gain[k]);
    for (std::size_t k = 0; k < field.size(); ++k)
      ASSERT_LT(std::abs(field[k] - whole.field[k]), 1e-12 * largest);
  }
}

TEST(CoverageSplit, OrderedGivesTheSameBitsForTheSameSplit) {
  CoverageOptions options = room_options(20'000);
  Scene one = open_scene("host:1", model_of(room()));
  const CoverageResult exact = coverage(one, options).get();
  options.accumulation = Accumulation::ordered;
  for (const std::int64_t chunk : {0, 7000}) {
    for (const char* devices : {"host:3x1", "host:2x2", "sim:3"}) {
      options.split.chunk_rows = chunk;
      std::set<std::string> digests;
      for (std::uint64_t run = 1; run <= 4; ++run) {
        Scene scene = open_scene(devices, model_of(room()), run);
        const CoverageResult map = coverage(scene, options).get();
        digests.insert(digest_of(map));
        EXPECT_EQ(map.crossings, exact.crossings);
        for (std::size_t k = 0; k < map.gain.size(); ++k)
          ASSERT_NEAR(map.gain[k], exact.gain[k], 1e-12 * exact.gain[k]);
        EXPECT_EQ(races_of(scene.devices()), "");
      }
      EXPECT_EQ(digests.size(), 1u) << devices << " chunk " << chunk;
    }
  }
  // Inside one device the open block's partial is carried over chunks: their size does not matter.
  std::set<std::string> digests;
  for (const std::int64_t chunk : {0, 1000, 33'333}) {
    options.split.chunk_rows = chunk;
    digests.insert(digest_of(coverage(one, options).get()));
  }
  EXPECT_EQ(digests.size(), 1u);
}

TEST(CoverageSplit, ACorruptedDeviceChangesTheDigest) {
  struct Restore {
    ~Restore() { corrupt_coverage_on_device = -1; }
  } restore;
  for (const Split& split : splits) {
    Scene scene = open_scene(split.devices, model_of(room()));
    CoverageOptions options = room_options(20'000);
    options.split = {split.weights, split.chunk, split.memory, 0};
    corrupt_coverage_on_device = -1;
    const CoverageResult good = coverage(scene, options).get();
    for (int d = 0; d < scene.devices().size(); ++d) {
      corrupt_coverage_on_device = d;
      const CoverageResult bad = coverage(scene, options).get();
      if (good.dispatch.devices[static_cast<std::size_t>(d)].lanes > 0) {
        EXPECT_NE(digest_of(bad.gain), digest_of(good.gain)) << label(split) << ", device " << d;
        EXPECT_NE(digest_of(bad.standard_error), digest_of(good.standard_error)) << label(split);
      } else {
        EXPECT_EQ(digest_of(bad.gain), digest_of(good.gain)) << label(split) << ", device " << d;
      }
    }
  }
}

TEST(CoverageSplit, RefusesWeightsThatFitNothing) {
  Scene scene = open_scene("host:3x1", model_of(room()));
  CoverageOptions options = room_options();
  for (const auto& weights :
       std::vector<std::vector<double>>{{1, 2}, {0, 0, 0}, {1, -1, 1}, {1, std::nan(""), 1}}) {
    options.split.weights = weights;
    expect_error(ErrorClass::usage, {"coverage", "weight"}, [&] { (void)coverage(scene, options); });
  }
  options.split.weights = {};
  options.split.chunk_rows = -5;
  expect_error(ErrorClass::usage, {"chunk", "-5"}, [&] { (void)coverage(scene, options); });
}

}  // namespace
}  // namespace shardwise
