#include "shardwise/dispatch/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "shardwise/dispatch/operation_table.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise {

namespace {

constexpr double near = 0.05;  // of 1: the splits are as good as each other

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const double place = part * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

class Calibration {
 public:
  Calibration(const DeviceSet& devices, const CalibrationCall& call, const CalibrateOptions& options,
              CalibrationRecord& record)
      : devices_(devices), call_(call), options_(options), record_(record) {}

  void run() {
    for (int i = 0; i < options_.warm_up; ++i) timed(one(0));
    fit();
    make_trials();
    test();
    decide();
  }

 private:
  int count() const { return devices_.size(); }
  std::vector<double> one(int device) const {
    std::vector<double> weights(static_cast<std::size_t>(count()), 0.0);
    weights[static_cast<std::size_t>(device)] = 1;
    return weights;
  }
  std::vector<double> equal() const {
    std::vector<double> weights;
    for (int d = 0; d < count(); ++d) weights.push_back(devices_[d].info().threads);
    return weights;
  }

  /// A call under these weights: its seconds, and its report in last_.
  double timed(const std::vector<double>& weights) {
    RowOptions options = options_.row_options;
    options.weights = weights;
    options.operation_weights.clear();
    options.min_rows_per_device = 0;
    const SimWorld* world = devices_.sim_world();
    const double virtual_begin = world ? world->virtual_time() : 0;
    const auto begin = std::chrono::steady_clock::now();
    last_ = call_(options);
    if (world) return world->virtual_time() - virtual_begin;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  /// Each device alone, then all of them, until each has told what its launches and copies take. Not every
  /// call is measured: of a kind the first and the third are, then one in eight.
  void fit() {
    record_.costs.assign(static_cast<std::size_t>(count()), {});
    for (int d = 0; d < count(); ++d) {
      DeviceRowCost& cost = record_.costs[static_cast<std::size_t>(d)];
      for (int i = 0; i < options_.probe_calls && cost.compute_s == 0; ++i) {
        timed(one(d));
        const DeviceReport& report = last_.devices.at(static_cast<std::size_t>(d));
        if (report.lanes == 0) continue;
        const auto rows = static_cast<double>(report.lanes);
        // Calls on lanes tell no more than how long launches ran.
        cost.compute_s = std::max(report.compute_s, report.busy_s) / rows;
        cost.in_s = report.copy_in_s / rows;
        cost.out_s = report.copy_out_s / rows;
      }
    }
    record_.fixed_s = 0;
    double least = -1;
    for (int i = 0; i < options_.probe_calls; ++i) {
      timed(equal());
      if (!(last_.measured_s > 0)) continue;
      double slowest = 0;
      for (const DeviceReport& report : last_.devices)
        slowest = std::max({slowest, report.compute_s, report.copy_in_s, report.copy_out_s});
      const double above = std::max(0.0, last_.measured_s - slowest);
      least = least < 0 ? above : std::min(least, above);
      break;
    }
    record_.fixed_s = std::max(0.0, least);
  }

  void make_trials() {
    const bool known = is_known(record_.costs);
    const int chunks = options_.row_options.chunks_per_device;
    const auto predicted = [&](const std::vector<double>& weights) {
      return known ? predict_split(record_.rows, record_.costs, weights, Overlap::pipelined, chunks,
                                   record_.fixed_s)
                         .seconds
                   : 0.0;
    };
    record_.trials.push_back({"master",
                              one(0),
                              known ? predict_master(record_.rows, record_.costs, 0).seconds : 0,
                              {},
                              0,
                              1,
                              1,
                              {}});
    if (known) {
      const std::vector<double> fitted =
          predict_best_split(record_.rows, record_.costs, Overlap::pipelined, chunks, record_.fixed_s)
              .weights;
      record_.trials.push_back({"fitted", fitted, predicted(fitted), {}, 0, 1, 1, {}});
    }
    record_.trials.push_back({"equal", equal(), predicted(equal()), {}, 0, 1, 1, {}});
  }

  void test() {
    std::vector<CalibrationTrial>& trials = record_.trials;
    for (int round = 0; round < options_.repeats; ++round)
      for (std::size_t i = 0; i < trials.size(); ++i) {
        CalibrationTrial& trial = trials[round % 2 == 0 ? i : trials.size() - 1 - i];
        trial.seconds.push_back(timed(trial.weights));
        trial.mode = last_.mode;
      }
    for (CalibrationTrial& trial : trials) {
      trial.median_s = quantile(trial.seconds, 0.5);
      std::vector<double> gains;
      for (std::size_t i = 0; i < trial.seconds.size(); ++i)
        gains.push_back(trials.front().seconds[i] / trial.seconds[i]);
      trial.gain = quantile(gains, 0.5);
      trial.sure_gain = quantile(gains, 0.25);
    }
  }

  void decide() {
    const CalibrationTrial* best = &record_.trials.front();
    const CalibrationTrial* fastest = nullptr;
    for (const CalibrationTrial& trial : record_.trials) {
      if (trial.name != "master" && (!fastest || trial.gain > fastest->gain)) fastest = &trial;
      if (trial.sure_gain > 1 && trial.median_s < best->median_s) best = &trial;
    }
    record_.chosen = best->name;
    record_.weights = best->weights;
    record_.near_crossover = fastest && fastest->gain > 1 - near && fastest->gain < 1 + near;
  }

  const DeviceSet& devices_;
  const CalibrationCall& call_;
  const CalibrateOptions& options_;
  CalibrationRecord& record_;
  DispatchReport last_;
};

}  // namespace

CalibrationRecord calibrate(const DeviceSet& devices, const std::string& operation, std::int64_t rows,
                            const CalibrationCall& call, const CalibrateOptions& options) {
  require_operation(operation, "calibrate");
  if (!call) throw_usage("calibrate: no call was given; pass a function that runs the operation");
  if (options.repeats < 3 || options.warm_up < 0 || options.probe_calls < 1)
    throw_usage(fmt::format("calibrate: {} repeats, {} warm-ups, {} probe calls; give at least 3, 0 and 1",
                            options.repeats, options.warm_up, options.probe_calls));
  if (rows < 2 * devices.size())
    throw_usage(fmt::format("calibrate: {} rows for {} devices; give at least {}", rows, devices.size(),
                            2 * devices.size()));
  CalibrationRecord record;
  record.operation = operation;
  record.rows = rows;
  for (int d = 0; d < devices.size(); ++d)
    record.devices.push_back(devices[d].name() + " " + devices[d].info().model);
  if (devices.size() == 1) {
    record.weights = {1};
    record.chosen = "master";
    return record;
  }
  Calibration(devices, call, options, record).run();
  return record;
}

std::string CalibrationRecord::describe() const {
  std::string text = fmt::format("{}, {} rows: {}{}\n", operation, rows,
                                 chosen == "master" ? "the first device alone" : "the " + chosen + " split",
                                 near_crossover ? " (near the crossover)" : "");
  for (std::size_t d = 0; d < costs.size(); ++d)
    text += fmt::format("  {}: {:.3g} ns a row, in {:.3g}, out {:.3g}; weight {:.4g}\n", devices[d],
                        costs[d].compute_s * 1e9, costs[d].in_s * 1e9, costs[d].out_s * 1e9, weights[d]);
  text += fmt::format("  fixed {:.3g} us a call\n", fixed_s * 1e6);
  for (const CalibrationTrial& trial : trials) {
    std::vector<std::string> times;
    for (const double seconds : trial.seconds) times.push_back(fmt::format("{:.4g}", seconds * 1e3));
    text += fmt::format(
        "  {} [{:.4g}] {}: median {:.4g} ms, predicted {:.4g} ms, gain {:.3f} (three of four above "
        "{:.3f}); ms: {}\n",
        trial.name, fmt::join(trial.weights, ", "), trial.mode, trial.median_s * 1e3, trial.predicted_s * 1e3,
        trial.gain, trial.sure_gain, fmt::join(times, " "));
  }
  return text;
}

}  // namespace shardwise
