#pragma once
// What a call on rows will cost, for each way of running it, and the split that costs least. Pure arithmetic:
// the figures come from measured calls.

#include <cstdint>
#include <vector>

namespace shardwise {

/// Seconds that one row takes on a device.
struct DeviceRowCost {
  double compute_s = 0;  ///< in its launches; 0: not known
  double direct_s = 0;  ///< in its launches when they read and write another device's memory, beside those of
                        ///< all other devices; 0: not known
  double direct_alone_s = 0;  ///< the same while no other device works; 0: not known, as beside others
  double in_s = 0;            ///< on its way to the device, 0 where nothing is sent
  double out_s = 0;           ///< on its way back
};

/// How the shards of a call overlap.
enum class Overlap {
  pipelined,  ///< in, compute and out overlap chunk by chunk: the slowest counts, and one chunk of the others
  direct,     ///< one launch that moves its rows itself
  none,       ///< one after the other
};

struct Prediction {
  double seconds = 0;           ///< of the call
  std::vector<double> weights;  ///< the split it belongs to, one a device, their sum is 1
};

/// Whether every device's compute cost is known.
bool is_known(const std::vector<DeviceRowCost>& devices) noexcept;

/// Seconds a row costs its device in the long run.
double row_seconds(const DeviceRowCost& cost, Overlap overlap, int chunks);

/// The first device does all.
Prediction predict_master(std::int64_t rows, const std::vector<DeviceRowCost>& devices, double fixed_s);
/// The split at which all devices end together: weights in proportion to 1 / row_seconds().
Prediction predict_best_split(std::int64_t rows, const std::vector<DeviceRowCost>& devices, Overlap overlap,
                              int chunks, double fixed_s);
/// A given split; `weights` are a ratio. Direct launches whose costs are known alone and beside others are
/// followed in time: between the two, a row costs in proportion to how many of the other devices are at work.
Prediction predict_split(std::int64_t rows, const std::vector<DeviceRowCost>& devices,
                         const std::vector<double>& weights, Overlap overlap, int chunks, double fixed_s);

}  // namespace shardwise
