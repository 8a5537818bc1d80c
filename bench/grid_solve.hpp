#pragma once

#include "bench/runner.hpp"
#include "shardwise/runtime/devices.hpp"

namespace shardwise::bench {

/// Whole solves on all devices and on the first: multigrid on growing grids, Jacobi and multigrid on
/// coefficients of growing contrast, sums at the three levels. Iterations stand in the notes.
void add_solve_cases(std::vector<Case>& cases, const DeviceSet& devices, const Settings& settings);

}  // namespace shardwise::bench
