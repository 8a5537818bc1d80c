#include "estimate.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "shardwise/runtime/sim_topology.hpp"

namespace shardwise::program {

namespace {

std::string bottleneck_of(const TimelineSummary& time) {
  const double most = std::max({time.busy_s, time.transferring_s, time.idle_s});
  if (most <= 0) return "nothing to do";
  if (most == time.busy_s) return "computing";
  if (most == time.transferring_s) return "its link";
  return time.idle_waited_for.empty() ? "idle" : fmt::format("waiting for '{}'", time.idle_waited_for);
}

}  // namespace

DeviceSet open_dry(const SimTopology& machine, const std::string& faults) {
  auto dry = std::make_shared<SimTopology>(machine);
  dry->dry = true;
  OpenOptions open;
  open.sim_topology = dry;
  open.sim_faults = faults;
  return open_devices(fmt::format("sim:{}", machine.devices.size()), open);
}

void read_timeline(Timeline& timeline, Estimate& estimate, int repeats) {
  double first = 0, last = 0;
  for (const TimelineRecord& record : timeline.records()) {
    first = last == 0 ? record.begin_s : std::min(first, record.begin_s);
    last = std::max(last, record.end_s);
  }
  estimate.seconds = (last - first) / repeats;
  std::ostringstream trace;
  timeline.write_chrome_trace(trace);
  estimate.trace = trace.str();
  for (TimelineSummary summary : timeline.summary()) {
    const std::string bottleneck = bottleneck_of(summary);
    for (double* seconds : {&summary.busy_s, &summary.transferring_s, &summary.idle_s}) *seconds /= repeats;
    for (std::uint64_t* bytes : {&summary.bytes_in, &summary.bytes_out})
      *bytes /= static_cast<std::uint64_t>(repeats);
    estimate.devices.push_back({summary, bottleneck});
  }
}

Estimate estimate_coverage(const DeviceSet& devices, const SceneModel& model, const CoverageOptions& options,
                           const std::string& faults) {
  Estimate estimate;
  const SimTopology machine = topology_like(devices, estimate.assumptions);
  Scene scene(open_dry(machine, faults), model, SceneOptions{TracerChoice::bvh});
  scene.build();
  Timeline& timeline = scene.devices().timeline();
  timeline.start();
  (void)coverage(scene, options).get();
  read_timeline(timeline, estimate);
  return estimate;
}

}  // namespace shardwise::program
