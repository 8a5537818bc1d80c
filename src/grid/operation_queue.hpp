#pragma once
// Order between streams, derived from declared accesses.
//
// An operation is given to a stream; before it is enqueued, its stream is made to wait for every earlier
// operation on another stream that it conflicts with, unless events made earlier imply that already. A
// forgotten edge is then impossible, a forgotten declaration is the only mistake left. One host thread uses a
// queue; the streams are borrowed and outlive it.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "shardwise/grid/backend.hpp"

namespace shardwise {

class OperationQueue final : public OrderedQueue {
 public:
  void enqueue(Stream& stream, Operation operation) override;
  /// The stream's work from here on waits for all that touched this memory.
  void wait_for_uses(Stream& stream, ResourceId resource);
  /// wait_for_uses(), and whoever comes later waits for what the stream got meanwhile from others.
  void note_write(Stream& stream, ResourceId resource, std::uint64_t bytes);
  /// Memory that `stream` allocated just now: others come behind that.
  void note_allocation(Stream& stream, ResourceId resource, std::uint64_t bytes);
  /// wait_for_uses() and forget: what is destroyed next on `stream`.
  void retire(Stream& stream, ResourceId resource);
  /// What another stream, not of this queue, has to wait for: the stream so far.
  Event record(Stream& stream);
  /// The stream waits for something that this queue knows nothing of.
  void wait_for(Stream& stream, const Event& event) { stream.wait(event); }

  std::uint64_t edges() const { return edges_; }

 private:
  using Clock = std::vector<std::uint64_t>;
  struct Line {  ///< a stream
    Stream* stream;
    std::uint64_t tick = 0;        ///< operations so far
    Clock known;                   ///< up to which tick of every other it is ordered behind
    Event event;                   ///< the last one recorded here
    std::uint64_t event_tick = 0;  ///< and the operations that it stands behind
    Clock event_known;
  };
  struct Entry {
    Access access;
    std::size_t line;
    std::uint64_t tick;
  };
  std::size_t line_of(Stream& stream);
  std::uint64_t known(const Line& line, std::size_t other) const {
    return other < line.known.size() ? line.known[other] : 0;
  }
  /// Puts `line` behind the entry.
  void order(std::size_t line, const Entry& entry);
  void prune(std::vector<Entry>& history);

  std::vector<Line> lines_;
  std::unordered_map<ResourceId, std::vector<Entry>> history_;
  std::uint64_t edges_ = 0;
};

}  // namespace shardwise
