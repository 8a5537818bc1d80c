#include "runtime/sim/sim_clock.hpp"

#include <algorithm>
#include <iterator>

namespace shardwise {

double sim_duration_s(const Operation& operation, const SimCosts& costs, double speed) {
  switch (operation.kind) {
    case OperationKind::copy:
      return costs.copy_latency_s + static_cast<double>(operation.bytes) / costs.copy_bytes_per_s;
    case OperationKind::launch:
    case OperationKind::host:
      return costs.launch_latency_s + static_cast<double>(operation.items) * costs.ns_per_item * 1e-9 / speed;
    case OperationKind::release:
      break;
  }
  return 0;
}

double SimEngine::take(double ready_s, double duration_s) {
  double begin = std::max(ready_s, forgotten_until_s_);
  auto next = busy_.upper_bound(begin);
  if (next != busy_.begin()) begin = std::max(begin, std::prev(next)->second);
  while (next != busy_.end() && next->first < begin + duration_s) {
    begin = std::max(begin, next->second);
    ++next;
  }
  double first = begin, last = begin + duration_s;
  // Neighbours that touch become one.
  if (next != busy_.end() && next->first == last) {
    last = next->second;
    next = busy_.erase(next);
  }
  if (next != busy_.begin() && std::prev(next)->second == first) {
    first = std::prev(next)->first;
    busy_.erase(std::prev(next));
  }
  busy_.emplace(first, last);
  if (busy_.size() > remembered) {
    forgotten_until_s_ = std::max(forgotten_until_s_, busy_.begin()->second);
    busy_.erase(busy_.begin());
  }
  return begin;
}

}  // namespace shardwise
