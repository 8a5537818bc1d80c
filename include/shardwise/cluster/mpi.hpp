#pragma once
// Ranks over MPI. Link shardwise::mpi (find_package component mpi); no MPI header is needed.

#include <functional>
#include <memory>

#include "shardwise/cluster/communicator.hpp"

namespace shardwise {

struct MpiOptions {
  /// A rank that was not heard of for so long is lost, and the run ends. Above 0.
  double deadline_s = 60;
  /// A rank that others have waited for so long, while it was heard of but in no collective: the same. 0: for
  /// ever, for what a rank computes between two collectives may take hours.
  double busy_deadline_s = 0;
  /// Called by the watch when another rank has announced a failure: what this rank computes is in vain, and
  /// the sooner it comes to a collective, the sooner all ranks throw. A thread of its own; must not throw.
  std::function<void()> on_failure;
  /// Called once, by any thread, before a run is ended that way: removes what is half-written. Must not
  /// throw.
  std::function<void()> on_abort;
};

/// All processes that the launcher started. Initialises MPI where the process has not done it (and then ends
/// it with the last copy of the communicator: on all ranks, as a collective). May be called once in a
/// process. Throws usage errors: options out of range, an MPI library that lets one thread call only, an MPI
/// that was ended already.
std::shared_ptr<Communicator> mpi_world(const MpiOptions& options = {});

}  // namespace shardwise
