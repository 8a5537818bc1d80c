#pragma once
// What calls on rows have cost so far, by operation and by where rows come from and go to.

#include <array>
#include <map>
#include <string>
#include <vector>

#include "shardwise/dispatch/rows.hpp"
#include "shardwise/shard/cost_model.hpp"

namespace shardwise {

/// What one device did in one call, as measured on it.
struct DeviceSample {
  std::int64_t rows = 0;
  double compute_s = 0;
  bool direct = false;  ///< its launches moved the rows themselves
  double in_s = 0, out_s = 0;
};

/// The costs of one operation with one kind of source and sink.
struct LearnedCost {
  std::vector<DeviceRowCost> devices;  ///< one a device of the set
  /// Seconds of a call above its slowest device, by mode; negative: not known.
  std::array<double, 6> fixed_s{-1, -1, -1, -1, -1, -1};
  int calls = 0;
  int measured = 0;  ///< of the calls, those that taught anything
  double rows = 0;   ///< of the calls that taught, roughly: how much the figures weigh
};

class LearnedCosts {
 public:
  /// Null where nothing was learned yet.
  const LearnedCost* find(const std::string& key) const;
  /// Takes in a call. `total_s` is its whole time; 0: not measured. In a call with far fewer rows than those
  /// that taught the figures, a row takes what the launch takes, not what a row does: it teaches nothing,
  /// until so many of them have come that calls are of that size now. One with far more rows replaces the
  /// figures.
  void learn(const std::string& key, DispatchMode mode, const std::vector<DeviceSample>& devices,
             double total_s);
  /// A call that was not measured.
  void count(const std::string& key) { ++costs_[key].calls; }
  /// Whether the next call of this kind is to be measured: the first few are, the first in each mode, then
  /// one in eight, so that what is known keeps up with the machine while measuring costs next to nothing; and
  /// all that are far larger than those that taught what is known.
  bool wants_sample(const std::string& key, DispatchMode mode, std::int64_t rows) const {
    const LearnedCost* cost = find(key);
    return !cost || cost->calls == 2 || cost->calls % 8 == 0 || outgrows(*cost, rows) ||
           cost->fixed_s[static_cast<std::size_t>(mode)] < 0;
  }

 private:
  static constexpr double far = 4;  ///< so many times the rows are far more
  static bool outgrows(const LearnedCost& cost, std::int64_t rows) {
    return static_cast<double>(rows) > far * cost.rows;
  }

  std::map<std::string, LearnedCost> costs_;
};

}  // namespace shardwise
