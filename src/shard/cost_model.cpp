#include "shardwise/shard/cost_model.hpp"

#include <algorithm>
#include <cstddef>

namespace shardwise {

namespace {

/// A launch that moves its rows word by word may take this much longer over the link than copies do: 12-byte
/// columns over NVLink do. Not less, so that the first direct call gives a device too few rows, not too many.
constexpr double launch_over_copy = 2.5;

/// The time at which the last of the devices ends, each of which slows the others down while it works.
double seconds_together(std::int64_t rows, const std::vector<DeviceRowCost>& devices,
                        const std::vector<double>& shares, int chunks) {
  const std::size_t count = devices.size();
  std::vector<double> left(count);
  std::size_t working = 0;
  for (std::size_t d = 0; d < count; ++d) {
    left[d] = static_cast<double>(rows) * shares[d];
    working += left[d] > 0;
  }
  double now = 0;
  while (working > 0) {
    // Until the next one ends, nobody's speed changes.
    const double beside = count > 1 ? static_cast<double>(working - 1) / static_cast<double>(count - 1) : 0;
    std::vector<double> row_s(count);
    double step = -1;
    std::size_t next = 0;
    for (std::size_t d = 0; d < count; ++d) {
      if (left[d] <= 0) continue;
      const double together = row_seconds(devices[d], Overlap::direct, chunks),
                   alone = devices[d].direct_alone_s > 0 ? devices[d].direct_alone_s : together;
      row_s[d] = alone + (together - alone) * beside;
      if (step < 0 || left[d] * row_s[d] < step) step = left[d] * row_s[d], next = d;
    }
    now += step;
    for (std::size_t d = 0; d < count; ++d)
      if (left[d] > 0) left[d] = d == next ? 0 : std::max(0.0, left[d] - step / row_s[d]);
    working =
        static_cast<std::size_t>(std::count_if(left.begin(), left.end(), [](double n) { return n > 0; }));
  }
  return now;
}

}  // namespace

bool is_known(const std::vector<DeviceRowCost>& devices) noexcept {
  return !devices.empty() && std::all_of(devices.begin(), devices.end(),
                                         [](const DeviceRowCost& cost) { return cost.compute_s > 0; });
}

double row_seconds(const DeviceRowCost& cost, Overlap overlap, int chunks) {
  const double moved = cost.in_s + cost.out_s;
  switch (overlap) {
    case Overlap::pipelined:
      // What does not overlap: the first chunk on its way in, the last on its way out.
      return std::max({cost.compute_s, cost.in_s, cost.out_s}) + moved / std::max(1, chunks);
    case Overlap::direct:
      // A launch that was measured so says it all; else the slower of computing and moving.
      return cost.direct_s > 0 ? cost.direct_s
                               : std::max(cost.compute_s, launch_over_copy * std::max(cost.in_s, cost.out_s));
    case Overlap::none:
      return cost.compute_s + moved;
  }
  return 0;
}

Prediction predict_master(std::int64_t rows, const std::vector<DeviceRowCost>& devices, double fixed_s) {
  Prediction prediction;
  prediction.seconds = static_cast<double>(rows) * devices.front().compute_s + fixed_s;
  prediction.weights.assign(devices.size(), 0.0);
  prediction.weights.front() = 1;
  return prediction;
}

Prediction predict_best_split(std::int64_t rows, const std::vector<DeviceRowCost>& devices, Overlap overlap,
                              int chunks, double fixed_s) {
  Prediction prediction;
  double speed = 0;
  for (const DeviceRowCost& cost : devices) {
    const double seconds = row_seconds(cost, overlap, chunks);
    prediction.weights.push_back(seconds > 0 ? 1 / seconds : 0);
    speed += prediction.weights.back();
  }
  for (double& weight : prediction.weights) weight /= speed;
  prediction.seconds = static_cast<double>(rows) / speed + fixed_s;
  return prediction;
}

Prediction predict_split(std::int64_t rows, const std::vector<DeviceRowCost>& devices,
                         const std::vector<double>& weights, Overlap overlap, int chunks, double fixed_s) {
  Prediction prediction;
  double sum = 0;
  for (const double weight : weights) sum += weight;
  for (const double weight : weights) prediction.weights.push_back(weight / sum);
  const bool follows = overlap == Overlap::direct &&
                       std::any_of(devices.begin(), devices.end(),
                                   [](const DeviceRowCost& cost) { return cost.direct_alone_s > 0; });
  if (follows) {
    prediction.seconds = seconds_together(rows, devices, prediction.weights, chunks) + fixed_s;
    return prediction;
  }
  for (std::size_t d = 0; d < devices.size(); ++d) {
    prediction.seconds = std::max(prediction.seconds, static_cast<double>(rows) * prediction.weights[d] *
                                                          row_seconds(devices[d], overlap, chunks));
  }
  prediction.seconds += fixed_s;
  return prediction;
}

}  // namespace shardwise
