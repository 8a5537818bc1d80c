#include "shardwise/dispatch/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "shardwise/runtime/error.hpp"

namespace shardwise {

namespace {

/// A device and the master, once each.
std::vector<int> with_master(int device) { return device == 0 ? std::vector<int>{0} : std::vector<int>{device, 0}; }

}  // namespace

/// Which point of every stream each stream is known to be behind: streams are numbered device * roles + role, callers
/// come after them. A clock value counts the operations of that stream (an entry event counts as 1).
struct Executor::Clocks {
  explicit Clocks(int streams) : known(static_cast<std::size_t>(streams), std::vector<int>(static_cast<std::size_t>(streams), 0)) {}
  std::vector<int>& of(int stream) { return known[static_cast<std::size_t>(stream)]; }
  int& at(int stream, int other) { return of(stream)[static_cast<std::size_t>(other)]; }
  void join(int stream, const std::vector<int>& event) {
    for (std::size_t i = 0; i < event.size(); ++i) of(stream)[i] = std::max(of(stream)[i], event[i]);
  }
  std::vector<std::vector<int>> known;
};

Executor::Executor(DeviceSet devices) : devices_(std::move(devices)) {
  for (int d = 0; d < devices_.size(); ++d) {
    auto& streams = streams_.emplace_back();
    for (int role = 0; role < stream_roles; ++role)
      streams[static_cast<std::size_t>(role)] = devices_[d].create_stream(to_string(static_cast<StreamRole>(role)));
    caller_streams_.push_back(devices_[d].create_stream("caller"));
    context_.streams.emplace_back(*caller_streams_.back());
  }
}

Executor::~Executor() = default;

Stream& Executor::stream(int device, StreamRole role) {
  return *streams_[static_cast<std::size_t>(device)][static_cast<std::size_t>(role)];
}

Run Executor::run(Graph graph, const ExecutionContext& caller) {
  if (static_cast<int>(caller.streams.size()) != devices_.size())
    throw_usage(fmt::format("execution context: {} streams for {} devices; give one a device", caller.streams.size(),
                            devices_.size()));
  edges_.clear();
  implied_edges_ = 0;
  std::vector<GraphNode>& nodes = graph.nodes();
  const int own_streams = devices_.size() * stream_roles;
  Clocks clocks(own_streams + devices_.size());
  std::vector<bool> used(static_cast<std::size_t>(own_streams), false);
  std::vector<bool> needs_event(nodes.size(), false);
  const auto index_of = [](const GraphNode& node) { return node.device * stream_roles + static_cast<int>(node.role); };
  const auto stream_at = [&](int index) -> Stream& {
    return stream(index / stream_roles, static_cast<StreamRole>(index % stream_roles));
  };
  const auto label = [&](int index) { return fmt::format("{}/{}", devices_[index / stream_roles].name(), stream_at(index).name()); };

  for (const GraphNode& node : nodes) {
    used[static_cast<std::size_t>(index_of(node))] = true;
    for (const int other : node.after)
      if (index_of(nodes[static_cast<std::size_t>(other)]) != index_of(node)) needs_event[static_cast<std::size_t>(other)] = true;
  }

  // One edge: `to` waits for `event`, unless it is already known to be behind it.
  const auto edge = [&](int to, Stream& to_stream, int from, int point, const std::vector<int>& clock, const Event& event,
                        const std::string& from_text, const std::string& to_text) {
    if (clocks.at(to, from) >= point) {
      ++implied_edges_;
      return;
    }
    if (static_cast<int>(edges_.size()) != dropped_edge_) to_stream.wait(event);
    edges_.push_back({from_text, to_text});
    clocks.join(to, clock);
  };

  // Entry.
  std::vector<Event> entries(static_cast<std::size_t>(devices_.size()));
  for (int d = 0; d < devices_.size(); ++d) {
    const int caller_index = own_streams + d;
    clocks.at(caller_index, caller_index) = 1;
    entries[static_cast<std::size_t>(d)] = caller.streams[static_cast<std::size_t>(d)]->record();
  }
  for (int s = 0; s < own_streams; ++s) {
    if (!used[static_cast<std::size_t>(s)]) continue;
    for (const int d : with_master(s / stream_roles))
      edge(s, stream_at(s), own_streams + d, 1, clocks.of(own_streams + d), entries[static_cast<std::size_t>(d)],
           "caller of " + devices_[d].name(), label(s) + " entry");
  }

  Run run;
  std::vector<Event> events(nodes.size());
  std::vector<std::vector<int>> event_clocks(nodes.size());
  std::vector<int> points(nodes.size(), 0);
  std::vector<std::string> names(nodes.size());
  try {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      GraphNode& node = nodes[i];
      const int s = index_of(node);
      Stream& target = stream_at(s);
      names[i] = fmt::format("{} on {}", node.operation.name, label(s));
      // The latest dependency first: it often implies the others.
      for (auto other = node.after.rbegin(); other != node.after.rend(); ++other) {
        const auto o = static_cast<std::size_t>(*other);
        if (index_of(nodes[o]) == s) continue;
        edge(s, target, index_of(nodes[o]), points[o], event_clocks[o], events[o], names[o], names[i]);
      }
      target.enqueue(std::move(node.operation));
      points[i] = ++clocks.at(s, s);
      if (needs_event[i]) {
        events[i] = target.record();
        event_clocks[i] = clocks.of(s);
      }
    }
  } catch (...) {
    run.launch_exception_ = std::current_exception();
  }

  // Exit: made also when something above threw.
  for (int s = own_streams - 1; s >= 0; --s) {
    if (!used[static_cast<std::size_t>(s)]) continue;
    const Event exit = stream_at(s).record();
    run.streams_.push_back(&stream_at(s));
    run.exits_.push_back(exit);
    const int point = clocks.at(s, s);
    for (const int d : with_master(s / stream_roles))
      edge(own_streams + d, *caller.streams[static_cast<std::size_t>(d)], s, point, clocks.of(s), exit, label(s) + " exit",
           "caller of " + devices_[d].name());
  }
  std::reverse(run.streams_.begin(), run.streams_.end());
  return run;
}

void Run::wait(const std::function<void()>& poll) {
  const bool real = streams_.empty() || streams_.front()->device().kind() != PlatformKind::sim;
  if (poll && real) {
    // Short sleeps first, so that short calls are not kept waiting.
    auto pause = std::chrono::microseconds(50);
    while (!std::all_of(exits_.begin(), exits_.end(), [](const Event& event) { return event.is_signalled(); })) {
      poll();
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::microseconds(20000));
    }
  }
  std::exception_ptr first;
  std::vector<std::string> others;
  for (Stream* stream : streams_) {
    try {
      stream->synchronize();
    } catch (const std::exception& error) {
      if (!first)
        first = std::current_exception();
      else
        others.push_back(error.what());
    }
  }
  streams_.clear();
  if (launch_exception_) std::rethrow_exception(std::exchange(launch_exception_, nullptr));
  if (!first) return;
  if (others.empty()) std::rethrow_exception(first);
  try {
    std::rethrow_exception(first);
  } catch (const Error& error) {
    throw Error(error.error_class(), fmt::format("{} (also: {})", error.what(), fmt::join(others, "; ")));
  }
}

}  // namespace shardwise
