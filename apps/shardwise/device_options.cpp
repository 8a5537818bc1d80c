#include "device_options.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "command.hpp"
#include "fault_options.hpp"
#include "log.hpp"
#include "rank_devices.hpp"
#include "ranks.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"
#include "values.hpp"

namespace shardwise::program {

void add_device_options(CLI::App& app, DeviceOptions& options) {
  app.add_option("--devices", options.devices,
                 "host:N | host:NxTHREADS | cuda | cuda:0,1 | cuda:UUID | cuda:BUSID | sim:N | sim:8xh200 | "
                 "sim:FILE.toml, joined with '+'; "
                 "default: cuda where a GPU answers, else host:1")
      ->type_name("SPEC")
      ->group("Devices");
  app.add_flag("--allow-mixed", options.allow_mixed, "Accept unlike devices in one set")->group("Devices");
  app.add_flag("--require-peer", options.require_peer, "Fail where two GPUs cannot reach each other's memory")
      ->group("Devices");
  app.add_flag("--share-gpus", options.share_gpus, "Under mpirun: accept more ranks than GPUs on a machine")
      ->group("Devices");
  app.add_option("--sim-seed", options.sim_seed, "Seed of the order in which sim devices run (1)")
      ->type_name("N")
      ->group("Devices");
  app.add_option("--sim-faults", options.sim_faults,
                 "What goes wrong on sim devices: 'device 1 launch 7 fails', or @FILE (docs/simulator.md)")
      ->type_name("SCRIPT")
      ->group("Devices");
}

void add_split_options(CLI::App& app, DeviceOptions& options) {
  app.add_option("--weights", options.weights,
                 "Shares of the devices, a ratio: 3,1 (default: by threads, GPUs alike)")
      ->type_name("W,W,..")
      ->group("Devices");
  app.add_option("--calibration", options.calibration,
                 "Shares that 'shardwise calibrate' found, in place of --weights")
      ->type_name("FILE")
      ->group("Devices");
  app.add_option("--chunk", options.chunk, "Lanes a launch (default: as the memory allows)")
      ->type_name("ROWS")
      ->group("Devices");
  app.add_option("--memory", options.memory,
                 "Budget per device above the scene: 64Mi (default: 80 % of what is free)")
      ->type_name("BYTES")
      ->group("Devices");
  app.add_option("--min-rows", options.min_rows, "Least work worth another device; 0: no floor")
      ->type_name("N")
      ->group("Devices");
  app.add_option("--on-device-failure", options.on_failure,
                 "Where a device other than the first fails: fail, or failover, which goes on without it "
                 "(exact sums; fail)")
      ->type_name("fail|failover")
      ->group("Devices");
  app.add_option(
         "--deadline", options.deadline,
         "Fail where devices get nothing done for so long, in place of waiting for ever (seconds; none; "
         "sim: 60, of virtual time)")
      ->type_name("S")
      ->group("Devices");
  add_refused(app, {"--mode"});
}

DeviceSet open(const DeviceOptions& options) {
  OpenOptions open_options;
  open_options.allow_mixed = options.allow_mixed;
  open_options.require_peer = options.require_peer;
  if (!options.sim_seed.empty()) {
    open_options.sim_seed = static_cast<std::uint64_t>(
        parse_whole(options.sim_seed, "--sim-seed", 0, std::numeric_limits<std::int64_t>::max()));
    if (!options.devices.starts_with("sim"))
      throw_usage(fmt::format("--sim-seed {} is for simulated devices, --devices '{}' has none; leave it out",
                              options.sim_seed, options.devices));
  }
  open_options.sim_faults = fault_script(options);
  const std::string spec =
      has_ranks() ? rank_devices(options.devices, this_machine(), options.share_gpus) : options.devices;
  DeviceSet devices = open_devices(spec, open_options);
  for (const std::string& warning : devices.warnings()) log_warning(warning);
  return devices;
}

SplitOptions split_of(const DeviceOptions& options, int device_count) {
  SplitOptions split;
  if (!options.weights.empty()) {
    split.weights = parse_list(options.weights, "--weights");
    if (static_cast<int>(split.weights.size()) != device_count) {
      throw_usage(fmt::format("--weights has {} numbers ('{}') for {} {}; give one for each device",
                              split.weights.size(), options.weights, device_count,
                              device_count == 1 ? "device" : "devices"));
    }
    for (std::size_t i = 0; i < split.weights.size(); ++i) {
      if (split.weights[i] < 0) {
        throw_usage(fmt::format("--weights: number {} is negative ('{}'); give a share of at least 0", i,
                                options.weights));
      }
    }
    if (std::ranges::all_of(split.weights, [](double weight) { return weight == 0; })) {
      throw_usage(
          fmt::format("--weights are all zero ('{}'); give at least one device work", options.weights));
    }
  }
  if (!options.chunk.empty())
    split.chunk_rows = count_value("--chunk", options.chunk, 1, std::numeric_limits<std::int64_t>::max());
  if (!options.memory.empty()) {
    split.memory_bytes = parse_bytes(options.memory, "--memory");
    if (split.memory_bytes == 0)
      throw_usage(fmt::format("--memory must be above zero (found '{}')", options.memory));
  }
  if (!options.min_rows.empty())
    split.min_rows_per_device =
        count_value("--min-rows", options.min_rows, 0, std::numeric_limits<std::int64_t>::max());
  if (word_value("--on-device-failure", options.on_failure, {"fail", "failover"}) == "failover")
    split.on_device_failure = OnDeviceFailure::failover;
  return split;
}

double deadline_of(const DeviceOptions& options) {
  return options.deadline.empty() ? std::numeric_limits<double>::infinity()
                                  : positive_value("--deadline", options.deadline);
}

Accumulation accumulation_of(const std::string& text) {
  const std::string word = word_value("--accumulation", text, {"fast", "ordered", "exact"});
  return word == "fast"      ? Accumulation::fast
         : word == "ordered" ? Accumulation::ordered
                             : Accumulation::exact;
}

const char* to_string(Accumulation accumulation) {
  switch (accumulation) {
    case Accumulation::fast:
      return "fast";
    case Accumulation::ordered:
      return "ordered";
    case Accumulation::exact:
      return "exact";
  }
  return "exact";
}

}  // namespace shardwise::program
