// Who reaches whose memory, and how fast copies between two devices are.

#include <gtest/gtest.h>

#include <set>

#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/links.hpp"

namespace shardwise {
namespace {

LinkMeasurement small() {
  LinkMeasurement measurement;
  measurement.bytes = 1 << 20;
  measurement.repetitions = 2;
  return measurement;
}

TEST(Links, HostDevicesAreEachOthersPeersAndSimDevicesToo) {
  for (const char* spec : {"host:3x1", "sim:3"}) {
    const DeviceSet devices = open_devices(spec);
    for (int from = 0; from < 3; ++from)
      for (int to = 0; to < 3; ++to) EXPECT_TRUE(devices.can_peer(from, to)) << spec;
    EXPECT_TRUE(devices.first().can_peer(0, 0));
    EXPECT_THROW((void)devices.first().can_peer(0, 1), Error);
    for (const auto& [from, to] : {std::pair{-1, 0}, {0, 3}, {3, 3}}) {
      try {
        (void)devices.can_peer(from, to);
        ADD_FAILURE() << from << ", " << to;
      } catch (const Error& error) {
        EXPECT_EQ(error.error_class(), ErrorClass::usage);
        EXPECT_NE(std::string(error.what()).find("0 to 2"), std::string::npos) << error.what();
      }
    }
  }
}

TEST(Links, EveryOrderedPairIsMeasuredAndHostPairsShareOneMemory) {
  const DeviceSet devices = open_devices("host:3x1");
  const std::vector<DeviceLink> links = measure_links(devices, small());
  std::set<std::pair<int, int>> pairs;
  for (const DeviceLink& link : links) {
    pairs.emplace(link.from, link.to);
    EXPECT_EQ(link.path, LinkPath::same_memory);
    EXPECT_TRUE(link.peer);
    EXPECT_EQ(link.performance_rank, -1);
    EXPECT_EQ(link.bytes, 1u << 20);
    EXPECT_GT(link.bytes_per_s, 1e7);
    EXPECT_LT(link.bytes_per_s, 1e13);
    EXPECT_GT(link.latency_s, 0);
    EXPECT_EQ(link.bytes_per_s, links.front().bytes_per_s);
  }
  EXPECT_EQ(pairs, (std::set<std::pair<int, int>>{{0, 1}, {0, 2}, {1, 0}, {1, 2}, {2, 0}, {2, 1}}));
  for (int d = 0; d < 3; ++d) EXPECT_EQ(devices[d].memory(MemoryUse::work).current(), 0u);
}

TEST(Links, ASetOfOneIsMeasuredWithItself) {
  const std::vector<DeviceLink> links = measure_links(open_devices("host:1x1"), small());
  ASSERT_EQ(links.size(), 1u);
  EXPECT_EQ(links[0].from, 0);
  EXPECT_EQ(links[0].to, 0);
  EXPECT_GT(links[0].bytes_per_s, 0);
}

TEST(Links, SimGivesTheCostsItWasOpenedWith) {
  OpenOptions options;
  options.sim_costs.copy_latency_s = 2e-6;
  options.sim_costs.copy_bytes_per_s = 1e9;
  const std::vector<DeviceLink> links = measure_links(open_devices("sim:2", options), small());
  ASSERT_EQ(links.size(), 2u);
  for (const DeviceLink& link : links) {
    EXPECT_NEAR(link.latency_s, 2e-6 + 4096e-9, 1e-12);
    EXPECT_NEAR(link.bytes_per_s, (1 << 20) / (2e-6 + (1 << 20) * 1e-9), 1);
  }
}

// Virtual times need no bytes to move: thirteen thousand copies of 64 MiB took most of a minute.
TEST(Links, ManySimDevicesTakeNoTime) {
  const std::vector<DeviceLink> links = measure_links(open_devices("sim:16"));
  ASSERT_EQ(links.size(), 16u * 15);
  for (const DeviceLink& link : links) {
    EXPECT_EQ(link.bytes, 64u << 20);
    EXPECT_NEAR(link.bytes_per_s, links.front().bytes_per_s, 1e-6 * link.bytes_per_s);
    EXPECT_NEAR(link.latency_s, links.front().latency_s, 1e-6 * link.latency_s);
  }
}

TEST(Links, NothingToMeasureIsAUsageError) {
  const DeviceSet devices = open_devices("sim:1");
  LinkMeasurement nothing = small(), never = small();
  nothing.bytes = 0;
  never.repetitions = 0;
  EXPECT_THROW(measure_links(devices, nothing), Error);
  EXPECT_THROW(measure_links(devices, never), Error);
}

}  // namespace
}  // namespace shardwise
