#pragma once
// How a call on rows is spread: mode, weights, shards and chunks, each with its reason. Touches no device.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dispatch/learned_costs.hpp"
#include "dispatch/row_operation.hpp"
#include "shardwise/dispatch/rows.hpp"
#include "shardwise/runtime/devices.hpp"
#include "shardwise/shard/chunk_plan.hpp"

namespace shardwise {

/// The rows of one device, and how they get there and back.
struct RowShard {
  int device = 0;
  Window window;  ///< empty in a shared plan: the device takes chunks from the call's rows as it gets on
  ChunkPlan chunks;
  bool sends_in = false;   ///< inputs are copied to the device
  bool sends_out = false;  ///< outputs are copied from it
};

struct RowPlan {
  DispatchMode mode = DispatchMode::master;
  std::int64_t rows = 0;
  bool alone = false;   ///< one launch on the master, the same as with one device
  bool shared = false;  ///< devices take their next chunk when they are through with one (weights are free)
  std::vector<RowShard> shards;
  DispatchReport report;
  /// Where set, report.reason is still to be made: by complete(), once the launches are under way.
  std::function<std::string()> reason;
  void complete() {
    if (reason) report.reason = std::exchange(reason, nullptr)();
  }
};

/// Bytes of the columns of a row.
std::uint64_t row_bytes(const std::vector<RowColumn>& columns);

/// Rows of the batch. Throws usage errors where columns do not fit the operation or each other.
std::int64_t checked_rows(const RowOperation& operation, const RowSource& source, const RowSink& sink,
                          const DeviceSet& devices);

/// What a cost is learned for.
std::string cost_key(const RowOperation& operation, const RowSource& source, const RowSink& sink);

/// What is left of the call that is planned.
struct RowsLeft {
  std::vector<bool> gone;  ///< devices that get nothing; empty: none. Never the master
  std::int64_t rows = -1;  ///< of the batch that are to run, numbered from 0; negative: all
};

/// Throws usage errors for weights, modes and sizes, budget errors where nothing fits.
RowPlan plan_rows(const DeviceSet& devices, const RowOperation& operation, const RowSource& source,
                  const RowSink& sink, const RowOptions& options, const LearnedCost* learned,
                  const RowsLeft& left = {});

}  // namespace shardwise
