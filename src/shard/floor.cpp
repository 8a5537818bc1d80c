#include "shardwise/shard/floor.hpp"

#include <limits>
#include <stdexcept>
#include <utility>

namespace shardwise {
namespace {

__extension__ using Wide = unsigned __int128;

std::int64_t saturate(Wide value) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  return value > static_cast<Wide>(most) ? most : static_cast<std::int64_t>(value);
}

void check(const char* name, std::int64_t value) {
  if (value >= 0) return;
  throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) +
                              "; it must be at least 0 (0 switches the floor off)");
}

std::string count_of(std::size_t devices) {
  return std::to_string(devices) + (devices == 1 ? " device" : " devices");
}

}  // namespace

std::int64_t row_floor(std::int64_t min_rows, std::uint64_t row_bytes) {
  check("min_rows", min_rows);
  if (row_bytes <= kFloorRowBytes) return min_rows;
  const Wide product = static_cast<Wide>(min_rows) * row_bytes;
  return saturate((product + kFloorRowBytes - 1) / kFloorRowBytes);
}

std::int64_t lane_floor(std::int64_t min_lanes, std::uint64_t partial_bytes) {
  check("min_lanes", min_lanes);
  if (min_lanes == 0) return 0;
  return saturate(static_cast<Wide>(min_lanes) + partial_bytes / kFloorRowBytes);
}

FloorDecision apply_floor(std::vector<Shard> shards, std::int64_t floor, const char* unit) {
  FloorDecision decision;
  const Shard* smallest = nullptr;  // of the remote ones
  for (const Shard& shard : shards) {
    if (shard.device == kMaster) continue;
    if (smallest == nullptr || shard.window.count < smallest->window.count) smallest = &shard;
  }
  if (smallest == nullptr) {
    decision.on_master_alone = true;
    decision.reason = shards.empty() ? std::string("no ") + unit : "the weights leave all to the master";
    decision.shards = std::move(shards);
    return decision;
  }
  const std::int64_t least = smallest->window.count;
  if (least < floor) {
    decision.kept = false;
    decision.on_master_alone = true;
    decision.reason = "device " + std::to_string(smallest->device) + " would get " + std::to_string(least) +
                      " " + unit + ", below the floor of " + std::to_string(floor) + " for a remote shard";
    const std::int64_t begin = shards.front().window.begin;
    decision.shards = {{kMaster, {begin, shards.back().window.end() - begin}}};
    return decision;
  }
  decision.reason = count_of(shards.size()) + ", the smallest remote shard has " + std::to_string(least) +
                    " " + unit + (floor > 0 ? " (floor " + std::to_string(floor) + ")" : " (no floor)");
  decision.shards = std::move(shards);
  return decision;
}

}  // namespace shardwise
