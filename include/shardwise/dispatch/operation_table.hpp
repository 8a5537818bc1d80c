#pragma once
// Every operation that runs on several devices: one table for the dispatcher, `shardwise devices --json`, the
// documentation and the tests.

#include <cstdint>
#include <span>
#include <string>

namespace shardwise {

enum class OperationClass {
  rows,   ///< row i of the result depends on row i of the input and the scene
  lanes,  ///< the result is a sum over lanes
};

struct OperationEntry {
  const char* family;  ///< "trace_reflections"; an exact shape is FAMILY:SHAPE
  const char* shape;   ///< the shape that the bytes below are of, "4"; empty: there is one shape
  OperationClass operation_class;
  std::uint32_t bytes_in;   ///< a row, mandatory columns
  std::uint32_t bytes_out;  ///< a row; lanes: 0, their result has one size whatever their number
  const char* platforms;    ///< "host, cuda, sim"
  const char* sinks;        ///< that it can feed
};

/// In the order of the documentation.
std::span<const OperationEntry> operation_table();

/// The entry of a family or an exact shape; null where there is none.
const OperationEntry* find_operation(const std::string& name);

/// Throws a usage error with the nearest name unless `name` is a family or an exact shape of the table.
/// `what` starts the message.
void require_operation(const std::string& name, const std::string& what);

}  // namespace shardwise
