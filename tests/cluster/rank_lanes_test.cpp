// Lanes of several ranks: exact sums joined on rank 0 against one process', and what a rank refuses.

#include <fmt/core.h>

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

void expect_equal(const CoverageResult& map, const CoverageResult& expected) {
  EXPECT_TRUE(same_bits(map.gain, expected.gain));
  EXPECT_TRUE(same_bits(map.standard_error, expected.standard_error));
  EXPECT_TRUE(same_bits(map.transmitter_gain, expected.transmitter_gain));
  EXPECT_TRUE(same_bits(map.transmitter_standard_error, expected.transmitter_standard_error));
  EXPECT_EQ(map.crossings, expected.crossings);
  EXPECT_EQ(map.lanes, expected.lanes);
  EXPECT_EQ(map.segments, expected.segments);
  EXPECT_EQ(map.rejected, expected.rejected);
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
    const CoverageResult mine = coverage_on_ranks(ranks(), scene, options);
    options.sums = true;
    const CoverageResult sums = coverage_on_ranks(ranks(), scene, options);
    options.sums = false;
    const CoverageResult expected = coverage(one, options).get();
    if (ranks().rank() != 0) {
      EXPECT_TRUE(sums.sums.cells.empty());
      EXPECT_TRUE(mine.gain.empty());
      continue;
    }
    expect_equal(mine, expected);
    expect_equal(finish_coverage(options, sums.sums), expected);
  }
}

TEST(RankLanes, GridsOfManyPieces) {
  // 3.3 MB a grid, so that pieces begin and end within grids and slots are used again.
  for (const char* devices : {"host:1x1", "sim:2"}) {
    Scene scene(open_devices(devices), concrete_model());
    scene.build();
    CoverageOptions options = options_of(3000, 5);
    options.grid.resolution0 = 337;
    options.grid.resolution1 = 307;
    options.per_transmitter = true;
    const CoverageResult mine = coverage_on_ranks(ranks(), scene, options);
    if (ranks().rank() == 0) expect_equal(mine, coverage(scene, options).get());
  }
}

TEST(RankLanes, AFaultWhileGridsAreOnTheirWay) {
  if (ranks().size() == 1) GTEST_SKIP() << "nothing is on its way";
  // The last rank, when it has sent a few pieces; rank 0, when it has taken some.
  for (const bool sender : {true, false}) {
    const int bad = sender ? ranks().size() - 1 : 0;
    OpenOptions open;
    if (ranks().rank() == bad)
      open.sim_faults = fmt::format("device 0 copy 3 of \"grids {}\" fails", sender ? "out" : "in");
    Scene scene(open_devices("sim:1", open), concrete_model());
    scene.build();
    CoverageOptions options = options_of(3000, 5);
    options.grid.resolution0 = 337;
    options.grid.resolution1 = 307;
    const RankError error = agreed_error([&] { coverage_on_ranks(ranks(), scene, options); });
    EXPECT_EQ(error.rank(), bad);
    EXPECT_EQ(error.error_class(), ErrorClass::device);
  }
  ranks().barrier("in step");
}

/// What NCCL does, by messages: the way that grids take where every rank has a GPU, on host devices.
class MessageCollectives final : public DeviceCollectives {
 public:
  std::string name() const override { return "messages"; }
  void sum_to_rank_0(LaunchContext&, std::uint64_t* words, std::uint64_t count) override {
    const std::span<std::uint64_t> mine(words, count);
    if (ranks().rank() != 0) {
      ranks().send(std::as_bytes(mine), 0, 77, "words")->wait();
      return;
    }
    std::vector<std::uint64_t> others(count);
    for (int r = 1; r < ranks().size(); ++r) {
      ranks().receive(std::as_writable_bytes(std::span(others)), r, 77, "words")->wait();
      for (std::uint64_t i = 0; i < count; ++i) words[i] += others[i];
    }
  }
  void exchange(LaunchContext&, std::span<const Message> messages) override {
    std::vector<std::unique_ptr<RankMessage>> under_way;
    for (const Message& m : messages) {
      const std::span<std::byte> bytes(static_cast<std::byte*>(m.memory), m.bytes);
      under_way.push_back(m.sends ? ranks().send(bytes, m.peer, 78, "message")
                                  : ranks().receive(bytes, m.peer, 78, "message"));
    }
    for (const auto& message : under_way) message->wait();
  }
};

TEST(RankLanes, SumsInTheMemoryOfDevices) {
  Scene scene(open_devices(ranks().rank() == 0 ? "host:2x1" : "host:1x1"), concrete_model());
  scene.build();
  MessageCollectives devices;
  for (const std::int64_t samples : {5, 777, 5000}) {
    CoverageOptions options = options_of(samples, 5);
    options.per_transmitter = samples == 777;
    const CoverageResult mine = coverage_on_ranks(ranks(), scene, options, &devices);
    options.sums = true;
    const CoverageResult sums = coverage_on_ranks(ranks(), scene, options, &devices);
    options.sums = false;
    if (ranks().rank() != 0) continue;
    const CoverageResult expected = coverage(scene, options).get();
    expect_equal(mine, expected);
    expect_equal(finish_coverage(options, sums.sums), expected);
  }
  // A rank that fails before the sum does not hold the others up in it.
  const RankError error = agreed_error([&] {
    CoverageOptions options = options_of(3000, 4);
    if (ranks().rank() == 1) options.split.memory_bytes = 100;
    coverage_on_ranks(ranks(), scene, options, &devices);
  });
  EXPECT_EQ(error.error_class(), ErrorClass::budget);
}

TEST(RankLanes, HostDevicesHaveNoCollectives) {
  const DeviceSet devices = open_devices("host:1x1");
  const auto stream = devices.master().create_stream("sums");
  std::string why;
  EXPECT_EQ(connect_devices(ranks(), *stream, &why), nullptr);
  EXPECT_EQ(why, "rank 0: host:0 is no GPU");
}

TEST(RankLanes, FewerLanesThanRanks) {
  Scene scene(open_devices("host:1x1"), concrete_model());
  scene.build();
  CoverageOptions options = options_of(1, 1);
  options.transmitters.resize(1);
  const CoverageResult mine = coverage_on_ranks(ranks(), scene, options);
  // A window of the lanes.
  CoverageOptions window = options_of(2000, 4);
  window.lane_offset = 777;
  window.lane_count = 1234;
  const CoverageResult part = coverage_on_ranks(ranks(), scene, window);
  if (ranks().rank() == 0) {
    expect_equal(part, coverage(scene, window).get());
    expect_equal(mine, coverage(scene, options).get());
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
