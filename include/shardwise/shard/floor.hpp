#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardwise/shard/split.hpp"

namespace shardwise {

/// The default floor on every remote shard, in rows; for lanes it is the default of `min_lanes`.
inline constexpr std::int64_t kMinRowsPerDevice = 262144;
/// Rows that move more than this many bytes raise the floor in proportion.
inline constexpr std::uint64_t kFloorRowBytes = 100;
/// The device whose memory holds a call's inputs and results.
inline constexpr int kMaster = 0;

/// The floor for rows that move `row_bytes` each between devices (in and out together):
/// ceil(min_rows * max(1, row_bytes / 100)), saturated below 2^63. 0 stays 0: the floor is off.
/// Throws std::invalid_argument where min_rows is negative.
std::int64_t row_floor(std::int64_t min_rows, std::uint64_t row_bytes);

/// The floor for lanes whose device returns one partial result of `partial_bytes`: min_lanes + partial_bytes
/// / 100. 0 stays 0: the floor is off. Throws std::invalid_argument where min_lanes is negative.
std::int64_t lane_floor(std::int64_t min_lanes, std::uint64_t partial_bytes);

/// Who runs a call after the floor was applied, and why.
struct FloorDecision {
  std::vector<Shard> shards;     ///< the split as it was, or the whole window on the master
  bool kept = true;              ///< false: the floor moved the call to the master
  bool on_master_alone = false;  ///< nothing is left for another device, for whatever reason
  std::string reason;            ///< "3 devices, the smallest remote shard has 400000 rows (floor 262144)"
};

/// Keeps `shards` if every remote shard (of any device but the master) has at least `floor` rows; otherwise
/// the whole window goes to the master, as one device would run it. All or nothing: a set of devices is
/// either worth its transfers or it is not. `floor` is row_floor() or lane_floor(); `unit` is "rows" or
/// "lanes". Shards are as split_rows() or split_lanes() gave them; none gives none.
FloorDecision apply_floor(std::vector<Shard> shards, std::int64_t floor, const char* unit);

}  // namespace shardwise
