#pragma once
// --calibration: what `shardwise calibrate` found, for commands that compute.

#include <optional>
#include <string>
#include <vector>

#include "device_options.hpp"
#include "shardwise/dispatch/calibrate.hpp"

namespace shardwise::program {

/// The record of the operation in the file, or nothing without --calibration. Throws a usage error where
/// --weights was given as well, where the file has no such operation, and what read_calibration() throws.
std::optional<CalibrationRecord> calibration_of(const DeviceOptions& options, const DeviceSet& devices,
                                                const std::string& operation);

/// Splits by the record. Its weights were proved without the floor, so that is off too, unless --min-rows
/// says otherwise or this call has under half as many rows; then, or where it has more than 16 times as many,
/// the warnings say so.
std::vector<std::string> use_calibration(const CalibrationRecord& record, const DeviceOptions& options,
                                         std::int64_t rows, SplitOptions& split);

}  // namespace shardwise::program
