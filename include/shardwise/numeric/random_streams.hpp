#pragma once
// The registry of random streams: stream = operation id << 16 | purpose. New draws get new entries; an entry
// never changes its meaning, because results depend on it.

#include <cstdint>

#include "shardwise/numeric/host_device.hpp"

namespace shardwise {

enum class RandomOperation : std::uint32_t {
  coverage = 1,
  rays = 2,  ///< random_rays: lane = row; blocks 0 (origin) and 1 (direction)
};

enum class CoverageDraw : std::uint32_t {
  rotation = 0,  ///< lane = pass << 32 | transmitter; blocks 0 and 1: the rotation of the launch pattern
  roulette = 1,  ///< lane = global lane; block = depth of the next leg
};

SW_HD constexpr std::uint32_t random_stream(RandomOperation operation, std::uint32_t purpose) {
  return (static_cast<std::uint32_t>(operation) << 16) | purpose;
}

SW_HD constexpr std::uint32_t random_stream(CoverageDraw draw) {
  return random_stream(RandomOperation::coverage, static_cast<std::uint32_t>(draw));
}

}  // namespace shardwise
