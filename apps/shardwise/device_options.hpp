#pragma once
// The options that choose devices and spread work over them, the same for every command that computes.

#include <CLI/CLI.hpp>
#include <string>

#include "shardwise/dispatch/split_options.hpp"
#include "shardwise/numeric/accumulation.hpp"
#include "shardwise/runtime/devices.hpp"

namespace shardwise::program {

/// As typed; checked by the functions below.
struct DeviceOptions {
  std::string devices, weights, calibration, chunk, memory, min_rows, on_failure = "fail", deadline, sim_seed,
                                                                      sim_faults;
  bool allow_mixed = false, require_peer = false, share_gpus = false;
};

/// --devices, --allow-mixed, --require-peer, --sim-seed, --sim-faults.
void add_device_options(CLI::App& app, DeviceOptions& options);
/// --weights, --calibration, --chunk, --memory, --min-rows, --on-device-failure, and those of the contract
/// that this version lacks.
void add_split_options(CLI::App& app, DeviceOptions& options);

/// Opens the devices and says their warnings. Usage errors name what is there.
DeviceSet open(const DeviceOptions& options);

/// Checks the texts against the number of devices.
SplitOptions split_of(const DeviceOptions& options, int device_count);

/// Seconds of --deadline, infinity without it.
double deadline_of(const DeviceOptions& options);

Accumulation accumulation_of(const std::string& text);
const char* to_string(Accumulation accumulation);

}  // namespace shardwise::program
