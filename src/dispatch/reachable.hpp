#pragma once
// Which memory which device can use.

#include "shardwise/dispatch/rows.hpp"
#include "shardwise/runtime/devices.hpp"

namespace shardwise {

/// Whether kernels of every device can read and write the master's memory, and the caller's where it lies
/// there.
bool all_reachable(const DeviceSet& devices, const RowSource& source, const RowSink& sink);

/// Throws a usage error where memory that is said to lie on the master (or on the host) lies elsewhere.
/// `operation` and `what` start the message: "intersect", "origins".
void require_on_master(const DeviceSet& devices, const void* pointer, const std::string& operation,
                       const std::string& what);
void require_on_host(const void* pointer, const std::string& operation, const std::string& what);

}  // namespace shardwise
