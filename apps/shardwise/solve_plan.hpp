#pragma once
// `shardwise solve --dry-run`: what a solve needs and takes, device by device.

#include "shardwise/runtime/devices.hpp"
#include "solve_memory.hpp"
#include "solve_request.hpp"

namespace shardwise::program {

/// Prints the plan and writes what is asked of it (--json, --trace). `blocks` are those of the solve, on
/// `devices`, which are none where all runs on one thread. Times are of a step of heat, or of one application
/// of the operator, on a simulated machine like the devices that computes nothing; ranks have none.
void solve_dry_run(const SolveRequest& request, const SolveOptions& options, const Blocks& blocks,
                   const DeviceSet& devices, const SolveNeed& need);

}  // namespace shardwise::program
