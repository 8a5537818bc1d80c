#pragma once
// Runs graphs on a device set. This is the only code that drives several devices for rows and lanes.
//
//   caller stream of device d   ──e──┐                                   ┌──►  (waits for all streams of d;
//                                    ▼                                   │      the master's waits for all)
//   compute / in / out of d     ───[waits]── operations, cross events ───┘ exit
//
// Entry: every stream used is behind its device's caller stream and the master's. Exit: each caller stream is
// behind all of our streams of its device, the master's behind all. Exit edges are made also when enqueuing
// throws. Edges that others imply are left out: a stream's entry where its first operation waits for
// something that is behind the callers already, an exit where another stream's exit is behind it. An Executor
// belongs to one thread.

#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shardwise/dispatch/graph.hpp"
#include "shardwise/runtime/devices.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/pending.hpp"

namespace shardwise {

/// One stream of the caller per device. What a call reads must be ready at the point where they stand; what
/// is enqueued on them after the call finds its results. A
/// stream of the caller's own fails with a run that fails: its synchronize() throws and clears that. (The
/// executor's default ones are cleared by Run::wait().)
struct ExecutionContext {
  std::vector<stream_ref> streams;
};

/// One event edge that the executor made: a stream that waits for a point of another.
struct ExecutorEdge {
  std::string from, to;  ///< "operation on device/stream", "caller of device"
  std::string text() const { return from + " -> " + to; }
};

/// What went wrong on one device of a run.
struct RunFailure {
  int device = 0;  ///< an index in the device set; negative: while enqueuing
  ErrorClass error_class = ErrorClass::internal;
  std::string text;
};

class Executor;

/// The devices among `failures` that a call can go on without: those whose own allocation, launch or copy
/// failed, or which are lost, and which have not left the set before. Empty where it cannot: the master is
/// among them, or something else went wrong.
std::vector<RunFailure> survivable(const std::vector<RunFailure>& failures, const Executor& executor);
/// The failure that an exception on this device is.
RunFailure failure_of(int device, const std::exception_ptr& error);

/// A graph that was enqueued. Several may be in flight. To be waited for while the executor lives: until then
/// its operations may run, and its error stays in the streams.
class Run {
 public:
  /// Blocks until everything is done; throws the error of the lowest (device, operation), the others listed
  /// behind it. What was dropped because of an error is no error of its own, unless there is no other. After
  /// that the executor can be used again. `poll`, where given, is called on this thread every few
  /// milliseconds until then (never on sim). What it throws comes out of wait(), once everything is done.
  void wait(const std::function<void()>& poll = {});

  /// The end of what the run enqueued, on each stream: once these are signalled, wait() does not block.
  const std::vector<PendingPoint>& points() const { return exits_; }

  /// After wait(): what it threw, one by one, by (device, operation); no consequences.
  const std::vector<RunFailure>& failures() const { return met_; }

  /// Whether the caller's streams could not be made to wait for this run (their device is lost): what they
  /// hold afterwards may be anything.
  bool exit_edge_lost() const { return static_cast<bool>(exit_exception_); }
  /// Why the first of them could not be; empty where none was lost.
  std::string exit_edge_error() const { return error_text(exit_exception_); }

 private:
  friend class Executor;
  friend class Session;
  /// What went wrong inside operations, written by whichever thread runs them.
  struct Failures;
  struct OnDevice {
    int device;
    Stream* stream;
  };
  std::vector<OnDevice> streams_;         ///< of the executor, by (device, role)
  std::vector<OnDevice> caller_streams_;  ///< the default caller streams, where the run used them
  std::vector<PendingPoint> exits_;       ///< one a stream
  std::shared_ptr<Failures> failures_;
  std::vector<RunFailure> met_;
  std::exception_ptr launch_exception_;
  std::exception_ptr exit_exception_;
};

/// A graph that is enqueued piece by piece, while earlier pieces run: for calls that hand results out between
/// them. Entry edges are made as streams come into use, exit edges by finish(), or by the destructor where an
/// exception passes.
class Session {
 public:
  Session(Executor& executor, const ExecutionContext& caller);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Enqueues the nodes that were added to the graph since the last time (always of the same graph).
  void enqueue(Graph& graph);
  /// Signalled when the node, which was enqueued, is done; unless it is GraphNode::observed, perhaps only
  /// when what its stream was given since is done too.
  Event event(int node);
  /// The times that a node with GraphNode::timed ran between; empty events for others.
  std::pair<Event, Event> times(int node) const;
  /// Ends the session. To be called once.
  Run finish();

 private:
  friend class Executor;
  struct State;
  std::unique_ptr<State> state_;
};

class Executor {
 public:
  explicit Executor(DeviceSet devices);
  ~Executor();

  const DeviceSet& devices() const { return devices_; }
  Stream& stream(int device, StreamRole role);
  /// The default caller streams, owned here.
  ExecutionContext& default_context() { return context_; }

  /// Enqueues a graph; nothing is waited for. Throws before anything is enqueued where the context or the
  /// graph does not fit the devices; errors after that come out of Run::wait().
  Run run(Graph graph, const ExecutionContext& caller);
  Run run(Graph graph) { return run(std::move(graph), context_); }

  /// The event edges of the last run, in the order in which they were made.
  const std::vector<ExecutorEdge>& edges() const { return edges_; }
  /// Edges of the last run that others implied.
  int implied_edges() const { return implied_edges_; }
  /// Leaves out edge `index` of every run from now on; -1: none. For tests of the race check.
  void drop_edge(int index) { dropped_edge_ = index; }
  /// For tests: the next run cannot make the caller's stream of this device wait for it, as on a lost device.
  void lose_next_exit_to(int device) { lost_exit_ = device; }

  /// A device failed in a call that went on without it: calls that are planned from now on leave it out.
  void retire(int device) { retired_[static_cast<std::size_t>(device)] = true; }
  /// One a device of the set. Never the master.
  const std::vector<bool>& retired() const { return retired_; }

  /// Blocks until every stream of the executor's own has come to its end, and forgets their errors: after a
  /// lost exit edge nothing else orders what comes next behind what still runs.
  void drain() noexcept;

 private:
  friend class Session;
  DeviceSet devices_;
  std::vector<std::array<std::unique_ptr<Stream>, stream_roles>> streams_;
  std::vector<std::unique_ptr<Stream>> caller_streams_;
  ExecutionContext context_;
  std::vector<ExecutorEdge> edges_;
  std::vector<bool> retired_;
  int implied_edges_ = 0;
  int dropped_edge_ = -1;
  int lost_exit_ = -1;
};

}  // namespace shardwise
