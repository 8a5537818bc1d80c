#include "bench/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>

#include "bench/timing.hpp"
#include "dispatch/row_dispatcher.hpp"
#include "shardwise/rays/calibrate.hpp"

namespace shardwise::bench {

namespace {

/// What one calibration came to.
struct Outcome {
  std::string chosen;
  double share = 0;  ///< the better of the first device alone and the equal split / the run at the weights
  double noise = 0;  ///< the first device alone / itself, in the same rounds
  double said = 0, found = 0;  ///< equal / fitted: as the fit predicts, and as the test measured
  double chosen_s = 0;         ///< median of the run at the weights
};

/// An operation on a scene of all devices and of the first one alone, with the same rows.
struct Bout {
  std::shared_ptr<Scene> all, first;
  std::string operation;
  std::int64_t rows = 0;
  int rounds = 0;
  CalibrateOptions options;
  CalibrationCall call, alone;
  std::vector<Outcome> outcomes;

  Outcome run() {
    // Nothing is known from the calibration before.
    all->rows().forget_costs();
    const CalibrationRecord record = calibrate(all->devices(), operation, rows, call, options);
    Outcome outcome;
    outcome.chosen = record.chosen;
    const CalibrationTrial *equal = nullptr, *fitted = nullptr;
    for (const CalibrationTrial& trial : record.trials) {
      if (trial.name == "equal") equal = &trial;
      if (trial.name == "fitted") fitted = &trial;
    }
    if (equal && fitted) {
      outcome.said = equal->predicted_s / fitted->predicted_s;
      outcome.found = equal->median_s / fitted->median_s;
    }
    compare(record, outcome);
    return outcome;
  }

 private:
  /// Each in turn, the order turned around every other round: whatever slows the machine slows all.
  void compare(const CalibrationRecord& record, Outcome& outcome) {
    RowOptions as_calibrated, equal;
    as_calibrated.operation_weights[record.operation] = record.weights;
    // The weights were proved at this size; the floor is for sizes that nobody has tried.
    as_calibrated.min_rows_per_device = equal.min_rows_per_device = 0;
    equal.weights.assign(static_cast<std::size_t>(all->devices().size()), 1.0);
    const auto one = [&] { alone({}); };
    std::vector<std::function<void()>> calls{[&] { call(as_calibrated); }, one, [&] { call(equal); }, one};
    std::vector<std::vector<double>> times(calls.size());
    std::vector<std::size_t> order{0, 1, 2, 3};
    for (int round = 0; round < rounds; ++round) {
      for (const std::size_t i : order) times[i].push_back(seconds_of(all->devices(), calls[i]));
      std::ranges::reverse(order);
    }
    const auto& better = spread(times[1]).median <= spread(times[2]).median ? times[1] : times[2];
    std::vector<double> shares, noises;
    for (std::size_t round = 0; round < times[0].size(); ++round) {
      shares.push_back(better[round] / times[0][round]);
      noises.push_back(times[1][round] / times[3][round]);
    }
    outcome.share = spread(shares).median;
    outcome.noise = spread(noises).median;
    outcome.chosen_s = spread(times[0]).median;
  }
};

/// All of them, for people. The runner's warm-up is left out.
std::string summary(const std::vector<Outcome>& all) {
  std::string list;
  std::string gains;
  double least = 0, noise = 0, worst = 0;
  int alone = 0, count = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const Outcome& one = all[i];
    list += fmt::format(" {}{:.3f}", static_cast<char>(std::toupper(one.chosen.front())), one.share);
    least = count == 0 ? one.share : std::min(least, one.share);
    noise = std::max(noise, std::abs(one.noise - 1));
    alone += one.chosen == "master";
    if (one.said > 0) {
      gains += fmt::format(" {:.3f}/{:.3f}", one.found, one.said);
      worst = std::max(worst, std::abs(one.found / one.said - 1));
    }
    ++count;
  }
  return fmt::format(
      "the better of the first device alone and the equal split over the run at the chosen weights (M: "
      "master, F: "
      "fitted, E: equal, T: by threads), {} calibrations:{}; least {:.3f}; the first device alone {} times; "
      "the first "
      "device over itself within {:.3f} of 1; the equal split over the fitted one, found/said by the fit:{}; "
      "at worst "
      "{:.1f} % apart",
      count, list, least, alone, noise, gains, worst * 100);
}

}  // namespace

std::vector<Case> calibrate_cases(const Settings& settings) {
  const DeviceSet devices = open_for_times(settings);
  const PlatformKind kind = devices.master().kind();
  const std::int64_t rows = rows_for(settings, devices);
  std::vector<Case> cases;
  for (const Place& place : places(settings, devices)) {
    const auto all = built(devices, place.model), first = built(devices.first(), place.model);
    for (const char* operation : {"trace_reflections:1", "intersect:full"}) {
      const auto bout = std::make_shared<Bout>();
      bout->all = all;
      bout->first = first;
      bout->operation = operation;
      bout->rows = rows;
      // Virtual times have no noise.
      bout->rounds = kind == PlatformKind::sim ? 3 : kind == PlatformKind::cuda ? 31 : settings.quick ? 3 : 7;
      if (kind == PlatformKind::sim || settings.quick) bout->options.repeats = 3;
      bout->call = operation_probe(*all, operation, rows);
      bout->alone = operation_probe(*first, operation, rows);
      Case entry;
      entry.name = fmt::format("{}-{}", place.name, operation);
      entry.devices = devices.spec();
      entry.work = fmt::format("{}, {} random rows in its bounds, in and out of the first device's memory",
                               place.text, rows);
      entry.units = static_cast<double>(rows);
      entry.all = [bout] {
        bout->outcomes.push_back(bout->run());
        return bout->outcomes.back().chosen_s;
      };
      entry.mode_after = [bout] { return bout->outcomes.back().chosen; };
      entry.note_after = [bout] { return summary(bout->outcomes); };
      cases.push_back(std::move(entry));
    }
  }
  return cases;
}

}  // namespace shardwise::bench
