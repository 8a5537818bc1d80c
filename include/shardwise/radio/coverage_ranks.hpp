#pragma once
// Coverage on the ranks of a communicator: lanes are split over ranks first, over each rank's devices second,
// with the same arithmetic, and the exact sums of all ranks are joined on rank 0. The map has the bits of one
// process.

#include "shardwise/cluster/communicator.hpp"
#include "shardwise/cluster/device_collectives.hpp"
#include "shardwise/radio/coverage.hpp"

namespace shardwise {

/// The lanes of one rank out of `whole`, in rank order, cut at global multiples of the granule (1 where
/// `split.min_rows_per_device` is 0) by the ranks' weights: the sum of a rank's `split.weights`, or else of
/// its devices' threads. A rank may get none. Collective.
Window rank_lanes(Communicator& ranks, const DeviceSet& devices, Window whole, const SplitOptions& split);

/// coverage() of the window that `options` ask for, on all ranks. Collective: every rank has the same scene
/// and options (its devices, weights, budget and hooks may be its own). On rank 0 the result is that of one
/// process, a map or, with `options.sums`, sums; elsewhere there are no grids, and `lanes`, `segments` and
/// `rejected` are the rank's own. `dispatch` always is.
///
/// Grids are added up in the memory of rank 0's master. Traffic: each rank sends the grids of the passes that
/// its lanes, and those of ranks that sent theirs to it, belong to, once, through the hosts and piece by
/// piece; neither rays nor samples matter. With `devices` (connect_devices(), of the master's stream) every
/// master keeps the grids of all passes, and NCCL adds them up.
///
/// Throws what coverage() throws, on this rank alone (see Communicator::fail); usage errors for `fast` and
/// `ordered`, whose sums are not exact, and for the field.
CoverageResult coverage_on_ranks(Communicator& ranks, Scene& scene, const CoverageOptions& options,
                                 DeviceCollectives* devices = nullptr);

}  // namespace shardwise
