#include "shardwise/dispatch/executor.hpp"

#include <fmt/format.h>

#include <utility>

#include "shardwise/runtime/error.hpp"

namespace shardwise {

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

}  // namespace shardwise
