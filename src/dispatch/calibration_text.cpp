// What a calibration found, in words.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "shardwise/dispatch/calibrate.hpp"

namespace shardwise {
namespace {

std::string time_text(double seconds) {
  return seconds < 999.5e-9 ? fmt::format("{:.3g} ns", seconds * 1e9)
         : seconds < 1e-3   ? fmt::format("{:.4g} us", seconds * 1e6)
         : seconds < 1      ? fmt::format("{:.4g} ms", seconds * 1e3)
                            : fmt::format("{:.4g} s", seconds);
}

/// "sim:0" of "sim:0 simulated device".
std::string first_name(const CalibrationRecord& record) {
  return record.devices.front().substr(0, record.devices.front().find(' '));
}

std::string split_name(const CalibrationRecord& record, const std::string& trial) {
  if (trial == "master") return first_name(record) + " alone";
  if (trial == "fitted") return "shares fitted to these costs";
  if (trial == "equal") return "equal shares";
  if (trial == "threads") return "shares by number of threads";
  return trial;
}

/// The costs and the share of each device.
std::string devices_text(const CalibrationRecord& record, const char* item) {
  double all = 0;
  std::size_t width = 0;
  for (const double weight : record.weights) all += weight;
  for (const std::string& device : record.devices) width = std::max(width, device.size());
  std::string text =
      fmt::format("\nmeasured costs of one {0}, and the share of the {0}s that each device gets:\n", item);
  for (std::size_t d = 0; d < record.costs.size(); ++d) {
    const DeviceRowCost& cost = record.costs[d];
    text += fmt::format("  {:<{}}  share {:5.1f} %  computing {}", record.devices[d], width,
                        100 * record.weights[d] / all, time_text(cost.compute_s));
    if (cost.in_s > 0 || cost.out_s > 0)
      text += fmt::format(", copying to it {} and back {}", time_text(cost.in_s), time_text(cost.out_s));
    if (cost.direct_s > 0 && d > 0)
      text += fmt::format("; in the memory of {}, without copies, {} (while the others rest {})",
                          first_name(record), time_text(cost.direct_s), time_text(cost.direct_alone_s));
    text += "\n";
  }
  return text + fmt::format("  besides, a call takes {} on several devices and {} on {} alone\n",
                            time_text(record.fixed_s), time_text(record.master_fixed_s), first_name(record));
}

std::string trials_text(const CalibrationRecord& record) {
  std::size_t width = 0;
  for (const CalibrationTrial& trial : record.trials)
    width = std::max(width, split_name(record, trial.name).size());
  std::string text = fmt::format("\ntried {} times each, in turns:\n", record.trials.front().seconds.size());
  for (const CalibrationTrial& trial : record.trials) {
    const auto [least, most] = std::minmax_element(trial.seconds.begin(), trial.seconds.end());
    text += fmt::format("  {:<{}}  median {} ({} to {})", split_name(record, trial.name), width,
                        time_text(trial.median_s), time_text(*least), time_text(*most));
    if (trial.predicted_s > 0) text += fmt::format(", predicted {}", time_text(trial.predicted_s));
    if (trial.name != "master")
      text += fmt::format(", {:.3f} times as fast as {} alone ({:.3f} or more in three rounds of four)",
                          trial.gain, first_name(record), trial.sure_gain);
    text += "\n";
  }
  return text;
}

}  // namespace

std::string CalibrationRecord::describe() const {
  const char* const item = operation == "coverage" ? "ray" : "row";
  std::string text = fmt::format("{}, {} {}s a call: ", operation, rows, item);
  if (devices.size() == 1) return text + "there is one device, and nothing to share out\n";
  text += "fastest with " + split_name(*this, chosen);
  const auto best = std::ranges::find(trials, chosen, &CalibrationTrial::name);
  if (chosen != "master" && best != trials.end())
    text += fmt::format(", {:.3g} times as fast as {} alone", best->gain, first_name(*this));
  text += "\n";
  const auto is_faster = [](const CalibrationTrial& trial) {
    return trial.name != "master" && trial.gain > 1;
  };
  if (chosen == "master" && std::ranges::any_of(trials, is_faster))
    text += "  (what was faster below was not so in three rounds of four, and is not used)\n";
  if (near_crossover)
    text += fmt::format(
        "  (within 5 % of each other: for calls of another size, several devices and {} alone may change "
        "places)\n",
        first_name(*this));
  if (!costs.empty() && costs.size() == weights.size()) text += devices_text(*this, item);
  if (!trials.empty()) text += trials_text(*this);
  return text;
}

}  // namespace shardwise
