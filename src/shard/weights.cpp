#include "shardwise/shard/weights.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace shardwise {
namespace {

constexpr double kTwo32 = 4294967296.0;
constexpr std::size_t kMostDevices = std::size_t{1}
                                     << 31;  // keeps the sum of values of at most 2^32 in 64 bits

[[noreturn]] void refuse(const std::ostringstream& text) {
  throw std::invalid_argument(text.str());
}

void check_count(std::size_t device_count) {
  if (device_count == 0)
    throw std::invalid_argument("weights: the device set is empty; give at least one device");
  if (device_count > kMostDevices) {
    std::ostringstream text;
    text << "weights: " << device_count << " devices; at most " << kMostDevices << " are accepted";
    refuse(text);
  }
}

bool used_as_it_is(double weight) {
  return weight < kTwo32 && weight == std::floor(weight);
}

}  // namespace

Weights::Weights(std::vector<std::uint64_t> values) : values_(std::move(values)) {
  for (const std::uint64_t value : values_) sum_ += value;
}

Weights Weights::from(std::span<const double> weights, std::size_t device_count) {
  check_count(device_count);
  if (weights.size() != device_count) {
    std::ostringstream text;
    text << "weights: " << weights.size() << (weights.size() == 1 ? " weight" : " weights") << " given for "
         << device_count << (device_count == 1 ? " device" : " devices")
         << "; give one weight for each device";
    refuse(text);
  }
  double largest = 0;
  bool all_whole = true;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double weight = weights[i];
    if (!std::isfinite(weight) || weight < 0) {
      std::ostringstream text;
      text << "weights: weight " << i << " of " << weights.size() << " is " << weight
           << "; weights are finite and not negative";
      refuse(text);
    }
    largest = std::max(largest, weight);
    all_whole = all_whole && used_as_it_is(weight);
  }
  if (largest == 0) {
    std::ostringstream text;
    text << "weights: all " << weights.size()
         << " weights are zero; give at least one device a positive weight";
    refuse(text);
  }
  std::vector<std::uint64_t> values;
  values.reserve(weights.size());
  for (const double weight : weights) {
    if (all_whole) {
      values.push_back(static_cast<std::uint64_t>(weight));
      continue;
    }
    // The quotient first: x * 2^32 would overflow for huge weights; the product with a power of two is exact.
    const auto rounded = static_cast<std::uint64_t>(std::llround(weight / largest * kTwo32));
    values.push_back(weight > 0 ? std::max<std::uint64_t>(rounded, 1) : 0);
  }
  return Weights(std::move(values));
}

Weights Weights::equal(std::size_t device_count) {
  check_count(device_count);
  return Weights(std::vector<std::uint64_t>(device_count, 1));
}

std::string Weights::to_string() const {
  std::string text;
  for (const std::uint64_t value : values_) {
    if (!text.empty()) text += ':';
    text += std::to_string(value);
  }
  return text;
}

}  // namespace shardwise
