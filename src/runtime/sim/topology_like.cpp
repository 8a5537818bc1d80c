// A simulated machine that resembles real devices, for plans.

#include <fmt/format.h>

#include "shardwise/runtime/sim.hpp"
#include "shardwise/runtime/sim_topology.hpp"

namespace shardwise {

namespace {

/// One host thread against an H200, by the lanes of coverage of munich: 420 ns (240 a segment) against 1.3
/// (docs/measurements.md).
constexpr double thread_speed = 1.3 / 420;
constexpr double host_copy_bytes_per_s = 10e9;

}  // namespace

SimTopology topology_like(const DeviceSet& devices, std::vector<std::string>& assumptions) {
  if (const SimWorld* world = devices.sim_world()) {
    assumptions.push_back(fmt::format(
        "a ray of coverage takes {:.3g} ns on a simulated device of speed 1, whatever the scene and "
        "the reflections ([ns_per_item] of a machine file changes it)",
        world->topology().ns_of_item("trace lanes")));
    return world->topology();
  }
  const int count = devices.size();
  SimTopology topology = sim_preset("1xh200");
  const SimDeviceModel h200 = topology.devices.front();
  topology.name = devices.spec();
  topology.devices.clear();
  topology.links.clear();
  bool any_host = false, any_gpu = false;
  for (int d = 0; d < count; ++d) {
    const DeviceInfo& info = devices[d].info();
    SimDeviceModel device = h200;
    device.model = info.model;
    device.memory_bytes = info.memory_bytes;
    if (info.kind == PlatformKind::host) {
      device.speed = thread_speed * info.threads;
      device.launch_s = 5e-6;
      device.memory_bytes_per_s = host_copy_bytes_per_s;
      any_host = true;
    } else {
      any_gpu = true;
    }
    topology.devices.push_back(device);
  }
  // Each pair as it was found: host devices share the memory's speed, GPUs have NVLink's or the bus's.
  for (int from = SimLink::host; from < count; ++from)
    for (int to = SimLink::host; to < count; ++to) {
      if (from == to) continue;
      const auto is_host = [&](int end) {
        return end == SimLink::host || devices[end].kind() == PlatformKind::host;
      };
      SimLink link;
      link.name = fmt::format("{} to {}", from, to);
      link.from = {from};
      link.to = {to};
      const bool memory = is_host(from) && is_host(to),
                 peer = from >= 0 && to >= 0 && devices.can_peer(from, to);
      const bool nvlink = !memory && !is_host(from) && !is_host(to) && peer;
      link.bytes_per_s = memory ? host_copy_bytes_per_s : nvlink ? 396e9 : 54e9;
      link.latency_s = memory ? 5e-6 : nvlink ? 7e-6 : 10e-6;
      link.peer = peer || from < 0 || to < 0;
      topology.links.push_back(link);
    }
  if (any_host)
    assumptions.push_back(
        "a ray of coverage takes one host thread 420 ns, as on one machine with the scene munich; memory "
        "copies 10 GB/s");
  if (any_gpu)
    assumptions.push_back("GPUs are as fast as an H200 with the scene munich: 1.3 ns a ray, NVLink 396 GB/s");
  return topology;
}

}  // namespace shardwise
