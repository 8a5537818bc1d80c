#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardwise {

/// What becomes of a call when a device other than the master fails in it (an allocation, launch or copy, or
/// the device is gone).
enum class OnDeviceFailure {
  fail,  ///< wait() throws its error
  /// The devices that are left do what it has not done, and it leaves the set: later calls give it nothing.
  /// The result has the bits that it would have had. Rows, and accumulations with `exact` sums; others fail.
  /// Implies wait().
  failover,
};

/// How one call is spread over the scene's devices. The defaults suit almost every call.
struct SplitOptions {
  std::vector<double> weights;     ///< one per device, a ratio; empty: by the devices' threads
  std::int64_t chunk_rows = 0;     ///< rows or lanes a launch; 0: the plan decides
  std::uint64_t memory_bytes = 0;  ///< budget per device above the built scene; 0: 80 % of what is free
  std::int64_t min_rows_per_device = -1;  ///< floor on a remote shard; -1: the operation's default; 0: off
  OnDeviceFailure on_device_failure = OnDeviceFailure::fail;
};

/// A device that failed in a call whose work others took over.
struct DeviceFailure {
  std::string device;
  std::string error;
  std::int64_t rerun = 0;  ///< rows or lanes that ran again, or for the first time, on the devices left
};

/// What one device did in a call.
struct DeviceReport {
  std::string name;
  std::string kind;        ///< host, cuda, sim
  std::int64_t lanes = 0;  ///< lanes or rows
  double predicted_s = 0;  ///< of its launches, from what was learned; 0: nothing known yet. Rows only
  double compute_s = 0;    ///< of its launches, measured on the device; 0 in calls that are not measured (the
                           ///< first and the third of a kind are, then one in eight). Rows only
  double copy_in_s = 0, copy_out_s = 0;  ///< of its copies, measured on the device. Rows only
  double busy_s = 0, idle_s = 0;         ///< seconds with a launch running, and with nothing; virtual on sim
  std::uint64_t bytes_in = 0, bytes_out = 0;  ///< copied to it and from it
  std::uint64_t peak_bytes = 0;               ///< above the built scene, during the call
  std::uint64_t scene_bytes = 0;
};

/// How a call was split and why. `source` to `chunk_rows` are the first working device's ChunkPlan;
/// `chunk_count` counts the launches of all devices; `measured_row_bytes` is filled after the run.
struct DispatchReport {
  std::string
      mode;  ///< master, pipelined, direct, sharded, chunked (rows.hpp); lanes know the 1st and the last 2
  std::string reason;           ///< of the mode, a sentence
  std::vector<double> weights;  ///< as they were used, one per device
  std::string source;           ///< of the chunk size: explicit, budget, cap, shard
  std::uint64_t row_bytes = 0, budget_bytes = 0, fixed_bytes = 0;
  int resident_chunks = 1;
  std::int64_t chunk_rows = 0, chunk_count = 0;
  double measured_row_bytes = 0;
  double predicted_s = 0;  ///< of the call, from what was learned; 0: nothing known yet. Rows only
  double measured_s = 0;   ///< from the callers' streams into the call until out of it. Rows only
  std::vector<DeviceReport> devices;
  std::vector<DeviceFailure> failures;  ///< that the call survived, in the order in which they were met
};

}  // namespace shardwise
