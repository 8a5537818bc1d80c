#pragma once
// Batches of rows: where they come from, where their results go, and how a call on them is spread. What the
// operations (intersect, visible, ...) have in common.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shardwise/dispatch/row_table.hpp"
#include "shardwise/dispatch/split_options.hpp"

namespace shardwise {

class LaunchContext;
struct ExecutionContext;
struct RowLaunch;

/// An input column as the caller has it: contiguous rows. An empty one is an optional input that is not
/// given.
struct RowInput {
  const void* data = nullptr;
  std::int64_t rows = 0;
  std::uint32_t row_bytes = 0;
  bool given = false;

  RowInput() = default;
  template <class T>
  RowInput(std::span<const T> column)  // NOLINT: implicit, a span is a column
      : data(column.data()),
        rows(static_cast<std::int64_t>(column.size())),
        row_bytes(sizeof(T)),
        given(!column.empty()) {}
};

enum class SourceKind {
  on_master,  ///< in the memory of the first device
  on_host,    ///< in host memory; every device pulls its rows over its own link
  resident,   ///< left on the devices by an earlier call
  generated,  ///< made on each device from the rows' global indices; nothing is sent
};
enum class SinkKind {
  to_master,  ///< into memory of the first device
  to_host,    ///< into host memory; every device sends its rows over its own link. Implies wait()
  resident,   ///< left where they were computed, for the next operation
  offload,    ///< given to a function chunk by chunk. Implies wait()
  reduce,     ///< folded into one small result on each device; nothing else leaves it
};
const char* to_string(SourceKind kind) noexcept;
const char* to_string(SinkKind kind) noexcept;

/// How a call is run. `automatic` lets the cost model choose and says why (DispatchReport::reason).
enum class DispatchMode {
  automatic,
  master,     ///< the first device does all, exactly as one device would
  pipelined,  ///< remote shards in chunks: scatter, compute and gather overlap
  direct,     ///< one launch a shard; remote kernels read and write the master's memory over the link
  sharded,    ///< one launch a shard, copied in and out whole: the reference for the others
  chunked,    ///< chunks of a given size, or as large as a budget allows
};
const char* to_string(DispatchMode mode) noexcept;

/// Makes rows on a device. `make` fills the columns of `rows.outputs` (the operation's inputs, in its order;
/// null: not made) for the rows from `rows.first_row` on; on CUDA it enqueues that on the context's stream.
struct RowGenerator {
  std::string name;
  std::int64_t rows = 0;
  /// Bytes a row of each input that it makes, in the operation's order; 0, or none any more: not made.
  std::vector<std::uint32_t> columns;
  std::function<void(LaunchContext& context, const RowLaunch& rows)> make;
};

/// Folds rows into a partial result on each device; partials are merged on the master in device order, chunks
/// in row order. The partial starts as zero bytes.
struct RowReducer {
  std::string name;
  std::uint64_t partial_bytes = 0;
  /// Adds the rows of `rows.outputs` (the operation's outputs, in its order) to `partial`.
  std::function<void(LaunchContext& context, const RowLaunch& rows, void* partial)> fold;
  /// Adds `from` to `into`, both in the master's memory.
  std::function<void(LaunchContext& context, void* into, const void* from)> merge;
};

/// A chunk of results, handed to an offload hook. Columns in the operation's order; valid during the hook.
struct RowChunk {
  std::int64_t first_row = 0, count = 0;
  int device = 0;  ///< that computed it, an index in the device set
  std::vector<void*> columns;
  template <class T>
  std::span<const T> column(int index, int slots = 1) const {
    return {static_cast<const T*>(columns[static_cast<std::size_t>(index)]),
            static_cast<std::size_t>(count * slots)};
  }
};
/// Called on the waiting thread, in row order within a device. It may throw, which ends the call; it may not
/// call back into the scene.
using RowHook = std::function<void(const RowChunk& chunk)>;

/// A typed batch: anything with `std::vector<RowInput> columns() const` in the order of its operation.
template <class Batch>
concept RowBatch = requires(const Batch& batch) {
  { batch.columns() } -> std::same_as<std::vector<RowInput>>;
};

/// Where a call's rows come from. A batch by itself means on_master().
struct RowSource {
  SourceKind kind = SourceKind::on_master;
  std::vector<RowInput> columns;          ///< on_master, on_host: in the operation's order
  std::shared_ptr<const RowTable> table;  ///< resident
  std::vector<int> table_columns;         ///< resident: for each input the table's column; -1: not given
  RowGenerator generator;                 ///< generated

  RowSource() = default;
  template <RowBatch Batch>
  RowSource(const Batch& batch) : columns(batch.columns()) {}  // NOLINT: implicit, a batch is a source
  /// Whether input `column` is there.
  bool gives(std::size_t column) const;
};

/// Rows in the memory of the scene's first device.
template <RowBatch Batch>
RowSource on_master(const Batch& batch) {
  return RowSource(batch);
}
/// Rows in host memory; every device pulls its own.
template <RowBatch Batch>
RowSource on_host(const Batch& batch) {
  RowSource source(batch);
  source.kind = SourceKind::on_host;
  return source;
}
/// Rows that an earlier call left on the devices, as columns of its result in the operation's order; a
/// default Column is an optional input that is not given. All are of one result (else a usage error).
struct ResidentColumn {
  std::shared_ptr<const RowTable> table;
  int index = -1;
  ResidentColumn() = default;
  template <class T>
  ResidentColumn(const Column<T>& column)  // NOLINT: implicit
      : table(column.table()), index(column.table() ? column.index() : -1) {}
};
RowSource resident(std::initializer_list<ResidentColumn> columns);
/// Rows that each device makes from their global indices.
RowSource generated(RowGenerator generator);

/// The caller's memory for an output column; a default one leaves the column to the call.
struct RowOutput {
  std::span<std::byte> memory;
  RowOutput() = default;
  template <class T>
  RowOutput(std::span<T> column) : memory(std::as_writable_bytes(column)) {}  // NOLINT: implicit
};

/// Where a call's results go.
struct RowSink {
  SinkKind kind = SinkKind::to_master;
  /// to_master, to_host: the caller's own memory, one a column of the operation, empty where the call is to
  /// own it. All rows fit.
  std::vector<std::span<std::byte>> memory;
  RowHook hook;               ///< offload
  bool offload_host = false;  ///< offload: the chunk lies in host memory, not on the master
  RowReducer reducer;         ///< reduce
};
RowSink to_master(std::initializer_list<RowOutput> columns = {});
RowSink to_host(std::initializer_list<RowOutput> columns = {});
/// Left on the devices, see resident().
RowSink left_resident();
/// Chunks lie on the master, or in host memory.
RowSink offload(RowHook hook, bool to_host_memory = false);
RowSink reduce(RowReducer reducer);

/// Weights by operation: an exact shape ("trace_reflections:4") counts before its family
/// ("trace_reflections").
using OperationWeights = std::map<std::string, std::vector<double>>;

struct RowOptions : SplitOptions {
  DispatchMode mode = DispatchMode::automatic;
  int chunks_per_device = 4;           ///< of a remote shard that is pipelined
  OperationWeights operation_weights;  ///< where `weights` is empty
  bool plan_only = false;              ///< nothing runs: the result has the report of what would, and why
  bool measured = false;               ///< this call is, not only one in eight (DeviceReport::compute_s)
  const ExecutionContext* context = nullptr;  ///< the caller's streams; null: the scene's own
};

/// What a call on rows gives back.
struct RowResult {
  std::shared_ptr<RowTable> table;  ///< to_master, to_host, resident; null for the others
  std::vector<std::byte> reduced;   ///< reduce
  std::int64_t rows = 0;
  std::int64_t rejected = 0;  ///< rows with non-finite or degenerate input: they have the values of a miss
  std::int64_t flagged = 0;   ///< rows with the operation's own flag
  DispatchReport dispatch;
};

}  // namespace shardwise
