#include "fault_options.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "runtime/small_file.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise::program {
namespace {

bool is_slowness(const Fault& fault) {
  return fault.kind == FaultKind::slow_device || fault.kind == FaultKind::slow_link ||
         fault.kind == FaultKind::no_peer;
}

/// "sim:1 made 4 allocations, 5 launches and 13 copies".
std::string steps_text(const DeviceSet& devices, int device) {
  const FaultSteps steps = devices.sim_world()->fault_steps(device);
  return fmt::format("{} made {} allocations, {} launches and {} copies", devices[device].name(),
                     steps.allocations, steps.launches, steps.copies);
}

}  // namespace

std::string fault_script(const DeviceOptions& options) {
  std::string script = options.sim_faults, place = "--sim-faults";
  if (script.starts_with('@')) {
    const std::string path = script.substr(1);
    script = read_small_file(path, place, "check its name");
    place += " '" + path + "'";
  }
  (void)parse_faults(script, place);
  // What hangs in a simulation is waited for in its own time.
  const double deadline_s = deadline_of(options);
  if (!options.deadline.empty() && options.devices.starts_with("sim"))
    script += fmt::format("{}deadline {}", script.empty() ? "" : "\n", deadline_s);
  return script;
}

std::string faults_of_plan(const std::string& script) {
  FaultScript slow;
  for (const Fault& fault : parse_faults(script).faults)
    if (is_slowness(fault)) slow.faults.push_back(fault);
  return slow.text();
}

std::vector<std::string> faults_not_met(const DeviceOptions& options, const DeviceSet& devices) {
  std::vector<std::string> warnings;
  if (!devices.sim_world() || options.sim_faults.empty()) return warnings;
  const std::vector<std::string> met = devices.sim_world()->faults_met();
  for (const Fault& fault : parse_faults(fault_script(options)).faults) {
    const std::string text = fault.text(), begin = text + ": ";
    if (is_slowness(fault) ||
        std::any_of(met.begin(), met.end(), [&](const std::string& line) { return line.starts_with(begin); }))
      continue;
    warnings.push_back(
        fmt::format("--sim-faults: '{}' never happened{}", text,
                    fault.device == Fault::any ? std::string() : ": " + steps_text(devices, fault.device)));
  }
  return warnings;
}

}  // namespace shardwise::program
