#include "shardwise/shard/lpt.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace shardwise {
namespace {

__extension__ using Wide = unsigned __int128;
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream text;
  text << "partition_lpt: ";
  (text << ... << parts);
  throw std::invalid_argument(text.str());
}

void check_devices(std::span<const DeviceLoad> devices) {
  if (devices.empty()) refuse("there are no devices; give at least one");
  std::vector<std::size_t> order(devices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(devices[a].device, a) < std::pair(devices[b].device, b);
  });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (devices[order[i]].device == devices[order[i - 1]].device)
      refuse("device ", devices[order[i]].device, " is listed twice, at ", order[i - 1], " and ", order[i],
             "; list each device once");
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (!std::isfinite(devices[i].speed) || devices[i].speed <= 0)
      refuse("device ", devices[i].device, " has the speed ", devices[i].speed,
             "; give a finite number above 0");
}

bool ascends(std::span<const CostItem> items) {
  for (std::size_t i = 1; i < items.size(); ++i)
    if (items[i - 1].id >= items[i].id) return false;
  return true;
}

void check_items(std::span<const CostItem> items) {
  for (std::size_t i = 0; i < items.size(); ++i)
    if (items[i].cost == 0) refuse("item ", items[i].id, " (at ", i, ") costs 0; give a cost of at least 1");
  // Ids that ascend, the usual case, are unique; others are sorted to find out.
  if (ascends(items)) return;
  std::vector<std::uint64_t> ids(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) ids[i] = items[i].id;
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end()) refuse("item ", *twice, " is listed twice; ids are unique in a batch");
}

// An item on its way through the plan. What it is known by travels with its cost: looking either up in the
// caller's list would miss the caches once an item.
struct Entry {
  std::uint64_t key;  // most - cost
  std::uint64_t tag;  // its id, or its position
};

struct Ordered {
  std::unique_ptr<Entry[]> entries;
  std::size_t count = 0;
  std::uint64_t most = 0;
  std::uint64_t cost(std::size_t i) const { return most - entries[i].key; }
};

enum class Tag { id, position };

// The items by cost, greatest first, ties by smaller id.
Ordered by_cost(std::span<const CostItem> items, Tag tag) {
  const std::size_t count = items.size();
  std::uint64_t most = 0;
  bool ascending = true;
  for (std::size_t i = 0; i < count; ++i) {
    most = std::max(most, items[i].cost);
    ascending = ascending && (i == 0 || items[i - 1].id < items[i].id);
  }
  // Every entry is written before it is read.
  auto from = std::make_unique_for_overwrite<Entry[]>(count),
       to = std::make_unique_for_overwrite<Entry[]>(count);
  if (ascending) {
    for (std::size_t i = 0; i < count; ++i)
      from[i] = {most - items[i].cost, tag == Tag::id ? items[i].id : i};
  } else {
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return items[a].id < items[b].id; });
    for (std::size_t i = 0; i < count; ++i) {
      const CostItem& item = items[order[i]];
      from[i] = {most - item.cost, tag == Tag::id ? item.id : order[i]};
    }
  }
  // Stable passes over the digits of the keys, so ties stay by id.
  constexpr int kBits = 11;
  for (int shift = 0; shift < 64 && (most >> shift) != 0; shift += kBits) {
    std::array<std::size_t, std::size_t{1} << kBits> begin{};
    const auto digit = [&](const Entry& entry) {
      return static_cast<std::size_t>(entry.key >> shift) & (begin.size() - 1);
    };
    for (std::size_t i = 0; i < count; ++i) ++begin[digit(from[i])];
    std::size_t sum = 0;
    for (std::size_t& place : begin) sum += std::exchange(place, sum);
    for (std::size_t i = 0; i < count; ++i) to[begin[digit(from[i])]++] = from[i];
    from.swap(to);
  }
  return {std::move(from), count, most};
}

void check_total(std::span<const DeviceLoad> devices, std::span<const CostItem> items) {
  Wide total = 0;
  for (const DeviceLoad& device : devices) {
    total += device.queued_cost;
    if (total > kMost)
      refuse("with the queued cost ", device.queued_cost, " of device ", device.device,
             " the total is over 64 bits; give costs in a larger unit");
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    total += items[i].cost;
    if (total > kMost)
      refuse("with item ", items[i].id, " (at ", i, ", cost ", items[i].cost,
             ") the total is over 64 bits; give costs in a larger unit");
  }
}

bool equal_speeds(std::span<const DeviceLoad> devices) {
  return std::all_of(devices.begin(), devices.end(),
                     [&](const DeviceLoad& d) { return d.speed == devices.front().speed; });
}

// The least-loaded device first, ties by smaller index: a heap, whose root is replaced for every item.
class LeastLoaded {
 public:
  explicit LeastLoaded(std::span<const DeviceLoad> devices) {
    for (std::size_t i = 0; i < devices.size(); ++i)
      heap_.push_back({devices[i].queued_cost, devices[i].device, i});
    std::make_heap(heap_.begin(), heap_.end(), later);
  }
  std::size_t take(std::uint64_t cost) {
    const std::size_t position = heap_.front().position;
    heap_.front().load += cost;
    sift_down();
    return position;
  }

 private:
  struct Entry {
    std::uint64_t load;
    int device;
    std::size_t position;
  };
  static bool later(const Entry& a, const Entry& b) {
    return a.load != b.load ? a.load > b.load : a.device > b.device;
  }
  void sift_down() {
    const Entry moved = heap_.front();
    std::size_t hole = 0;
    for (std::size_t child = 1; child < heap_.size(); child = 2 * hole + 1) {
      if (child + 1 < heap_.size() && later(heap_[child], heap_[child + 1])) ++child;
      if (!later(moved, heap_[child])) break;
      heap_[hole] = heap_[child];
      hole = child;
    }
    heap_[hole] = moved;
  }
  std::vector<Entry> heap_;
};

// The device where an item would end first, asked one by one.
std::size_t earliest(std::span<const DeviceAssignment> plan, std::uint64_t cost, std::size_t item,
                     const FitsFunction& fits) {
  std::size_t best = plan.size();
  long double best_end = 0;
  for (std::size_t d = 0; d < plan.size(); ++d) {
    if (fits && !fits(d, item)) continue;
    const long double end = static_cast<long double>(plan[d].cost + cost) / plan[d].speed;
    if (best == plan.size() || end < best_end || (end == best_end && plan[d].device < plan[best].device)) {
      best = d;
      best_end = end;
    }
  }
  return best;
}

double bound_of(std::span<const DeviceLoad> devices, Wide total, std::uint64_t largest,
                std::uint64_t largest_pair) {
  double bound = 0, speeds = 0, one = 0, pair = 0;
  bool unit = true;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const double queued = static_cast<double>(devices[d].queued_cost), speed = devices[d].speed;
    bound = std::max(bound, queued / speed);
    const double with_one = (queued + static_cast<double>(largest)) / speed;
    const double with_pair = (queued + static_cast<double>(largest_pair)) / speed;
    one = d == 0 ? with_one : std::min(one, with_one);
    pair = d == 0 ? with_pair : std::min(pair, with_pair);
    speeds += speed;
    unit = unit && speed == 1;
  }
  const auto m = static_cast<Wide>(devices.size());
  const double spread = unit ? static_cast<double>((total + m - 1) / m) : static_cast<double>(total) / speeds;
  bound = std::max(bound, spread);
  if (largest > 0) bound = std::max(bound, one);
  if (largest_pair > 0) bound = std::max(bound, pair);
  return bound;
}

}  // namespace

CostPlan partition_lpt(std::span<const DeviceLoad> devices, std::span<const CostItem> items,
                       const FitsFunction& fits) {
  check_devices(devices);
  check_items(items);
  check_total(devices, items);
  if (fits) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      bool any = false;
      for (std::size_t d = 0; d < devices.size() && !any; ++d) any = fits(d, i);
      if (!any) refuse("item ", items[i].id, " (at ", i, ") fits none of the ", devices.size(), " devices");
    }
  }

  CostPlan plan;
  Wide total = 0;
  for (const DeviceLoad& device : devices) {
    plan.devices.push_back({device.device, {}, device.queued_cost, device.queued_cost, device.speed});
    total += device.queued_cost;
  }
  const bool by_load = equal_speeds(devices) && !fits;
  const Ordered order = by_cost(items, by_load ? Tag::id : Tag::position);
  if (by_load) {
    // Unlike costs give unlike numbers of items; a quarter more is room enough for most.
    const std::size_t each = items.size() / devices.size();
    for (DeviceAssignment& device : plan.devices) device.ids.reserve(each + each / 4 + 1);
    LeastLoaded least(devices);
    for (std::size_t i = 0; i < order.count; ++i) {
      const std::uint64_t cost = order.cost(i);
      DeviceAssignment& device = plan.devices[least.take(cost)];
      device.ids.push_back(order.entries[i].tag);
      device.cost += cost;
      total += cost;
    }
  } else {
    for (std::size_t i = 0; i < order.count; ++i) {
      const std::size_t position = order.entries[i].tag;
      const CostItem& item = items[position];
      DeviceAssignment& device = plan.devices[earliest(plan.devices, item.cost, position, fits)];
      device.ids.push_back(item.id);
      device.cost += item.cost;
      total += item.cost;
    }
  }

  for (const DeviceAssignment& device : plan.devices)
    plan.makespan = std::max(plan.makespan, static_cast<double>(device.cost) / device.speed);
  const std::size_t m = devices.size();
  plan.lower_bound = bound_of(devices, total, order.count == 0 ? 0 : order.cost(0),
                              order.count > m ? order.cost(m - 1) + order.cost(m) : 0);
  plan.ratio = plan.lower_bound > 0 ? std::max(1.0, plan.makespan / plan.lower_bound) : 1;
  return plan;
}

double makespan_lower_bound(std::span<const DeviceLoad> devices, std::span<const std::uint64_t> costs) {
  check_devices(devices);
  const std::size_t m = devices.size();
  std::vector<std::uint64_t> top(costs.begin(), costs.end());
  const std::size_t kept = std::min(top.size(), m + 1);
  std::partial_sort(top.begin(), top.begin() + static_cast<std::ptrdiff_t>(kept), top.end(),
                    std::greater<>());
  Wide total = 0;
  for (const DeviceLoad& device : devices) total += device.queued_cost;
  for (const std::uint64_t cost : costs) total += cost;
  return bound_of(devices, total, top.empty() ? 0 : top[0], kept > m ? top[m - 1] + top[m] : 0);
}

double makespan_lower_bound(std::span<const double> seconds, std::size_t devices) {
  if (devices == 0) refuse("there are no devices; give at least one");
  std::vector<double> top(seconds.begin(), seconds.end());
  const std::size_t kept = std::min(top.size(), devices + 1);
  std::partial_sort(top.begin(), top.begin() + static_cast<std::ptrdiff_t>(kept), top.end(),
                    std::greater<>());
  const double total = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  double bound = total / static_cast<double>(devices);
  if (!top.empty()) bound = std::max(bound, top[0]);
  if (kept > devices) bound = std::max(bound, top[devices - 1] + top[devices]);
  return bound;
}

}  // namespace shardwise
