#pragma once
// Finds the split of an operation at which a batch of a given size is fastest, and proves it: never slower
// than the first device alone, as far as the clock can tell.
//
//   const CalibrationRecord record = calibrate(
//       scene.devices(), "intersect:full", rays.size(), [&](const RowOptions& options) {
//         return intersect(scene, rays, {{options}}).get().dispatch;
//       });
//   options.operation_weights[record.operation] = record.weights;
//   std::puts(record.describe().c_str());

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shardwise/dispatch/rows.hpp"
#include "shardwise/runtime/devices.hpp"
#include "shardwise/shard/cost_model.hpp"

namespace shardwise {

/// One call of the operation with these options (weights, no floor, whether it is measured), to its end;
/// gives its report.
using CalibrationCall = std::function<DispatchReport(const RowOptions& options)>;

struct CalibrateOptions {
  int repeats = 11;  ///< rounds of the test, at least 3: each split once, in turn forwards and backwards
  int warm_up = 1;   ///< calls before any is timed, of the first device and of all
  int probes = 7;    ///< rounds of probes: each device alone once, then all together
  RowOptions row_options;  ///< what the caller's calls have in common
};

/// A split that was tried, and its times in the order of the rounds.
struct CalibrationTrial {
  /// master, fitted, equal; where devices have unlike numbers of threads also threads, the shares that a call
  /// without weights begins with.
  std::string name;
  std::vector<double> weights;
  double predicted_s = 0;  ///< by the fit; 0: nothing known
  std::vector<double> seconds;
  double median_s = 0;
  double gain = 1;       ///< median over the rounds of master's time / this one's
  double sure_gain = 1;  ///< the lower quartile of the same: what three rounds of four exceed
  std::string mode;      ///< of its last call
};

struct CalibrationRecord {
  std::string operation;
  std::int64_t rows = 0;
  std::vector<std::string> devices;  ///< "cuda:0 NVIDIA H200"
  std::vector<DeviceRowCost> costs;  ///< the fit: seconds a row, one a device
  double fixed_s = 0;                ///< of a call on all devices above its slowest one, by the clock
  double master_fixed_s = 0;         ///< of a call of the first device alone above its launches, by the clock
  std::vector<CalibrationTrial> trials;
  std::string chosen;           ///< the trial whose weights are kept
  std::vector<double> weights;  ///< one a device
  bool near_crossover = false;  ///< the best split and the master alone are within 5 % of each other
  /// What was found, for a reader; calibration_json() has every number.
  std::string describe() const;
};

/// Probes each device alone and all together (at the split that is best as far as is known), in turns, fits
/// T = max over devices (compute, in, out) + fixed with their means, predicts the best split, and tests it,
/// the equal split and the first device alone against each other in interleaved rounds. A split is kept only
/// where three rounds of four were faster than the first device alone; of two such, the one whose median is
/// less. The floor on rows is off meanwhile. Times are the clock's, virtual on sim. Throws a usage Error for
/// an operation that is not there, fewer than 2 devices' worth of rows or 3 rounds, and what the call throws.
CalibrationRecord calibrate(const DeviceSet& devices, const std::string& operation, std::int64_t rows,
                            const CalibrationCall& call, const CalibrateOptions& options = {});

/// Records as JSON, with every number, and the devices and the build that they are true for.
std::string calibration_json(const DeviceSet& devices, const std::vector<CalibrationRecord>& records);
/// The same in a file, which is replaced as a whole or, after an Error{io}, not at all.
void save_calibration(const std::string& path, const DeviceSet& devices,
                      const std::vector<CalibrationRecord>& records);
/// The records of a file. Throws a data Error for a file that is damaged or of another schema, a usage Error
/// where it was made with other devices or another build, which it names.
std::vector<CalibrationRecord> read_calibration(const std::string& path, const DeviceSet& devices);
/// The weights of a file by operation, for RowOptions; throws as read_calibration().
OperationWeights load_calibration(const std::string& path, const DeviceSet& devices);

}  // namespace shardwise
