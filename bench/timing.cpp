#include "bench/timing.hpp"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "bench/meshes.hpp"
#include "shardwise/runtime/sim.hpp"
#include "shardwise/runtime/sim_topology.hpp"

namespace shardwise::bench {

DeviceSet open_for_times(const Settings& settings) {
  OpenOptions options;
  options.allow_mixed = true;
  DeviceSet devices = open_devices(settings.devices, options);
  if (!devices.sim_world()) return devices;
  std::vector<std::string> assumptions;
  auto machine = std::make_shared<SimTopology>(topology_like(devices, assumptions));
  machine->dry = true;
  options.sim_topology = machine;
  return open_devices(fmt::format("sim:{}", devices.size()), options);
}

double seconds_of(const DeviceSet& devices, const std::function<void()>& call) {
  const SimWorld* world = devices.sim_world();
  const double virtual_begin = world ? world->virtual_time() : 0;
  const auto begin = std::chrono::steady_clock::now();
  call();
  if (world) return world->virtual_time() - virtual_begin;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<Place> places(const Settings& settings, const DeviceSet& devices) {
  const PlatformKind kind = devices.master().kind();
  // Nothing looks at what simulated devices hold.
  const int triangles = settings.quick || kind == PlatformKind::sim ? 1 << 10
                        : kind == PlatformKind::cuda                ? 1 << 21
                                                                    : 1 << 17;
  std::vector<Place> list;
  list.push_back({"cloud", fmt::format("cloud of {} triangles", triangles), cloud(triangles)});
  const std::string name =
      settings.scene.empty() ? "city" : std::filesystem::path(settings.scene).stem().string();
  list.push_back({name, name, scene_asked_for(settings)});
  list.push_back({"light", "plane of 192 vertices", light_plane()});
  return list;
}

std::int64_t rows_for(const Settings& settings, const DeviceSet& devices) {
  const bool host = devices.master().kind() == PlatformKind::host;
  if (settings.quick) return host ? 1 << 12 : 1 << 18;
  return host ? 1 << 16 : 1 << 22;
}

std::shared_ptr<Scene> built(const DeviceSet& devices, const SceneModel& model) {
  auto scene = std::make_shared<Scene>(devices, model);
  scene->build();
  return scene;
}

CoverageOptions map_of_scene(const SceneModel& model, const Settings& settings, std::int64_t samples) {
  const Bounds& bounds = model.geometry().bounds;
  CoverageOptions options;
  const Vec3d middle{0.5 * (bounds.low.x + bounds.high.x), 0.5 * (bounds.low.y + bounds.high.y), 0};
  const bool munich = settings.scene.find("munich") != std::string::npos;
  options.transmitters = {{munich ? Vec3d{8.5, 21, 60} : Vec3d{middle.x, middle.y, 30}}};
  options.samples = samples;
  options.grid.resolution0 = static_cast<std::int64_t>((bounds.high.x - bounds.low.x) / 4) + 1;
  options.grid.resolution1 = static_cast<std::int64_t>((bounds.high.y - bounds.low.y) / 4) + 1;
  options.grid.min0 = bounds.low.x;
  options.grid.min1 = bounds.low.y;
  options.grid.max0 = bounds.low.x + 4.0 * static_cast<double>(options.grid.resolution0);
  options.grid.max1 = bounds.low.y + 4.0 * static_cast<double>(options.grid.resolution1);
  return options;
}

}  // namespace shardwise::bench
