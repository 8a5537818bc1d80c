#pragma once
// Batch placement by cost: longest processing time first (Graham, "Bounds on multiprocessing timing
// anomalies", SIAM J. Appl. Math. 17, 1969), on devices that may already have work queued.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace shardwise {

/// A device to place on. `device` is its index in the caller's set, each at most once.
struct DeviceLoad {
  int device = 0;
  std::uint64_t queued_cost = 0;  ///< work that it has already
  double speed = 1;               ///< cost it does in a unit of time, relative; finite and above 0
};

struct CostItem {
  std::uint64_t id = 0;
  std::uint64_t cost = 0;  ///< at least 1
};

struct DeviceAssignment {
  int device = 0;
  std::vector<std::uint64_t> ids;  ///< in the order of assignment: greatest cost first
  std::uint64_t queued_cost = 0;
  std::uint64_t cost = 0;  ///< of all its items, queued_cost included
  double speed = 1;
};

/// A plan and what it is worth. Times are cost / speed.
struct CostPlan {
  std::vector<DeviceAssignment> devices;  ///< in the order given
  double makespan = 0;                    ///< the latest of the devices
  double lower_bound = 0;                 ///< no plan is faster: makespan_lower_bound()
  double ratio = 1;                       ///< makespan / lower_bound, 1 where both are 0
};

/// Whether an item may lie on a device; both as given (positions in the spans).
using FitsFunction = std::function<bool(std::size_t device, std::size_t item)>;

/// Items by cost, greatest first, ties by smaller id, each to the device where it would end first, ties by
/// smaller device index; with equal speeds that is the least-loaded device. With `fits`, among the devices
/// that it accepts. O(n log n + n log m) with equal speeds and without `fits`, else O(n log n + n m).
///
/// The makespan is at most total / m + (1 - 1/m) c_max, or the largest queued load where that is more (equal
/// speeds, no `fits`; total includes queued load), and without queued load at most 4/3 - 1/(3m) of the best.
///
/// Throws std::invalid_argument, before anything is assigned, that names the offender: no devices, a device
/// listed twice, a speed that is not finite and positive, an item listed twice, a cost of zero, a total that
/// does not fit 64 bits, an item that fits no device.
CostPlan partition_lpt(std::span<const DeviceLoad> devices, std::span<const CostItem> items,
                       const FitsFunction& fits = {});

/// What no placement of `items` on `devices` can beat:
///     max(largest queued / its speed, total / sum of speeds,
///         min over devices of (queued + c_1) / speed, and with (c_m + c_(m+1)) for c_1 where there are more
///         items than devices: two of the m + 1 largest share a device)
/// c sorted from the greatest. With equal speeds 1 the total is rounded up to a whole cost.
double makespan_lower_bound(std::span<const DeviceLoad> devices, std::span<const std::uint64_t> costs);
/// The same for measured seconds, on devices without queued load.
double makespan_lower_bound(std::span<const double> seconds, std::size_t devices);

}  // namespace shardwise
