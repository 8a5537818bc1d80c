#include "shardwise/dispatch/graph.hpp"

#include <algorithm>

namespace shardwise {

const char* to_string(StreamRole role) noexcept {
  switch (role) {
    case StreamRole::compute:
      return "compute";
    case StreamRole::copy_in:
      return "in";
    case StreamRole::copy_out:
      return "out";
  }
  return "?";
}

namespace {

bool conflict(const Operation& a, const Operation& b) {
  for (const Access& x : a.accesses)
    for (const Access& y : b.accesses)
      if (conflicts(x, y)) return true;
  return false;
}

}  // namespace

int Graph::add(int device, StreamRole role, Operation operation) {
  const int index = static_cast<int>(nodes_.size());
  GraphNode node{device, role, std::move(operation), {}};
  for (const Access& access : node.operation.accesses) {
    std::vector<int>& earlier = touched_by_[access.resource];
    for (const int other : earlier)
      if (other != index && conflict(nodes_[static_cast<std::size_t>(other)].operation, node.operation))
        node.after.push_back(other);
    if (earlier.empty() || earlier.back() != index) earlier.push_back(index);
  }
  std::sort(node.after.begin(), node.after.end());
  node.after.erase(std::unique(node.after.begin(), node.after.end()), node.after.end());
  nodes_.push_back(std::move(node));
  return index;
}

}  // namespace shardwise
