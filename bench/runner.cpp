#include "runner.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "shardwise/runtime/error.hpp"

namespace shardwise::bench {
namespace {

double measure(const std::function<double()>& run, const Case& work, const Settings& settings) {
  if (settings.cancel && settings.cancel->load()) {
    throw Error(ErrorClass::interrupted, fmt::format("bench: stopped in '{}'", work.name));
  }
  const double seconds = run();
  if (!(seconds > 0) || !std::isfinite(seconds)) {
    throw Error(ErrorClass::internal,
                fmt::format("bench: '{}' measured {} s; report this", work.name, seconds));
  }
  return seconds;
}

}  // namespace

Spread spread(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  const std::size_t middle = seconds.size() / 2;
  const double median =
      seconds.size() % 2 == 1 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2;
  return {seconds.front(), median};
}

Row run_case(const Case& work, const Settings& settings) {
  if (settings.repeat < 1) {
    throw_usage(fmt::format("--repeat must be at least 1 (found {})", settings.repeat));
  }
  struct Part {
    const std::function<double()>* run;
    std::vector<double> seconds;
  };
  Part all{&work.all, {}}, one{&work.one, {}}, limit{&work.limit_seconds, {}};
  std::vector<Part*> parts;
  for (Part* part : {&all, &one, &limit}) {
    if (*part->run) parts.push_back(part);
  }
  for (Part* part : parts) measure(*part->run, work, settings);
  for (int round = 0; round < settings.repeat; ++round) {
    for (Part* part : parts) part->seconds.push_back(measure(*part->run, work, settings));
    std::ranges::reverse(parts);
  }

  Row row{work.name, work.work, work.devices, work.mode, spread(all.seconds), false, {}, 0, 0, work.limit,
          0,         {}};
  if (work.mode_after) row.mode = work.mode_after();
  if (work.note_after) row.note = work.note_after();
  if (work.one) {
    row.has_one = true;
    row.one = spread(one.seconds);
    row.ratio = row.one.min / row.all.min;
  }
  if (work.units > 0) row.per_unit_ns = row.all.min * 1e9 / work.units;
  if (work.limit_seconds) row.share_of_limit = spread(limit.seconds).min / row.all.min;
  return row;
}

}  // namespace shardwise::bench
