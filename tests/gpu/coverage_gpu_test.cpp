// Coverage on GPUs: the same bits on any set of them, and the host's bits with the same tracer.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "gpu/gpu_fixture.hpp"
#include "radio/coverage_plan.hpp"
#include "shardwise/radio/accumulate.hpp"
#include "shardwise/scene/scene_io.hpp"
#include "shardwise/shard/hash.hpp"

namespace shardwise {
namespace {

/// `cuda` where a GPU answers, else empty.
int gpu_count() {
  try {
    return open_devices("cuda").size();
  } catch (const Error&) {
    return 0;
  }
}

/// A scene dump from the folder that SHARDWISE_GPU_SCENES names (default: the current one); empty where there
/// is none.
std::filesystem::path scene_file(const std::string& name) {
  const char* folder = std::getenv("SHARDWISE_GPU_SCENES");
  const std::filesystem::path file = std::filesystem::path(folder ? folder : ".") / (name + ".swscene");
  return std::filesystem::exists(file) ? file : std::filesystem::path();
}

class CoverageGpu : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (gpu_count() == 0) GTEST_SKIP() << "no CUDA device answers";
    file_ = scene_file(GetParam());
    if (file_.empty()) GTEST_SKIP() << "no " << GetParam() << ".swscene; set SHARDWISE_GPU_SCENES";
  }

  CoverageOptions options(const SceneModel& model) const {
    const Bounds& bounds = model.geometry().bounds;
    CoverageOptions o;
    const bool munich = GetParam() == "munich";
    o.transmitters = {{munich ? Vec3d{8.5, 21, 60} : Vec3d{0.37, 0.21, 2.0}}};
    o.samples = 2'000'000;
    const double cell = munich ? 4 : 0.5;
    o.grid.resolution0 = static_cast<std::int64_t>((bounds.high.x - bounds.low.x) / cell) + 1;
    o.grid.resolution1 = static_cast<std::int64_t>((bounds.high.y - bounds.low.y) / cell) + 1;
    o.grid.min0 = bounds.low.x;
    o.grid.min1 = bounds.low.y;
    o.grid.max0 = bounds.low.x + cell * static_cast<double>(o.grid.resolution0);
    o.grid.max1 = bounds.low.y + cell * static_cast<double>(o.grid.resolution1);
    o.split.min_rows_per_device = 0;
    return o;
  }

  CoverageResult run(const std::string& devices,
                     const std::function<void(CoverageOptions&)>& change = {}) const {
    OpenOptions open;
    open.allow_mixed = true;
    Scene scene(open_devices(devices, open), read_scene(file_), {TracerChoice::bvh});
    scene.build();
    CoverageOptions o = options(scene.model());
    if (change) change(o);
    CoverageResult result = coverage(scene, o).get();
    // The report's plan is the first shard's, so it speaks of the master where the master has lanes.
    const DeviceReport& master = result.dispatch.devices.front();
    if (master.lanes > 0) {
      EXPECT_LE(master.peak_bytes,
                result.dispatch.fixed_bytes +
                    static_cast<std::uint64_t>(result.dispatch.chunk_rows) * result.dispatch.row_bytes)
          << devices;
    }
    return result;
  }

  static std::string digest(const CoverageResult& result) {
    return blake3_hex(result.gain.data(), result.gain.size() * sizeof(double)) + "/" +
           blake3_hex(result.standard_error.data(), result.standard_error.size() * sizeof(double));
  }

  std::filesystem::path file_;
};

TEST_P(CoverageGpu, HostAndCudaGiveTheSameBits) {
  const CoverageResult host = run("host:1"), cuda = run("cuda:0");
  EXPECT_EQ(host.segments, cuda.segments);
  std::int64_t different = 0;
  double worst = 0;
  for (std::size_t c = 0; c < host.gain.size(); ++c) {
    if (host.gain[c] == cuda.gain[c] && host.crossings[c] == cuda.crossings[c]) continue;
    if (++different <= 5)
      std::printf("cell %zu: host %.17g (%lld crossings), cuda %.17g (%lld)\n", c, host.gain[c],
                  static_cast<long long>(host.crossings[c]), cuda.gain[c],
                  static_cast<long long>(cuda.crossings[c]));
    if (host.crossings[c] >= 16) worst = std::max(worst, std::abs(cuda.gain[c] / host.gain[c] - 1));
  }
  std::printf("%s: %lld of %zu cells differ, worst relative difference with 16 crossings %.3g\n%s\n%s\n",
              GetParam().c_str(), static_cast<long long>(different), host.gain.size(), worst,
              digest(host).c_str(), digest(cuda).c_str());
  EXPECT_EQ(digest(host), digest(cuda));
}

TEST_P(CoverageGpu, AnySetOfGpusGivesTheSameBits) {
  const std::string expected = digest(run("cuda:0"));
  EXPECT_EQ(expected, digest(run("cuda:0", [](auto& o) { o.split.chunk_rows = 100'003; })));
  EXPECT_EQ(expected, digest(run("cuda:0", [](auto& o) { o.split.memory_bytes = 64 << 20; })));
  if (gpu_count() < 2) {
    std::printf("one GPU here: sets of several were not run\n");
    return;
  }
  EXPECT_EQ(expected, digest(run("cuda:1")));
  EXPECT_EQ(expected, digest(run("cuda:0,1")));
  EXPECT_EQ(expected, digest(run("cuda:1,0")));
  for (const std::vector<double>& weights : {std::vector<double>{5, 1}, {0, 1}, {1, 0}, {0.3, 2.7}})
    EXPECT_EQ(expected, digest(run("cuda:0,1", [&](auto& o) { o.split.weights = weights; })));
  const CoverageResult both = run("cuda:0,1");
  for (const DeviceReport& device : both.dispatch.devices) {
    EXPECT_GT(device.lanes, 0) << device.name;
    EXPECT_GT(device.busy_s, 0) << device.name;
  }
}

TEST_P(CoverageGpu, HostAndGpuInOneSetGiveTheSameBits) {
  const test::Watchdog watchdog("CoverageGpu.HostAndGpuInOneSetGiveTheSameBits");
  const auto fewer = [](CoverageOptions& o) { o.samples = 400'000; };
  const std::string expected = digest(run("cuda:0", fewer));
  for (const char* set : {"host:1x2+cuda:0", "cuda:0+host:1x2", "cuda:0+host:2x1"}) {
    const CoverageResult mixed = run(set, fewer);
    EXPECT_EQ(expected, digest(mixed)) << set;
    for (const DeviceReport& device : mixed.dispatch.devices) EXPECT_GT(device.lanes, 0) << device.name;
  }
}

TEST_P(CoverageGpu, CorruptingAnyDeviceShows) {
  const std::string set = gpu_count() > 1 ? "cuda:0,1" : "cuda:0";
  const std::string expected = digest(run(set));
  for (int device = 0; device < std::min(gpu_count(), 2); ++device) {
    corrupt_coverage_on_device = device;
    EXPECT_NE(expected, digest(run(set))) << device;
    corrupt_coverage_on_device = -1;
  }
}

TEST_P(CoverageGpu, FastAndOrderedAgreeWithExact) {
  const CoverageResult exact = run("cuda:0");
  for (const Accumulation accumulation : {Accumulation::fast, Accumulation::ordered}) {
    const auto choose = [&](CoverageOptions& o) { o.accumulation = accumulation; };
    const CoverageResult other = run("cuda:0", choose);
    EXPECT_EQ(exact.crossings, other.crossings);
    for (std::size_t c = 0; c < exact.gain.size(); ++c)
      ASSERT_NEAR(other.gain[c], exact.gain[c], 1e-9 * exact.gain[c]) << c;
    if (accumulation == Accumulation::ordered) {
      EXPECT_EQ(digest(other), digest(run("cuda:0", choose)));
      EXPECT_EQ(digest(other), digest(run("host:1", choose)));
    }
  }
}

TEST_P(CoverageGpu, FieldHasTheHostsBits) {
  const auto wanted = [](CoverageOptions& o) {
    o.field = true;
    o.samples = 200'000;
    o.frequency_hz = 1e9;
  };
  const CoverageResult host = run("host:1", wanted), cuda = run("cuda:0", wanted);
  EXPECT_EQ(host.gain, cuda.gain);
  EXPECT_EQ(host.field, cuda.field);
}

INSTANTIATE_TEST_SUITE_P(Scenes, CoverageGpu, testing::Values("munich", "box", "simple_street_canyon"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace shardwise
