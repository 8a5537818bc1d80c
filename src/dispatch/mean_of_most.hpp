#pragma once
// What calls take on a machine that others disturb.

#include <algorithm>
#include <cmath>
#include <vector>

namespace shardwise {

struct Mean {
  double value = 0;
  double error = 0;  ///< standard error, as of independent values
};

/// Without the fastest and the slowest eighth, so that single mishaps do not count. Not the median: a core
/// whose other half works for somebody else has two speeds, between which the median of many calls jumps.
inline Mean mean_of_most(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t cut = values.size() / 8;
  const std::vector<double> kept(values.begin() + static_cast<std::ptrdiff_t>(cut),
                                 values.end() - static_cast<std::ptrdiff_t>(cut));
  const auto count = static_cast<double>(kept.size());
  double sum = 0, squares = 0;
  for (const double value : kept) sum += value;
  for (const double value : kept) squares += (value - sum / count) * (value - sum / count);
  return {sum / count, std::sqrt(squares / count / std::max(1.0, count - 1))};
}

}  // namespace shardwise
