#pragma once
// How an operation that sums over lanes is spread: who runs which window, in which chunks, and why.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shardwise/dispatch/split_options.hpp"
#include "shardwise/runtime/devices.hpp"
#include "shardwise/shard/chunk_plan.hpp"
#include "shardwise/shard/split.hpp"

namespace shardwise {

/// What the planner has to know of an operation.
struct LaneCosts {
  std::string operation;            ///< starts messages
  std::uint64_t lane_bytes = 0;     ///< that one lane occupies in one chunk
  std::uint64_t partial_bytes = 0;  ///< that one device sends to the master
  int resident_chunks = 1;
  std::int64_t cap_lanes = 0;  ///< no chunk may be larger; 0: no cap
  std::string cap_reason;
  /// Bytes on a device whatever the chunk size; `shard` is empty for a master without lanes.
  std::function<std::uint64_t(int device, Window shard)> fixed_bytes;
};

struct LaneShard {
  int device = 0;
  Window window;
  ChunkPlan plan;
};

struct LanePlan {
  std::vector<LaneShard> shards;  ///< in device order; the master may be missing
  DispatchReport report;          ///< devices[] has one entry per device of the set
};

/// Plans without touching a device. Devices that are `gone` get nothing. Throws usage errors for weights and
/// windows, budget errors where nothing fits.
LanePlan plan_lanes(const DeviceSet& devices, Window window, const SplitOptions& options,
                    const LaneCosts& costs, const std::vector<bool>& gone = {});

}  // namespace shardwise
