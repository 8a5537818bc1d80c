#pragma once
// Makes the table that a call on rows fills.

#include <memory>

#include "dispatch/row_operation.hpp"
#include "shardwise/dispatch/executor.hpp"
#include "shardwise/dispatch/rows.hpp"

namespace shardwise {

/// Declares the caller's columns that a launch or copy on device memory touches, where it can be known whose
/// they are: sim finds resources by address. Elsewhere, and for memory that is not of a sim device, nothing.
void add_callers_memory(AccessList& accesses, Device& master, const void* column, AccessMode mode);

/// A table without blocks.
std::shared_ptr<RowTable> make_row_table(const RowOperation& operation, std::int64_t rows,
                                         Executor& executor);

/// Appends a block for `window` on `device` (or RowBlock::on_host): columns in one allocation on `stream`, or
/// in the sink's own memory where it has some.
RowBlock& add_row_block(RowTable& table, const RowOperation& operation, const RowSink& sink,
                        const DeviceSet& devices, int device, Window window, Stream& stream);

}  // namespace shardwise
