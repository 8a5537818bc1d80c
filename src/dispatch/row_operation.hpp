#pragma once
// What the dispatcher has to know of an operation whose row i depends on row i of its inputs and on the scene
// only: its columns, and how to run a window of rows on one device.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shardwise/runtime/operation.hpp"

namespace shardwise {

/// One array of a batch: contiguous rows of `row_bytes` bytes. 0 bytes: not there in this call (an optional
/// input that was not given, an output that nobody asked for).
struct RowColumn {
  std::string name;
  std::uint32_t row_bytes = 0;
};

inline constexpr std::size_t max_row_columns = 16;

/// Sums over the rows of a device, in its memory; added to with atomic_add.
struct RowCounters {
  std::uint64_t rejected;  ///< rows with non-finite or degenerate input, which were inactive
  std::uint64_t flagged;   ///< rows with the operation's own flag (an overflow), 0 where it has none
};

/// One launch: a window of rows on one device. Columns are in the order of RowOperation, and point at the
/// launch's first row; null where the column is not there.
struct RowLaunch {
  int device = 0;              ///< index in the device set
  std::int64_t first_row = 0;  ///< the global index of the first row
  std::int64_t count = 0;
  std::array<const void*, max_row_columns> inputs{};
  std::array<void*, max_row_columns> outputs{};
  RowCounters* counters = nullptr;

  template <class T>
  const T* input(int column) const {
    return static_cast<const T*>(inputs[static_cast<std::size_t>(column)]);
  }
  template <class T>
  T* output(int column) const {
    return static_cast<T*>(outputs[static_cast<std::size_t>(column)]);
  }
};

struct RowOperation {
  std::string name;    ///< the exact shape, "trace_reflections:4"
  std::string family;  ///< "trace_reflections"
  std::vector<RowColumn> inputs, outputs;
  /// Runs the rows of `launch` on the device of `context`: does the work on host and sim, enqueues it on
  /// CUDA.
  std::function<void(LaunchContext& context, const RowLaunch& launch)> launch;
  /// What every launch on a device reads beside its rows (the replica).
  std::function<Access(int device)> reads;
};

}  // namespace shardwise
