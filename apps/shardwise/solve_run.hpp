#pragma once
// The work of `shardwise solve`: a solver or time steps on blocks.

#include <functional>
#include <vector>

#include "solve_checkpoint.hpp"
#include "solve_request.hpp"

namespace shardwise::program {

struct SolveOutcome {
  std::vector<double> field;  ///< first index fastest
  SolverResult solver;        ///< of poisson and diffusion
  std::int64_t applies = 0, exchanges = 0;
  double seconds = 0;
  double removed_mean = 0;  ///< what was taken out of the right-hand side of a singular problem
};

struct SolveHooks {
  bool show = true;  ///< a progress bar
  const SolveState* restart = nullptr;
  /// Called with the state every request.every steps, at the end, and before a stop by a signal.
  std::function<void(const SolveState&)> checkpoint;
};

/// The blocks that a request asks for.
Blocks solve_blocks(const SolveRequest& request, const DeviceSet& devices);

/// Throws Error{not_converged} where u is not finite, Error{interrupted} after a signal.
SolveOutcome run_solve(const SolveRequest& request, const Blocks& blocks, const SolveHooks& hooks);

}  // namespace shardwise::program
