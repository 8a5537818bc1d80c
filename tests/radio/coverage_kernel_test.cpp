#include "radio/coverage_kernel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "reference/simulate.hpp"

namespace shardwise {
namespace {

using namespace test;

// A room of two materials with a block in it; the plane lies between floor and block top.
TestScene room() {
  TestScene scene;
  const int wall = scene.add_material({5.24, 0.12}),
            block = scene.add_material({1, std::numeric_limits<double>::infinity()});
  scene.add_box({0, 0, 0}, {10, 8, 5}, wall);
  scene.add_box({4, 3, 0.5}, {6, 4.5, 2.5}, block, 0.4);
  return scene;
}

SimulateOptions room_options() {
  SimulateOptions options;
  options.transmitters = {{{2.2, 2.1, 3.3}, 2.0}, {{8.1, 6.2, 1.2}, 0.5}};
  options.position = 1.5;
  options.max0 = 10;
  options.max1 = 8;
  options.resolution0 = 10;
  options.resolution1 = 8;
  options.samples = 600;
  options.passes = 3;
  options.bounces = 3;
  return options;
}

// Remembers every contribution.
struct RecordingSink {
  struct Entry {
    std::uint64_t lane;
    std::uint32_t pass;
    int depth;
    std::int64_t cell;
    float u;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  static constexpr bool wants_fields = false;
  std::vector<Entry> entries;
  void begin(std::uint64_t) {}
  bool add(std::uint64_t lane, std::uint32_t pass, int depth, std::int64_t cell, float u,
           const FieldSample&) {
    entries.push_back({lane, pass, depth, cell, u});
    return true;
  }
};

TEST(PlaneCrossing, WindowIsHalfOpen) {
  const GridView grid = make_grid_view(2, 1, 0, 4, 0, 2, 4, 2);
  PlaneCrossing crossing{};
  const auto at = [&](float x, float y) { return cross_plane(grid, {x, y, 0}, {0, 0, 1}, 1e-6f, crossing); };
  EXPECT_TRUE(at(0, 0));
  EXPECT_EQ(crossing.cell, 0);
  EXPECT_EQ(crossing.t, 1.0f);
  EXPECT_FALSE(at(4, 0));
  EXPECT_FALSE(at(0, 2));
  EXPECT_FALSE(at(-1e-6f, 0));
  EXPECT_TRUE(at(std::nextafter(4.0f, 0.0f), std::nextafter(2.0f, 0.0f)));
  EXPECT_EQ(crossing.cell, 7);
  EXPECT_TRUE(at(1, 1));
  EXPECT_EQ(crossing.cell, 5);
}

TEST(PlaneCrossing, ParallelBehindAndTooNear) {
  const GridView grid = make_grid_view(2, 1, -1e9, 1e9, -1e9, 1e9, 1, 1);
  PlaneCrossing crossing{};
  EXPECT_FALSE(cross_plane(grid, {0, 0, 0}, {1, 0, 1e-6f}, 0, crossing));
  EXPECT_TRUE(cross_plane(grid, {0, 0, 0}, {1, 0, 1.1e-6f}, 0, crossing));
  EXPECT_FALSE(cross_plane(grid, {0, 0, 2}, {0, 0, 1}, 0, crossing));
  EXPECT_TRUE(cross_plane(grid, {0, 0, 2}, {0, 0, -1}, 0, crossing));
  EXPECT_FALSE(cross_plane(grid, {0, 0, 0.5f}, {0, 0, 1}, 0.5f, crossing));
  EXPECT_FALSE(cross_plane(grid, {0, 0, 1}, {0, 0, 1}, 0, crossing));  // in the plane
}

TEST(PlaneCrossing, AxesAreInIncreasingOrder) {
  PlaneCrossing crossing{};
  const GridView x = make_grid_view(0, 1, 0, 4, 0, 4, 4, 4), y = make_grid_view(1, 1, 0, 4, 0, 4, 4, 4);
  EXPECT_TRUE(cross_plane(x, {0, 2.5f, 1.5f}, {1, 0, 0}, 0, crossing));
  EXPECT_EQ(crossing.cell, 1 * 4 + 2);
  EXPECT_TRUE(cross_plane(y, {2.5f, 0, 1.5f}, {0, 1, 0}, 0, crossing));
  EXPECT_EQ(crossing.cell, 1 * 4 + 2);
}

TEST(PlaneCrossing, CellIsTheFloorOfTheFraction) {
  std::mt19937_64 random(51);
  for (int k = 0; k < 20000; ++k) {
    const auto resolution = static_cast<std::int64_t>(1 + random() % 3000);
    const double low = std::uniform_real_distribution<double>(-500, 500)(random),
                 span = 1 + static_cast<double>(random() % 500);
    const GridView grid = make_grid_view(2, 0, low, low + span, low, low + span, resolution, 1);
    const auto c = static_cast<float>(low + span * std::uniform_real_distribution<double>(0, 1)(random));
    if (!(c >= grid.min0 && c < grid.max0)) continue;
    const double want = (static_cast<double>(c) - grid.min0) / (static_cast<double>(grid.max0) - grid.min0) *
                        static_cast<double>(resolution);
    const double got = detail::cell_index(c, grid.min0, grid.max0, grid.resolution0);
    ASSERT_GE(got, std::floor(want - 1e-3));
    ASSERT_LE(got, std::floor(want + 1e-3));
    ASSERT_LT(got, static_cast<double>(resolution));
  }
}

TEST(CoverageLane, SumOfLanesIsTheSumOfOneLaneRuns) {
  const TestScene scene = room();
  const SimulateSetup setup(scene, room_options());
  const BruteTracer tracer(setup.params.scene);
  const std::uint64_t cells = setup.params.grid.cell_count();
  RecordingSink all;
  std::vector<ExactCell> together(cells * 3), apart(cells * 3);
  ExactSink<> sink;
  sink.window = {cells, 0};
  sink.cells = together.data();
  for (std::int64_t lane = 0; lane < setup.lanes; ++lane) {
    coverage_lane(setup.params, tracer, sink, static_cast<std::uint64_t>(lane));
    coverage_lane(setup.params, tracer, all, static_cast<std::uint64_t>(lane));
  }
  ASSERT_GT(all.entries.size(), 500u);
  std::mt19937_64 random(52);
  std::shuffle(all.entries.begin(), all.entries.end(), random);
  for (const auto& entry : all.entries) {
    ExactCell& cell = apart[entry.pass * cells + static_cast<std::uint64_t>(entry.cell)];
    ASSERT_TRUE(add_exact(cell.digit, entry.u));
    ++cell.count;
  }
  std::int64_t crossings = 0;
  for (std::size_t k = 0; k < together.size(); ++k) {
    normalize(together[k]);
    normalize(apart[k]);
    for (int digit = 0; digit < 3; ++digit) ASSERT_EQ(together[k].digit[digit], apart[k].digit[digit]);
    ASSERT_EQ(together[k].count, apart[k].count);
    crossings += together[k].count;
  }
  EXPECT_EQ(crossings, static_cast<std::int64_t>(all.entries.size()));
}

TEST(CoverageLane, SinksAgree) {
  const TestScene scene = room();
  const SimulateOptions options = room_options();
  const SimulateSetup setup(scene, options);
  const BruteTracer tracer(setup.params.scene);
  const std::uint64_t cells = setup.params.grid.cell_count(), all = cells * 3;
  std::vector<FastCell> fast(all);
  std::vector<ExactCell> exact(all);
  std::vector<ExactSum> exact_field(all * 6);
  std::vector<double> fast_field(all * 6), staged_field(all * 6);
  const std::size_t slots = static_cast<std::size_t>(setup.lanes) * 4;
  std::vector<StagedSlot> staged(slots);
  std::vector<FieldSample> samples(slots);
  FastSink<true> fast_sink{{cells, 0}, fast.data(), fast_field.data()};
  ExactSink<true> exact_sink{{cells, 0}, exact.data(), exact_field.data(), 0.5f, 0.25f};
  StagedSink<true> staged_sink{{cells, 0}, 0, 4, staged.data(), samples.data()};
  LaneCounters sums[3];
  for (std::int64_t lane = 0; lane < setup.lanes; ++lane) {
    const auto id = static_cast<std::uint64_t>(lane);
    const LaneCounters counters[3] = {coverage_lane(setup.params, tracer, fast_sink, id),
                                      coverage_lane(setup.params, tracer, exact_sink, id),
                                      coverage_lane(setup.params, tracer, staged_sink, id)};
    for (int k = 0; k < 3; ++k) {
      sums[k].segments += counters[k].segments;
      sums[k].overflow += counters[k].overflow;
    }
  }
  EXPECT_EQ(sums[0].segments, sums[1].segments);
  EXPECT_EQ(sums[0].segments, sums[2].segments);
  EXPECT_EQ(sums[1].overflow, 0u);
  std::vector<double> staged_sum(all);
  std::vector<std::int64_t> staged_count(all);
  for (std::size_t k = 0; k < slots; ++k)
    if (staged[k].cell >= 0) {
      const auto cell = static_cast<std::size_t>(staged[k].cell);
      staged_sum[cell] += staged[k].u;
      ++staged_count[cell];
      for (std::size_t part = 0; part < 6; ++part) staged_field[cell * 6 + part] += samples[k].part[part];
    }
  for (std::size_t k = 0; k < all; ++k) {
    EXPECT_EQ(fast[k].count, exact[k].count);
    EXPECT_EQ(fast[k].count, staged_count[k]);
    EXPECT_NEAR(fast[k].sum, to_double(exact[k]) * 2, 1e-12 * fast[k].sum);
    EXPECT_NEAR(fast[k].sum, staged_sum[k], 1e-12 * fast[k].sum);
    for (std::size_t part = 0; part < 6; ++part) {
      const double want = fast_field[k * 6 + part];
      EXPECT_NEAR(want, to_double(exact_field[k * 6 + part]) * 4, 1e-12);
      EXPECT_NEAR(want, staged_field[k * 6 + part], 1e-12);
    }
  }
}

TEST(CoverageLane, LastLegStopsAtThePlaneAndChangesNothing) {
  // A tracer that ignores t_max and always looks at the whole ray must give the same map.
  struct WholeRay {
    const BruteTracer& inner;
    Hit closest(Vec3f o, Vec3f d, float t_min, float) const {
      return inner.closest(o, d, t_min, std::numeric_limits<float>::infinity());
    }
  };
  const TestScene scene = room();
  const SimulateSetup setup(scene, room_options());
  const BruteTracer tracer(setup.params.scene);
  RecordingSink bounded, whole;
  for (std::int64_t lane = 0; lane < setup.lanes; ++lane) {
    coverage_lane(setup.params, tracer, bounded, static_cast<std::uint64_t>(lane));
    coverage_lane(setup.params, WholeRay{tracer}, whole, static_cast<std::uint64_t>(lane));
  }
  EXPECT_EQ(bounded.entries, whole.entries);
}

TEST(CoverageLane, LineOfSightCanBeLeftOut) {
  const TestScene scene = room();
  SimulateOptions options = room_options();
  const SimulateResult with = simulate(scene, options);
  options.line_of_sight = false;
  const SimulateResult without = simulate(scene, options);
  options.line_of_sight = true;
  options.bounces = 0;
  const SimulateResult only = simulate(scene, options);
  for (std::size_t k = 0; k < with.gain.size(); ++k) {
    EXPECT_EQ(with.crossings[k], without.crossings[k] + only.crossings[k]);
    EXPECT_NEAR(with.gain[k], without.gain[k] + only.gain[k], 1e-15);
  }
  options.line_of_sight = false;
  const SimulateResult nothing = simulate(scene, options);
  EXPECT_EQ(nothing.segments, 0);
  EXPECT_EQ(std::accumulate(nothing.crossings.begin(), nothing.crossings.end(), std::int64_t{0}), 0);
}

TEST(CoverageLane, TransmitterGainScalesPowerAndAmplitude) {
  TestScene scene = room();
  SimulateOptions options = room_options();
  options.transmitters.resize(1);
  options.transmitters[0].gain = 1;
  const SimulateResult one = simulate(scene, options, true);
  options.transmitters[0].gain = 4;
  const SimulateResult four = simulate(scene, options, true);
  for (std::size_t k = 0; k < one.gain.size(); ++k) {
    EXPECT_NEAR(four.gain[k], 4 * one.gain[k], 1e-12 * four.gain[k]);
    for (int axis = 0; axis < 3; ++axis)
      EXPECT_NEAR(std::abs(four.field[k][axis] - 2.0 * one.field[k][axis]), 0, 1e-10);
  }
}

TEST(CoverageLane, GainsAboveOneStayInsideTheBound) {
  // Amplitude gains of 3 in a conducting room: depth d carries 9^d times the power of the passive room.
  const double infinity = std::numeric_limits<double>::infinity();
  TestScene passive, active;
  passive.add_box({0, 0, 0}, {10, 8, 5}, passive.add_material({1, infinity}));
  active.add_box({0, 0, 0}, {10, 8, 5}, active.add_material({1, infinity, 1, 0.1, 3}));
  SimulateOptions options = room_options();
  options.transmitters = {{{2.2, 2.1, 3.3}, 1e4}};
  double previous_passive = 0, previous_active = 0, scale = 1;
  for (options.bounces = 0; options.bounces <= 4; ++options.bounces, scale *= 9) {
    const auto total = [&](const TestScene& scene) {
      const SimulateResult result = simulate(scene, options, true);
      EXPECT_EQ(result.overflow, 0);
      return std::accumulate(result.gain.begin(), result.gain.end(), 0.0);
    };
    const double quiet = total(passive), loud = total(active);
    EXPECT_GT(quiet, previous_passive);
    EXPECT_NEAR((loud - previous_active) / (quiet - previous_passive), scale, 1e-4 * scale);
    previous_passive = quiet;
    previous_active = loud;
  }
}

TEST(CoverageLane, NothingIsCountedBehindABlocker) {
  SimulateOptions options;
  options.transmitters = {{{0, 0, 3}}};
  options.min0 = options.min1 = -1;
  options.max0 = options.max1 = 1;
  options.samples = 20000;
  const auto crossings = [&](double blocker_height, double plane, int bounces) {
    TestScene scene;
    const int material = scene.add_material({5, 0.1});
    scene.add_quad({-50, -50, blocker_height}, {100, 0, 0}, {0, 100, 0}, material);
    options.position = plane;
    options.bounces = bounces;
    return simulate(scene, options).crossings[0];
  };
  const std::int64_t open = crossings(0, 1, 0);
  EXPECT_GT(open, 500);
  EXPECT_EQ(crossings(2, 1, 0), 0);         // the blocker is between: on the last leg,
  EXPECT_EQ(crossings(2, 1, 3), 0);         // and where others may follow
  EXPECT_EQ(crossings(1.001, 1, 2), 0);     // just in front of the plane
  EXPECT_EQ(crossings(0.999, 1, 0), open);  // just behind it
  EXPECT_GT(crossings(0, 1, 1), open);      // and the reflected leg comes up through the plane again
}

TEST(CoverageLane, AbsorbingFacesEndThePath) {
  SimulateOptions options = room_options();
  const TestScene scene = room();
  const SimulateSetup setup(scene, options);
  const BruteTracer tracer(setup.params.scene);
  const auto count = [&](const CoverageParams& params) {
    RecordingSink sink;
    for (std::int64_t lane = 0; lane < setup.lanes; ++lane)
      coverage_lane(params, tracer, sink, static_cast<std::uint64_t>(lane));
    return std::count_if(sink.entries.begin(), sink.entries.end(),
                         [](const auto& entry) { return entry.depth > 0; });
  };
  EXPECT_GT(count(setup.params), 0);
  std::vector<SurfaceMaterial> absorbing = setup.materials;
  for (SurfaceMaterial& material : absorbing) material.flags = 0;
  CoverageParams params = setup.params;
  params.materials = absorbing.data();
  EXPECT_EQ(count(params), 0);
  params = setup.params;
  params.material_count = 0;  // every index lies outside the table
  EXPECT_EQ(count(params), 0);
  const std::vector<std::int32_t> none(scene.triangles().size(), -1);
  params = setup.params;
  params.scene.face_material = none.data();
  EXPECT_EQ(count(params), 0);
}

TEST(CoverageLane, OverflowIsCountedAndNotAdded) {
  const TestScene scene = room();
  SimulateOptions options = room_options();
  const SimulateSetup setup(scene, options);
  const BruteTracer tracer(setup.params.scene);
  const std::uint64_t cells = setup.params.grid.cell_count();
  std::vector<ExactCell> grid(cells * 3);
  ExactSink<> sink{{cells, 0}, grid.data(), nullptr, 1, 1};
  sink.scale = 0x1p+30f;  // as if the bound had been far too small
  std::uint32_t overflow = 0;
  RecordingSink record;
  for (std::int64_t lane = 0; lane < setup.lanes; ++lane) {
    overflow += coverage_lane(setup.params, tracer, sink, static_cast<std::uint64_t>(lane)).overflow;
    coverage_lane(setup.params, tracer, record, static_cast<std::uint64_t>(lane));
  }
  const auto above = std::count_if(record.entries.begin(), record.entries.end(),
                                   [](const auto& entry) { return entry.u * 0x1p+30f > 0x1p+20f; });
  std::int64_t counted = 0;
  for (const ExactCell& cell : grid) counted += cell.count;
  EXPECT_GT(above, 0);
  EXPECT_EQ(overflow, static_cast<std::uint32_t>(above));
  EXPECT_EQ(counted + above, static_cast<std::int64_t>(record.entries.size()));
}

class RowLanes : public ::testing::Test {
 protected:
  RowLanes()
      : scene_(room()), options_(room_options()), setup_(scene_, options_), tracer_(setup_.params.scene) {
    for (std::int64_t lane = 0; lane < 400; ++lane) {
      LaunchedRay ray;
      launch_generated(setup_.params.launch, static_cast<std::uint64_t>(lane), ray);
      origin_.push_back(ray.origin);
      direction_.push_back(3.0f * ray.direction);
      tmax_.push_back(infinity_f);
    }
    params_ = setup_.params;
    params_.launch.from_rows = true;
    params_.launch.rows.polarization = &polarization_;
  }
  std::vector<RecordingSink::Entry> run(std::uint32_t* rejected = nullptr) {
    params_.launch.rows.origin = origin_.data();
    params_.launch.rows.direction = direction_.data();
    params_.launch.rows.tmax = tmax_.data();
    RecordingSink sink;
    std::uint32_t count = 0;
    for (std::uint64_t lane = 0; lane < origin_.size(); ++lane)
      count += coverage_lane(params_, tracer_, sink, lane).rejected;
    if (rejected != nullptr) *rejected = count;
    return sink.entries;
  }
  TestScene scene_;
  SimulateOptions options_;
  SimulateSetup setup_;
  BruteTracer tracer_;
  CoverageParams params_;
  std::vector<Vec3f> origin_, direction_;
  std::vector<float> tmax_;
  Vec3f polarization_{0, 0, 1};
};

TEST_F(RowLanes, GiveTheMapOfTheSameGeneratedRays) {
  RecordingSink generated;
  for (std::uint64_t lane = 0; lane < 200; ++lane) coverage_lane(setup_.params, tracer_, generated, lane);
  std::vector<RecordingSink::Entry> rows = run();
  std::erase_if(rows, [](const auto& entry) { return entry.lane >= 200; });
  ASSERT_EQ(rows.size(), generated.entries.size());
  for (std::size_t k = 0; k < rows.size(); ++k) {
    EXPECT_EQ(rows[k].cell, generated.entries[k].cell);
    EXPECT_EQ(rows[k].depth, generated.entries[k].depth);
    EXPECT_NEAR(rows[k].u * 2.0f, generated.entries[k].u, 1e-4f * generated.entries[k].u);  // a gain of 2
  }
}

TEST_F(RowLanes, BadRowsAreCountedAndDisturbNoOthers) {
  const auto before = run();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  origin_[3].x = nan;
  direction_[10] = {0, 0, 0};
  direction_[20].y = infinity_f;
  tmax_[30] = -1;
  std::uint32_t rejected = 0;
  const auto after = run(&rejected);
  EXPECT_EQ(rejected, 4u);
  auto want = before;
  std::erase_if(want,
                [](const auto& e) { return e.lane == 3 || e.lane == 10 || e.lane == 20 || e.lane == 30; });
  EXPECT_LT(want.size(), before.size());
  EXPECT_EQ(after, want);
}

TEST_F(RowLanes, TmaxBoundsTheFirstLegOnly) {
  const auto before = run();
  ASSERT_TRUE(std::any_of(before.begin(), before.end(), [](const auto& entry) { return entry.depth > 0; }));
  std::fill(tmax_.begin(), tmax_.end(), 1e-3f);  // nothing is reached within a millimetre
  EXPECT_TRUE(run().empty());
  std::fill(tmax_.begin(), tmax_.end(), 100.0f);  // longer than the room
  EXPECT_EQ(run(), before);
  for (std::size_t row = 0; row < origin_.size();
       ++row)  // just past the first surface; later legs are longer
    tmax_[row] = tracer_.closest(origin_[row], to_unit(direction_[row]), 0, infinity_f).t + 1e-3f;
  EXPECT_EQ(run(), before);
}

TEST(CoverageHooks, SeeEverySurfaceAndMayEndPaths) {
  struct Counting {
    std::vector<SurfaceEvent>* events;
    bool survive;
    void surface_hit(const SurfaceEvent& event) { events->push_back(event); }
    bool survives(std::uint64_t, int, float, float& weight) {
      weight *= 2;
      return survive;
    }
  };
  const TestScene scene = room();
  const SimulateSetup setup(scene, room_options());
  const BruteTracer tracer(setup.params.scene);
  std::vector<SurfaceEvent> events, first_only;
  RecordingSink plain, weighted, ended;
  for (std::uint64_t lane = 0; lane < 200; ++lane) {
    coverage_lane(setup.params, tracer, plain, lane);
    coverage_lane(setup.params, tracer, weighted, lane, Counting{&events, true});
    coverage_lane(setup.params, tracer, ended, lane, Counting{&first_only, false});
  }
  EXPECT_EQ(first_only.size(), 200u);  // a closed room: every lane hits once
  EXPECT_GT(events.size(), 500u);
  for (const SurfaceEvent& event : events) {
    EXPECT_LT(dot(event.normal, event.direction), 0);
    EXPECT_LE(event.power, 1 + 1e-5f);
  }
  ASSERT_EQ(plain.entries.size(), weighted.entries.size());
  for (std::size_t k = 0; k < plain.entries.size(); ++k)
    EXPECT_EQ(weighted.entries[k].u, plain.entries[k].u * static_cast<float>(1 << plain.entries[k].depth));
  for (const auto& entry : ended.entries) EXPECT_EQ(entry.depth, 0);
}

}  // namespace
}  // namespace shardwise
