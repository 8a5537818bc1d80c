#pragma once
// Columns of row operations, by kind and presence.

#include <cstdint>
#include <string>

#include "dispatch/row_operation.hpp"

namespace shardwise {

/// A column of `slots` values of T a row; not there where `present` is false.
template <class T>
RowColumn row_column(std::string name, bool present = true, std::int64_t slots = 1) {
  return {std::move(name),
          present ? static_cast<std::uint32_t>(sizeof(T)) * static_cast<std::uint32_t>(slots) : 0u};
}

/// Throws a usage error unless `value` is in [least, 2^24]: larger rows are a mistake, and their bytes would
/// not fit 32 bits. 2^24 slots of 12 bytes do.
void check_slots(const char* op, const char* argument, std::int64_t value, std::int64_t least);

}  // namespace shardwise
