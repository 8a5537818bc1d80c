#include "ticks.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace shardwise::program {

std::string Ticks::label(double value) const {
  const int decimals = std::clamp(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0, 9);
  if (std::abs(value) < step * 1e-6) value = 0;
  return fmt::format("{:.{}f}", value, decimals);
}

Ticks round_ticks(double low, double high, int most) {
  Ticks ticks;
  const double span = high - low;
  if (!(span > 0) || most < 1) return ticks;
  const double power = std::pow(10.0, std::floor(std::log10(span / most)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0, 20.0}) {
    ticks.step = factor * power;
    if (std::floor(high / ticks.step + 1e-9) - std::ceil(low / ticks.step - 1e-9) + 1 <= most) break;
  }
  for (double k = std::ceil(low / ticks.step - 1e-9); k * ticks.step <= high + span * 1e-9; k += 1) {
    ticks.values.push_back(k * ticks.step);
  }
  return ticks;
}

}  // namespace shardwise::program
