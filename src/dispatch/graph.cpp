#include "shardwise/dispatch/graph.hpp"

#include <algorithm>
#include <vector>

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

/// Whether all that `operation` touches of the resource is overwritten by `write`.
bool hides(const Access& write, const Operation& operation) {
  return std::all_of(operation.accesses.begin(), operation.accesses.end(), [&](const Access& access) {
    return access.resource != write.resource || covers(write, access);
  });
}

}  // namespace

int Graph::add(int device, StreamRole role, Operation operation) {
  const int index = static_cast<int>(nodes_.size());
  GraphNode node{device, role, std::move(operation), {}};
  for (const Access& access : node.operation.accesses) {
    Touched& touched = touched_by_[access.resource];
    const auto wait_for = [&](const std::vector<int>& earlier) {
      for (const int other : earlier)
        if (other != index && conflict(nodes_[static_cast<std::size_t>(other)].operation, node.operation))
          node.after.push_back(other);
    };
    wait_for(touched.writers);
    if (access.mode != AccessMode::read) wait_for(touched.readers);
    if (access.mode != AccessMode::accumulate) wait_for(touched.accumulators);
    // What conflicts with nodes behind this write conflicts with it, too, and so comes after them.
    if (access.mode == AccessMode::write)
      for (std::vector<int>* earlier : {&touched.readers, &touched.writers, &touched.accumulators})
        std::erase_if(*earlier, [&](int other) {
          return other != index && hides(access, nodes_[static_cast<std::size_t>(other)].operation);
        });
    std::vector<int>& same = access.mode == AccessMode::read    ? touched.readers
                             : access.mode == AccessMode::write ? touched.writers
                                                                : touched.accumulators;
    if (same.empty() || same.back() != index) same.push_back(index);
  }
  std::sort(node.after.begin(), node.after.end());
  node.after.erase(std::unique(node.after.begin(), node.after.end()), node.after.end());
  nodes_.push_back(std::move(node));
  return index;
}

}  // namespace shardwise
