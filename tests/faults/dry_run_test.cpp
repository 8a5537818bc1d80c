// A dry machine computes nothing and takes the same virtual time.

#include <gtest/gtest.h>

#include "fault_calls.hpp"
#include "shardwise/runtime/sim_topology.hpp"

namespace shardwise::test {
namespace {

struct Timed {
  double seconds = 0;
  std::vector<std::tuple<std::string, std::string, double, double, std::uint64_t>> records;
};

Timed timed(const FaultCall& call, const SimTopology& machine, bool dry) {
  OpenOptions options;
  auto topology = std::make_shared<SimTopology>(machine);
  topology->dry = dry;
  options.sim_topology = topology;
  Scene scene(open_devices("sim:3", options), test_model(), SceneOptions{TracerChoice::bvh});
  scene.build();
  scene.require_face_data("test");
  const SimWorld& world = *scene.devices().sim_world();
  const double begin = world.virtual_time();
  scene.devices().timeline().start();
  const Answer answer = call.run(scene, OnDeviceFailure::fail);
  Timed result;
  result.seconds = world.virtual_time() - begin;
  for (const TimelineRecord& record : scene.devices().timeline().records())
    result.records.emplace_back(record.device, record.name, record.begin_s, record.end_s, record.bytes);
  std::sort(result.records.begin(), result.records.end());
  return result;
}

TEST(DryMachines, TakeTheTimeOfTheRealCall) {
  for (const char* machine : {"3xh200", "3xh200-pcie", "3x1xh200"})
    for (const FaultCall& call : fault_calls()) {
      // What it hands out is read by the test's call, and has to be there.
      if (call.name.find("offloaded") != std::string::npos) continue;
      SCOPED_TRACE(call.name + " on " + machine);
      // Without peer access there is no direct mode.
      if (std::string(machine) == "3x1xh200" && call.name.find("direct") != std::string::npos) continue;
      const bool resident = call.name.find("resident") != std::string::npos;
      const Timed real = timed(call, sim_preset(machine), false);
      if (resident) continue;
      const Timed dry = timed(call, sim_preset(machine), true);
      EXPECT_GT(real.seconds, 0);
      EXPECT_DOUBLE_EQ(real.seconds, dry.seconds);
      EXPECT_EQ(real.records.size(), dry.records.size());
      EXPECT_TRUE(real.records == dry.records);
    }
}

TEST(DryMachines, HoldMoreThanThisMachineHas) {
  OpenOptions options;
  auto topology = std::make_shared<SimTopology>(sim_preset("64xh200"));
  topology->dry = true;
  options.sim_topology = topology;
  const DeviceSet devices = open_devices("sim:64", options);
  const auto stream = devices[63].create_stream("s");
  const Buffer<char> most(*stream, 140'000'000'000, "most of it");
  EXPECT_NE(most.data(), nullptr);
  EXPECT_THROW(Buffer<char>(*stream, 20'000'000'000, "too much"), Error);
}

}  // namespace
}  // namespace shardwise::test
