#pragma once
// What all row bodies do alike: inactive rows, counters, columns that nobody asked for.
//
// A row whose mask is 0 is inactive. A row with input that is not finite, or degenerate as its operation
// says, is inactive too, and counted as rejected. Either has the operation's miss values in its outputs:
// distances +inf, ids -1, false, vectors and counts 0.

#include <cstdint>
#include <type_traits>

#include "dispatch/row_operation.hpp"
#include "shardwise/numeric/atomic_add.hpp"
#include "shardwise/numeric/bits.hpp"
#include "shardwise/numeric/vec3.hpp"

namespace shardwise {

/// Writes an element of a column, where it is there.
template <class T>
SW_HD inline void store(T* column, std::int64_t index, std::type_identity_t<T> value) {
  if (column) column[index] = value;
}

/// The distance of a miss, as a value: a constant has no address on a device.
SW_HD inline float no_distance() {
  return __builtin_inff();
}

SW_HD inline bool is_masked(const std::uint8_t* active, std::int64_t row) {
  return active && active[row] == 0;
}

SW_HD inline void count_rejected(RowCounters* counters) {
  if (counters) atomic_add(&counters->rejected, std::uint64_t{1});
}

SW_HD inline void count_flagged(RowCounters* counters) {
  if (counters) atomic_add(&counters->flagged, std::uint64_t{1});
}

/// What a row needs of a column of ray lengths: absent means unbounded.
SW_HD inline float ray_limit(const float* tmax, std::int64_t row) {
  return tmax ? tmax[row] : no_distance();
}

}  // namespace shardwise
