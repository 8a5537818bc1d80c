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

Estimate estimate_coverage(const DeviceSet& devices, const SceneModel& model, const CoverageOptions& options,
                           const std::string& faults) {
  Estimate estimate;
  auto machine = std::make_shared<SimTopology>(topology_like(devices, estimate.assumptions));
  machine->dry = true;
  OpenOptions open;
  open.sim_topology = machine;
  open.sim_faults = faults;
  Scene scene(open_devices(fmt::format("sim:{}", devices.size()), open), model,
              SceneOptions{TracerChoice::bvh});
  scene.build();
  Timeline& timeline = scene.devices().timeline();
  timeline.start();
  (void)coverage(scene, options).get();
  double first = 0, last = 0;
  for (const TimelineRecord& record : timeline.records()) {
    first = last == 0 ? record.begin_s : std::min(first, record.begin_s);
    last = std::max(last, record.end_s);
  }
  estimate.seconds = last - first;
  std::ostringstream trace;
  timeline.write_chrome_trace(trace);
  estimate.trace = trace.str();
  for (const TimelineSummary& summary : timeline.summary())
    estimate.devices.push_back({summary, bottleneck_of(summary)});
  return estimate;
}

}  // namespace shardwise::program
