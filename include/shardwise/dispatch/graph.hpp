#pragma once
// A call as a small graph of operations. Dependencies are derived from the declared accesses: an operation
// runs after every earlier one that it conflicts with. The executor turns them into events.

#include <map>
#include <vector>

#include "shardwise/runtime/operation.hpp"

namespace shardwise {

/// Each device has one stream for each role, so that both directions of copying overlap with computing.
enum class StreamRole { compute, copy_in, copy_out };
inline constexpr int stream_roles = 3;
const char* to_string(StreamRole role) noexcept;

struct GraphNode {
  int device = 0;  ///< index in the device set
  StreamRole role = StreamRole::compute;
  Operation operation;
  /// Earlier nodes that this one conflicts with, ascending; those that lie whole behind a later write need
  /// not be among them: that write is, and comes after them.
  std::vector<int> after;
  bool observed = false;  ///< Session::event() will be asked for it
  bool timed = false;     ///< the executor notes when it began and ended (Session::times)
};

class Graph {
 public:
  /// Appends an operation on a device's stream; returns its index.
  int add(int device, StreamRole role, Operation operation);
  const std::vector<GraphNode>& nodes() const { return nodes_; }
  std::vector<GraphNode>& nodes() { return nodes_; }

 private:
  std::vector<GraphNode> nodes_;
  /// The nodes that touch a resource, by mode: those of one mode that is not write do not conflict.
  struct Touched {
    std::vector<int> readers, writers, accumulators;
  };
  std::map<ResourceId, Touched> touched_by_;
};

}  // namespace shardwise
