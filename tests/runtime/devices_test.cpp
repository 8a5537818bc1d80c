// Device specs: every good form, and every bad form's message.

#include "shardwise/runtime/devices.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "shardwise/runtime/error.hpp"

#if SHARDWISE_WITH_CUDA
#include "runtime/cuda/cuda_device.hpp"
#endif

namespace shardwise {
namespace {

OpenOptions mixed() {
  OpenOptions options;
  options.allow_mixed = true;
  return options;
}

struct Good {
  const char* spec;
  int devices;
  int threads;  ///< of each; 0: an equal share of the cores
  bool allow_mixed = false;
};

class GoodSpecs : public ::testing::TestWithParam<Good> {};

TEST_P(GoodSpecs, Open) {
  const Good& good = GetParam();
  OpenOptions options;
  options.allow_mixed = good.allow_mixed;
  const DeviceSet devices = open_devices(good.spec, options);
  ASSERT_EQ(devices.size(), good.devices);
  EXPECT_EQ(devices.spec(), good.spec);
  EXPECT_EQ(&devices.master(), &devices[0]);
  EXPECT_TRUE(devices.warnings().empty());
  const int threads = good.threads > 0 ? good.threads : std::max(1, available_cores() / good.devices);
  for (int d = 0; d < devices.size(); ++d) {
    const DeviceInfo& info = devices[d].info();
    EXPECT_EQ(info.kind, PlatformKind::host);
    EXPECT_EQ(info.index, d);
    EXPECT_EQ(info.name, "host:" + std::to_string(d));
    EXPECT_EQ(info.threads, threads);
    EXPECT_FALSE(info.model.empty());
    EXPECT_FALSE(info.architecture.empty());
    EXPECT_EQ(info.memory_bytes, available_memory());
    EXPECT_EQ(devices[d].timeline(), &devices.timeline());
  }
  EXPECT_EQ(devices.sim_world(), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Host, GoodSpecs,
                         ::testing::Values(Good{"host", 1, 0}, Good{"host:1", 1, 0}, Good{"host:4", 4, 0},
                                           Good{"host:4x1", 4, 1}, Good{"host:2x3", 2, 3},
                                           Good{"host:100x1", 100, 1}, Good{"host:1x1+host:1x1", 2, 1},
                                           Good{"host:2x1+host:1x1", 3, 1}));

TEST(Devices, MixedThreadCountsNeedAllowMixed) {
  const DeviceSet devices = open_devices("host:1x1+host:1x3", mixed());
  ASSERT_EQ(devices.size(), 2);
  EXPECT_EQ(devices[0].info().threads, 1);
  EXPECT_EQ(devices[1].info().threads, 3);
  EXPECT_EQ(devices[1].name(), "host:1");
}

TEST(Devices, SimSetsShareOneScheduler) {
  for (const auto& [spec, count] : {std::pair{"sim", 1}, {"sim:1", 1}, {"sim:8", 8}}) {
    const DeviceSet devices = open_devices(spec);
    ASSERT_EQ(devices.size(), count);
    EXPECT_EQ(devices[count - 1].name(), "sim:" + std::to_string(count - 1));
    EXPECT_EQ(devices[0].kind(), PlatformKind::sim);
    EXPECT_NE(devices.sim_world(), nullptr);
  }
}

TEST(Devices, TheFirstDeviceAloneSharesItAndTheTimeline) {
  const DeviceSet devices = open_devices("host:3x1"), first = devices.first();
  EXPECT_EQ(first.size(), 1);
  EXPECT_EQ(&first[0], &devices[0]);
  EXPECT_EQ(first.spec(), "host:0");
  EXPECT_EQ(&first.timeline(), &devices.timeline());
}

TEST(Devices, AnEmptySpecIsAGpuOrTheHost) {
  const DeviceSet devices = open_devices("");
  EXPECT_GE(devices.size(), 1);
#if SHARDWISE_WITH_CUDA
  const bool gpu = cuda_device_count() > 0;
#else
  const bool gpu = false;
#endif
  EXPECT_EQ(devices.spec(), gpu ? "cuda" : "host:1");
  EXPECT_EQ(devices[0].kind(), gpu ? PlatformKind::cuda : PlatformKind::host);
}

struct Bad {
  const char* spec;
  std::vector<std::string> says;  ///< parts of the message
};

class BadSpecs : public ::testing::TestWithParam<Bad> {};

TEST_P(BadSpecs, AreRefusedWithTheReason) {
  try {
    open_devices(GetParam().spec);
    FAIL() << "'" << GetParam().spec << "' was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::usage);
    for (const std::string& part : GetParam().says)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "'" << part << "' is not in: " << error.what();
  }
}

const char* const forms =
    "write host:N, host:NxTHREADS, cuda, cuda:0,1, cuda:UUID, cuda:BUSID, sim:N, sim:PRESET or sim:FILE.toml";

INSTANTIATE_TEST_SUITE_P(
    Specs, BadSpecs,
    ::testing::Values(
        Bad{"rocm:0", {"'rocm:0'", "names the platform 'rocm', which does not exist", forms}},
        Bad{"HOST:1", {"names the platform 'HOST', which does not exist"}},
        Bad{" host:1", {"names the platform ' host', which does not exist"}},
        Bad{"host:0", {"'host:0'", "has '0' as the number of devices", "whole number from 1 to 512"}},
        Bad{"host:-1", {"has '-1' as the number of devices"}},
        Bad{"host:513", {"has '513' as the number of devices"}},
        Bad{"sim:4096", {"has '4096' as the number of devices", "1 to 512"}},
        Bad{"host:2x4097", {"has '4097' as the threads of each", "1 to 4096"}},
        Bad{"host:300x1+host:300x1", {"600 devices; at most 512 in one set"}},
        Bad{"host:99999999999999999999", {"has '99999999999999999999' as the number of devices"}},
        Bad{"host:2.5", {"has '2.5' as the number of devices"}},
        Bad{"host:two", {"has 'two' as the number of devices"}},
        Bad{"host:2x", {"has '' as the threads of each"}},
        Bad{"host:2x0", {"has '0' as the threads of each"}},
        Bad{"host:x2", {"has '' as the number of devices"}},
        Bad{"host:2x2x2", {"has '2x2' as the threads of each"}},
        Bad{"host:", {"'host:'", "names no device after the ':'", forms}},
        Bad{"cuda:", {"'cuda:'", "names no device after the ':'"}},
        Bad{"sim:", {"names no device after the ':'"}}, Bad{":1", {"names the platform ''"}},
        Bad{"+", {"'+'", "names the platform ''"}},
        Bad{"host:1+", {"'host:1+'", "names the platform '', which does not exist"}},
        Bad{"host:1++host:1", {"names the platform ''"}}, Bad{"sim:0", {"has '0' as the number of devices"}},
        Bad{"sim:1+sim:2", {"is a second sim part", "the total number of devices"}},
        Bad{"sim:2+host:1", {"'sim:2+host:1'", "mixes sim with real devices"}},
        Bad{"host:1+sim:2", {"mixes sim with real devices"}},
        Bad{"sim:1+cuda", {"mixes sim with real devices"}},
        Bad{"host:1x1+host:1x3",
            {"host:1 (", "3 threads) is unlike host:0 (", "1 threads)", "add --allow-mixed"}}));

TEST(Devices, SimNeverMixesAlsoWhereMixingIsAllowed) {
  EXPECT_THROW(open_devices("sim:1+host:1", mixed()), Error);
}

TEST(Devices, CudaWithoutAGpuSaysSo) {
#if SHARDWISE_WITH_CUDA
  if (cuda_device_count() > 0) GTEST_SKIP() << "there is a GPU here";
  const std::string expected = "no CUDA device answers; use host:N";
#else
  const std::string expected = "needs CUDA, which this build leaves out (configure with --preset cuda)";
#endif
  for (const char* spec : {"cuda", "cuda:0", "host:1+cuda:0", "cuda:GPU-abc"}) {
    try {
      open_devices(spec, mixed());
      FAIL() << "'" << spec << "' was opened";
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::usage);
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("'cuda"), std::string::npos) << error.what();
    }
  }
}

TEST(Machine, CoresFollowTheAffinity) {
  const int before = available_cores();
  EXPECT_GE(before, 1);
  EXPECT_LE(before, static_cast<int>(std::thread::hardware_concurrency()));
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &all)) {
      CPU_SET(cpu, &one);
      break;
    }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const int pinned = available_cores();
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(pinned, 1);
  EXPECT_EQ(available_cores(), before);
}

TEST(Machine, MemoryIsBelievable) {
  EXPECT_GT(available_memory(), 64ull << 20);
  EXPECT_LT(available_memory(), 1ull << 50);
}

}  // namespace
}  // namespace shardwise
