#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardwise/runtime/device.hpp"
#include "shardwise/runtime/timeline.hpp"

namespace shardwise {

class SimWorld;
struct SimTopology;

/// How long operations take in the virtual time of `sim:N`: a launch its latency + items x ns_per_item / the
/// device's speed, a copy its latency + bytes / bandwidth, a release nothing. Launches of one device run one
/// at a time, copies beside them and each other. Presets and topology files have their own
/// (sim_topology.hpp).
struct SimCosts {
  double launch_latency_s = 5e-6;  ///< at least 0
  double ns_per_item = 100;        ///< of Operation::items, at speed 1; at least 0
  double copy_latency_s = 10e-6;   ///< at least 0
  double copy_bytes_per_s = 25e9;  ///< above 0
};

struct OpenOptions {
  bool allow_mixed = false;    ///< unlike devices in one set
  bool require_peer = false;   ///< an error, not staging, where two GPUs cannot reach each other
  std::uint64_t sim_seed = 1;  ///< of sim's scheduler
  /// Sim devices: how fast each is, one factor a device, finite and above 0 (1/3 takes three times as long
  /// for an item); empty: 1 each.
  std::vector<double> sim_speeds;
  SimCosts sim_costs;
  /// In place of what `sim:N` means; it has N devices.
  std::shared_ptr<const SimTopology> sim_topology;
  /// What goes wrong on sim devices, from the first operation on: a fault script (sim_faults.hpp).
  std::string sim_faults;
  /// Sim: an operation that touches memory which it has not declared, or writes what it declared as read, is
  /// an error that names both. Pages are protected while operations run, which takes microseconds each and
  /// 64-bit Linux. Empty: as the library was built, on with assertions (no NDEBUG).
  std::optional<bool> sim_guard;
};

/// An ordered set of devices; the first is the master. Copies share the devices.
class DeviceSet {
 public:
  DeviceSet() = default;
  int size() const { return static_cast<int>(devices_.size()); }
  Device& operator[](int index) const { return *devices_[static_cast<std::size_t>(index)]; }
  Device& master() const { return *devices_.front(); }
  /// As it was asked for.
  const std::string& spec() const { return spec_; }
  /// Copies and launches of all devices of the set; recording is off until Timeline::start().
  Timeline& timeline() const { return *timeline_; }
  /// The scheduler of a set of sim devices; null for others.
  SimWorld* sim_world() const { return sim_world_.get(); }
  /// Whether device `to` reads and writes the memory of device `from` as its own: host devices among each
  /// other, sim devices as their topology says, and GPUs whose peer access was proved when the set was
  /// opened. Copies work between any two. Throws a usage Error for an index that is not there.
  bool can_peer(int from, int to) const;
  /// Things found while opening that the user should know (a pair of GPUs that is staged, say).
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// The first device alone.
  DeviceSet first() const;
  /// The devices with these indices, in this order. Throws a usage Error for an empty list, and for an index
  /// that is twice in it or is not there.
  DeviceSet subset(const std::vector<int>& indices) const;

 private:
  friend DeviceSet open_devices(const std::string&, const OpenOptions&);
  std::string spec_;
  std::shared_ptr<Timeline> timeline_;
  std::shared_ptr<SimWorld> sim_world_;
  std::vector<std::shared_ptr<Device>> devices_;
  std::vector<std::string> warnings_;
  std::vector<bool> peers_;  ///< [from * size + to]
};

/// Opens `host:N`, `host:NxTHREADS`, `cuda`, `cuda:0,1`, `cuda:UUID`, `cuda:BUSID`, `sim:N`, `sim:PRESET`
/// ("sim:8xh200"), `sim:FILE.toml` (sim_topology.hpp), or several of them joined with `+`:
/// "host:1x1+host:1x3". Unlike devices need allow_mixed; sim never mixes with real
/// devices. Without THREADS the devices of a part share the usable cores, one each at least. Empty: `cuda`
/// where a GPU answers, else `host:1`. Throws usage errors that name the part and what is there.
DeviceSet open_devices(const std::string& spec, const OpenOptions& options = {});

/// Cores this process may use: CPU affinity and the cgroup's quota, one at least.
int available_cores();
/// Bytes of memory this process may use: the machine's or the cgroup's limit, the smaller.
std::uint64_t available_memory();

}  // namespace shardwise
