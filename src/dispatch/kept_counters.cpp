#include "dispatch/kept_counters.hpp"

#include "shardwise/runtime/copy.hpp"

namespace shardwise {

Operation KeptCounters::clear_first() const {
  return zero_operation("clear row counters", memory_.data(), memory_.bytes(), {memory_.writes()});
}

Operation KeptCounters::clear_behind() const {
  Operation operation = clear_first();
  operation.body = [zero = std::move(operation.body), cleared_by = cleared_by_,
                    user = users_](LaunchContext& context) {
    zero(context);
    *cleared_by = user;
  };
  return operation;
}

std::uint64_t CounterStore::bytes(const Device& device) const {
  std::uint64_t bytes = 0;
  for (const auto& [stream, counters] : kept_)
    if (&stream->device() == &device) bytes += counters.bytes();
  return bytes;
}

}  // namespace shardwise
