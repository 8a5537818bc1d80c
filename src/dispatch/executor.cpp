#include "shardwise/dispatch/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "shardwise/runtime/error.hpp"

namespace shardwise {

using Clock = std::vector<int>;

struct Run::Failures {
  struct Failure {
    int device = 0;
    int operation = 0;
    std::exception_ptr error;
  };
  std::mutex mutex;
  std::vector<Failure> list;
};

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

Executor::Executor(DeviceSet devices)
    : devices_(std::move(devices)), retired_(static_cast<std::size_t>(devices_.size()), false) {
  for (int d = 0; d < devices_.size(); ++d) {
    auto& streams = streams_.emplace_back();
    for (int role = 0; role < stream_roles; ++role)
      streams[static_cast<std::size_t>(role)] =
          devices_[d].create_stream(to_string(static_cast<StreamRole>(role)));
    caller_streams_.push_back(devices_[d].create_stream("caller"));
    context_.streams.emplace_back(*caller_streams_.back());
  }
}

Executor::~Executor() = default;

void Executor::drain() noexcept {
  for (const auto& streams : streams_)
    for (const auto& stream : streams) {
      try {
        stream->synchronize();
      } catch (...) {  // whoever waits for the run is told
      }
    }
}

Stream& Executor::stream(int device, StreamRole role) {
  return *streams_[static_cast<std::size_t>(device)][static_cast<std::size_t>(role)];
}

Run Executor::run(Graph graph, const ExecutionContext& caller) {
  for (const GraphNode& node : graph.nodes())
    if (node.device < 0 || node.device >= devices_.size() || !node.operation.body)
      throw Error(ErrorClass::internal,
                  fmt::format("graph: operation '{}' {}", node.operation.name,
                              node.operation.body
                                  ? fmt::format("is for device {} of {}", node.device, devices_.size())
                                  : "has no body"));
  Session session(*this, caller);
  session.enqueue(graph);
  return session.finish();
}

namespace {

/// Whether an exception is only the consequence of another one.
bool is_consequence(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const DependencyError&) {
    return true;
  } catch (...) {
    return false;
  }
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "unknown error";
  }
}

/// Throws `first` with the texts of the others behind its own; as it is where it is alone.
[[noreturn]] void throw_with_others(const std::exception_ptr& first, const std::vector<std::string>& others) {
  if (others.empty()) std::rethrow_exception(first);
  const std::string text = fmt::format("{} (also: {})", text_of(first), fmt::join(others, "; "));
  try {
    std::rethrow_exception(first);
  } catch (const DependencyError&) {
    throw DependencyError(text);
  } catch (const Error& error) {
    throw Error(error.error_class(), text);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorClass::memory, text);
  } catch (...) {
    throw Error(ErrorClass::device, text);
  }
}

/// Calls `poll` until all points are reached; returns what it threw.
std::exception_ptr poll_until(const std::vector<PendingPoint>& points, const std::function<void()>& poll) {
  // Short sleeps first, so that short calls are not kept waiting, and none that a person or a long call would
  // notice.
  auto pause = std::chrono::microseconds(50);
  try {
    while (!std::all_of(points.begin(), points.end(),
                        [](const PendingPoint& point) { return point.event.is_signalled(); })) {
      poll();
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::microseconds(2000));
    }
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

}  // namespace

RunFailure failure_of(int device, const std::exception_ptr& error) {
  RunFailure failure{device, ErrorClass::internal, text_of(error)};
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    failure.error_class = known.error_class();
  } catch (const std::bad_alloc&) {
    failure.error_class = ErrorClass::memory;
  } catch (...) {  // a bug in somebody's function
  }
  return failure;
}

std::vector<RunFailure> survivable(const std::vector<RunFailure>& failures, const Executor& executor) {
  const DeviceSet& devices = executor.devices();
  std::vector<RunFailure> result;
  for (const RunFailure& failure : failures) {
    if (failure.error_class != ErrorClass::device && failure.error_class != ErrorClass::memory &&
        failure.error_class != ErrorClass::lost)
      return {};
    if (failure.device < 0 || failure.device >= devices.size()) return {};
    // Only a device that is gone is lost: on another one, work that touched its memory has met the loss.
    if (failure.error_class == ErrorClass::lost && devices[failure.device].lost().empty()) continue;
    const bool known = std::any_of(result.begin(), result.end(),
                                   [&](const RunFailure& other) { return other.device == failure.device; });
    if (!known) result.push_back(failure);
  }
  for (int d = 0; d < devices.size(); ++d) {
    const bool known = std::any_of(result.begin(), result.end(),
                                   [&](const RunFailure& failure) { return failure.device == d; });
    if (!known && !failures.empty() && !devices[d].lost().empty() &&
        !executor.retired()[static_cast<std::size_t>(d)])
      result.push_back({d, ErrorClass::lost, devices[d].name() + ": " + devices[d].lost()});
  }
  const bool master = std::any_of(result.begin(), result.end(),
                                  [](const RunFailure& failure) { return failure.device == 0; });
  return master ? std::vector<RunFailure>{} : result;
}

void Run::wait(const std::function<void()>& poll) {
  if (!failures_) return;
  const bool real = streams_.empty() || streams_.front().stream->device().kind() != PlatformKind::sim;
  std::exception_ptr poll_error;
  if (poll && real) poll_error = poll_until(exits_, poll);

  // Only this run's own points are waited for, so that runs enqueued later go on.
  bool failed = launch_exception_ || exit_exception_;
  std::exception_ptr lost;
  for (const PendingPoint& exit : exits_) {
    try {
      exit.event.wait_on_host();
      failed = failed || exit.event.failed();
    } catch (...) {
      failed = true;
      if (!lost) lost = std::current_exception();
    }
  }

  using Found = std::tuple<int, int, std::exception_ptr>;  // device, operation, error
  std::vector<Found> errors, consequences;
  const std::shared_ptr<Failures> failures = std::exchange(failures_, nullptr);
  constexpr int before_all = -1, after_all = std::numeric_limits<int>::max();
  const auto synchronize = [&](const OnDevice& on, int operation) {
    try {
      on.stream->synchronize();
    } catch (...) {
      const std::exception_ptr error = std::current_exception();
      std::lock_guard lock(failures->mutex);
      const bool known =
          std::any_of(failures->list.begin(), failures->list.end(),
                      [&](const Failures::Failure& failure) { return failure.error == error; });
      if (known) return;
      if (!is_consequence(error))
        errors.emplace_back(on.device, operation, error);
      else if (operation != before_all)  // a caller's stream says no more than ours, which it waits for
        consequences.emplace_back(on.device, operation, error);
    }
  };
  for (const OnDevice& on : streams_) {
    const Device& device = on.stream->device();
    Timeline* timeline = device.timeline();
    // CUDA streams hand their times over when they are synchronised.
    const bool has_times = device.kind() == PlatformKind::cuda && timeline && timeline->is_recording();
    if (failed || has_times) synchronize(on, after_all);
  }
  if (failed)
    for (const OnDevice& on : caller_streams_) synchronize(on, before_all);
  streams_.clear();
  caller_streams_.clear();
  exits_.clear();
  {
    std::lock_guard lock(failures->mutex);
    for (const Failures::Failure& failure : failures->list)
      errors.emplace_back(failure.device, failure.operation, failure.error);
  }
  if (poll_error) std::rethrow_exception(poll_error);
  if (launch_exception_) errors.emplace_back(-1, before_all, std::exchange(launch_exception_, nullptr));
  // Behind the errors of operations: a device that one of them took away has no exits either.
  if (exit_exception_) errors.emplace_back(after_all, after_all, exit_exception_);
  if (errors.empty() && lost) errors.emplace_back(0, after_all, lost);
  if (errors.empty()) errors.swap(consequences);
  if (errors.empty()) {
    // An earlier run failed, which dropped this one; who waited for that has taken the error out of the
    // streams.
    if (failed) throw DependencyError("not run, because an earlier call on these devices failed");
    return;
  }
  std::stable_sort(errors.begin(), errors.end(), [](const Found& a, const Found& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  });
  // A lost device says the same on each of its streams.
  std::vector<Found> different;
  for (const Found& found : errors)
    if (std::none_of(different.begin(), different.end(), [&](const Found& other) {
          return std::get<0>(other) == std::get<0>(found) &&
                 text_of(std::get<2>(other)) == text_of(std::get<2>(found));
        }))
      different.push_back(found);
  errors.swap(different);
  if (errors.size() > 1 || !is_consequence(std::get<2>(errors.front())))
    for (const Found& found : errors) met_.push_back(failure_of(std::get<0>(found), std::get<2>(found)));
  std::vector<std::string> others;
  for (std::size_t i = 1; i < errors.size(); ++i) others.push_back(text_of(std::get<2>(errors[i])));
  throw_with_others(std::get<2>(errors.front()), others);
}

}  // namespace shardwise
