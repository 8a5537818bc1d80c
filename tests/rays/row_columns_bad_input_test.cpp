// What callers of operations on rows get wrong in their columns and rows, through the public calls. Refusals
// come before anything runs, name the operation and what was found, and leave the scene as it was.
//
// Elsewhere: rows in the wrong memory and devices named twice in gpu/row_bad_input_gpu_test.cpp; unknown,
// missing and unlike devices in runtime/devices_test.cpp; arguments of factories in row_operations_test.cpp;
// updates that are refused as such in scene/scene_test.cpp; failing kernels in
// dispatch/row_dispatch_test.cpp.

#include "row_bad_input.hpp"

#include <gtest/gtest.h>

namespace shardwise::test {
namespace {

TEST(RowBadInput, ColumnsOfWrongLengthsAreRefusedByName) {
  Scene scene = built("host:2x1");
  const Rows rows(30);
  for (const Call& call : all_calls())
    for (const SourceKind kind : {SourceKind::on_master, SourceKind::on_host})
      for (std::size_t c = 0; c < call.columns.size(); ++c) {
        SCOPED_TRACE(call.name + ", column " + call.columns[c]);
        RowSource source = call.source(rows);
        source.kind = kind;
        ASSERT_EQ(source.columns.size(), call.columns.size());
        source.columns[c].rows -= 1;
        // The first column sets the number of rows, so another one is told not to fit.
        expect_error(ErrorClass::usage, {call.name, c == 0 ? "" : call.columns[c]},
                     [&] { (void)call.run(scene, source, spread()); });
      }
  EXPECT_EQ(scene.rows().spread_calls(), 0);
}

TEST(RowBadInput, BadRowsAreInactiveCountedAndTouchNoOther) {
  constexpr int count = 300;
  using Spoil = std::function<void(Rows&, std::size_t)>;
  const Spoil bad_a = [](Rows& r, std::size_t i) { r.a[i].y = nan; };
  const Spoil bad_b = [](Rows& r, std::size_t i) { r.b[i].x = infinity; };
  const Spoil zero_c = [](Rows& r, std::size_t i) { r.c[i] = {0, 0, 0}; };
  const Spoil bad_c = [](Rows& r, std::size_t i) { r.c[i].z = nan; };
  const Spoil bad_tmax = [](Rows& r, std::size_t i) { r.tmax[i] = nan; };
  const Spoil zero_tmax = [](Rows& r, std::size_t i) { r.tmax[i] = 0; };
  const Spoil negative_tmax = [](Rows& r, std::size_t i) { r.tmax[i] = -1; };
  const Spoil bad_chain = [](Rows& r, std::size_t i) { r.chain[i * chain_points].x = nan; };
  const std::vector<Spoil> of_rays{bad_a, zero_c, bad_c, bad_tmax, zero_tmax, negative_tmax};
  const std::map<std::string, std::vector<Spoil>> spoils{
      {"intersect", of_rays},     {"trace_reflections", of_rays}, {"nearest_edge", of_rays},
      {"nearest_edges", {bad_a}}, {"visible", {bad_a, bad_b}},    {"visible_pair", {bad_a}},
      {"visible_edge", {bad_a}},  {"visible_chain", {bad_chain}}, {"segment_penetration", {bad_a, bad_b}},
  };
  for (const char* devices : {"host:1x1", "host:3x1", "sim:2"}) {
    Scene scene = built(devices);
    for (const Call& call : all_calls()) {
      SCOPED_TRACE(call.name + " on " + devices);
      const bool of_points = call.columns.front() == "point";
      const std::vector<Spoil>& ways = of_points ? spoils.at("nearest_edges") : spoils.at(call.name);
      Rows spoilt(count), switched_off(count);
      std::int64_t bad = 0;
      for (std::size_t i = 0; i < count; i += 7, ++bad) {
        ways[static_cast<std::size_t>(bad) % ways.size()](spoilt, i);
        switched_off.active[i] = 0;
      }
      const RowResult found = call.run(scene, call.source(spoilt), spread()).get();
      const RowResult expected = call.run(scene, call.source(switched_off), spread()).get();
      EXPECT_EQ(found.rejected, bad);
      EXPECT_EQ(expected.rejected, 0);
      EXPECT_TRUE(bytes_of(*found.table) == bytes_of(*expected.table));
    }
  }
}

TEST(RowBadInput, EmptyBatchesGiveEmptyAnswers) {
  const Rows none(0);
  for (const char* devices : {"host:1x1", "host:3x1", "sim:3"}) {
    Scene scene = built(devices);
    for (const Call& call : all_calls())
      for (const SourceKind kind : {SourceKind::on_master, SourceKind::on_host})
        for (const std::int64_t chunk : {0, 10})
          for (int sink = 0; sink < 5; ++sink) {
            SCOPED_TRACE(call.name + " on " + devices + ", sink " + std::to_string(sink));
            RowCallOptions options = spread();
            options.chunk_rows = chunk;
            int hooks = 0;
            options.sink.kind = static_cast<SinkKind>(sink);
            options.sink.hook = [&](const RowChunk&) { ++hooks; };
            options.sink.reducer.partial_bytes = 8;
            options.sink.reducer.fold = [](LaunchContext&, const RowLaunch&, void*) {};
            options.sink.reducer.merge = [](LaunchContext&, void*, const void*) {};
            RowSource source = call.source(none);
            source.kind = kind;
            const RowResult result = call.run(scene, source, options).get();
            EXPECT_EQ(result.rows + result.rejected + result.flagged, 0);
            EXPECT_EQ(hooks, 0);
            EXPECT_EQ(result.reduced.size(), options.sink.kind == SinkKind::reduce ? 8u : 0u);
            if (result.table) {
              EXPECT_TRUE(bytes_of(*result.table).empty());
            }
          }
    IntersectOptions sum;
    sum.sink = reduce(sum_of_column(IntersectColumns::t));
    EXPECT_EQ(column_sum(intersect(scene, generated(random_rays(0, {}, {})), sum).get()).count, 0);
  }
}

TEST(RowBadInput, RowsFromElsewhereMustBeTheOperationsColumns) {
  Scene scene = built("host:2x1"), larger = built("host:3x1");
  const Rows rows(60);
  RowCallOptions stay = spread();
  stay.sink = left_resident();
  const CameraRays rays = sample_ray(scene, Camera{}, Samples{rows.samples, {}}, stay).get();
  const CameraRays other = sample_ray(scene, Camera{}, Samples{rows.samples, {}}, stay).get();
  expect_error(ErrorClass::usage, {"resident", "two results"}, [&] {
    (void)resident({rays.origin, other.direction});
  });
  expect_error(ErrorClass::usage, {"intersect", "direction is missing"},
               [&] { (void)intersect(scene, resident({rays.origin})); });
  expect_error(ErrorClass::usage, {"intersect", "origin is missing"}, [&] {
    (void)intersect(scene, resident({{}, rays.direction}));
  });
  expect_error(ErrorClass::usage, {"intersect", "tmax needs 4 bytes", "12"}, [&] {
    (void)intersect(scene, resident({rays.origin, rays.direction, rays.origin}));
  });
  expect_error(ErrorClass::usage, {"5 columns", "4 inputs"}, [&] {
    (void)intersect(scene, resident({rays.origin, rays.direction, {}, {}, rays.origin}));
  });
  expect_error(ErrorClass::usage, {"intersect", "empty"}, [&] { (void)intersect(scene, resident({})); });
  const CameraRays three = sample_ray(larger, Camera{}, Samples{rows.samples, {}}, stay).get();
  expect_error(ErrorClass::usage, {"device 2", "2 devices"}, [&] {
    (void)intersect(scene, resident({three.origin, three.direction}));
  });
  stay.sink = to_host();
  const CameraRays sent = sample_ray(scene, Camera{}, Samples{rows.samples, {}}, stay).get();
  expect_error(ErrorClass::usage, {"host memory", "on_host"}, [&] {
    (void)intersect(scene, resident({sent.origin, sent.direction}));
  });

  const RowSource made = generated(random_rays(10, {}, {1, 1, 1}));
  expect_error(ErrorClass::usage, {"visible_pair", "end_b is missing", "random rays"},
               [&] { (void)visible_pair(scene, made); });
  expect_error(ErrorClass::usage, {"nearest_edge", "active needs 1 bytes", "random rays", "12"},
               [&] { (void)nearest_edge_of_points(scene, made); });
  expect_error(ErrorClass::usage, {"world_to_sample", "2 columns", "1 inputs"},
               [&] { (void)world_to_sample(scene, Camera{}, made); });
  RowGenerator empty;
  empty.name = "nothing";
  empty.rows = 3;
  expect_error(ErrorClass::usage, {"intersect", "'nothing'"},
               [&] { (void)intersect(scene, generated(empty)); });
  expect_error(ErrorClass::usage, {"random_rays", "-1"}, [&] { (void)random_rays(-1, {}, {}); });
  expect_error(ErrorClass::usage, {"random_rays", "nan"}, [&] { (void)random_rays(1, {nan, 0, 0}, {}); });
  EXPECT_EQ(larger.rows().spread_calls(), 1);
}

}  // namespace
}  // namespace shardwise::test
