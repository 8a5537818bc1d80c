#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace shardwise {

/// The share of each device of a set, as whole numbers, so that every cut is exact integer arithmetic.
///
/// A weight is a ratio, not a count: {2, 2} and {1, 1} cut alike. If every weight given is a whole number
/// below 2^32, the weights are used as they are. Otherwise each becomes the nearest whole number to x * 2^32
/// / max, and a positive weight stays at least 1, so a device that was given work is never dropped by
/// rounding.
///
/// Invariant: at least one value is positive; every value is at most 2^32; their sum fits 64 bits.
class Weights {
 public:
  /// One weight per device.
  /// Throws std::invalid_argument where the count differs from `device_count` (naming both), where a weight
  /// is negative or not finite (naming its index and value), or where all are zero.
  static Weights from(std::span<const double> weights, std::size_t device_count);

  /// The same share for each of `device_count` devices (at least one).
  static Weights equal(std::size_t device_count);

  std::size_t size() const noexcept { return values_.size(); }
  std::uint64_t operator[](std::size_t device) const { return values_[device]; }
  std::span<const std::uint64_t> values() const noexcept { return values_; }
  std::uint64_t sum() const noexcept { return sum_; }

  /// "5:1:0", for reports.
  std::string to_string() const;

 private:
  explicit Weights(std::vector<std::uint64_t> values);
  std::vector<std::uint64_t> values_;
  std::uint64_t sum_ = 0;
};

}  // namespace shardwise
