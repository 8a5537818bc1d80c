#pragma once
// What the map's cells and the transmitters see of each other, by plain rays on the host.

#include <atomic>
#include <cstdint>
#include <vector>

#include "shardwise/radio/coverage.hpp"
#include "surfaces.hpp"

namespace shardwise::program {

struct CellCensus {
  std::int64_t open = 0;                ///< cells with nothing above their centre
  std::int64_t line_of_sight = 0;       ///< cells whose centre sees a transmitter
  std::vector<std::int64_t> open_seen;  ///< [transmitters] open cells whose centre sees this one
  std::vector<std::uint8_t> is_open;    ///< [cells]
};

/// One ray up and one to each transmitter for each cell, on all cores. Throws Error{interrupted} on `cancel`.
CellCensus count_cells(const Surfaces& surfaces, const CoverageGrid& grid,
                       const std::vector<Transmitter>& transmitters, const std::atomic<bool>& cancel);

}  // namespace shardwise::program
