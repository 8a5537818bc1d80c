#include "shardwise/runtime/links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "shardwise/runtime/copy.hpp"
#include "shardwise/runtime/error.hpp"

#if SHARDWISE_WITH_CUDA
#include "runtime/cuda/cuda_device.hpp"
#include "runtime/cuda/cuda_peer.hpp"
#endif

namespace shardwise {

const char* to_string(LinkPath path) noexcept {
  switch (path) {
    case LinkPath::same_memory:
      return "same memory";
    case LinkPath::nvlink:
      return "NVLink";
    case LinkPath::pcie:
      return "PCIe";
    case LinkPath::staged:
      return "staged";
    case LinkPath::host:
      return "host";
  }
  return "?";
}

namespace {

constexpr std::uint64_t latency_bytes = 4096;

DeviceLink describe(const DeviceSet& devices, int from, int to) {
  DeviceLink link;
  link.from = from;
  link.to = to;
  link.peer = devices.can_peer(from, to);
  const bool gpu_from = devices[from].kind() == PlatformKind::cuda;
  const bool gpu_to = devices[to].kind() == PlatformKind::cuda;
  if (gpu_from != gpu_to) link.path = LinkPath::host;
  if (devices.sim_world() && !link.peer) link.path = LinkPath::staged;
#if SHARDWISE_WITH_CUDA
  if (gpu_from && gpu_to && from != to) {
    const CudaLink facts = cuda_link(devices[from].info().index, devices[to].info().index);
    link.performance_rank = facts.performance_rank;
    link.path = !link.peer ? LinkPath::staged : facts.native_atomics ? LinkPath::nvlink : LinkPath::pcie;
  }
#endif
  return link;
}

/// A stream on each device, made when it is first asked for.
class LinkStreams {
 public:
  explicit LinkStreams(const DeviceSet& devices)
      : devices_(devices), streams_(static_cast<std::size_t>(devices.size())) {}
  Stream& of(int device) {
    auto& stream = streams_[static_cast<std::size_t>(device)];
    if (!stream) stream = devices_[device].create_stream("link");
    return *stream;
  }

 private:
  const DeviceSet& devices_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

/// Seconds of the fastest of some copies, timed on the target's stream. `virtual_time`: no byte has to move.
double fastest_copy(Stream& stream, const Buffer<char>& target, const Buffer<char>& source,
                    std::uint64_t bytes, int repetitions, bool virtual_time) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= repetitions; ++i) {
    const Event begin = stream.record_timed();
    Operation copy = copy_operation(
        "measure link", target.data(), source.data(), bytes,
        {target.access(AccessMode::write, 0, bytes), source.access(AccessMode::read, 0, bytes)});
    if (virtual_time) copy.body = [](LaunchContext&) {};
    stream.enqueue(std::move(copy));
    const Event end = stream.record_timed();
    stream.synchronize();
    if (i > 0 || repetitions == 0) best = std::min(best, seconds_between(begin, end));
  }
  return best;
}

void measure(const DeviceSet& devices, const LinkMeasurement& measurement, LinkStreams& streams,
             DeviceLink& link) {
  Device &from = devices[link.from], &to = devices[link.to];
  // Virtual times do not vary, and depend on the number of bytes alone.
  const bool virtual_time = from.kind() == PlatformKind::sim && to.kind() == PlatformKind::sim;
  const int repetitions = virtual_time ? 0 : measurement.repetitions;
  const std::uint64_t room = std::min(from.free_memory(), to.free_memory()) / 4;
  link.bytes = std::max(latency_bytes, std::min(measurement.bytes, room));
  Stream &source_stream = streams.of(link.from), &target_stream = streams.of(link.to);
  const Buffer<char> source(source_stream, link.bytes, "bytes to copy"),
      target(target_stream, link.bytes, "room for a copy");
  if (!virtual_time) {
    // Touched before, so that no page is missing when time counts.
    source_stream.enqueue(zero_operation("touch", source.data(), source.bytes(), {source.writes()}));
    target_stream.enqueue(zero_operation("touch", target.data(), target.bytes(), {target.writes()}));
  }
  source_stream.synchronize();
  target_stream.synchronize();
  link.latency_s = fastest_copy(target_stream, target, source, latency_bytes, 10 * repetitions, virtual_time);
  const double seconds = fastest_copy(target_stream, target, source, link.bytes, repetitions, virtual_time);
  link.bytes_per_s = seconds > 0 ? static_cast<double>(link.bytes) / seconds : 0;
}

}  // namespace

std::vector<DeviceLink> measure_links(const DeviceSet& devices, const LinkMeasurement& measurement) {
  if (measurement.bytes == 0 || measurement.repetitions < 1)
    throw_usage(fmt::format("measure_links: {} bytes, {} repetitions; both must be above 0",
                            measurement.bytes, measurement.repetitions));
  std::vector<DeviceLink> links;
  for (int from = 0; from < devices.size(); ++from)
    for (int to = 0; to < devices.size(); ++to)
      if (from != to || devices.size() == 1) links.push_back(describe(devices, from, to));
  LinkStreams streams(devices);
  std::optional<DeviceLink> on_host;
  for (DeviceLink& link : links) {
    const bool host =
        devices[link.from].kind() == PlatformKind::host && devices[link.to].kind() == PlatformKind::host;
    if (host && on_host) {
      link.bytes = on_host->bytes;
      link.bytes_per_s = on_host->bytes_per_s;
      link.latency_s = on_host->latency_s;
      continue;
    }
    if (measurement.cancel && measurement.cancel->load())
      throw Error(ErrorClass::interrupted, "measure_links: cancelled");
    measure(devices, measurement, streams, link);
    if (host) on_host = link;
  }
  return links;
}

}  // namespace shardwise
