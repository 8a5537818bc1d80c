#include "dispatch/learned_costs.hpp"

#include <algorithm>
#include <cmath>

namespace shardwise {

namespace {

/// The first figures as they are, later ones smoothed: a change is followed within a few samples, noise,
/// which is a few percent, moves the split by little.
void smooth(double& value, double sample, bool replaces) {
  const bool differs = std::abs(sample - value) > 0.1 * value;
  value = value > 0 && !replaces ? value + (differs ? 0.5 : 0.25) * (sample - value) : sample;
}

}  // namespace

const LearnedCost* LearnedCosts::find(const std::string& key) const {
  const auto found = costs_.find(key);
  return found == costs_.end() ? nullptr : &found->second;
}

void LearnedCosts::learn(const std::string& key, DispatchMode mode, const std::vector<DeviceSample>& devices,
                         double total_s) {
  LearnedCost& cost = costs_[key];
  const int calls = cost.calls + 1;
  std::int64_t rows_of_call = 0;
  for (const DeviceSample& sample : devices) rows_of_call += sample.rows;
  // Of other devices and modes than this call's, too.
  if (outgrows(cost, rows_of_call)) cost = {};
  cost.calls = calls;
  cost.devices.resize(devices.size());
  double& fixed = cost.fixed_s[static_cast<std::size_t>(mode)];
  const bool is_small = far * static_cast<double>(rows_of_call) < cost.rows;
  cost.rows = is_small ? cost.rows / 2 : static_cast<double>(rows_of_call);
  if (is_small && fixed >= 0) return;
  // The first call of a kind meets cold memory and slow clocks: the second one's figures replace its own.
  const bool replaces = !is_small && ++cost.measured == 2;
  double slowest = 0;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const DeviceSample& sample = devices[d];
    if (sample.rows == 0) continue;
    const auto rows = static_cast<double>(sample.rows);
    slowest = std::max({slowest, sample.compute_s, sample.in_s, sample.out_s});
    if (is_small) continue;
    DeviceRowCost& row = cost.devices[d];
    if (sample.compute_s > 0) {
      smooth(sample.direct ? row.direct_s : row.compute_s, sample.compute_s / rows, replaces);
      // Until it is measured apart, a launch that moves its rows is the best guess for one that does not.
      if (sample.direct && row.compute_s == 0) row.compute_s = row.direct_s;
    }
    if (sample.in_s > 0) smooth(row.in_s, sample.in_s / rows, replaces);
    if (sample.out_s > 0) smooth(row.out_s, sample.out_s / rows, replaces);
  }
  // The least so far: whatever else a call was held up by is not the mode's doing.
  if (total_s > 0) {
    const double sample = std::max(0.0, total_s - slowest);
    fixed = fixed < 0 ? sample : std::min(fixed, sample);
  }
}

}  // namespace shardwise
