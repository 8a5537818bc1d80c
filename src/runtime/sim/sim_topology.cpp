#include "shardwise/runtime/sim_topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"

namespace shardwise {

double SimTopology::ns_of_item(std::string_view operation) const {
  double ns = 0;
  std::size_t longest = 0;
  for (const auto& [begin, value] : ns_per_item)
    if (operation.starts_with(begin) && begin.size() >= longest) {
      ns = value;
      longest = begin.size();
    }
  return ns;
}

SimTopology flat_topology(int devices, const SimCosts& costs) {
  SimTopology topology;
  topology.name = fmt::format("{}", devices);
  SimDeviceModel device;
  device.launch_s = costs.launch_latency_s;
  device.memory_bytes_per_s = costs.copy_bytes_per_s;
  topology.devices.assign(static_cast<std::size_t>(devices), device);
  topology.flat_latency_s = costs.copy_latency_s;
  topology.flat_bytes_per_s = costs.copy_bytes_per_s;
  topology.ns_per_item[""] = costs.ns_per_item;
  return topology;
}

namespace {

constexpr int most_devices = 64;

/// One H200. Measured (docs/measurements.md): memory and links by copies, rows by the calls on the cloud, a
/// lane by coverage of munich, cells by the operators at 512^3.
SimDeviceModel h200() {
  SimDeviceModel device;
  device.model = "NVIDIA H200 (simulated)";
  device.memory_bytes = 150'000'000'000;
  device.launch_s = 4e-6;
  device.memory_bytes_per_s = 2.05e12;  // read and written: half of the rate of 4.1 TB/s
  return device;
}

void add_h200_costs(SimTopology& topology) {
  topology.ns_per_item = {{"", 0.13}, {"intersect", 2.84}, {"trace_reflections", 10}, {"trace lanes", 1.3}};
  // Of grids: cells in double, at what they read and write of memory.
  for (const char* name : {"apply", "inner", "shell", "pack", "unpack", "fill", "scale"})
    topology.ns_per_item[name] = 0.0041;
  for (const char* name : {"apply Diffusion", "inner Diffusion", "shell Diffusion", "axpby"})
    topology.ns_per_item[name] = 0.0062;
}

std::vector<int> range(int begin, int end) {
  std::vector<int> indices;
  for (int i = begin; i < end; ++i) indices.push_back(i);
  return indices;
}

/// Host links of every device, both ways.
void add_host_links(SimTopology& topology, int devices, double bytes_per_s, double latency_s) {
  topology.links.push_back(
      {"host to device", {SimLink::host}, range(0, devices), bytes_per_s, latency_s, SimSharing::to, true});
  topology.links.push_back(
      {"device to host", range(0, devices), {SimLink::host}, bytes_per_s, latency_s, SimSharing::from, true});
}

void add_node(SimTopology& topology, int begin, int end, bool nvlink) {
  if (end - begin < 2) return;
  const std::vector<int> all = range(begin, end);
  const double rate = nvlink ? 396e9 : 54e9, latency = nvlink ? 7e-6 : 10e-6;
  const char* name = nvlink ? "NVLink" : "PCIe";
  // What a device sends shares its way out, what it gets its way in.
  topology.links.push_back({fmt::format("{} out", name), all, all, rate, latency, SimSharing::from, true});
  topology.links.push_back({fmt::format("{} in", name), all, all, rate, 0, SimSharing::to, true});
}

std::optional<int> whole(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

const std::vector<std::string>& sim_machines() {
  static const std::vector<std::string> names{"h200", "h200-pcie"};
  return names;
}

SimTopology sim_preset(std::string_view name) {
  std::vector<int> counts;
  std::string_view rest = name;
  while (counts.size() < 2) {
    const std::size_t x = rest.find('x');
    if (x == std::string_view::npos) break;
    const std::optional<int> count = whole(rest.substr(0, x));
    if (!count) break;
    counts.push_back(*count);
    rest = rest.substr(x + 1);
  }
  const auto& known = sim_machines();
  const std::string machine(rest);
  const auto refuse = [&](const std::string& why) {
    throw_usage(fmt::format(
        "devices: 'sim:{}' {}; write sim:N, sim:FILE.toml, or N devices as sim:Nx{} (NODESxNx{} for nodes), "
        "with a machine of: {}",
        name, why, known.front(), known.front(), fmt::join(known, ", ")));
  };
  if (std::find(known.begin(), known.end(), machine) == known.end()) {
    const std::string near = nearest_word(machine, known);
    refuse(fmt::format("names no preset ('{}' is no machine{})", machine,
                       near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  if (counts.empty()) refuse("does not say how many devices");
  const int nodes = counts.size() == 2 ? counts.front() : 1, each = counts.back();
  if (nodes < 1 || each < 1 || nodes > most_devices || each > most_devices || nodes * each > most_devices)
    refuse(fmt::format("has {} devices, which is not 1 to {}",
                       static_cast<std::int64_t>(nodes) * static_cast<std::int64_t>(each), most_devices));

  SimTopology topology;
  topology.name = std::string(name);
  const int total = nodes * each;
  topology.devices.assign(static_cast<std::size_t>(total), h200());
  add_h200_costs(topology);
  add_host_links(topology, total, 54e9, 10e-6);
  for (int node = 0; node < nodes; ++node)
    add_node(topology, node * each, (node + 1) * each, machine == "h200");
  // Each node has one way out and one way in: 400 Gbit/s.
  for (int node = 0; node < nodes; ++node)
    for (int other = 0; other < nodes; ++other)
      if (node != other)
        topology.links.push_back(
            {fmt::format("network {} to {}", node, other), range(node * each, (node + 1) * each),
             range(other * each, (other + 1) * each), 50e9, 15e-6, SimSharing::all, false});
  return topology;
}

void validate(const SimTopology& topology, const std::string& where) {
  const int count = static_cast<int>(topology.devices.size());
  const auto positive = [&](const std::string& what, double value, bool may_be_zero = false) {
    if (!std::isfinite(value) || value < 0 || (value == 0 && !may_be_zero))
      throw_usage(fmt::format("{}: {} is {}; give a finite number {} 0", where, what, value,
                              may_be_zero ? "of at least" : "above"));
  };
  if (count == 0) throw_usage(where + ": no devices; give at least one");
  for (int d = 0; d < count; ++d) {
    const SimDeviceModel& device = topology.devices[static_cast<std::size_t>(d)];
    positive(fmt::format("the speed of device {}", d), device.speed);
    positive(fmt::format("the launch time of device {}", d), device.launch_s, true);
    positive(fmt::format("the memory speed of device {}", d), device.memory_bytes_per_s);
  }
  for (const auto& [name, ns] : topology.ns_per_item)
    positive(fmt::format("the time of an item of '{}'", name), ns, true);
  positive("the speed of copies", topology.flat_bytes_per_s);
  positive("the latency of copies", topology.flat_latency_s, true);
  for (const SimLink& link : topology.links) {
    positive(fmt::format("the speed of link '{}'", link.name), link.bytes_per_s);
    positive(fmt::format("the latency of link '{}'", link.name), link.latency_s, true);
    if (link.from.empty() || link.to.empty())
      throw_usage(fmt::format("{}: link '{}' joins nothing; name its ends", where, link.name));
    for (const auto* ends : {&link.from, &link.to})
      for (const int end : *ends)
        if (end != SimLink::host && (end < 0 || end >= count))
          throw_usage(fmt::format("{}: link '{}' ends at device {}, there are {} (0 to {})", where, link.name,
                                  end, count, count - 1));
  }
  if (topology.links.empty()) return;
  const auto joined = [&](int from, int to) {
    return std::any_of(topology.links.begin(), topology.links.end(), [&](const SimLink& link) {
      return std::find(link.from.begin(), link.from.end(), from) != link.from.end() &&
             std::find(link.to.begin(), link.to.end(), to) != link.to.end();
    });
  };
  for (int d = 0; d < count; ++d)
    for (const auto& [from, to] : {std::pair{d, SimLink::host}, std::pair{SimLink::host, d}})
      if (!joined(from, to))
        throw_usage(fmt::format("{}: no link {} device {} and host memory; every device needs one each way",
                                where, from == d ? "from" : "to", d));
}

}  // namespace shardwise
