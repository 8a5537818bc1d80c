#include "rays/row_columns.hpp"

#include <fmt/format.h>

#include "shardwise/runtime/error.hpp"

namespace shardwise {

void check_slots(const char* op, const char* argument, std::int64_t value, std::int64_t least) {
  constexpr std::int64_t most = 1 << 24;
  if (value < least)
    throw_usage(fmt::format("{}: {} must be at least {} (got {})", op, argument, least, value));
  if (value > most) throw_usage(fmt::format("{}: {} must be at most {} (got {})", op, argument, most, value));
}

}  // namespace shardwise
