// Enqueues a graph: operations onto streams, and an event edge wherever nothing else implies one.

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "dispatch/run_failures.hpp"
#include "shardwise/dispatch/executor.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

using Clock = std::vector<int>;

/// Streams are numbered device * roles + role, the callers' come after them. A stream's clock says which
/// point of every stream it is known to be behind: how many of that stream's operations (a caller's entry
/// counts as 1). Clocks are exact for what this session enqueues, so an edge is made exactly where nothing
/// implies it.
struct Session::State {
  State(Executor& owner, const ExecutionContext& caller_context)
      : executor(owner),
        caller(caller_context),
        devices(owner.devices_.size()),
        own_streams(devices * stream_roles),
        clocks(static_cast<std::size_t>(own_streams + devices),
               Clock(static_cast<std::size_t>(own_streams + devices), 0)),
        entries(static_cast<std::size_t>(devices)),
        timed_ends(static_cast<std::size_t>(own_streams)),
        failures(std::make_shared<Run::Failures>()) {}

  /// An operation that was enqueued.
  struct Point {
    int stream = 0;
    int count = 0;  ///< of its stream's operations up to it
    Clock clock;    ///< of its stream, where `event` was recorded
    Event event;    ///< where others wait for it
    Event begin, end;
    bool needed = false;
    std::string name;
  };
  /// An edge from a point of one stream to what another gives next. Nodes are -1 at the callers' ends.
  struct Edge {
    int from_stream, from_node, to_stream, to_node;
  };

  static int stream_of(const GraphNode& node) {
    return node.device * stream_roles + static_cast<int>(node.role);
  }
  Stream& stream(int index) const {
    if (index >= own_streams) return *caller.streams[static_cast<std::size_t>(index - own_streams)];
    return executor.stream(index / stream_roles, static_cast<StreamRole>(index % stream_roles));
  }
  std::string label(int index) const {
    return fmt::format("{}/{}", executor.devices_[index / stream_roles].name(), stream(index).name());
  }
  std::string caller_label(int device) const { return "caller of " + executor.devices_[device].name(); }
  Clock& clock(int stream) { return clocks[static_cast<std::size_t>(stream)]; }
  int& clock(int stream, int other) { return clock(stream)[static_cast<std::size_t>(other)]; }

  /// `to` waits for a point of `from`, unless it is behind it already.
  void edge(int to, int to_node, int from, int from_node, int count, const Clock& from_clock,
            const Event& event) {
    if (clock(to, from) >= count) {
      ++executor.implied_edges_;
      return;
    }
    if (static_cast<int>(edges.size()) != executor.dropped_edge_) stream(to).wait(event);
    if (to < own_streams) timed_ends[static_cast<std::size_t>(to)] = {};
    edges.push_back({from, from_node, to, to_node});
    Clock& mine = clock(to);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = std::max(mine[i], from_clock[i]);
  }

  /// The callers that a stream's work enters behind and leaves to: its device's, and the master's.
  static std::vector<int> callers_of(int stream) {
    const int device = stream / stream_roles;
    return device == 0 ? std::vector<int>{0} : std::vector<int>{device, 0};
  }

  /// A point that an event stands behind, at the earliest the operation itself.
  const Point& recorded(int node) {
    Point& point = points[static_cast<std::size_t>(node)];
    if (!point.event.state()) {
      // Not foreseen when it was enqueued: what came behind it on its stream is waited for too.
      point.event = stream(point.stream).record();
      point.count = clock(point.stream, point.stream);
      point.clock = clock(point.stream);
    }
    return point;
  }

  /// What an end of an edge is called; `what` follows the stream's name where it is no operation.
  std::string text(int stream, int node, const char* what) const {
    if (stream >= own_streams) return caller_label(stream - own_streams);
    if (node < 0) return label(stream) + what;
    return fmt::format("{} on {}", points[static_cast<std::size_t>(node)].name, label(stream));
  }

  void record_entries(const std::vector<GraphNode>& nodes, std::size_t first);
  void enqueue(std::vector<GraphNode>& nodes);
  void enqueue_node(GraphNode& node, int index);
  void leave(Run& run);

  Executor& executor;
  ExecutionContext caller;
  int devices, own_streams;
  std::vector<Clock> clocks;
  std::vector<Event> entries;
  std::vector<Event> timed_ends;  ///< by stream: of its last operation, where that is timed
  std::deque<Point> points;       ///< one a node
  std::vector<Edge> edges;        ///< their texts are made when nothing waits for them any more
  std::shared_ptr<Run::Failures> failures;
  std::exception_ptr launch_exception;
  bool finished = false;
};

void Session::State::record_entries(const std::vector<GraphNode>& nodes, std::size_t first) {
  for (std::size_t i = first; i < nodes.size(); ++i)
    for (const int device : callers_of(stream_of(nodes[i]))) {
      Event& entry = entries[static_cast<std::size_t>(device)];
      if (entry.state()) continue;
      clock(own_streams + device, own_streams + device) = 1;
      entry = stream(own_streams + device).record();
    }
}

void Session::State::enqueue(std::vector<GraphNode>& nodes) {
  const std::size_t first = points.size();
  record_entries(nodes, first);
  points.resize(nodes.size());
  for (std::size_t i = first; i < nodes.size(); ++i)
    for (const int other : nodes[i].after)
      if (stream_of(nodes[static_cast<std::size_t>(other)]) != stream_of(nodes[i]))
        points[static_cast<std::size_t>(other)].needed = true;
  for (std::size_t i = first; i < nodes.size(); ++i) enqueue_node(nodes[i], static_cast<int>(i));
}

void Session::State::enqueue_node(GraphNode& node, int index) {
  Point& point = points[static_cast<std::size_t>(index)];
  const int s = point.stream = stream_of(node);
  point.name = node.operation.name;
  // The latest dependency first: it may imply the others, and never the other way round.
  for (auto other = node.after.rbegin(); other != node.after.rend(); ++other) {
    if (points[static_cast<std::size_t>(*other)].stream == s) continue;
    const Point& before = recorded(*other);
    edge(s, index, before.stream, *other, before.count, before.clock, before.event);
  }
  if (clock(s, s) == 0)
    for (const int device : callers_of(s)) {
      const int from = own_streams + device;
      edge(s, -1, from, -1, 1, clock(from), entries[static_cast<std::size_t>(device)]);
    }

  Operation operation = std::move(node.operation);
  operation.body = [failures = failures, device = node.device, index,
                    body = std::move(operation.body)](LaunchContext& context) {
    try {
      body(context);
    } catch (...) {
      std::lock_guard lock(failures->mutex);
      failures->list.push_back({device, index, std::current_exception()});
      throw;
    }
  };
  // Where a timed operation ended and nothing came between, the next one begins.
  Event& ended = timed_ends[static_cast<std::size_t>(s)];
  if (node.timed) point.begin = ended.state() ? ended : stream(s).record_timed();
  stream(s).enqueue(std::move(operation));
  ended = {};
  if (node.timed) ended = point.end = stream(s).record_timed();
  point.count = ++clock(s, s);
  if (point.needed || node.observed) {
    point.event = stream(s).record();
    point.clock = clock(s);
  }
}

void Session::State::leave(Run& run) {
  std::vector<int> used;
  std::vector<PendingPoint> exits;
  const auto guarded = [&run](const auto& function) {
    try {
      function();
    } catch (...) {
      if (!run.exit_exception_) run.exit_exception_ = std::current_exception();
    }
  };
  for (int s = 0; s < own_streams; ++s) {
    if (clock(s, s) == 0) continue;
    run.streams_.push_back({s / stream_roles, &stream(s)});
    guarded([&] {
      exits.push_back({label(s), stream(s).record()});
      used.push_back(s);
    });
  }
  run.exits_ = exits;
  const int lost = std::exchange(executor.lost_exit_, -1);
  for (int device = 0; device < devices; ++device) {
    const int to = own_streams + device;
    // Exits that another one is behind come last, when they are implied.
    std::vector<std::size_t> first, last;
    for (std::size_t i = 0; i < used.size(); ++i) {
      const int s = used[i];
      const auto leaves_to = callers_of(s);
      if (std::find(leaves_to.begin(), leaves_to.end(), device) == leaves_to.end()) continue;
      const bool behind = std::any_of(used.begin(), used.end(), [&](int other) {
        const auto others = callers_of(other);
        return other != s && std::find(others.begin(), others.end(), device) != others.end() &&
               clock(other, s) >= clock(s, s);
      });
      (behind ? last : first).push_back(i);
    }
    first.insert(first.end(), last.begin(), last.end());
    for (const std::size_t i : first) {
      const int s = used[i];
      guarded([&] {
        if (device == lost)
          throw Error(ErrorClass::lost,
                      fmt::format("{}: exit edge of {} lost by a test", caller_label(device), label(s)));
        edge(to, -1, s, -1, clock(s, s), clock(s), exits[i].event);
      });
    }
  }
  for (const Edge& edge : edges)
    executor.edges_.push_back(
        {text(edge.from_stream, edge.from_node, " exit"), text(edge.to_stream, edge.to_node, " entry")});
}

Session::Session(Executor& executor, const ExecutionContext& caller) {
  if (static_cast<int>(caller.streams.size()) != executor.devices().size())
    throw_usage(fmt::format("execution context: {} streams for {} devices; give one a device",
                            caller.streams.size(), executor.devices().size()));
  executor.edges_.clear();
  executor.implied_edges_ = 0;
  state_ = std::make_unique<State>(executor, caller);
}

Session::~Session() {
  if (!state_->finished) {
    try {
      finish().wait();
    } catch (...) {  // the exception that passes says more
    }
  }
}

void Session::enqueue(Graph& graph) {
  if (state_->launch_exception) return;  // finish() hands it over
  try {
    state_->enqueue(graph.nodes());
  } catch (...) {
    state_->launch_exception = std::current_exception();
  }
}

Event Session::event(int node) {
  if (state_->launch_exception) return {};
  return state_->recorded(node).event;
}

std::pair<Event, Event> Session::times(int node) const {
  if (static_cast<std::size_t>(node) >= state_->points.size()) return {};
  const State::Point& point = state_->points[static_cast<std::size_t>(node)];
  return {point.begin, point.end};
}

Run Session::finish() {
  state_->finished = true;
  Run run;
  run.failures_ = state_->failures;
  for (int d = 0; d < state_->devices; ++d) {
    Stream* stream = &*state_->caller.streams[static_cast<std::size_t>(d)];
    for (const auto& own : state_->executor.caller_streams_)
      if (own.get() == stream) run.caller_streams_.push_back({d, stream});
  }
  run.launch_exception_ = state_->launch_exception;
  state_->leave(run);
  return run;
}

}  // namespace shardwise
