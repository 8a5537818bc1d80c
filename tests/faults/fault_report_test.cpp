// What a call that outlived a device says of it, and what follows.

#include <gtest/gtest.h>

#include "fault_calls.hpp"

namespace shardwise::test {
namespace {

IntersectOptions spread(OnDeviceFailure policy) {
  IntersectOptions options;
  options.min_rows_per_device = 0;
  options.weights = {1, 1, 1};
  options.mode = DispatchMode::pipelined;
  options.on_device_failure = policy;
  return options;
}

TEST(Failover, RowsThatAreThereStayAndTheOthersRunElsewhere) {
  const Batches batch(fault_rows, 3);
  Scene scene = fault_scene();
  SimWorld& world = *scene.devices().sim_world();
  // Of the four chunks of device 1's 30 rows the third is not computed.
  world.set_faults("device 1 launch 4 lost");  // after clearing its counters
  const RowResult result = intersect(scene, batch.rays(), spread(OnDeviceFailure::failover)).get();
  ASSERT_EQ(result.dispatch.failures.size(), 1u);
  const DeviceFailure& failure = result.dispatch.failures[0];
  EXPECT_EQ(failure.device, "sim:1");
  EXPECT_NE(failure.error.find("device 1 launch 4 lost"), std::string::npos) << failure.error;
  EXPECT_GE(failure.rerun,
            14);  // the third and the fourth chunk; the first two where they were not there yet
  EXPECT_LE(failure.rerun, 30);
  std::int64_t rows = 0;
  for (const DeviceReport& device : result.dispatch.devices) rows += device.lanes;
  EXPECT_EQ(rows, fault_rows);
  EXPECT_EQ(result.dispatch.devices[1].lanes, 30 - failure.rerun);
  EXPECT_EQ(scene.retired(), (std::vector<bool>{false, true, false}));

  // From now on it gets nothing, whatever the weights say; updates leave it out.
  world.set_faults("");
  const RowResult next = intersect(scene, batch.rays(), spread(OnDeviceFailure::fail)).get();
  EXPECT_EQ(next.dispatch.devices[1].lanes, 0);
  EXPECT_EQ(next.dispatch.weights[1], 0);
  EXPECT_EQ(world.fault_steps(1).launches, 0);
  scene.build();
  EXPECT_EQ(world.fault_steps(1).copies, 0);
  EXPECT_TRUE(bytes_of(intersect(scene, batch.rays(), spread(OnDeviceFailure::fail)).get()) ==
              bytes_of(next));
}

TEST(Failover, DevicesMayFailOneAfterTheOtherUntilTheMasterIsAlone) {
  const Batches batch(fault_rows, 3);
  Scene scene = fault_scene();
  const Bytes expected = bytes_of(intersect(scene, batch.rays(), spread(OnDeviceFailure::fail)).get());
  scene.devices().sim_world()->set_faults("device 1 launch 2 lost; device 2 launch 7 fails");
  const RowResult result = intersect(scene, batch.rays(), spread(OnDeviceFailure::failover)).get();
  EXPECT_TRUE(bytes_of(result) == expected);
  ASSERT_EQ(result.dispatch.failures.size(), 2u);
  EXPECT_EQ(result.dispatch.failures[0].device, "sim:1");
  EXPECT_EQ(result.dispatch.failures[1].device, "sim:2");
  EXPECT_EQ(scene.retired(), (std::vector<bool>{false, true, true}));
  CoverageResult map = coverage(scene, fault_coverage(OnDeviceFailure::fail)).get();
  EXPECT_EQ(map.dispatch.devices[0].lanes, map.lanes);
}

TEST(Failover, CoverageRunsAgainOnTheDevicesLeft) {
  Scene scene = fault_scene();
  const Bytes expected = bytes_of(coverage(scene, fault_coverage(OnDeviceFailure::fail)).get());
  scene.devices().sim_world()->set_faults("device 2 copy 3 hangs");
  const CoverageResult map = coverage(scene, fault_coverage(OnDeviceFailure::failover)).get();
  EXPECT_TRUE(bytes_of(map) == expected);
  ASSERT_EQ(map.dispatch.failures.size(), 1u);
  EXPECT_EQ(map.dispatch.failures[0].device, "sim:2");
  EXPECT_NE(map.dispatch.failures[0].error.find("deadline"), std::string::npos);
  EXPECT_EQ(map.dispatch.devices[2].lanes, 0);
  EXPECT_EQ(map.dispatch.devices[0].lanes + map.dispatch.devices[1].lanes, map.lanes);
}

TEST(Failover, RowsThatLayOnALostDeviceAreGone) {
  const Batches batch(fault_rows, 3);
  Scene scene = fault_scene();
  IntersectOptions first = spread(OnDeviceFailure::failover);
  first.mode = DispatchMode::automatic;
  first.sink = left_resident();
  Intersections rows = intersect(scene, batch.rays(), first).get();
  // Their points as origins and normals as directions of further rays.
  const RowSource source = resident({rows.point, rows.geometric_normal, {}, {}});
  scene.devices().sim_world()->set_faults("device 1 launch 1 lost");
  try {
    (void)intersect(scene, source, first).get();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::lost) << error.what();
    EXPECT_NE(std::string(error.what()).find("sim:1"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(scene.is_poisoned());
}

TEST(Failover, TheCallersOwnStreamsDoNotFail) {
  const Batches batch(fault_rows, 3);
  Scene scene = fault_scene();
  std::vector<std::unique_ptr<Stream>> streams;
  ExecutionContext mine;
  for (int d = 0; d < 3; ++d) {
    streams.push_back(scene.devices()[d].create_stream("mine"));
    mine.streams.emplace_back(*streams.back());
  }
  const Bytes expected = bytes_of(intersect(scene, batch.rays(), spread(OnDeviceFailure::fail)).get());
  scene.devices().sim_world()->set_faults("device 2 launch 2 fails");
  IntersectOptions options = spread(OnDeviceFailure::failover);
  options.context = &mine;
  EXPECT_TRUE(bytes_of(intersect(scene, batch.rays(), options).get()) == expected);
  for (const auto& stream : streams) EXPECT_EQ(stream->error(), "");
  EXPECT_TRUE(scene.devices().sim_world()->races().empty());
}

TEST(Failover, AHooksErrorEndsTheCall) {
  const Batches batch(fault_rows, 3);
  Scene scene = fault_scene();
  IntersectOptions options = spread(OnDeviceFailure::failover);
  options.mode = DispatchMode::automatic;
  options.chunk_rows = 10;
  options.sink = offload([](const RowChunk&) { throw Error(ErrorClass::io, "the disk is full"); });
  try {
    (void)intersect(scene, batch.rays(), options).get();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::io);
  }
  EXPECT_EQ(scene.retired(), (std::vector<bool>{false, false, false}));
}

/// Nobody waits: the call ends within its deadline, and its error goes to the hook.
TEST(FaultCalls, AnUnwaitedCallThatHangsIsTold) {
  const Batches batch(fault_rows, 3);
  Scene scene = fault_scene();
  std::string told;
  set_error_hook([&](const std::string& message) { told = message; });
  scene.devices().sim_world()->set_faults("device 1 launch 2 hangs; deadline 5");
  { const auto dropped = intersect(scene, batch.rays(), spread(OnDeviceFailure::fail)); }
  set_error_hook(nullptr);
  EXPECT_NE(told.find("deadline"), std::string::npos) << told;
  scene.devices().sim_world()->set_faults("");
  EXPECT_EQ(intersect(scene, batch.rays(), spread(OnDeviceFailure::fail)).get().rows, fault_rows);
}

/// Rows and results in the caller's device memory are declared, too.
TEST(FaultCalls, DeclareTheCallersOwnMemory) {
  const Batches batch(fault_rows, 3);
  for (const DispatchMode mode :
       {DispatchMode::master, DispatchMode::pipelined, DispatchMode::sharded, DispatchMode::direct}) {
    SCOPED_TRACE(to_string(mode));
    Scene plain = fault_scene(), scene = fault_scene(3, "", true);
    IntersectOptions options = spread(OnDeviceFailure::fail);
    options.mode = mode;
    options.fields = IntersectFields::none;
    const Bytes expected = bytes_of(intersect(plain, batch.rays(), options).get());
    Stream& stream = *scene.executor().default_context().streams.front();
    const Rays rays = batch.rays();
    const Buffer<Vec3f> origins(stream, fault_rows, "origins"), directions(stream, fault_rows, "directions");
    const Buffer<float> tmax(stream, fault_rows, "tmax"), t(stream, fault_rows, "t");
    const Buffer<std::uint8_t> active(stream, fault_rows, "active");
    std::copy(rays.origins.begin(), rays.origins.end(), origins.data());
    std::copy(rays.directions.begin(), rays.directions.end(), directions.data());
    std::copy(rays.tmax.begin(), rays.tmax.end(), tmax.data());
    std::copy(rays.active.begin(), rays.active.end(), active.data());
    const auto rows = static_cast<std::size_t>(fault_rows);
    const Rays on_device{
        {origins.data(), rows}, {directions.data(), rows}, {tmax.data(), rows}, {active.data(), rows}};
    options.sink = to_master({std::span(t.data(), rows)});
    EXPECT_TRUE(bytes_of(intersect(scene, on_device, options).get()) == expected);
    EXPECT_TRUE(scene.devices().sim_world()->races().empty());
  }
}

/// All calls under the guard: they declare what they touch.
TEST(FaultCalls, DeclareWhatTheyTouch) {
  for (const FaultCall& call : fault_calls()) {
    SCOPED_TRACE(call.name);
    Scene plain = fault_scene(), guarded = fault_scene(3, "", true);
    EXPECT_TRUE(call.run(plain, OnDeviceFailure::fail).bytes() ==
                call.run(guarded, OnDeviceFailure::fail).bytes());
  }
}

}  // namespace
}  // namespace shardwise::test
