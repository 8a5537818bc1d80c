#include "shardwise/shard/machine_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace shardwise {

OperationModel operation_of_two_calls(const MachineModel& machine, std::int64_t rows_a, double seconds_a,
                                      std::int64_t rows_b, double seconds_b) {
  OperationModel operation;
  const auto a = static_cast<double>(rows_a), b = static_cast<double>(rows_b);
  const double above_a = std::max(0.0, seconds_a - machine.call_s),
               above_b = std::max(0.0, seconds_b - machine.call_s);
  operation.row_s = std::clamp((above_b - above_a) / (b - a), 0.0, above_b / b);
  operation.launch_s = above_b - b * operation.row_s;
  return operation;
}

double predict_alone(const MachineModel& machine, const OperationModel& operation, std::int64_t rows) {
  return machine.call_s + operation.launch_s + static_cast<double>(rows) * operation.row_s;
}

double predict_device(const MachineModel& machine, const OperationModel& operation, std::size_t device,
                      double rows, Overlap way, int chunks) {
  if (rows <= 0) return 0;
  if (device == 0) return operation.launch_s + rows * operation.row_s;
  const MachineDevice& on = machine.devices[device];
  const double pieces = way == Overlap::pipelined ? std::max(1, chunks) : 1;
  const double compute = pieces * operation.launch_s + rows * operation.row_s / on.speed;
  const auto moved = [&](double bytes, double s_per_byte) {
    return bytes > 0 ? pieces * on.copy_s + rows * bytes * s_per_byte : 0.0;
  };
  const double in = moved(operation.bytes_in, on.in_s_per_byte),
               out = moved(operation.bytes_out, on.out_s_per_byte);
  switch (way) {
    case Overlap::pipelined:
      // What does not overlap: the first chunk on its way in, the last on its way out.
      return std::max({compute, in, out}) + (in + out) / pieces;
    case Overlap::direct:
      return std::hypot(compute,
                        rows * std::max(operation.bytes_in, operation.bytes_out) * on.direct_s_per_byte);
    case Overlap::none:
      return compute + in + out;
  }
  return 0;
}

double predict_spread(const MachineModel& machine, const OperationModel& operation, std::int64_t rows,
                      const std::vector<double>& weights, Overlap way, int chunks) {
  double sum = 0, slowest = 0;
  for (const double weight : weights) sum += weight;
  for (std::size_t d = 0; d < machine.devices.size(); ++d)
    slowest = std::max(slowest, predict_device(machine, operation, d,
                                               static_cast<double>(rows) * weights[d] / sum, way, chunks));
  return machine.call_s + machine.spread_s[static_cast<std::size_t>(way)] + slowest;
}

std::vector<double> balanced_weights(const MachineModel& machine, const OperationModel& operation,
                                     std::int64_t rows, Overlap way, int chunks) {
  const std::size_t count = machine.devices.size();
  const auto all = static_cast<double>(rows);
  // Rows that a device is through with by a time, then the time by which all are through, both by bisection:
  // times grow with rows.
  const auto rows_by = [&](std::size_t device, double seconds) {
    double low = 0, high = all;
    for (int i = 0; i < 40; ++i) {
      const double middle = (low + high) / 2;
      (predict_device(machine, operation, device, middle, way, chunks) <= seconds ? low : high) = middle;
    }
    return low;
  };
  double low = 0, high = predict_device(machine, operation, 0, all, way, chunks);
  std::vector<double> weights(count, 0.0);
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    double done = 0;
    for (std::size_t d = 0; d < count; ++d) done += weights[d] = rows_by(d, middle);
    (done < all ? low : high) = middle;
  }
  double sum = 0;
  for (std::size_t d = 0; d < count; ++d) sum += weights[d] = rows_by(d, high);
  for (double& weight : weights) weight /= sum;
  return weights;
}

}  // namespace shardwise
