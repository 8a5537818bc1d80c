#include "runtime/sim/fault_injector.hpp"

#include <fmt/format.h>

#include "shardwise/runtime/error.hpp"

namespace shardwise {

void FaultInjector::set(const FaultScript& script) {
  for (const Fault& fault : script.faults) {
    const bool link = fault.kind == FaultKind::slow_link || fault.kind == FaultKind::no_peer;
    for (const int device : link ? std::vector{fault.from, fault.to} : std::vector{fault.device})
      if (device >= devices() || (device < 0 && (link || device != Fault::any)))
        throw_usage(fmt::format("faults: '{}' names device {}, there are {} (0 to {})", fault.text(), device,
                                devices(), devices() - 1));
  }
  script_ = script;
  steps_.assign(steps_.size(), {});
  named_.clear();
  random_.seed(script.random_seed);
}

std::optional<MetFault> FaultInjector::meet(int device, FaultStep step, std::int64_t number,
                                            const std::string& name, std::int64_t operation_number) {
  std::optional<MetFault> met;
  for (std::size_t i = 0; i < script_.faults.size(); ++i) {
    const Fault& fault = script_.faults[i];
    if (fault.kind != FaultKind::fails && fault.kind != FaultKind::lost && fault.kind != FaultKind::hangs)
      continue;
    if (fault.device != Fault::any && fault.device != device) continue;
    const bool any_operation = fault.step == FaultStep::operation && step != FaultStep::allocation;
    if (fault.step != step && !any_operation) continue;
    std::int64_t count = any_operation ? operation_number : number;
    if (!fault.name.empty()) {
      if (name.find(fault.name) == std::string::npos) continue;
      count = ++named_[{i, device}];
    }
    if (!met && (fault.number == Fault::any || fault.number == count))
      met = MetFault{fault.kind, fault.text()};
  }
  if (met || script_.random_rate <= 0) return met;
  if (static_cast<double>(random_() >> 11) * 0x1p-53 >= script_.random_rate) return met;
  const FaultKind kinds[] = {FaultKind::fails, FaultKind::lost, FaultKind::hangs};
  const FaultKind kind = kinds[random_() % (step == FaultStep::allocation ? 2 : 3)];
  return MetFault{kind, fmt::format("random {}: device {} {} {} {}", script_.random_seed, device,
                                    to_string(step), number, to_string(kind))};
}

std::optional<MetFault> FaultInjector::on_operation(int device, const Operation& operation) {
  if (operation.kind == OperationKind::release) return std::nullopt;
  FaultSteps& steps = steps_[static_cast<std::size_t>(device)];
  const bool copy = operation.kind == OperationKind::copy;
  const std::int64_t number = copy ? ++steps.copies : ++steps.launches;
  if (script_.empty()) return std::nullopt;
  return meet(device, copy ? FaultStep::copy : FaultStep::launch, number, operation.name,
              steps.copies + steps.launches);
}

std::optional<MetFault> FaultInjector::on_allocation(int device, const std::string& name) {
  const std::int64_t number = ++steps_[static_cast<std::size_t>(device)].allocations;
  if (script_.empty()) return std::nullopt;
  return meet(device, FaultStep::allocation, number, name, 0);
}

double FaultInjector::device_factor(int device) const {
  double factor = 1;
  for (const Fault& fault : script_.faults)
    if (fault.kind == FaultKind::slow_device && (fault.device == device || fault.device == Fault::any))
      factor *= fault.factor;
  return factor;
}

double FaultInjector::link_factor(int from, int to) const {
  double factor = 1;
  for (const Fault& fault : script_.faults)
    if (fault.kind == FaultKind::slow_link && fault.from == from && fault.to == to) factor *= fault.factor;
  return factor;
}

}  // namespace shardwise
