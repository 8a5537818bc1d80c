#pragma once
// What the benchmarks of calibration and of predictions share: devices to time on, their clock, their scenes.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/runner.hpp"
#include "shardwise/radio/coverage.hpp"
#include "shardwise/scene/scene.hpp"

namespace shardwise::bench {

/// The devices asked for, unlike ones too. Simulated ones compute nothing: their times are what counts, and
/// only so a laptop takes scenes of the size that GPUs take.
DeviceSet open_for_times(const Settings& settings);

/// Seconds of `call` by the clock of the devices: virtual on sim.
double seconds_of(const DeviceSet& devices, const std::function<void()>& call);

/// A scene to measure on.
struct Place {
  std::string name, text;
  SceneModel model;
};
/// The cloud, the scene asked for (or the generated city), and the plane with almost nothing to trace.
std::vector<Place> places(const Settings& settings, const DeviceSet& devices);
/// Rows of a call on those: 2^22 on GPUs and sim, less on the host.
std::int64_t rows_for(const Settings& settings, const DeviceSet& devices);

/// A scene on devices, built.
std::shared_ptr<Scene> built(const DeviceSet& devices, const SceneModel& model);

/// The map of the whole scene at 1.5 m in cells of 4 m, transmitter above the middle: three bounces.
CoverageOptions map_of_scene(const SceneModel& model, const Settings& settings, std::int64_t samples);

}  // namespace shardwise::bench
