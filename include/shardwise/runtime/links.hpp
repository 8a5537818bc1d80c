#pragma once
// The way between two devices' memories, and how fast it is.

#include <atomic>
#include <cstdint>
#include <vector>

#include "shardwise/runtime/devices.hpp"

namespace shardwise {

enum class LinkPath {
  same_memory,  ///< host with host, sim with a peer, a device with itself
  nvlink,       ///< peer access between GPUs whose link has native atomics
  pcie,         ///< peer access over another link
  staged,       ///< GPUs or sim without peer access: through (pinned) host memory
  host,         ///< between host memory and a GPU
};
const char* to_string(LinkPath path) noexcept;

/// From one device of a set to another, or to itself.
struct DeviceLink {
  int from = 0, to = 0;
  LinkPath path = LinkPath::same_memory;
  bool peer = true;           ///< DeviceSet::can_peer()
  int performance_rank = -1;  ///< between GPUs, as the driver ranks links: lower is faster; -1: no such rank
  /// Measured by measure_links(): a copy of `bytes` on a stream of `to`, the fastest of a few.
  std::uint64_t bytes = 0;
  double bytes_per_s = 0;
  double latency_s = 0;  ///< of a copy of 4 KiB
};

struct LinkMeasurement {
  std::uint64_t bytes = 64ull << 20;  ///< of one copy; less where a device has not four times as much free
  int repetitions = 5;  ///< after one that is not counted; the 4 KiB copy is repeated ten times as often
  const std::atomic<bool>* cancel = nullptr;  ///< where true, an interrupted Error between two links
};

/// Every ordered pair of different devices, by (from, to); of a set of one, the device with itself. Host
/// devices share one memory, so one pair is measured for all of them; sim devices give virtual times.
/// Allocates the bytes on both sides, streams of its own. Throws a usage Error where bytes or repetitions are
/// not above 0.
std::vector<DeviceLink> measure_links(const DeviceSet& devices, const LinkMeasurement& measurement = {});

}  // namespace shardwise
