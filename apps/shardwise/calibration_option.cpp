#include "calibration_option.hpp"

#include <fmt/format.h>

#include "ranks.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::program {

std::optional<CalibrationRecord> calibration_of(const DeviceOptions& options, const DeviceSet& devices,
                                                const std::string& operation) {
  if (options.calibration.empty()) return std::nullopt;
  if (has_ranks())
    throw_usage(fmt::format(
        "--calibration '{}' is of the devices of one process; under a launcher give --weights, or "
        "leave it out",
        options.calibration));
  if (!options.weights.empty())
    throw_usage(fmt::format("--calibration '{}' and --weights '{}' both split the work; give one",
                            options.calibration, options.weights));
  std::vector<std::string> names;
  for (CalibrationRecord& record : read_calibration(options.calibration, devices)) {
    if (record.operation == operation) return std::move(record);
    names.push_back(record.operation);
  }
  throw_usage(fmt::format(
      "--calibration: '{}' has no weights of {} (it has {}); add them with 'shardwise calibrate {}'",
      options.calibration, operation, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")),
      operation));
}

std::vector<std::string> use_calibration(const CalibrationRecord& record, const DeviceOptions& options,
                                         std::int64_t rows, SplitOptions& split) {
  split.weights = record.weights;
  const bool fewer = 2 * rows<record.rows, more = rows / 16> record.rows;
  if (!fewer && options.min_rows.empty()) split.min_rows_per_device = 0;
  if (!fewer && !more) return {};
  return {fmt::format(
      "'{}' was calibrated with {} rows of {}, this call has {}: other weights may suit it better",
      options.calibration, record.rows, record.operation, rows)};
}

}  // namespace shardwise::program
