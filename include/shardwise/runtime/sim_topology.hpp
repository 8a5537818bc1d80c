#pragma once
// Machines for the sim platform: devices, the links between them, and what work costs on them. `sim:PRESET`
// and `sim:FILE.toml` open one; docs/simulator.md describes the file.
//
//   sim:8xh200          one node, NVLink: every device sends and receives at 396 GB/s; 7 us; hosts at 54 GB/s
//   sim:8xh200-pcie     the same without NVLink: 54 GB/s each way, one link for all copies of a device
//   sim:2x8xh200        two such nodes, joined by one link of 50 GB/s each way (assumed, not measured)

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shardwise/runtime/devices.hpp"

namespace shardwise {

struct SimDeviceModel {
  std::string model = "simulated device";
  std::uint64_t memory_bytes = 0;    ///< 0: what this machine has
  double speed = 1;                  ///< times of items are divided by it
  double launch_s = 5e-6;            ///< of a launch, before its first item
  double memory_bytes_per_s = 1e12;  ///< of a copy within the device
};

/// Which copies a link's capacity is shared by. Copies that share it come one after the other.
enum class SimSharing {
  copy,  ///< every copy has it alone
  pair,  ///< those from one device to one other
  from,  ///< those from one device
  to,    ///< those to one device
  all,   ///< all that pass
};

/// A way from some ends to others. A copy passes every link that has its source in `from` and its target in
/// `to`: it takes the sum of their latencies and the lowest of their speeds.
struct SimLink {
  static constexpr int host = -1;  ///< the end that is host memory
  std::string name;
  std::vector<int> from, to;  ///< device indices and `host`
  double bytes_per_s = 0;
  double latency_s = 0;
  SimSharing sharing = SimSharing::pair;
  bool peer = true;  ///< devices that it joins read and write each other's memory
};

struct SimTopology {
  std::string name;
  std::vector<SimDeviceModel> devices;
  /// Two devices that none joins are staged through host memory and have no peer access. Without any link all
  /// copies take what `flat_copy` says, whatever their ends.
  std::vector<SimLink> links;
  double flat_latency_s = 10e-6, flat_bytes_per_s = 25e9;
  /// Of an item (a row, a lane) at speed 1, by the beginning of an operation's name; the longest counts, ""
  /// is for all others.
  std::map<std::string, double> ns_per_item;

  /// Nothing is computed: bodies do not run and memory is not there (no one may read or write it). What calls
  /// give back means nothing then, but reports, times and timelines are those of the real call: a plan of it.
  bool dry = false;

  double ns_of_item(std::string_view operation) const;
};

/// `sim:N` with these costs.
SimTopology flat_topology(int devices, const SimCosts& costs);

/// What `sim:PRESET` opens: "NxNAME" or "NODESxNxNAME" with 1 to 64 devices in all. Throws a usage Error that
/// names the presets.
SimTopology sim_preset(std::string_view name);
/// The names of machines in presets.
const std::vector<std::string>& sim_machines();

/// Reads a topology file. Throws a data Error with file, line, and the nearest key; a usage Error where this
/// build cannot read TOML.
SimTopology read_sim_topology(const std::string& path);
/// The text of a file; `path` is for messages.
SimTopology parse_sim_topology(std::string_view text, const std::string& path);

/// A machine that resembles these devices, for plans: the one they simulate, or, of real ones, their number,
/// threads, memory and peer access with speeds that were measured elsewhere; `assumptions` says which.
SimTopology topology_like(const DeviceSet& devices, std::vector<std::string>& assumptions);

/// Throws a usage Error that starts with `where` for numbers out of range, ends that are not there, and
/// devices that no link and no host link joins.
void validate(const SimTopology& topology, const std::string& where);

}  // namespace shardwise
