#include "shardwise/shard/stream_placer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "shardwise/shard/hash.hpp"

namespace shardwise {
namespace {

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw std::invalid_argument(text.str());
}

std::uint64_t little_endian(const Blake3::Digest& digest, int bytes) {
  std::uint64_t value = 0;
  for (int i = bytes; i-- > 0;) value = value << 8 | digest[static_cast<std::size_t>(i)];
  return value;
}

std::uint64_t hash64(std::string_view text) {
  return little_endian(Blake3().update(text).digest(), 8);
}

// A bijection that spreads every bit over all: the finaliser of splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

std::uint32_t shard_by_content(std::string_view key, std::uint32_t n) {
  if (n == 0) refuse("shard_by_content: n is 0; give the number of devices, at least 1");
  return static_cast<std::uint32_t>(little_endian(Blake3().update(key).digest(), 4)) % n;
}

Rendezvous::Rendezvous(std::vector<PlacementDevice> devices) {
  if (devices.empty()) refuse("placement: there are no devices; give at least one");
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const PlacementDevice& device = devices[i];
    if (!std::isfinite(device.weight) || device.weight <= 0)
      refuse("placement: device ", i, " ('", device.name, "') has the weight ", device.weight,
             "; give a finite number above 0");
    for (std::size_t j = 0; j < i; ++j)
      if (devices[j].name == device.name)
        refuse("placement: devices ", j, " and ", i, " are both named '", device.name, "'; names are unique");
    seeds_.push_back(hash64(device.name));
    weights_.push_back(device.weight);
    weighted_ = weighted_ || device.weight != devices.front().weight;
  }
}

Rendezvous::Score Rendezvous::score(std::uint64_t key_hash, std::size_t device) const {
  const std::uint64_t h = mixed(key_hash ^ mixed(seeds_[device]));
  if (!weighted_) return {0, h};
  // The half keeps the logarithm finite; it is below 0 always.
  const double u = (static_cast<double>(h >> 11) + 0.5) * 0x1p-53;
  return {-weights_[device] / std::log(u), h};
}

bool Rendezvous::better(const Score& a, const Score& b) const {
  return a.weighted != b.weighted ? a.weighted > b.weighted : a.plain > b.plain;
}

int Rendezvous::first(std::string_view key) const {
  const std::uint64_t hash = hash64(key);
  std::size_t best = 0;
  Score best_score = score(hash, 0);
  for (std::size_t d = 1; d < seeds_.size(); ++d) {
    const Score other = score(hash, d);
    if (better(other, best_score)) best = d, best_score = other;
  }
  return static_cast<int>(best);
}

std::vector<int> Rendezvous::ranking(std::string_view key) const {
  const std::uint64_t hash = hash64(key);
  std::vector<Score> scores;
  for (std::size_t d = 0; d < seeds_.size(); ++d) scores.push_back(score(hash, d));
  std::vector<int> order(seeds_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return better(scores[static_cast<std::size_t>(a)], scores[static_cast<std::size_t>(b)]);
  });
  return order;
}

StreamPlacer::StreamPlacer(std::vector<PlacementDevice> devices, PlacerOptions options)
    : devices_(std::move(devices)), options_(options), rendezvous_(devices_), loads_(devices_.size()) {}

int StreamPlacer::content_device(std::string_view key) const {
  if (options_.hash == ContentHash::rendezvous) return rendezvous_.first(key);
  return static_cast<int>(shard_by_content(key, static_cast<std::uint32_t>(devices_.size())));
}

Placement StreamPlacer::choose(std::string_view key) const {
  const int content = content_device(key);
  if (options_.mode == PlacementMode::pinned) return {content, false};
  const auto least = std::min_element(loads_.begin(), loads_.end());
  const auto has_room = [&](int device) {
    return loads_[static_cast<std::size_t>(device)] - *least <= options_.spill_threshold;
  };
  if (has_room(content)) return {content, false};
  if (options_.hash == ContentHash::rendezvous) {
    for (const int device : rendezvous_.ranking(key))
      if (has_room(device)) return {device, true};
  }
  return {static_cast<int>(least - loads_.begin()), true};
}

std::size_t StreamPlacer::checked(int device, const char* call) const {
  if (device < 0 || static_cast<std::size_t>(device) >= devices_.size())
    refuse("StreamPlacer::", call, ": there is no device ", device, "; give 0 to ", devices_.size() - 1);
  return static_cast<std::size_t>(device);
}

void StreamPlacer::add(std::size_t device, std::uint64_t cost, const char* call) {
  if (cost > std::numeric_limits<std::uint64_t>::max() - loads_[device])
    refuse("StreamPlacer::", call, ": the load ", loads_[device], " of device ", device, " and ", cost,
           " do not fit 64 bits; give costs in a larger unit");
  loads_[device] += cost;
}

std::optional<Placement> StreamPlacer::place(std::string_view key, std::uint64_t cost) {
  std::optional<Placement> placement;
  if (cost > 0) {
    placement = choose(key);
    add(static_cast<std::size_t>(placement->device), cost, "place");
  }
  if (options_.keep_log)
    log_.push_back({PlacementEvent::Kind::place, std::string(key), cost, placement ? placement->device : -1});
  return placement;
}

void StreamPlacer::seed(int device, std::uint64_t cost) {
  add(checked(device, "seed"), cost, "seed");
  if (options_.keep_log) log_.push_back({PlacementEvent::Kind::seed, {}, cost, device});
}

void StreamPlacer::complete(int device, std::uint64_t cost) {
  std::uint64_t& load = loads_[checked(device, "complete")];
  load -= std::min(load, cost);
  if (options_.keep_log) log_.push_back({PlacementEvent::Kind::complete, {}, cost, device});
}

void StreamPlacer::replay(std::span<const PlacementEvent> log) {
  for (std::size_t i = 0; i < log.size(); ++i) {
    const PlacementEvent& event = log[i];
    if (event.kind == PlacementEvent::Kind::seed) {
      seed(event.device, event.cost);
    } else if (event.kind == PlacementEvent::Kind::complete) {
      complete(event.device, event.cost);
    } else {
      const std::optional<Placement> placement = place(event.key, event.cost);
      const int device = placement ? placement->device : -1;
      if (device != event.device)
        refuse("StreamPlacer::replay: event ", i, " (key '", event.key, "') goes to device ", device,
               ", in the log to ", event.device, "; replay on the devices and options of the log");
    }
  }
}

}  // namespace shardwise
