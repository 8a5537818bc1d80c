#include "bench/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <memory>

#include "bench/timing.hpp"
#include "dispatch/mean_of_most.hpp"
#include "dispatch/row_dispatcher.hpp"
#include "shardwise/rays/calibrate.hpp"

namespace shardwise::bench {

namespace {

/// What one calibration came to.
struct Outcome {
  std::string chosen;
  double share = 0;     ///< the better of the first device alone and the equal split / the run at the weights
  double noise = 0;     ///< the first device alone / itself, in the same rounds
  double said = 0;      ///< the equal split / the run at the weights, as the record predicts; 0: not known
  double found = 0;     ///< the same, as the rounds measured
  double chosen_s = 0;  ///< median of the run at the weights
  int rounds = 0;       ///< of the comparison
};

/// Host devices share their machine with others, who change what a core does for some tenths of a second to
/// some seconds: many short calibrations, each followed by its comparison, so that both meet the same
/// mixture.
constexpr int host_probes = 9, host_rounds = 9;
/// A comparison goes on at most so long until it is settled.
constexpr double most_seconds_on_host = 2;

/// Round by round: what slowed one of the two in a round mostly slowed the other.
std::vector<double> over(const std::vector<double>& above, const std::vector<double>& below) {
  std::vector<double> ratios;
  for (std::size_t round = 0; round < above.size(); ++round) ratios.push_back(above[round] / below[round]);
  return ratios;
}

/// Whether the ratio of their means is known to within a percent.
bool is_settled(const std::vector<double>& above, const std::vector<double>& below) {
  const Mean a = mean_of_most(above), b = mean_of_most(below);
  return std::hypot(a.error / a.value, b.error / b.value) < 0.01;
}

/// An operation on a scene of all devices and of the first one alone, with the same rows.
struct Bout {
  std::shared_ptr<Scene> all, first;
  std::string operation;
  std::int64_t rows = 0;
  int rounds = 0;
  CalibrateOptions options;
  CalibrationCall call, alone;
  double most_seconds = 0;  ///< of rounds that are added while the gain is not settled
  std::vector<Outcome> outcomes;
  bool is_warm = false;

  /// Memory and clocks, before any calibration: each way once.
  double warm_up() {
    is_warm = true;
    alone({});
    return seconds_of(all->devices(), [&] { call({}); });
  }

  Outcome run() {
    // Nothing is known from the calibration before.
    all->rows().forget_costs();
    const CalibrationRecord record = calibrate(all->devices(), operation, rows, call, options);
    Outcome outcome;
    outcome.chosen = record.chosen;
    // Both were predicted before any round was run that measures them.
    const auto predicted = [&](const std::string& name) {
      for (const CalibrationTrial& trial : record.trials)
        if (trial.name == name) return trial.predicted_s;
      return 0.0;
    };
    if (predicted(record.chosen) > 0) outcome.said = predicted("equal") / predicted(record.chosen);
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
    // More rounds where the machine is disturbed; how far the gain is from what was said has no part in it.
    double spent = 0;
    for (int round = 0; round < rounds || (spent < most_seconds && !is_settled(times[2], times[0]));
         ++round) {
      for (const std::size_t i : order) {
        times[i].push_back(seconds_of(all->devices(), calls[i]));
        spent += times[i].back();
      }
      std::ranges::reverse(order);
    }
    const auto& better = spread(times[1]).median <= spread(times[2]).median ? times[1] : times[2];
    outcome.share = spread(over(better, times[0])).median;
    outcome.noise = spread(over(times[1], times[3])).median;
    outcome.found = mean_of_most(times[2]).value / mean_of_most(times[0]).value;
    outcome.chosen_s = spread(times[0]).median;
    outcome.rounds = static_cast<int>(times[0].size());
  }
};

/// All of them, for people.
std::string summary(const std::vector<Outcome>& all) {
  std::string list, gains, in_all;
  double least = 0, noise = 0, worst = 0, said = 0, found = 0;
  int alone = 0, rounds = 0;
  for (const Outcome& one : all) {
    list += fmt::format(" {}{:.3f}", static_cast<char>(std::toupper(one.chosen.front())), one.share);
    least = least == 0 ? one.share : std::min(least, one.share);
    noise = std::max(noise, std::abs(one.noise - 1));
    alone += one.chosen == "master";
    rounds = std::max(rounds, one.rounds);
    if (one.said <= 0) continue;
    const double apart = one.found / one.said - 1;
    gains += fmt::format(" {:.3f}/{:.3f} ({:+.1f} %)", one.found, one.said, apart * 100);
    worst = std::max(worst, std::abs(apart));
    said += one.said;
    found += one.found;
  }
  if (said > 0) {
    const auto count =
        static_cast<double>(std::ranges::count_if(all, [](const Outcome& one) { return one.said > 0; }));
    in_all = fmt::format(
        "gain of the chosen weights over the equal split: predicted {:.3f}, measured {:.3f}, apart {:+.1f} "
        "%; ",
        said / count, found / count, (found / said - 1) * 100);
  }
  std::string text = in_all;
  text += "the better of the first device alone and the equal split over the run at the chosen weights ";
  text +=
      fmt::format("(M: master, F: fitted, E: equal, T: by threads), {} calibrations:{}; ", all.size(), list);
  text += fmt::format("least {:.3f}; the first device alone {} times; over itself within {:.3f} of 1; ",
                      least, alone, noise);
  if (!gains.empty())
    text += fmt::format("gain by calibration, measured/predicted:{}, at most {:.1f} % apart; ", gains,
                        worst * 100);
  return text + fmt::format("at most {} rounds", rounds);
}

}  // namespace

std::vector<Case> calibrate_cases(const Settings& settings) {
  const DeviceSet devices = open_for_times(settings);
  const PlatformKind kind = devices.master().kind();
  const bool disturbed = kind == PlatformKind::host && !settings.quick;
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
      bout->rounds = kind == PlatformKind::cuda ? 31 : 3;
      if (kind == PlatformKind::sim || settings.quick) bout->options.repeats = bout->options.probes = 3;
      if (disturbed) {
        bout->options.probes = host_probes;
        bout->options.repeats = bout->rounds = host_rounds;
        bout->most_seconds = most_seconds_on_host;
      }
      bout->call = operation_probe(*all, operation, rows);
      bout->alone = operation_probe(*first, operation, rows);
      Case entry;
      entry.name = fmt::format("{}-{}", place.name, operation);
      entry.devices = devices.spec();
      entry.work = fmt::format("{}, {} random rows in its bounds, in and out of the first device's memory",
                               place.text, rows);
      entry.units = static_cast<double>(rows);
      entry.all = [bout] {
        if (!bout->is_warm) return bout->warm_up();
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
