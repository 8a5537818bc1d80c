#pragma once
// What a solve needs at least, against what is there, before anything is allocated. Every number is a lower
// bound (fields of the finest grid and whole arrays; no messages, no coarser grids), so that nothing is
// refused that would run.

#include <cstdint>
#include <string>
#include <vector>

#include "solve_request.hpp"

namespace shardwise::program {

struct SolveDeviceNeed {
  std::string name;
  std::uint64_t cells = 0, bytes = 0, free_bytes = 0;
};

struct SolveNeed {
  std::vector<SolveDeviceNeed> devices;  ///< of this process
  std::uint64_t host_bytes = 0,
                host_free_bytes = 0;  ///< whole arrays, and fields that lie in the host's memory
};

/// Refuses a grid whose whole arrays do not fit the host: called before one is made. `arrays`: of one double
/// a cell that stay.
void require_host_arrays(const std::vector<std::int64_t>& cells, bool single, std::int64_t arrays);

/// Fields of one number a cell that are alive at once at least.
std::int64_t solve_fields(const SolveRequest& request);

SolveNeed solve_need(const SolveRequest& request, const Blocks& blocks);
/// Throws a memory error that names the device (or, with `host`, the host), what it needs and what it has.
void require_memory(const SolveRequest& request, const SolveNeed& need, bool host);

/// The most that a device of this process held so far, above everything else: what `bytes` is a bound of.
std::vector<std::pair<std::string, std::uint64_t>> solve_peaks(const Blocks& blocks);

}  // namespace shardwise::program
