#pragma once
// Exact grids of all ranks, added up in the memory of rank 0's master, through the hosts: what is left where
// the devices cannot reach each other (device_collectives.hpp).
//
// Ranks form a binomial tree: rank r gives its sums to r minus its lowest bit, after it has taken those of r
// + 1, r + 2, r + 4, ... below that bit. Grids travel in pieces, so that a piece is copied from one device,
// sent, copied to the other and added there while the next is under way, at every level of the tree at once.

#include <cstdint>
#include <vector>

#include "shardwise/cluster/communicator.hpp"
#include "shardwise/runtime/buffer.hpp"
#include "shardwise/runtime/devices.hpp"
#include "shardwise/shard/split.hpp"

namespace shardwise {

/// The ranks that a rank speaks for: itself and those whose sums reach rank 0 through it, [rank, end).
int end_of_rank_tree(int rank, int size);

/// A range of the grids of all ranks, seen as one array, in bytes.
struct GridBytes {
  std::uint64_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
};

/// Adds up exact cells on rank 0. `of_tree[r]` is what rank r and those it speaks for have added to; every
/// rank has the same list. `cells` are this rank's, on its master, and begin at byte `held_from` of all
/// grids. Collective; returns when this rank has done its part. A piece is at most a MiB.
void join_grids(Communicator& ranks, const DeviceSet& devices, Stream& stream, Memory& cells,
                std::uint64_t held_from, const std::vector<GridBytes>& of_tree);

}  // namespace shardwise
