#include "shardwise/dispatch/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "dispatch/mean_of_most.hpp"
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
  double timed(const std::vector<double>& weights, DispatchMode mode = DispatchMode::automatic,
               bool measured = false) {
    RowOptions options = options_.row_options;
    options.weights = weights;
    options.operation_weights.clear();
    options.min_rows_per_device = 0;
    options.measured = measured;
    if (mode != DispatchMode::automatic) options.mode = mode;
    const SimWorld* world = devices_.sim_world();
    const double virtual_begin = world ? world->virtual_time() : 0;
    const auto begin = std::chrono::steady_clock::now();
    last_ = call_(options);
    // What is left of the set is another one: its costs would pass for those of all.
    if (!last_.failures.empty())
      throw Error(ErrorClass::device,
                  fmt::format("calibrate: a device failed ({}); calibrate again on devices that work",
                              last_.failures.front().error));
    if (world) return world->virtual_time() - virtual_begin;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  using Costs = std::vector<DeviceRowCost>;  ///< one a device

  /// In rounds, so that what slows the machine for a while slows all probes.
  void fit() {
    record_.costs.assign(static_cast<std::size_t>(count()), {});
    for (int round = 0; round < options_.probes; ++round) {
      rounds_.emplace_back(static_cast<std::size_t>(count()));
      for (int i = 0; i < count(); ++i) probe_alone(round % 2 == 0 ? i : count() - 1 - i);
      settle();
      probe_together();
      settle();
    }
  }

  const DeviceReport& report_of(int device) const {
    return last_.devices.at(static_cast<std::size_t>(device));
  }
  /// Of its launches in the last call. Calls on lanes tell no more than how long launches ran.
  double launches_s(int device) const {
    return std::max(report_of(device).compute_s, report_of(device).busy_s);
  }
  /// The same a row; 0: it did nothing, or was not measured.
  double row_s(int device) const {
    const std::int64_t rows = report_of(device).lanes;
    return rows > 0 ? launches_s(device) / static_cast<double>(rows) : 0;
  }

  /// What its launches and copies take, apart from each other, so that either is known by itself.
  void probe_alone(int d) {
    DeviceRowCost& cost = rounds_.back()[static_cast<std::size_t>(d)];
    const double seconds = timed(one(d), DispatchMode::pipelined, true);
    cost.compute_s = row_s(d);
    if (cost.compute_s <= 0) return;
    const auto rows = static_cast<double>(report_of(d).lanes);
    cost.in_s = report_of(d).copy_in_s / rows;
    cost.out_s = report_of(d).copy_out_s / rows;
    if (d == 0) master_fixed_.push_back(std::max(0.0, seconds - launches_s(d)));
    if (together_mode_ != to_string(DispatchMode::direct)) return;
    // The first device's own launches work in its memory.
    if (d > 0) timed(one(d), DispatchMode::direct, true);
    cost.direct_alone_s = row_s(d);
  }

  /// At the best split that is known so far: all of them work all the time, so what each takes is what it
  /// takes beside the others, which share its memory, its caches or its power.
  void probe_together() {
    const double seconds =
        timed(is_known(record_.costs) ? best().weights : equal(), DispatchMode::automatic, true);
    double slowest = 0;
    for (int d = 0; d < count(); ++d) {
      slowest = std::max({slowest, launches_s(d), report_of(d).copy_in_s, report_of(d).copy_out_s});
      // The first device's, too: the others' launches are guests in its memory.
      if (last_.mode == to_string(DispatchMode::direct))
        rounds_.back()[static_cast<std::size_t>(d)].direct_s = row_s(d);
    }
    if (slowest <= 0) return;
    // What does not overlap is another in each mode.
    if (last_.mode != together_mode_) fixed_.clear();
    together_mode_ = last_.mode;
    fixed_.push_back(std::max(0.0, seconds - slowest));
  }

  /// The fit: means of what the rounds have measured.
  void settle() {
    for (const auto field : fields)
      for (std::size_t d = 0; d < record_.costs.size(); ++d) {
        std::vector<double> seen;
        for (const Costs& round : rounds_)
          if (round[d].*field > 0) seen.push_back(round[d].*field);
        if (!seen.empty()) record_.costs[d].*field = mean_of_most(std::move(seen)).value;
      }
    if (!fixed_.empty()) record_.fixed_s = mean_of_most(fixed_).value;
    if (!master_fixed_.empty()) record_.master_fixed_s = mean_of_most(master_fixed_).value;
  }

  /// The mean of what the model says with each round's costs: a call ends with its slowest device, which is
  /// not the same one in every round.
  template <class Model>
  double mean_over_rounds(const Model& seconds_with) const {
    std::vector<double> said;
    for (Costs costs : rounds_) {
      for (const auto field : fields)
        for (std::size_t d = 0; d < costs.size(); ++d)
          if (costs[d].*field <= 0) costs[d].*field = record_.costs[d].*field;
      said.push_back(seconds_with(costs));
    }
    return mean_of_most(std::move(said)).value;
  }

  /// How the devices' work may overlap: copies beside launches, or, where that was seen, no copies at all.
  /// Host devices never copy where they need not.
  std::vector<Overlap> overlaps() const {
    const bool direct =
        std::ranges::any_of(record_.costs, [](const auto& cost) { return cost.direct_s > 0; });
    if (!direct) return {Overlap::pipelined};
    if (devices_.master().kind() == PlatformKind::host) return {Overlap::direct};
    return {Overlap::pipelined, Overlap::direct};
  }

  Prediction best() const {
    Prediction best;
    for (const Overlap way : overlaps()) {
      Prediction prediction = predict_best_split(record_.rows, record_.costs, way,
                                                 options_.row_options.chunks_per_device, record_.fixed_s);
      if (best.weights.empty() || prediction.seconds < best.seconds) best = std::move(prediction);
    }
    return best;
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
    const auto predicted = [&](const std::vector<double>& weights) {
      if (!known) return 0.0;
      return mean_over_rounds([&](const Costs& costs) {
        double least = -1;
        // The dispatcher takes the better way.
        for (const Overlap way : overlaps()) {
          const double seconds = predict_split(record_.rows, costs, weights, way,
                                               options_.row_options.chunks_per_device, record_.fixed_s)
                                     .seconds;
          least = least < 0 ? seconds : std::min(least, seconds);
        }
        return least;
      });
    };
    add_trial("master", one(0),
              known ? mean_over_rounds([&](const Costs& costs) {
                return predict_master(record_.rows, costs, record_.master_fixed_s).seconds;
              })
                    : 0);
    if (known) {
      const std::vector<double> weights = best().weights;
      add_trial("fitted", weights, predicted(weights));
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
  static constexpr double DeviceRowCost::*fields[] = {&DeviceRowCost::compute_s, &DeviceRowCost::direct_s,
                                                      &DeviceRowCost::direct_alone_s, &DeviceRowCost::in_s,
                                                      &DeviceRowCost::out_s};
  std::vector<Costs> rounds_;  ///< what each round of probes measured; 0: nothing
  std::vector<double> fixed_, master_fixed_;
  std::string together_mode_;
};

}  // namespace

CalibrationRecord calibrate(const DeviceSet& devices, const std::string& operation, std::int64_t rows,
                            const CalibrationCall& call, const CalibrateOptions& options) {
  require_operation(operation, "calibrate");
  if (!call) throw_usage("calibrate: no call was given; pass a function that runs the operation");
  if (options.repeats < 3 || options.warm_up < 0 || options.probes < 1)
    throw_usage(fmt::format("calibrate: {} repeats, {} warm-ups, {} probes; give at least 3, 0 and 1",
                            options.repeats, options.warm_up, options.probes));
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

}  // namespace shardwise
