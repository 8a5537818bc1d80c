// Every operation on rows, every way of running it: the bits of one device, column by column.

#include <gtest/gtest.h>

#include "dispatch/row_dispatcher.hpp"
#include "row_sweep.hpp"

namespace shardwise::test {
namespace {

TEST(RowCalls, EveryOperationHasTheBitsOfOneDeviceOnHost) {
  sweep({"host:1x1", "host:2x1", "host:3x1", "host:4x1", "host:5x1"}, 8, 11, TracerChoice::automatic);
}
TEST(RowCalls, EveryOperationHasTheBitsOfOneDeviceOnHostStrict) {
  sweep({"host:1x1", "host:2x1", "host:3x1"}, 4, 12, TracerChoice::bvh);
}
TEST(RowCalls, EveryOperationHasTheBitsOfOneDeviceOnSimWithoutRaces) {
  sweep({"sim:1", "sim:2", "sim:3", "sim:4", "sim:5"}, 5, 13, TracerChoice::bvh);
}

TEST(RowCalls, AChainGeneratesTracesAndReducesWithoutMovingRows) {
  Scene single(open_devices("host:1x1"), test_model());
  single.build();
  const RowGenerator rays = random_rays(20000, {-3, -3, -3}, {3, 3, 3}, 5);
  IntersectOptions options;
  options.fields = IntersectFields::none;
  options.min_rows_per_device = 0;
  options.sink = reduce(sum_of_column(IntersectColumns::t, 1, 16));
  const ColumnSum expected = column_sum(intersect(single, generated(rays), options).get(), 16);
  EXPECT_GT(expected.count, 100);
  for (const char* spec : {"host:3x1", "sim:3"}) {
    Scene scene(open_devices(spec), test_model());
    scene.build();
    const Intersections result = intersect(scene, generated(rays), options).get();
    const ColumnSum sum = column_sum(result, 16);
    EXPECT_EQ(sum.count, expected.count);
    EXPECT_EQ(sum.sum, expected.sum);
    for (const DeviceReport& device : result.dispatch.devices) {
      EXPECT_GT(device.lanes, 0);
      EXPECT_EQ(device.bytes_in + device.bytes_out, 0u) << device.name;
    }
  }
}

TEST(RowCalls, RowsStayOnTheirDevicesFromCallToCall) {
  Scene single(open_devices("host:1x1"), test_model());
  single.build();
  Scene scene(open_devices("sim:3"), test_model());
  scene.build();
  const Batches batch(1000, 3);
  RowCallOptions stay;
  stay.min_rows_per_device = 0;
  stay.sink = left_resident();
  const CameraRays rays = sample_ray(scene, Camera{}, batch.samples(), stay).get();
  IntersectOptions options;
  options.min_rows_per_device = 0;
  const Intersections hits = intersect(scene, resident({rays.origin, rays.direction}), options).get();
  const CameraRays plain = sample_ray(single, Camera{}, batch.samples()).get();
  Rays again;
  const auto origins = plain.origin.to_host(), directions = plain.direction.to_host();
  again.origins = origins;
  again.directions = directions;
  EXPECT_TRUE(bytes_of(*hits.table) == bytes_of(*intersect(single, again).get().table));
  EXPECT_TRUE(scene.devices().sim_world()->races().empty());
}

/// With streams of the caller's own the scene's streams do not order a query and an update by themselves.
void expect_queries_see_their_moment(bool own_streams) {
  for (const char* spec : {"host:1x1", "sim:1", "host:3x1", "sim:3"}) {
    SCOPED_TRACE(spec);
    Scene scene(open_devices(spec), moving_model());
    scene.build();
    ExecutionContext context;
    std::vector<std::unique_ptr<Stream>> streams;
    for (int d = 0; d < scene.devices().size(); ++d) {
      streams.push_back(scene.devices()[d].create_stream("mine"));
      context.streams.emplace_back(*streams.back());
    }
    const std::vector<Vec3f> origins(999, Vec3f{0.2f, 0.2f, 10}), directions(999, Vec3f{0, 0, -1});
    Rays rays;
    rays.origins = origins;
    rays.directions = directions;
    IntersectOptions options;
    options.min_rows_per_device = 0;
    options.fields = IntersectFields::none;
    if (own_streams) options.context = &context;
    for (int step = 0; step < 5; ++step) {
      // The query before is still under way when the geometry changes.
      Pending<Intersections> before = intersect(scene, rays, options);
      move_triangle(scene.model(), static_cast<float>(step + 1));
      EXPECT_THROW((void)intersect(scene, rays, options), Error) << "pending updates";
      scene.sync();
      Pending<Intersections> after = intersect(scene, rays, options);
      for (const float t : before.get().t.to_host()) ASSERT_NEAR(t, 10.0f - static_cast<float>(step), 1e-5f);
      for (const float t : after.get().t.to_host()) ASSERT_NEAR(t, 9.0f - static_cast<float>(step), 1e-5f);
    }
    if (SimWorld* world = scene.devices().sim_world()) {
      EXPECT_TRUE(world->races().empty());
    }
  }
}

TEST(RowCalls, AQueryBehindAnUpdateSeesTheNewGeometryOnEveryDevice) {
  expect_queries_see_their_moment(false);
}
TEST(RowCalls, AQueryBehindAnUpdateSeesTheNewGeometryOnStreamsOfTheCallersOwn) {
  expect_queries_see_their_moment(true);
}

/// Large enough that the last chunk's way to the host shows, so that it goes in halves.
TEST(RowCalls, AHalvedLastChunkHasTheSameBits) {
  constexpr std::int64_t rows = 600000;
  Scene single(open_devices("host:1"), test_model(), {TracerChoice::bvh}),
      scene(open_devices("sim:1"), test_model());
  single.build();
  scene.build();
  const Batches batch(rows, 6);
  IntersectOptions options;
  const RowResult expected = intersect(single, batch.rays(), options).get();
  options.chunk_rows = 250000;
  options.sink = to_host();
  const RowResult result = intersect(scene, batch.rays(), options).get();
  EXPECT_EQ(result.dispatch.chunk_count, 3) << "100,000 rows are less than half a chunk";
  EXPECT_TRUE(bytes_of(*result.table) == bytes_of(*expected.table));
  options.chunk_rows = 300000;
  options.plan_only = true;
  EXPECT_EQ(intersect(scene, batch.rays(), options).get().dispatch.chunk_count, 3)
      << "300,000, then 150,000 twice";
  options.plan_only = false;
  const RowResult halved = intersect(scene, batch.rays(), options).get();
  EXPECT_EQ(halved.dispatch.chunk_count, 3);
  EXPECT_TRUE(bytes_of(*halved.table) == bytes_of(*expected.table));
}

TEST(RowCalls, APoisonedSceneRefusesUntilBuild) {
  Scene scene(open_devices("host:2x1"), moving_model());
  scene.build();
  move_triangle(scene.model(), 2);
  scene.fail_next_broadcast_on(1);
  EXPECT_THROW(scene.sync(), Error);
  const Batches batch(10, 1);
  try {
    (void)intersect(scene, batch.rays());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::poisoned);
    EXPECT_NE(std::string(error.what()).find("build()"), std::string::npos) << error.what();
  }
  scene.build();
  EXPECT_EQ(intersect(scene, batch.rays()).get().rows, 10);
}

TEST(RowCalls, ExplainSaysWhatWouldRunAndRunsNothing) {
  Scene scene(open_devices("host:2x1"), test_model());
  scene.build();
  const Batches batch(1000, 1);
  IntersectOptions options;
  options.plan_only = true;
  options.chunk_rows = 100;
  const Intersections plan = intersect(scene, batch.rays(), options).get();
  EXPECT_FALSE(plan.t.exists());
  EXPECT_EQ(plan.dispatch.mode, "chunked");
  EXPECT_EQ(plan.dispatch.chunk_rows, 100);
  EXPECT_FALSE(plan.dispatch.reason.empty());
  EXPECT_EQ(scene.rows().spread_calls(), 0);
}

TEST(RowCalls, UnknownOperationWeightsAreRefusedWithTheNearestName) {
  Scene scene(open_devices("host:2x1"), test_model());
  scene.build();
  const Batches batch(1000, 1);
  IntersectOptions options;
  options.min_rows_per_device = 0;
  options.operation_weights = {{"intersect", {1, 3}}, {"intersect:full", {3, 1}}};
  EXPECT_EQ(intersect(scene, batch.rays(), options).get().dispatch.devices[0].lanes, 750);
  options.fields = IntersectFields::none;
  EXPECT_EQ(intersect(scene, batch.rays(), options).get().dispatch.devices[0].lanes, 250);
  options.operation_weights = {{"intersct", {1, 3}}};
  try {
    (void)intersect(scene, batch.rays(), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::usage);
    EXPECT_NE(std::string(error.what()).find("'intersect'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace shardwise::test
