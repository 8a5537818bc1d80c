// A path-gain map of a generated city, computed on two devices of this machine's processor.

#include <cmath>
#include <cstdio>

#include "shardwise/radio/coverage.hpp"
#include "shardwise/scene/city.hpp"
#include "shardwise/scene/scene_io.hpp"

int main() {
  using namespace shardwise;
  Scene scene(open_devices("host:2"), read_scene(write_city("city").scene_file));
  scene.build();
  CoverageOptions options;
  options.transmitters = {{.position = {0, 0, 30}}};
  options.grid = {.min0 = -200, .max0 = 200, .min1 = -200, .max1 = 200, .resolution0 = 80, .resolution1 = 80};
  const CoverageResult map = coverage(scene, options).get();
  for (const DeviceReport& device : map.dispatch.devices)
    std::printf("%s followed %ld rays\n", device.name.c_str(), static_cast<long>(device.lanes));
  const std::size_t cell = 40 * 80 + 40;  // row 40, column 40: the one at (2.5, 2.5)
  std::printf("path gain at the crossroads: %.1f dB\n", 10 * std::log10(map.gain[cell]));
}
