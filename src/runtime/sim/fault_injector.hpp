#pragma once
// Counts the steps of sim devices and says which of them meet a fault.

#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "shardwise/runtime/operation.hpp"
#include "shardwise/runtime/sim_faults.hpp"

namespace shardwise {

/// What a step meets.
struct MetFault {
  FaultKind kind = FaultKind::fails;
  std::string text;  ///< the line of the script, or what the seed drew
};

class FaultInjector {
 public:
  explicit FaultInjector(int devices) : steps_(static_cast<std::size_t>(devices)) {}

  /// See SimWorld::set_faults().
  void set(const FaultScript& script);
  const FaultScript& script() const { return script_; }
  /// An operation of a device is about to run. Releases are no steps.
  std::optional<MetFault> on_operation(int device, const Operation& operation);
  std::optional<MetFault> on_allocation(int device, const std::string& name);
  /// What operations of a device take longer by.
  double device_factor(int device) const;
  /// The same of copies between two places, device indices or CopyEnd::host.
  double link_factor(int from, int to) const;
  const FaultSteps& steps(int device) const { return steps_[static_cast<std::size_t>(device)]; }

 private:
  std::optional<MetFault> meet(int device, FaultStep step, std::int64_t number, const std::string& name,
                               std::int64_t operation_number);
  int devices() const { return static_cast<int>(steps_.size()); }

  FaultScript script_;
  std::vector<FaultSteps> steps_;
  std::map<std::pair<std::size_t, int>, std::int64_t> named_;  ///< steps that had a fault's name, by device
  std::mt19937_64 random_;
};

}  // namespace shardwise
