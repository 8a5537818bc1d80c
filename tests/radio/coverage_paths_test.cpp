// Many paths side by side against coverage_lane(), lane by lane: every contribution, every event, every bit.
#include "radio/coverage_paths.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>
#include <vector>

#include "reference/simulate.hpp"

namespace shardwise {
namespace {

using namespace test;

// A room with a lossy wall, a conducting block and an absorbing screen.
TestScene furnished_room() {
  TestScene scene;
  const int wall = scene.add_material({5.24, 0.12}),
            block = scene.add_material({1, std::numeric_limits<double>::infinity()}),
            screen = scene.add_material({2, 0});
  scene.add_box({0, 0, 0}, {10, 8, 5}, wall);
  scene.add_box({4, 3, 0.5}, {6, 4.5, 2.5}, block, 0.4);
  scene.add_quad({1, 1, 0.2}, {0.5, 0.1, 0}, {0, 0.2, 2}, screen);
  return scene;
}

SimulateOptions two_transmitters() {
  SimulateOptions options;
  options.transmitters = {{{2.2, 2.1, 3.3}, 2.0}, {{8.1, 6.2, 1.2}, 0.5}};
  options.max0 = 10;
  options.max1 = 8;
  options.resolution0 = 10;
  options.resolution1 = 8;
  options.samples = 2100;  // blocks of lanes end inside a pass
  options.passes = 2;
  options.bounces = 3;
  return options;
}

struct Contribution {
  std::uint64_t lane;
  int depth;
  std::uint32_t pass;
  std::int64_t cell;
  float u;
  FieldSample field;
};

/// Remembers every contribution; every seventh cell reports an overflow.
template <bool Fields>
struct Recorder {
  static constexpr bool wants_fields = Fields;
  std::vector<Contribution>* entries;
  std::vector<std::uint64_t>* begun;
  void begin(std::uint64_t lane) { begun->push_back(lane); }
  void prefetch(std::uint32_t, std::int64_t) const {}
  bool add(std::uint64_t lane, std::uint32_t pass, int depth, std::int64_t cell, float u,
           const FieldSample& field) {
    entries->push_back({lane, depth, pass, cell, u, field});
    return cell % 7 != 0;
  }
};

/// Remembers events, ends some paths and raises the weight of the others.
struct Roulette {
  std::vector<SurfaceEvent>* events;
  void surface_hit(const SurfaceEvent& event) { events->push_back(event); }
  bool survives(std::uint64_t lane, int depth, float power, float& weight) {
    weight *= 1.5f;
    return power > 1e-6f && (lane + static_cast<std::uint64_t>(depth)) % 5 != 0;
  }
};

struct OneByOne {
  const BruteTracer& tracer;
  const SceneView& scene;
  void closest(const RayBatch& rays, int count, float t_min, HitBatch& hits) const {
    closest_one_by_one(tracer, scene, rays, count, t_min, hits);
  }
};

struct Outcome {
  std::vector<Contribution> entries;
  std::vector<std::uint64_t> begun;
  std::vector<SurfaceEvent> events;
  LaneCounters counters;

  void sort() {
    const auto key = [](const auto& a) { return std::tuple(a.lane, a.depth); };
    std::sort(entries.begin(), entries.end(), [&](auto& a, auto& b) { return key(a) < key(b); });
    std::sort(events.begin(), events.end(), [&](auto& a, auto& b) { return key(a) < key(b); });
    std::sort(begun.begin(), begun.end());
  }
};

template <class T>
bool same_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <bool Fields>
void expect_same(const CoverageParams& params, std::uint64_t first, std::int64_t count) {
  const BruteTracer tracer(params.scene);
  Outcome want, got;
  Recorder<Fields> sink{&want.entries, &want.begun};
  for (std::int64_t i = 0; i < count; ++i) {
    const LaneCounters lane =
        coverage_lane(params, tracer, sink, first + static_cast<std::uint64_t>(i), Roulette{&want.events});
    want.counters.segments += lane.segments;
    want.counters.rejected += lane.rejected;
    want.counters.overflow += lane.overflow;
  }
  sink = {&got.entries, &got.begun};
  const OneByOne batch_tracer{tracer, params.scene};
  got.counters =
      CoveragePaths<OneByOne, Recorder<Fields>, Roulette>(params, batch_tracer, sink, Roulette{&got.events})
          .run(first, count);
  want.sort();
  got.sort();
  EXPECT_EQ(got.counters.segments, want.counters.segments);
  EXPECT_EQ(got.counters.rejected, want.counters.rejected);
  EXPECT_EQ(got.counters.overflow, want.counters.overflow);
  EXPECT_EQ(got.begun, want.begun);
  ASSERT_EQ(got.entries.size(), want.entries.size());
  for (std::size_t k = 0; k < want.entries.size(); ++k) {
    const Contribution &a = want.entries[k], &b = got.entries[k];
    ASSERT_EQ(std::tuple(a.lane, a.depth, a.pass, a.cell), std::tuple(b.lane, b.depth, b.pass, b.cell));
    ASSERT_TRUE(same_bits(a.u, b.u)) << "lane " << a.lane << " depth " << a.depth;
    ASSERT_TRUE(same_bits(a.field, b.field)) << "lane " << a.lane << " depth " << a.depth;
  }
  ASSERT_EQ(got.events.size(), want.events.size());
  for (std::size_t k = 0; k < want.events.size(); ++k) {
    const SurfaceEvent &a = want.events[k], &b = got.events[k];
    ASSERT_EQ(std::tuple(a.lane, a.depth, a.prim), std::tuple(b.lane, b.depth, b.prim));
    ASSERT_TRUE(same_bits(a.point, b.point) && same_bits(a.normal, b.normal) &&
                same_bits(a.direction, b.direction) && same_bits(a.weight, b.weight) &&
                same_bits(a.power, b.power))
        << "lane " << a.lane << " depth " << a.depth;
  }
  if (params.bounces > 0 && count > 1000) {
    EXPECT_GT(want.entries.size(), 100u);
    EXPECT_GT(want.events.size(), 500u);
    EXPECT_GT(want.counters.overflow, 10u);
  }
}

void expect_same(const SimulateSetup& setup, const CoverageParams& params) {
  expect_same<false>(params, 0, setup.lanes);
  expect_same<true>(params, 0, setup.lanes);
  expect_same<false>(params, 5, 1);
  expect_same<false>(params, 4090, 70);
}

struct Furnished {
  TestScene scene = furnished_room();
  SimulateSetup setup;
  explicit Furnished(const SimulateOptions& options) : setup(scene, options) {
    setup.materials[2].flags = 0;  // the screen absorbs
  }
};

TEST(CoveragePaths, GeneratedLanesGiveTheBitsOfSingleLanes) {
  for (const bool slab : {false, true})
    for (const bool line_of_sight : {false, true})
      for (const int bounces : {0, 1, 4}) {
        SimulateOptions options = two_transmitters();
        options.slab_walls = slab;
        options.line_of_sight = line_of_sight;
        options.bounces = bounces;
        const Furnished room(options);
        expect_same(room.setup, room.setup.params);
      }
}

TEST(CoveragePaths, PlanesAcrossAnyAxis) {
  for (const int axis : {0, 1}) {
    SimulateOptions options = two_transmitters();
    options.axis = axis;
    options.position = 3.1;
    options.max0 = axis == 0 ? 8 : 10;
    options.max1 = 5;
    const Furnished room(options);
    expect_same(room.setup, room.setup.params);
  }
}

TEST(CoveragePaths, MaterialsOutsideTheTableAbsorb) {
  const Furnished room(two_transmitters());
  CoverageParams params = room.setup.params;
  params.material_count = 1;
  expect_same(room.setup, params);
}

TEST(CoveragePaths, RowsGiveTheBitsOfSingleLanesAndKeepTheirOrder) {
  const Furnished room(two_transmitters());
  CoverageParams params = room.setup.params;
  const auto count = static_cast<std::size_t>(room.setup.lanes);
  std::vector<Vec3f> origin(count), direction(count), polarization(count, Vec3f{0.3f, 0.2f, 1});
  std::vector<float> tmax(count, infinity_f);
  std::vector<std::uint8_t> active(count, 1);
  for (std::size_t k = 0; k < count; ++k) {
    LaunchedRay ray;
    launch_generated(params.launch, k, ray);
    origin[k] = ray.origin;
    direction[k] = 2.0f * ray.direction;
    if (k % 11 == 0) direction[k] = {0, 0, k % 2 == 0 ? -1.0f : 1.0f};  // normal incidence
    if (k % 13 == 0) tmax[k] = 2;
    if (k % 17 == 0) active[k] = 0;
    if (k % 19 == 0) direction[k].x = std::numeric_limits<float>::quiet_NaN();
  }
  params.launch.from_rows = true;
  params.launch.rows = {
      origin.data(), direction.data(), tmax.data(), active.data(), nullptr, polarization.data(), 0, 1, 0};
  expect_same(room.setup, params);

  Outcome seen;
  Recorder<false> sink{&seen.entries, &seen.begun};
  const BruteTracer tracer(params.scene);
  const OneByOne batch_tracer{tracer, params.scene};
  CoveragePaths<OneByOne, Recorder<false>>(params, batch_tracer, sink).run(0, 3000);
  EXPECT_TRUE(std::is_sorted(seen.begun.begin(), seen.begun.end()));
  EXPECT_EQ(seen.begun.size(), 3000u);
}

TEST(CoveragePaths, NeighboursInOrderAreNeighboursInAzimuth) {
  const LaneOrder& order = lane_order(false);
  std::uint64_t before = 0;
  for (const std::uint16_t place : order) {
    const std::uint64_t azimuth = place * golden_turn;
    EXPECT_GE(azimuth, before);
    before = azimuth;
  }
}

}  // namespace
}  // namespace shardwise
