#pragma once
// The runner behind `shardwise bench`: cases measured on all devices and on one, interleaved in the same run,
// so that a machine that slows down slows both. Reports the least and the median time of each.

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace shardwise::bench {

/// One piece of work. Each function runs it once and returns the seconds that count (set-up excluded).
struct Case {
  std::string name;     ///< unique in its benchmark, stable between versions: a baseline finds it by this
  std::string work;     ///< what one run is, for people: "munich, 10 M rays, 3 bounces"
  std::string devices;  ///< as given
  std::string mode;
  double units = 0;                       ///< pieces (rays, rows) in one run; 0: per_unit_ns stays null
  std::function<double()> all;            ///< on the devices given
  std::function<double()> one;            ///< on the first alone, or the peer that `work` names; may be empty
  std::string limit;                      ///< the physical rate that the row is held against; may be empty
  std::function<double()> limit_seconds;  ///< the time of the same work at that rate, measured; may be empty
  /// Where set: asked after the runs, for what is known only then. They replace `mode`
  /// and become the note of the row.
  std::function<std::string()> mode_after, note_after;
};

struct Settings {
  std::string devices;  ///< a device specification; empty: the default
  std::string scene;    ///< a scene file; empty: the benchmark's own
  int repeat = 7;
  bool quick = false;  ///< small work, for a smoke run
  const std::atomic<bool>* cancel = nullptr;
};

struct Benchmark {
  std::string name, description;
  std::function<std::vector<Case>(const Settings&)> make;
  bool takes_scene = false;  ///< one may be given in place of its own
};

/// What `shardwise bench` offers, in the order of its help.
const std::vector<Benchmark>& benchmarks();

struct Spread {
  double min = 0, median = 0;
};

/// The least and the median (of an even count, the mean of the middle two). `seconds` is not empty.
Spread spread(std::vector<double> seconds);

struct Row {
  std::string name, work, devices, mode;
  Spread all;
  bool has_one = false;
  Spread one;
  double ratio = 0;        ///< one.min / all.min; only with has_one
  double per_unit_ns = 0;  ///< of all.min; 0: not counted
  std::string limit;
  double share_of_limit = 0;  ///< limit's min / all.min; 0: no limit
  std::string note;           ///< of Case::note_after: other in every run
};

/// Runs a case: one warm-up of each function, then `repeat` rounds of all, one, limit in turn, the order
/// reversed in every other round. Throws Error{interrupted} once settings.cancel is true, Error{internal}
/// where a function returns a time that is not positive and finite.
Row run_case(const Case& work, const Settings& settings);

}  // namespace shardwise::bench
