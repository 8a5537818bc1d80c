// Lanes of several ranks: exact sums joined on rank 0 against one process', and what a rank refuses.

#include <cstring>
#include <random>

#include "cluster/rank_fixture.hpp"
#include "rays/row_batch.hpp"
#include "shardwise/radio/coverage_ranks.hpp"

namespace shardwise::testing {
namespace {

CoverageOptions options_of(std::int64_t samples, int passes) {
  CoverageOptions options;
  options.transmitters = {{{0.1, 0.2, 1.5}, 1}, {{-1.1, 0.9, 1.2}, 0.25}};
  options.grid.axis = 2;
  options.grid.position = -0.5;
  options.grid.min0 = options.grid.min1 = -2.5;
  options.grid.max0 = options.grid.max1 = 2.5;
  options.grid.resolution0 = 13;
  options.grid.resolution1 = 9;
  options.samples = samples;
  options.passes = passes;
  options.split.min_rows_per_device = 0;
  return options;
}

SceneModel concrete_model() {
  SceneModel model;
  const std::int32_t material = model.add_material(make_itu_material("wall", "concrete"));
  const SceneModel shapes = [] {
    SceneModel built = shardwise::test::test_model();
    built.build();
    return built;
  }();
  for (std::int32_t shape = 0; shape < shapes.num_meshes(); ++shape) {
    Mesh mesh = shapes.mesh(shape);
    mesh.material = material;
    model.add_mesh(mesh);
  }
  return model;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

TEST(RankLanes, TheMapIsThatOfOneProcess) {
  Scene one(open_devices("host:1x1"), concrete_model());
  one.build();
  Scene scene(open_devices(ranks().rank() == 0 ? "host:1x1" : "host:2x1"), concrete_model());
  scene.build();
  std::mt19937 random(4);
  for (int round = 0; round < 6; ++round) {
    CoverageOptions options = options_of(1 + static_cast<std::int64_t>(random() % 4000), 1 + round);
    options.per_transmitter = round % 2 == 1;
    CoverageResult mine = coverage_on_ranks(ranks(), scene, options);
    std::int64_t counts[] = {mine.lanes, mine.segments};
    ranks().sum(counts, "lanes");
    const CoverageResult expected = coverage(one, options).get();
    EXPECT_EQ(counts[0], expected.lanes);
    EXPECT_EQ(counts[1], expected.segments);
    if (ranks().rank() != 0) {
      EXPECT_TRUE(mine.sums.cells.empty());
      continue;
    }
    const CoverageResult map = finish_coverage(options, mine.sums);
    EXPECT_TRUE(same_bits(map.gain, expected.gain));
    EXPECT_TRUE(same_bits(map.standard_error, expected.standard_error));
    EXPECT_TRUE(same_bits(map.transmitter_gain, expected.transmitter_gain));
    EXPECT_EQ(map.crossings, expected.crossings);
    EXPECT_EQ(map.segments, expected.segments);
  }
}

TEST(RankLanes, FewerLanesThanRanks) {
  Scene scene(open_devices("host:1x1"), concrete_model());
  scene.build();
  CoverageOptions options = options_of(1, 1);
  options.transmitters.resize(1);
  const CoverageResult mine = coverage_on_ranks(ranks(), scene, options);
  if (ranks().rank() == 0) {
    EXPECT_EQ(mine.sums.lanes(), 1);
    EXPECT_TRUE(same_bits(finish_coverage(options, mine.sums).gain, coverage(scene, options).get().gain));
  }
}

TEST(RankLanes, AFaultOnOneRankIsThrownByAll) {
  Scene scene(open_devices("host:1x1"), concrete_model());
  scene.build();
  const int bad = ranks().size() - 1;
  const RankError budget = agreed_error([&] {
    CoverageOptions options = options_of(3000, 4);
    if (ranks().rank() == bad) options.split.memory_bytes = 100;
    coverage_on_ranks(ranks(), scene, options);
  });
  EXPECT_EQ(budget.error_class(), ErrorClass::budget);
  EXPECT_EQ(budget.rank(), bad);
  // In the middle of its launches, by the caller.
  std::atomic<bool> cancel{ranks().rank() == bad};
  const RankError cancelled = agreed_error([&] {
    CoverageOptions options = options_of(3000, 4);
    options.cancel = &cancel;
    coverage_on_ranks(ranks(), scene, options);
  });
  EXPECT_EQ(cancelled.error_class(), ErrorClass::interrupted);
  const RankError fast = agreed_error([&] {
    CoverageOptions options = options_of(3000, 4);
    options.accumulation = Accumulation::fast;
    coverage_on_ranks(ranks(), scene, options);
  });
  EXPECT_EQ(fast.error_class(), ErrorClass::usage);
  ranks().barrier("in step");
}

}  // namespace
}  // namespace shardwise::testing
