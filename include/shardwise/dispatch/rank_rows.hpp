#pragma once
// Calls on rows by several ranks: each computes its window of the batch, results stay with it unless they are
// gathered.
//
//   const Window mine = rank_rows(ranks, n, weight_of(scene.devices(), options));
//   Intersections hits = intersect(scene, rows_of(on_host(rays), n, mine), options).get();   // rows of this
//   rank GatheredRows all = to_rank0(ranks, hits);               // rank 0: what one process would have, bit
//   for bit
//
// Row i of a result depends on row i of the batch alone, so the bits are those of one process for any number
// of ranks.

#include <cstdint>
#include <cstring>
#include <vector>

#include "shardwise/cluster/communicator.hpp"
#include "shardwise/dispatch/rows.hpp"
#include "shardwise/runtime/devices.hpp"

namespace shardwise {

/// What a rank's share is measured by: the sum of the weights given, or else of its devices' threads.
double rank_weight(const DeviceSet& devices, const SplitOptions& options);

/// This rank's rows of [0, total), in rank order. Collective; every rank gives the same total and its own
/// weight (any ratio). Throws usage errors: a negative total, weights that split_rows() refuses.
Window rank_rows(Communicator& ranks, std::int64_t total, double weight);

/// The rows `window` of a batch of `total` rows; columns with several values a row are cut accordingly,
/// generated rows keep their index in the whole batch. Throws usage errors: a window outside, a column that
/// is no multiple of the rows, rows that are resident (they lie where they are).
RowSource rows_of(const RowSource& source, std::int64_t total, Window window);

/// The rows of all ranks, in rank order, in host memory.
struct GatheredRows {
  std::int64_t rows = 0, rejected = 0, flagged = 0;
  std::vector<std::vector<std::byte>> columns;  ///< in the operation's order; empty: the column is not there
  template <class T>
  std::vector<T> column(int index) const {
    const std::vector<std::byte>& bytes = columns.at(static_cast<std::size_t>(index));
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
  }
};

/// Collective; on rank 0 all rows, elsewhere none. Every rank made the same call on its window, with a sink
/// that leaves a table (not offload, not reduce): a usage error otherwise.
GatheredRows to_rank0(Communicator& ranks, const RowResult& result);

}  // namespace shardwise
