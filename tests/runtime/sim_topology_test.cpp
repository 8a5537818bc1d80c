// Topologies of sim: presets, files, how long copies take on links and how they share them.

#include <gtest/gtest.h>

#include <fstream>

#include "runtime/sim/sim_clock.hpp"
#include "shardwise/runtime/buffer.hpp"
#include "shardwise/runtime/copy.hpp"
#include "shardwise/runtime/devices.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/sim.hpp"
#include "shardwise/runtime/sim_topology.hpp"

namespace shardwise {
namespace {

constexpr std::uint64_t megabyte = 1'000'000;

/// When copies of these (from, to) pairs that are ready together end, in the order given.
std::vector<double> ends_of(const SimTopology& topology, const std::vector<std::pair<int, int>>& copies,
                            std::uint64_t bytes = megabyte) {
  SimLinks links(topology);
  std::vector<double> ends;
  for (const auto& [from, to] : copies) {
    const auto [begin, duration] = links.take(from, to, bytes, 0, false, 1);
    ends.push_back(begin + duration);
  }
  return ends;
}

TEST(SimTopologies, PresetsHaveTheMeasuredLinks) {
  const SimTopology two = sim_preset("2xh200");
  ASSERT_EQ(two.devices.size(), 2u);
  const double peer_s = 7e-6 + 1e6 / 396e9, host_s = 10e-6 + 1e6 / 54e9;
  EXPECT_NEAR(ends_of(two, {{0, 1}})[0], peer_s, 1e-15);
  EXPECT_NEAR(ends_of(two, {{1, 0}})[0], peer_s, 1e-15);
  EXPECT_NEAR(ends_of(two, {{CopyEnd::host, 1}})[0], host_s, 1e-15);
  EXPECT_NEAR(ends_of(sim_preset("2xh200-pcie"), {{0, 1}})[0], host_s, 1e-15);
  const SimTopology nodes = sim_preset("2x4xh200");
  ASSERT_EQ(nodes.devices.size(), 8u);
  EXPECT_NEAR(ends_of(nodes, {{0, 3}})[0], peer_s, 1e-15);
  EXPECT_NEAR(ends_of(nodes, {{0, 4}})[0], 15e-6 + 1e6 / 50e9, 1e-15);
  EXPECT_TRUE(SimLinks(nodes).peer(0, 3));
  EXPECT_FALSE(SimLinks(nodes).peer(0, 4));
  for (int count = 1; count <= 64; ++count)
    EXPECT_NO_THROW(validate(sim_preset(std::to_string(count) + "xh200"), "preset")) << count;
  const DeviceSet devices = open_devices("sim:8xh200");
  EXPECT_EQ(devices.size(), 8);
  EXPECT_EQ(devices[7].info().memory_bytes, 150'000'000'000u);
  EXPECT_NE(devices[7].info().model.find("H200"), std::string::npos);
}

TEST(SimTopologies, SharedLinksContendAndOthersDoNot) {
  const SimTopology eight = sim_preset("8xh200");
  const double bytes_s = 1e6 / 396e9, latency_s = 7e-6;
  // All out of device 0: one after the other. Into different devices from different ones: together.
  const auto out = ends_of(eight, {{0, 1}, {0, 2}, {0, 3}});
  for (int i = 0; i < 3; ++i)
    EXPECT_NEAR(out[static_cast<std::size_t>(i)], latency_s + (i + 1) * bytes_s, 1e-12);
  for (const double end : ends_of(eight, {{0, 1}, {1, 0}, {2, 3}, {4, 5}}))
    EXPECT_NEAR(end, latency_s + bytes_s, 1e-15);
  // Into one: its way in is shared.
  const auto in = ends_of(eight, {{1, 0}, {2, 0}});
  EXPECT_NEAR(in[1], latency_s + 2 * bytes_s, 1e-12);
  // The network of two nodes is one for all that pass it.
  const auto network = ends_of(sim_preset("2x4xh200"), {{0, 4}, {1, 5}, {4, 0}});
  EXPECT_NEAR(network[1], 15e-6 + 2e6 / 50e9, 1e-12);
  EXPECT_NEAR(network[2], 15e-6 + 1e6 / 50e9, 1e-12);
  // Every copy for itself.
  const SimTopology flat = flat_topology(2, {});
  for (const double end : ends_of(flat, {{0, 1}, {0, 1}})) EXPECT_NEAR(end, 10e-6 + 1e6 / 25e9, 1e-15);
}

TEST(SimTopologies, ItemsCostByTheBeginningOfTheirOperationsName) {
  SimTopology topology = flat_topology(1, {});
  topology.ns_per_item = {{"", 1}, {"trace", 2}, {"trace_reflections:4", 3}};
  EXPECT_EQ(topology.ns_of_item("intersect"), 1);
  EXPECT_EQ(topology.ns_of_item("trace_reflections:2"), 2);
  EXPECT_EQ(topology.ns_of_item("trace_reflections:4 0..100"), 3);
}

const char* const whole_file = R"(schema = 1
name = "two unlike devices behind one switch"

[[devices]]
model = "fast"
memory = "2Mi"
launch_us = 3
memory_gb_s = 1000

[[devices]]
count = 2
model = "slow"
memory = "1Mi"
speed = 0.5

[[links]]
name = "switch"
from = "any"
to = "any"
gb_s = 10
us = 2
shared_by = "all"

[ns_per_item]
default = 100
intersect = 10
)";

TEST(TopologyFiles, AreRead) {
  const SimTopology topology = parse_sim_topology(whole_file, "lab.toml");
  ASSERT_EQ(topology.devices.size(), 3u);
  EXPECT_EQ(topology.devices[0].model, "fast");
  EXPECT_EQ(topology.devices[0].memory_bytes, 2u << 20);
  EXPECT_DOUBLE_EQ(topology.devices[0].launch_s, 3e-6);
  EXPECT_DOUBLE_EQ(topology.devices[2].speed, 0.5);
  EXPECT_DOUBLE_EQ(topology.ns_of_item("intersect:t"), 10);
  const auto ends = ends_of(topology, {{0, 1}, {CopyEnd::host, 2}});
  EXPECT_NEAR(ends[0], 2e-6 + 1e6 / 10e9, 1e-15);
  EXPECT_NEAR(ends[1], 2e-6 + 2e6 / 10e9, 1e-12);
}

// Without a default, items take what those of sim:N do: no time would make every speed the same.
TEST(TopologyFiles, ItemsAreNotFreeWithoutADefault) {
  for (const char* items : {"", "[ns_per_item]\nintersect = 10\n"}) {
    const SimTopology topology =
        parse_sim_topology(std::string("schema = 1\n[[devices]]\n") + items, "lab.toml");
    EXPECT_EQ(topology.ns_of_item("trace lanes"), SimCosts{}.ns_per_item);
    EXPECT_EQ(topology.ns_of_item("intersect:t"), *items ? 10 : SimCosts{}.ns_per_item);
  }
  EXPECT_EQ(
      parse_sim_topology("schema = 1\n[[devices]]\n[ns_per_item]\ndefault = 0\n", "lab.toml").ns_of_item("x"),
      0);
}

TEST(TopologyFiles, OpenAsDevicesWhoseMemoryIsLimited) {
  const std::string path = ::testing::TempDir() + "/lab.toml";
  std::ofstream(path) << whole_file;
  const DeviceSet devices = open_devices("sim:" + path);
  ASSERT_EQ(devices.size(), 3);
  const auto stream = devices[1].create_stream("s");
  const Buffer<char> half(*stream, 512 << 10, "half");
  try {
    const Buffer<char> more(*stream, (512 << 10) + 1, "too much");
    ADD_FAILURE() << "allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::memory);
    EXPECT_NE(std::string(error.what()).find("524288 bytes free"), std::string::npos) << error.what();
  }
  const Buffer<char> rest(*stream, 512 << 10, "rest");
}

TEST(TopologyFiles, MistakesAreNamedWithFileLineAndNearestKey) {
  const std::string devices = "schema = 1\n[[devices]]\ncount = 2\n";
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases{
      {"[[devices]]\n", {"lab.toml", "no 'schema'"}},
      {"schema = 2\n[[devices]]\n", {"lab.toml:1", "must be 1"}},
      {"schema = 1\n", {"no devices"}},
      {"schema = 1\nnam = \"x\"\n[[devices]]\n", {"lab.toml:2", "'nam'", "did you mean 'name'"}},
      {"schema = 1\n[[devices]]\nsped = 2\n", {"lab.toml:3", "'sped'", "did you mean 'speed'"}},
      {"schema = 1\n[[devices]]\ncount = 0\n", {"lab.toml:3", "is 0, not 1 to"}},
      {"schema = 1\n[[devices]]\nspeed = \"fast\"\n", {"lab.toml:3", "'speed'", "not a number"}},
      {"schema = 1\n[[devices]]\nspeed = -1\n", {"lab.toml:3", "'speed' of [[devices]] is -1;", "above 0"}},
      {"schema = 1\n[[devices]]\nspeed = nan\n", {"lab.toml:3", "'speed' of [[devices]] is nan;"}},
      {"schema = 1\n[[devices]]\nlaunch_us = -5\n", {"lab.toml:3", "'launch_us' of [[devices]] is -5;"}},
      {"schema = 1\n[[devices]]\nmemory = \"0\"\n", {"lab.toml:3", "\"0\"", "above 0"}},
      {"schema = 1\n[[devices]]\nmemory = \"\"\n", {"lab.toml:3", "'memory'", "is empty"}},
      {devices + "[[links]]\nfrom = \"any\"\nto = \"any\"\ngb_s = -4\n",
       {"lab.toml:7", "'gb_s' of [[links]] is -4;"}},
      {"schema = 1\n[[devices]]\nmemory = \"many\"\n", {"lab.toml:3", "'memory'", "many"}},
      {"schema = 1\n[[devices]\n", {"lab.toml:2", "mend the TOML"}},
      {devices + "[[links]]\nfrom = 0\nto = 2\ngb_s = 1\n", {"lab.toml:6", "device 2, there are 2"}},
      {devices + "[[links]]\nfrom = 0\nto = \"moon\"\ngb_s = 1\n", {"lab.toml:6", "no end of a link"}},
      {devices + "[[links]]\nfrom = 0\ngb_s = 1\n", {"no 'to'"}},
      {devices + "[[links]]\nfrom = \"any\"\nto = \"any\"\n", {"has no speed"}},
      {devices + "[[links]]\nfrom = 0\nto = 1\ngb_s = 1\nshared_by = \"none\"\n", {"'none'", "copy, pair"}},
      {devices + "[[links]]\nfrom = 0\nto = 1\ngb_s = 1\n", {"no link", "device 0 and host memory"}},
      {devices + "[ns_per_item]\nintersect = \"slow\"\n", {"lab.toml:5", "'intersect' of [ns_per_item]"}},
      {devices + "[ns_per_item]\ndefault = -1\n", {"lab.toml:5", "'default' of [ns_per_item] is -1;"}},
      {devices + "[ns_per_item]\ndefalt = 1\n", {"lab.toml:5", "'defalt'", "did you mean 'default'?"}},
  };
  for (const auto& [text, parts] : cases) {
    SCOPED_TRACE(text);
    try {
      (void)parse_sim_topology(text, "lab.toml");
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::data);
      for (const std::string& part : parts)
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW((void)open_devices("sim:no/such/file.toml"), Error);
}

TEST(SimTopologies, UnknownPresetsAreNamedWithTheNearest) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases{
      {"sim:8xh20", {"'h20' is no machine", "did you mean 'h200'"}},
      {"sim:h200", {"how many devices", "sim:Nxh200"}},
      {"sim:65xh200", {"65 devices, which is not 1 to 64"}},
      {"sim:0xh200", {"0 devices"}},
      {"sim:16x16xh200", {"256 devices"}},
      {"sim:99999xh200", {"99999 devices"}},
  };
  for (const auto& [spec, parts] : cases) {
    try {
      (void)open_devices(spec);
      ADD_FAILURE() << spec << " accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::usage);
      for (const std::string& part : parts)
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST(SimTopologies, GivenByTheCallerMustFit) {
  OpenOptions options;
  options.sim_topology = std::make_shared<SimTopology>(sim_preset("3xh200"));
  EXPECT_EQ(open_devices("sim:3", options).size(), 3);
  EXPECT_THROW((void)open_devices("sim:2", options), Error);
  auto broken = std::make_shared<SimTopology>(sim_preset("3xh200"));
  broken->links.front().bytes_per_s = 0;
  options.sim_topology = broken;
  EXPECT_THROW((void)open_devices("sim:3", options), Error);
}

TEST(SimTopologies, CopiesTakeTheirLinksByTheAddressesTheyHave) {
  const DeviceSet devices = open_devices("sim:2x1xh200");
  const auto s0 = devices[0].create_stream("0"), s1 = devices[1].create_stream("1");
  const Buffer<char> a(*s0, megabyte, "a"), b(*s1, megabyte, "b"), c(*s1, megabyte, "c");
  std::vector<char> host(megabyte);
  const auto seconds = [&](void* to, const void* from) {
    const Event begin = s1->record_timed();
    s1->enqueue(copy_operation("c", to, from, megabyte, {}));
    const Event end = s1->record_timed();
    s1->synchronize();
    return seconds_between(begin, end);
  };
  EXPECT_NEAR(seconds(b.data(), a.data()), 15e-6 + 1e6 / 50e9, 1e-12);
  EXPECT_NEAR(seconds(b.data(), host.data()), 10e-6 + 1e6 / 54e9, 1e-12);
  EXPECT_NEAR(seconds(host.data(), b.data()), 10e-6 + 1e6 / 54e9, 1e-12);
  EXPECT_NEAR(seconds(c.data(), b.data()), 4e-6 + 1e6 / 2.05e12, 1e-12);
}

}  // namespace
}  // namespace shardwise
