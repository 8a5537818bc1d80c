// The same call on different device sets, with different weights and chunks: one digest. The numbers of a map
// are a property of the call, not of the machine that computed it.

#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "shardwise/radio/coverage.hpp"
#include "shardwise/scene/city.hpp"
#include "shardwise/scene/scene_io.hpp"
#include "shardwise/shard/hash.hpp"

namespace {

using namespace shardwise;

struct Split {
  const char* devices;
  std::vector<double> weights;  ///< empty: equal
  std::int64_t chunk;           ///< lanes a launch; 0: as the memory allows
};

std::string digest_on(const SceneModel& model, const Split& split) {
  Scene scene(open_devices(split.devices), model);
  scene.build();
  CoverageOptions options;
  options.transmitters = {{.position = {0, 0, 30}}, {.position = {-100, 50, 40}}};
  options.grid = {.min0 = -200, .max0 = 200, .min1 = -200, .max1 = 200, .resolution0 = 80, .resolution1 = 80};
  options.samples = 60'000;
  options.split.weights = split.weights;
  options.split.chunk_rows = split.chunk;
  options.split.min_rows_per_device = 0;  // a call this small would stay on the first device otherwise
  const CoverageResult map = coverage(scene, options).get();

  const std::string digest =
      Blake3()
          .update(map.gain.data(), map.gain.size() * sizeof(double))
          .update(map.standard_error.data(), map.standard_error.size() * sizeof(double))
          .hex();
  std::printf("%-8s %s  lanes", split.devices, digest.substr(0, 16).c_str());
  for (const DeviceReport& device : map.dispatch.devices)
    std::printf(" %ld", static_cast<long>(device.lanes));
  std::printf("\n");
  return digest;
}

int run() {
  const SceneModel model = read_scene(write_city("city").scene_file);
  const Split splits[] = {
      {"host:1", {}, 0},      {"host:3", {}, 0}, {"host:3", {5, 1, 2}, 0},
      {"host:2", {}, 10'000}, {"sim:3", {}, 0},
  };
  std::set<std::string> digests;
  for (const Split& split : splits) digests.insert(digest_on(model, split));
  std::printf("%zu digest%s\n", digests.size(), digests.size() == 1 ? "" : "s, one was promised");
  return digests.size() == 1 ? 0 : 1;
}

}  // namespace

int main() try { return run(); } catch (const Error& error) {
  std::fprintf(stderr, "two_devices_same_bits: %s\n", error.what());
  return exit_code(error.error_class());
}
