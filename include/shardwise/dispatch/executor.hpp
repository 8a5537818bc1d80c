#pragma once
// Runs graphs on a device set. This is the only code that drives several devices for rows and lanes.
//
//   caller stream of device d   ──e──┐                                   ┌──►  (waits for all streams of d;
//                                    ▼                                   │      the master's waits for all)
//   compute / in / out of d     ───[waits]── operations, cross events ───┘ exit
//
// Entry: every stream used waits for its device's caller stream and for the master's. Exit edges are made also when
// enqueuing throws. Edges that others imply are left out. An Executor belongs to one thread.

#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shardwise/dispatch/graph.hpp"
#include "shardwise/runtime/devices.hpp"

namespace shardwise {

/// One stream of the caller per device; what a call reads must be ordered on them, and so are its results.
struct ExecutionContext {
  std::vector<stream_ref> streams;
};

/// One event edge that the executor made: a stream that waits for a point of another.
struct ExecutorEdge {
  std::string from, to;  ///< "operation on device/stream", "caller of device"
  std::string text() const { return from + " -> " + to; }
};

/// A graph that was enqueued.
class Run {
 public:
  /// Blocks until everything is done; throws the error of the lowest (device, operation), the others listed behind it.
  /// `poll`, where given, is called on this thread now and then until then (never on sim).
  void wait(const std::function<void()>& poll = {});

 private:
  friend class Executor;
  std::vector<Stream*> streams_;
  std::vector<Event> exits_;
  std::string launch_error_;
  std::exception_ptr launch_exception_;
};

class Executor {
 public:
  explicit Executor(DeviceSet devices);
  ~Executor();

  const DeviceSet& devices() const { return devices_; }
  Stream& stream(int device, StreamRole role);
  /// The default caller streams, owned here.
  ExecutionContext& default_context() { return context_; }

  /// Enqueues a graph; nothing is waited for.
  Run run(Graph graph, const ExecutionContext& caller);
  Run run(Graph graph) { return run(std::move(graph), context_); }

  /// The event edges of the last run, in the order in which they were made.
  const std::vector<ExecutorEdge>& edges() const { return edges_; }
  /// Edges of the last run that others implied.
  int implied_edges() const { return implied_edges_; }
  /// Leaves out edge `index` of every run from now on; -1: none. For tests of the race check.
  void drop_edge(int index) { dropped_edge_ = index; }

 private:
  struct Clocks;
  DeviceSet devices_;
  std::vector<std::array<std::unique_ptr<Stream>, stream_roles>> streams_;
  std::vector<std::unique_ptr<Stream>> caller_streams_;
  ExecutionContext context_;
  std::vector<ExecutorEdge> edges_;
  int implied_edges_ = 0;
  int dropped_edge_ = -1;
};

}  // namespace shardwise
