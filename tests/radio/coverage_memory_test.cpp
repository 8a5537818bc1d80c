// Promised bytes, refused budgets, cancelled calls, refused input.

#include <gtest/gtest.h>

#include <atomic>

#include "radio/coverage_plan.hpp"
#include "reference/library.hpp"
#include "scene/scene_test_util.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

using namespace test;

TestScene room() {
  TestScene scene;
  scene.add_box({0, 0, 0}, {10, 8, 5}, scene.add_material({5.24, 0.12}));
  scene.add_box({4, 3, 0.5}, {6, 4.5, 2.5}, scene.add_material({3, 0.01}), 0.4);
  return scene;
}

CoverageOptions room_options(std::int64_t samples = 4000) {
  CoverageOptions options;
  options.transmitters = {{{2.2, 2.1, 3.3}}, {{8.1, 6.2, 1.2}}};
  options.grid = {2, 1.5, 0, 10, 0, 8, 10, 8};
  options.samples = samples;
  options.passes = 4;
  options.split.min_rows_per_device = 0;
  return options;
}

struct CallerRays {
  std::vector<Vec3f> origins, directions, transmitters, polarizations;
  std::vector<float> tmax;
  std::vector<std::uint8_t> active;
  explicit CallerRays(std::size_t count)
      : origins(count, {2.2f, 2.1f, 3.3f}),
        directions(count),
        transmitters(origins),
        polarizations(count, {0, 0, 1}),
        tmax(count, 1e6f),
        active(count, 1) {
    for (std::size_t i = 0; i < count; ++i) {
      const SinCos a = sincos_turn(static_cast<double>(i % 997) / 997);
      directions[i] = {static_cast<float>(a.cos), static_cast<float>(a.sin),
                       static_cast<float>(i % 13) * 0.2f - 1.3f};
    }
  }
  RayRows rows() const { return {origins, directions, tmax, active, transmitters, polarizations}; }
};

TEST(CoverageMemory, PeaksStayBelowThePromiseOnEveryDevice) {
  // Counters start at nothing, so the peak is the call's own; the promise is each device's own plan.
  struct Seen {
    double least = 1e9, most = 0;
  } seen;
  for (const Accumulation accumulation : {Accumulation::exact, Accumulation::fast, Accumulation::ordered})
    for (const bool field : {false, true})
      for (const bool rows : {false, true})
        for (const std::int64_t chunk : {0, 500})
          for (const char* devices : {"host:1", "host:3x1", "sim:2"}) {
            Scene scene = open_scene(devices, model_of(room()));
            const CallerRays rays(6000);
            CoveragePlan plan;
            if (rows) {
              AccumulateOptions options;
              options.grid = room_options().grid;
              options.solid_angle_per_ray = 0.002;
              options.field = field;
              options.accumulation = accumulation;
              options.split = {{}, chunk, 0, 0};
              plan = plan_coverage(scene, request_of(rays.rows(), options));
            } else {
              CoverageOptions options = room_options();
              options.field = field;
              options.accumulation = accumulation;
              options.split.chunk_rows = chunk;
              plan = plan_coverage(scene, request_of(options));
            }
            const std::vector<LaneShard> shards = plan.lanes.shards;
            std::vector<std::uint64_t> peaks;
            for (int d = 0; d < scene.devices().size(); ++d)
              peaks.push_back(plan.peak_bytes(scene.devices(), d));
            const CoverageResult map = run_coverage(scene, std::move(plan)).get();
            ASSERT_EQ(shards.size(), static_cast<std::size_t>(scene.devices().size()));
            for (const LaneShard& shard : shards) {
              const DeviceReport& device = map.dispatch.devices[static_cast<std::size_t>(shard.device)];
              const std::uint64_t promised = shard.plan.estimated_peak_bytes();
              EXPECT_LE(device.peak_bytes, promised)
                  << device.name << (rows ? " rows" : "") << (field ? " field" : "") << " chunk " << chunk
                  << " accumulation " << static_cast<int>(accumulation);
              EXPECT_GT(device.peak_bytes, 0u);
              EXPECT_EQ(device.peak_bytes, peaks[static_cast<std::size_t>(shard.device)]) << device.name;
              const double share = static_cast<double>(device.peak_bytes) / static_cast<double>(promised);
              seen.least = std::min(seen.least, share), seen.most = std::max(seen.most, share);
            }
            for (int d = 0; d < scene.devices().size(); ++d)
              EXPECT_EQ(scene.devices()[d].memory(MemoryUse::work).current(), 0u) << "all is given back";
            if (rows || accumulation == Accumulation::ordered) {
              // Rows of a single chunk are resident once.
              EXPECT_LE(map.dispatch.measured_row_bytes,
                        1.01 * static_cast<double>(map.dispatch.row_bytes) + 8);
              EXPECT_GE(map.dispatch.measured_row_bytes, 0.6 * static_cast<double>(map.dispatch.row_bytes));
            }
          }
  std::printf("peak bytes over promised bytes: %.2f to %.2f\n", seen.least, seen.most);
  EXPECT_LE(seen.most, 1.0);
}

TEST(CoverageMemory, BudgetsAreKeptAndTheirTightestIsNamed) {
  Scene scene = open_scene("host:2x1", model_of(room()));
  CoverageOptions options = room_options(200'000);
  options.accumulation = Accumulation::ordered;
  options.split.memory_bytes = 1;
  std::uint64_t needed = 0;
  const std::uint64_t work = scene.devices()[0].memory(MemoryUse::work).peak();
  try {
    (void)coverage(scene, options);
    FAIL() << "one byte is not enough";
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::budget);
    const std::string text = error.what();
    const auto at = text.find("needs ");
    ASSERT_NE(at, std::string::npos) << text;
    needed = std::stoull(text.substr(at + 6));
    EXPECT_NE(text.find("host:"), std::string::npos) << text;
    EXPECT_NE(text.find("coverage"), std::string::npos) << text;
  }
  EXPECT_EQ(scene.devices()[0].memory(MemoryUse::work).peak(), work) << "refused before any device work";
  options.split.memory_bytes = needed - 1;
  EXPECT_THROW((void)coverage(scene, options), Error);
  // What the refusal asks for, doubled: the call runs, in many chunks, inside the budget.
  options.split.memory_bytes = 4 * needed;
  const CoverageResult tight = coverage(scene, options).get();
  EXPECT_GT(tight.dispatch.chunk_count, 4);
  for (const DeviceReport& device : tight.dispatch.devices) {
    EXPECT_GT(device.peak_bytes, options.split.memory_bytes / 2) << "the budget is used";
    EXPECT_LE(device.peak_bytes, options.split.memory_bytes);
  }
  options.split.memory_bytes = 0;
  const CoverageResult free = coverage(scene, options).get();
  EXPECT_EQ(free.crossings, tight.crossings);
  // A chunk and a budget together: used where it fits, else both numbers and the largest that fits.
  options.split.memory_bytes = 4 * needed;
  options.split.chunk_rows = tight.dispatch.chunk_rows;
  EXPECT_EQ(coverage(scene, options).get().dispatch.chunk_rows, tight.dispatch.chunk_rows);
  options.split.chunk_rows = 150'000;
  expect_error(ErrorClass::budget,
               {"150000", std::to_string(options.split.memory_bytes), "largest chunk that fits",
                std::to_string(tight.dispatch.chunk_rows)},
               [&] { (void)coverage(scene, options); });
}

TEST(CoverageMemory, ExactlyWhatIsAskedForIsEnough) {
  Scene scene = open_scene("host:2x1", model_of(room()));
  CoverageOptions options = room_options(20'000);
  options.accumulation = Accumulation::ordered;
  options.split.memory_bytes = 1;
  for (int round = 0; round < 3; ++round) {  // the master needs more than the others: two steps at most
    try {
      (void)coverage(scene, options).get();
      return;
    } catch (const Error& error) {
      ASSERT_EQ(error.error_class(), ErrorClass::budget) << error.what();
      const std::string text = error.what();
      options.split.memory_bytes = std::stoull(text.substr(text.find("needs ") + 6));
    }
  }
  FAIL() << "what the refusal asked for was refused";
}

TEST(CoverageCancel, LeavesTheSceneUsableAndNothingBehind) {
  for (const char* devices : {"host:1", "host:3x1", "sim:3"})
    for (const Accumulation accumulation : {Accumulation::exact, Accumulation::ordered}) {
      Scene scene = open_scene(devices, model_of(room()));
      CoverageOptions options = room_options(20'000);
      options.accumulation = accumulation;
      const std::string want = digest_of(coverage(scene, options).get());
      for (const bool at_once : {true, false}) {
        std::atomic<bool> cancel{at_once};
        CoverageOptions cancelled = options;
        if (!at_once) cancelled.samples = 40'000'000;           // minutes where it were not stopped
        if (!at_once && scene.devices().sim_world()) continue;  // sim runs inside wait(), without polling
        cancelled.cancel = &cancel;
        std::int64_t last = 0;
        cancelled.progress = [&](std::int64_t done, std::int64_t total) {
          EXPECT_GE(done, last);
          EXPECT_LE(done, total);
          last = done;
          if (done > 0) cancel = true;
        };
        expect_error(ErrorClass::interrupted, {"cancelled", "nothing was written"},
                     [&] { (void)coverage(scene, cancelled).get(); });
        for (int d = 0; d < scene.devices().size(); ++d)
          EXPECT_EQ(scene.devices()[d].memory(MemoryUse::work).current(), 0u);
        EXPECT_FALSE(scene.devices().timeline().is_recording()) << "the call's own recording ends with it";
        const CoverageResult after = coverage(scene, options).get();
        EXPECT_EQ(digest_of(after), want) << devices;
        for (const DeviceReport& device : after.dispatch.devices) EXPECT_GT(device.busy_s, 0);
      }
    }
}

TEST(CoverageCancel, AHookThatThrowsComesOutOfWait) {
  Scene scene = open_scene("host:2x1", model_of(room()));
  CoverageOptions options = room_options(2'000'000);
  options.progress = [](std::int64_t, std::int64_t) { throw std::runtime_error("hook"); };
  EXPECT_THROW((void)coverage(scene, options).get(), std::runtime_error);
  options.progress = nullptr;
  options.samples = 4000;
  EXPECT_GT(coverage(scene, options).get().segments, 0);
}

TEST(CoverageInput, IsRefusedWithTheValueBeforeAnyDeviceWork) {
  Scene scene = open_scene("host:2x1", model_of(room()));
  const CoverageOptions good = room_options();
  const double nan = std::nan("");
  const auto refused = [&](std::initializer_list<std::string> fragments, auto change) {
    CoverageOptions options = good;
    change(options);
    scene.devices()[0].memory(MemoryUse::work).reset_peak();
    expect_error(ErrorClass::usage, fragments, [&] { (void)coverage(scene, options); });
    EXPECT_EQ(scene.devices()[0].memory(MemoryUse::work).peak(), 0u);
  };
  refused({"no transmitter"}, [](auto& o) { o.transmitters.clear(); });
  refused({"transmitter 1", "nan"}, [&](auto& o) { o.transmitters[1].position.y = nan; });
  refused({"transmitter 0", "0"}, [](auto& o) { o.transmitters[0].gain = 0; });
  refused({"frequency", "-1"}, [](auto& o) { o.frequency_hz = -1; });
  refused({"frequency", "0"}, [](auto& o) { o.frequency_hz = 0; });
  refused({"frequency", "nan"}, [&](auto& o) { o.frequency_hz = nan; });
  refused({"samples", "0"}, [](auto& o) { o.samples = 0; });
  refused({"samples", "-7"}, [](auto& o) { o.samples = -7; });
  refused({"samples (3)", "passes (4)"}, [](auto& o) { o.samples = 3; });
  refused({"passes", "0"}, [](auto& o) { o.passes = 0; });
  refused({"bounces", "-1"}, [](auto& o) { o.bounces = -1; });
  refused({"nothing to count"}, [](auto& o) { o.bounces = 0, o.line_of_sight = false; });
  refused({"polarization", "0, 0, 0"}, [](auto& o) { o.polarization = {0, 0, 0}; });
  refused({"resolution", "0"}, [](auto& o) { o.grid.resolution0 = 0; });
  refused({"axis", "3"}, [](auto& o) { o.grid.axis = 3; });
  refused({"window 1", "8 to 0"}, [](auto& o) { o.grid.min1 = 8, o.grid.max1 = 0; });
  refused({"position"}, [&](auto& o) { o.grid.position = nan; });
  refused({"lane"}, [](auto& o) { o.lane_offset = -1; });
  refused({"lane"}, [&](auto& o) { o.lane_offset = coverage_lanes(good) + 1; });
  refused({"lane"}, [&](auto& o) { o.lane_offset = 10, o.lane_count = coverage_lanes(good); });
  refused({"lane_count", "-2"}, [](auto& o) { o.lane_count = -2; });
  refused({"2^32"}, [](auto& o) { o.grid.resolution0 = o.grid.resolution1 = 1 << 20; });

  Scene unbuilt(open_devices("host:1"), model_of(room()));
  expect_error(ErrorClass::state, {"coverage", "build()"}, [&] { (void)coverage(unbuilt, good); });
}

TEST(CoverageInput, AnEmptyWindowAndAnEmptySceneAreLegal) {
  Scene scene = open_scene("host:2x1", model_of(room()));
  CoverageOptions options = room_options();
  options.lane_offset = 17;
  options.lane_count = 0;
  const CoverageResult none = coverage(scene, options).get();
  EXPECT_EQ(none.segments, 0);
  EXPECT_EQ(none.lanes, 0);
  for (const double gain : none.gain) EXPECT_EQ(gain, 0);

  SceneModel nothing;
  nothing.add_mesh(Mesh{});  // no faces
  Scene empty = open_scene("sim:3", std::move(nothing));
  options = room_options();
  options.bounces = 2;
  const CoverageResult free_space = coverage(empty, options).get();
  EXPECT_GT(*std::min_element(free_space.gain.begin(), free_space.gain.end()), 0);
  EXPECT_EQ(races_of(empty.devices()), "");
}

}  // namespace
}  // namespace shardwise
