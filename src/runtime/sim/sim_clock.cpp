#include "runtime/sim/sim_clock.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace shardwise {

double sim_launch_s(const Operation& operation, const SimTopology& topology, int device) {
  const SimDeviceModel& model = topology.devices[static_cast<std::size_t>(device)];
  return model.launch_s +
         static_cast<double>(operation.items) * topology.ns_of_item(operation.name) * 1e-9 / model.speed;
}

double SimEngine::first_gap(double ready_s, double duration_s) const {
  double begin = std::max(ready_s, forgotten_until_s_);
  auto next = busy_.upper_bound(begin);
  if (next != busy_.begin()) begin = std::max(begin, std::prev(next)->second);
  while (next != busy_.end() && next->first < begin + duration_s) {
    begin = std::max(begin, next->second);
    ++next;
  }
  return begin;
}

void SimEngine::reserve(double begin, double duration_s) {
  auto next = busy_.upper_bound(begin);
  double first = begin, last = begin + duration_s;
  // Neighbours that touch become one.
  if (next != busy_.end() && next->first == last) {
    last = next->second;
    next = busy_.erase(next);
  }
  if (next != busy_.begin() && std::prev(next)->second == first) {
    first = std::prev(next)->first;
    busy_.erase(std::prev(next));
  }
  busy_.emplace(first, last);
  if (busy_.size() > remembered) {
    forgotten_until_s_ = std::max(forgotten_until_s_, busy_.begin()->second);
    busy_.erase(busy_.begin());
  }
}

namespace {

bool holds(const std::vector<int>& ends, int end) {
  return std::find(ends.begin(), ends.end(), end) != ends.end();
}

}  // namespace

bool SimLinks::peer(int from, int to) const {
  if (from == to || topology_.links.empty()) return true;
  bool joined = false;
  for (const SimLink& link : topology_.links) {
    if (!holds(link.from, from) || !holds(link.to, to)) continue;
    if (!link.peer) return false;
    joined = true;
  }
  return joined;
}

/// Appends the links from one end to another; whether there is one.
bool SimLinks::add_to(Route& route, int from, int to) const {
  bool joined = false;
  for (std::size_t l = 0; l < topology_.links.size(); ++l) {
    const SimLink& link = topology_.links[l];
    if (!holds(link.from, from) || !holds(link.to, to)) continue;
    joined = true;
    route.latency_s += link.latency_s;
    route.bytes_per_s = std::min(route.bytes_per_s, link.bytes_per_s);
    if (link.sharing == SimSharing::copy) continue;
    constexpr int all = -2;
    const bool by_from = link.sharing == SimSharing::pair || link.sharing == SimSharing::from;
    const bool by_to = link.sharing == SimSharing::pair || link.sharing == SimSharing::to;
    route.channels.push_back(
        {{static_cast<int>(l), by_from ? from : all, by_to ? to : all}, link.bytes_per_s});
  }
  return joined;
}

const SimLinks::Route& SimLinks::route(int from, int to, bool staged) {
  auto [found, is_new] = routes_.try_emplace({from, to, staged});
  Route& route = found->second;
  if (!is_new) return route;
  route.bytes_per_s = std::numeric_limits<double>::infinity();
  if (topology_.links.empty()) {
    route.latency_s = topology_.flat_latency_s * (staged ? 2 : 1);
    route.bytes_per_s = topology_.flat_bytes_per_s / (staged ? 2 : 1);
    return route;
  }
  if (from == to) {
    // Within a device; host memory is as fast as the first device's.
    const SimDeviceModel& model = topology_.devices[static_cast<std::size_t>(std::max(from, 0))];
    route.latency_s = model.launch_s;
    route.bytes_per_s = model.memory_bytes_per_s;
    return route;
  }
  if (!staged && add_to(route, from, to)) return route;
  route = {0, std::numeric_limits<double>::infinity(), {}};
  add_to(route, from, CopyEnd::host);
  add_to(route, CopyEnd::host, to);
  return route;
}

std::pair<double, double> SimLinks::take(int from, int to, std::uint64_t bytes, double ready_s, bool staged,
                                         double factor) {
  const Route& way = route(from, to, staged);
  const auto size = static_cast<double>(bytes) * factor;
  const double duration = way.latency_s * factor + size / way.bytes_per_s;
  // A moment at which all links are free; each is held as long as it takes the bytes.
  double begin = ready_s;
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto& [channel, bytes_per_s] : way.channels) {
      const double free = engines_[channel].first_gap(begin, size / bytes_per_s);
      if (free > begin) {
        begin = free;
        moved = true;
      }
    }
  }
  for (const auto& [channel, bytes_per_s] : way.channels) {
    if (size > 0) engines_[channel].reserve(begin, size / bytes_per_s);
  }
  return {begin, duration};
}

}  // namespace shardwise
