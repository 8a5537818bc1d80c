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
    for (int i = 0; i < options_.warm_up; ++i) {
      timed(one(0));
      timed(equal());
    }
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
  std::vector<double> equal() const { return std::vector<double>(static_cast<std::size_t>(count()), 1.0); }
  std::vector<double> by_threads() const {
    std::vector<double> weights;
    for (int d = 0; d < count(); ++d) weights.push_back(devices_[d].info().threads);
    return weights;
  }

  /// A call under these weights: its seconds, and its report in last_.
  double timed(const std::vector<double>& weights, DispatchMode mode = DispatchMode::automatic) {
    RowOptions options = options_.row_options;
    options.weights = weights;
    options.operation_weights.clear();
    options.min_rows_per_device = 0;
    if (mode != DispatchMode::automatic) options.mode = mode;
    const SimWorld* world = devices_.sim_world();
    const double virtual_begin = world ? world->virtual_time() : 0;
    const auto begin = std::chrono::steady_clock::now();
    last_ = call_(options);
    if (world) return world->virtual_time() - virtual_begin;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  /// Calls until `take` has what it wants, which only calls that were measured have. Of a kind the first and
  /// the third are, then one in eight. Gives the least time of all calls made.
  template <class Take>
  double probe(const std::vector<double>& weights, DispatchMode mode, const Take& take) {
    double least = -1;
    for (int i = 0; i < options_.probe_calls; ++i) {
      const double seconds = timed(weights, mode);
      least = least < 0 ? seconds : std::min(least, seconds);
      if (take(seconds)) break;
    }
    return least;
  }

  /// Each device alone, which tells what its launches and copies take, then all of them.
  void fit() {
    record_.costs.assign(static_cast<std::size_t>(count()), {});
    for (int d = 0; d < count(); ++d) {
      DeviceRowCost& cost = record_.costs[static_cast<std::size_t>(d)];
      // Copies apart from launches, so that either is known by itself.
      const double least = probe(one(d), DispatchMode::pipelined, [&](double) {
        const DeviceReport& report = last_.devices.at(static_cast<std::size_t>(d));
        if (report.lanes == 0) return false;
        const auto rows = static_cast<double>(report.lanes);
        // Calls on lanes tell no more than how long launches ran.
        cost.compute_s = std::max(report.compute_s, report.busy_s) / rows;
        cost.in_s = report.copy_in_s / rows;
        cost.out_s = report.copy_out_s / rows;
        return cost.compute_s > 0;
      });
      if (d == 0)
        record_.master_fixed_s = std::max(0.0, least - static_cast<double>(record_.rows) * cost.compute_s);
    }
    probe(equal(), DispatchMode::automatic, [&](double seconds) {
      double slowest = 0;
      for (std::size_t d = 0; d < last_.devices.size(); ++d) {
        const DeviceReport& report = last_.devices[d];
        const double compute = std::max(report.compute_s, report.busy_s);
        // The first device's, too: the others' launches are guests in its memory.
        if (last_.mode == to_string(DispatchMode::direct) && compute > 0 && report.lanes > 0)
          record_.costs[d].direct_s = compute / static_cast<double>(report.lanes);
        slowest = std::max({slowest, compute, report.copy_in_s, report.copy_out_s});
      }
      record_.fixed_s = std::max(0.0, seconds - slowest);
      return slowest > 0;
    });
  }

  /// How the devices' work may overlap: copies beside launches, or, where that was seen, no copies at all.
  std::vector<Overlap> overlaps() const {
    std::vector<Overlap> ways{Overlap::pipelined};
    for (const DeviceRowCost& cost : record_.costs)
      if (cost.direct_s > 0) return {Overlap::pipelined, Overlap::direct};
    return ways;
  }

  void add_trial(const char* name, std::vector<double> weights, double predicted_s) {
    CalibrationTrial trial;
    trial.name = name;
    trial.weights = std::move(weights);
    trial.predicted_s = predicted_s;
    record_.trials.push_back(std::move(trial));
  }

  void make_trials() {
    const bool known = is_known(record_.costs);
    const int chunks = options_.row_options.chunks_per_device;
    // The dispatcher takes the better way.
    const auto predicted = [&](const std::vector<double>& weights) {
      double best = 0;
      for (const Overlap way : overlaps()) {
        const double seconds =
            known ? predict_split(record_.rows, record_.costs, weights, way, chunks, record_.fixed_s).seconds
                  : 0;
        best = best == 0 ? seconds : std::min(best, seconds);
      }
      return best;
    };
    add_trial("master", one(0),
              known ? predict_master(record_.rows, record_.costs, record_.master_fixed_s).seconds : 0);
    if (known) {
      Prediction best;
      for (const Overlap way : overlaps()) {
        Prediction prediction = predict_best_split(record_.rows, record_.costs, way, chunks, record_.fixed_s);
        if (best.weights.empty() || prediction.seconds < best.seconds) best = std::move(prediction);
      }
      add_trial("fitted", best.weights, best.seconds);
    }
    add_trial("equal", equal(), predicted(equal()));
    const std::vector<double> threads = by_threads();
    if (std::any_of(threads.begin(), threads.end(), [&](double n) { return n != threads.front(); }))
      add_trial("threads", threads, predicted(threads));
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
    text += fmt::format("  {}: {:.3g} ns a row, in {:.3g}, out {:.3g}{}; weight {:.4g}\n", devices[d],
                        costs[d].compute_s * 1e9, costs[d].in_s * 1e9, costs[d].out_s * 1e9,
                        costs[d].direct_s > 0 ? fmt::format(", direct {:.3g}", costs[d].direct_s * 1e9) : "",
                        weights[d]);
  if (!costs.empty())
    text += fmt::format("  fixed {:.3g} us a call on several devices, {:.3g} on the first alone\n",
                        fixed_s * 1e6, master_fixed_s * 1e6);
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
