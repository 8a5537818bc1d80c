#pragma once
// What a call takes on a machine whose links and overheads are known, of an operation that was seen on one
// device alone. Pure arithmetic; all times are seconds by the clock of the caller.
//
// A machine is fitted once, on any operation. Of every other operation and scene it needs what a row costs
// the first device alone, which nobody can know without a probe, and predicts every way of spreading the
// rows.

#include <array>
#include <cstdint>
#include <vector>

#include "shardwise/shard/cost_model.hpp"

namespace shardwise {

/// A device, seen from the first one.
struct MachineDevice {
  double speed = 1;           ///< a row takes row_s / speed
  double in_s_per_byte = 0;   ///< of a copy from the first device
  double out_s_per_byte = 0;  ///< of a copy to it
  double copy_s = 0;          ///< of a copy, before its first byte
  double direct_s_per_byte =
      0;  ///< of a launch that works on the first device's memory, a byte of the busier way
};

struct MachineModel {
  std::vector<MachineDevice> devices;  ///< the first is the master
  double call_s = 0;                   ///< of a call of next to no rows on the first device alone
  /// Of a call on several devices, above call_s and its slowest device, by Overlap.
  std::array<double, 3> spread_s{};
};

/// An operation on a scene, as the first device alone runs it: a call of n rows takes
/// call_s + launch_s + n row_s.
struct OperationModel {
  double launch_s = 0;  ///< of a launch: what does not grow with its rows
  double row_s = 0;
  double bytes_in = 0, bytes_out = 0;  ///< a row, that go to another device and come back
};

/// `launch_s` and `row_s` from two calls of the first device alone: the line through both, no part of it
/// negative. rows_a < rows_b.
OperationModel operation_of_two_calls(const MachineModel& machine, std::int64_t rows_a, double seconds_a,
                                      std::int64_t rows_b, double seconds_b);

/// The first device does all.
double predict_alone(const MachineModel& machine, const OperationModel& operation, std::int64_t rows);

/// The devices' own time of these many rows, without what the call costs above it.
double predict_device(const MachineModel& machine, const OperationModel& operation, std::size_t device,
                      double rows, Overlap way, int chunks);

/// Shards by these weights, a ratio. Pipelined: remote shards in `chunks`, of which in, compute and out
/// overlap. Direct: one launch a shard, in which computing and moving overlap in part: the root of the sum of
/// their squares, which lies between the greater of them and their sum (an empirical form: docs/scaling.md
/// compares). None: in, compute and out one after the other.
double predict_spread(const MachineModel& machine, const OperationModel& operation, std::int64_t rows,
                      const std::vector<double>& weights, Overlap way, int chunks);

/// The weights at which all devices end together, to a millionth of the rows.
std::vector<double> balanced_weights(const MachineModel& machine, const OperationModel& operation,
                                     std::int64_t rows, Overlap way, int chunks);

}  // namespace shardwise
