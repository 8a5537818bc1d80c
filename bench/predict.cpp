#include "bench/predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bench/timing.hpp"
#include "dispatch/row_dispatcher.hpp"
#include "shardwise/dispatch/operation_table.hpp"
#include "shardwise/rays/calibrate.hpp"
#include "shardwise/runtime/links.hpp"
#include "shardwise/shard/machine_model.hpp"

namespace shardwise::bench {

namespace {

constexpr const char* fitted_on = "intersect:full";
constexpr const char* reflections = "trace_reflections:1";
/// Its launches do next to nothing but read and write.
constexpr const char* link_probe = "sample_ray";

struct Way {
  const char* name;
  DispatchMode mode;
  Overlap overlap;
};
constexpr Way ways[] = {{"pipelined", DispatchMode::pipelined, Overlap::pipelined},
                        {"direct", DispatchMode::direct, Overlap::direct},
                        {"sharded", DispatchMode::sharded, Overlap::none}};

std::vector<double> alone_on(int device, int count) {
  std::vector<double> weights(static_cast<std::size_t>(count), 0.0);
  weights[static_cast<std::size_t>(device)] = 1;
  return weights;
}

std::vector<double> equal(const DeviceSet& devices) {
  return std::vector<double>(static_cast<std::size_t>(devices.size()), 1.0);
}

RowOptions asked(DispatchMode mode, std::vector<double> weights) {
  RowOptions options;
  options.mode = mode;
  options.weights = std::move(weights);
  options.min_rows_per_device = 0;
  return options;
}

/// Fits the machine, and operations on it. Times are medians of as many calls as the benchmark has rounds.
class Fit {
 public:
  Fit(const DeviceSet& devices, int calls) : devices_(devices), calls_(calls) {}

  MachineModel machine;
  double merge_s = 0;  ///< of a map of one device, above its bytes on the way and the lanes
  std::string text;

  double median_of(const std::function<void()>& call) const {
    call();
    call();
    std::vector<double> times;
    for (int i = 0; i < calls_; ++i) times.push_back(seconds_of(devices_, call));
    return spread(times).median;
  }

  /// Seconds a row of each device's launches, or an empty list where this way is none for these devices.
  DispatchReport measured(const CalibrationCall& call, const RowOptions& options) const {
    // Of a kind the first and the third call are measured, then one in eight.
    for (int i = 0; i < 16; ++i) {
      DispatchReport report = call(options);
      for (const DeviceReport& device : report.devices)
        if (device.compute_s > 0) return report;
    }
    return {};
  }

  void fit_machine(Scene& scene, std::int64_t rows) {
    const int count = devices_.size();
    machine.devices.assign(static_cast<std::size_t>(count), {});
    // A few rows of something that traces nothing: what a call costs by itself.
    const CalibrationCall none = operation_probe(scene, link_probe, 32);
    machine.call_s = median_of([&] { none(asked(DispatchMode::master, {})); });
    const OperationModel operation = probe(scene, fitted_on, rows);
    const CalibrationCall call = operation_probe(scene, fitted_on, rows);
    const auto compute_of = [&](int d) {
      const DispatchReport report = measured(call, asked(DispatchMode::sharded, alone_on(d, count)));
      return report.devices.empty() ? 0.0 : report.devices[static_cast<std::size_t>(d)].compute_s;
    };
    const double of_first = count > 1 ? compute_of(0) : 0;
    for (int d = 1; d < count; ++d) {
      MachineDevice& device = machine.devices[static_cast<std::size_t>(d)];
      const double here = compute_of(d);
      if (of_first > 0 && here > 0) device.speed = of_first / here;
      fit_link(d, device);
      if (devices_.can_peer(0, d)) device.direct_s_per_byte = direct_s_per_byte(scene, d, rows);
    }
    text = fmt::format(
        "fit on {} rows of {}, and {} rows of {} for launches that work over the link: a call {:.3g} us, a "
        "launch "
        "{:.3g} us, a row {:.3g} ns",
        rows, fitted_on, rows, link_probe, machine.call_s * 1e6, operation.launch_s * 1e6,
        operation.row_s * 1e9);
    for (int d = 1; d < count; ++d) {
      const MachineDevice& device = machine.devices[static_cast<std::size_t>(d)];
      text += fmt::format("; {}: speed {:.3f}, in {:.3g} and out {:.3g} GB/s after {:.3g} us, launches {}",
                          devices_[d].name(), device.speed, 1e-9 / device.in_s_per_byte,
                          1e-9 / device.out_s_per_byte, device.copy_s * 1e6,
                          device.direct_s_per_byte > 0
                              ? fmt::format("{:.3g} GB/s", 1e-9 / device.direct_s_per_byte)
                              : "as in their own memory");
    }
    if (count == 1) return;
    for (const Way& way : ways) {
      if (!possible(way)) continue;
      const double seconds = median_of([&] { call(asked(way.mode, equal(devices_))); });
      double& above = machine.spread_s[static_cast<std::size_t>(way.overlap)];
      above = 0;
      above = std::max(0.0, seconds - predict_spread(machine, operation, rows, equal(devices_), way.overlap,
                                                     RowOptions{}.chunks_per_device));
      text += fmt::format("; {} {:.3g} us above its slowest device", way.name, above * 1e6);
    }
  }

  /// From two sizes, so that what does not grow with the rows is not counted.
  double direct_s_per_byte(Scene& scene, int device, std::int64_t rows) const {
    const auto on = static_cast<std::size_t>(device);
    double with = 0, without = 0;
    for (const int half : {0, 1}) {
      const CalibrationCall touch = operation_probe(scene, link_probe, rows >> half);
      const auto seconds = [&](DispatchMode mode) {
        const DispatchReport report = measured(touch, asked(mode, alone_on(device, devices_.size())));
        return report.devices.empty() ? 0.0 : report.devices[on].compute_s;
      };
      const double sign = half ? -1 : 1;
      with += sign * seconds(DispatchMode::direct);
      without += sign * seconds(DispatchMode::sharded);
    }
    const OperationEntry& entry = *find_operation(link_probe);
    const double bytes = static_cast<double>(rows - (rows >> 1)) * std::max(entry.bytes_in, entry.bytes_out);
    return std::sqrt(std::max(0.0, with * with - without * without)) / bytes;
  }

  bool possible(const Way& way) const {
    for (int d = 1; d < devices_.size(); ++d)
      if (way.overlap == Overlap::direct &&
          (!devices_.can_peer(0, d) || !devices_.can_peer(d, 0) || devices_[d].kind() != devices_[0].kind()))
        return false;
    return true;
  }

  /// An operation on another scene: what two calls of the first device alone tell.
  OperationModel probe(Scene& scene, const std::string& name, std::int64_t rows) const {
    double seconds[2];
    for (const int half : {1, 0}) {
      const CalibrationCall call = operation_probe(scene, name, rows >> half);
      seconds[1 - half] = median_of([&] { call(asked(DispatchMode::master, {})); });
    }
    OperationModel operation = operation_of_two_calls(machine, rows / 2, seconds[0], rows, seconds[1]);
    const OperationEntry& entry = *find_operation(name);
    operation.bytes_in = entry.bytes_in;
    operation.bytes_out = entry.bytes_out;
    // The table has the bytes of four slots a row.
    if (name == std::string(reflections)) operation.bytes_out /= 4;
    return operation;
  }

  // ---- accumulation

  static CoverageOptions with_samples(CoverageOptions map, std::int64_t samples) {
    map.samples = samples;
    map.split.min_rows_per_device = 0;
    return map;
  }
  static CoverageOptions with_weights(CoverageOptions map, std::vector<double> weights) {
    map.split.weights = std::move(weights);
    return map;
  }

  OperationModel probe_map(Scene& scene, const CoverageOptions& map, std::int64_t samples) const {
    double seconds[2];
    for (const int half : {1, 0}) {
      const CoverageOptions options =
          with_weights(with_samples(map, samples >> half), alone_on(0, devices_.size()));
      seconds[1 - half] = median_of([&] { (void)coverage(scene, options).get(); });
    }
    return operation_of_two_calls(machine, samples / 2, seconds[0], samples, seconds[1]);
  }

  /// Every other device sends its map, pass by pass; the master adds them up, one after the other.
  double predict_map(const OperationModel& operation, const CoverageOptions& map,
                     std::int64_t samples) const {
    constexpr double cell_bytes = 32;
    const double rows = static_cast<double>(samples) / devices_.size();
    double slowest = 0, merging = 0;
    for (std::size_t d = 0; d < machine.devices.size(); ++d) {
      const MachineDevice& device = machine.devices[d];
      slowest = std::max(slowest, operation.launch_s + rows * operation.row_s / device.speed);
      // Windows are contiguous: a device has the passes that its share of the lanes touches.
      const double passes = std::ceil(static_cast<double>(map.passes) / devices_.size());
      if (d > 0)
        merging += passes * (static_cast<double>(map.grid.resolution0 * map.grid.resolution1) * cell_bytes *
                                 device.out_s_per_byte +
                             device.copy_s) +
                   merge_s;
    }
    return machine.call_s + slowest + merging;
  }

  void fit_map(Scene& scene, const CoverageOptions& map, std::int64_t samples) {
    const OperationModel operation = probe_map(scene, map, samples);
    const CoverageOptions options = with_weights(with_samples(map, samples), equal(devices_));
    const double seconds = median_of([&] { (void)coverage(scene, options).get(); });
    merge_s = 0;
    if (devices_.size() > 1)
      merge_s = std::max(0.0, seconds - predict_map(operation, map, samples)) / (devices_.size() - 1);
    text += fmt::format("; a map of {} x {} cells, {} rays: {:.3g} us a merge beyond its bytes",
                        map.grid.resolution0, map.grid.resolution1, samples, merge_s * 1e6);
  }

 private:
  void fit_link(int device, MachineDevice& out) {
    for (const DeviceLink& link : measure_links(devices_.subset({0, device}))) {
      if (link.bytes_per_s <= 0) continue;
      // Host devices share one memory: one pair is measured for both ways.
      if (link.to == 1 || out.in_s_per_byte == 0) out.in_s_per_byte = 1 / link.bytes_per_s;
      if (link.from == 1 || out.out_s_per_byte == 0) out.out_s_per_byte = 1 / link.bytes_per_s;
      out.copy_s = std::max(out.copy_s, link.latency_s);
    }
  }

  DeviceSet devices_;
  int calls_;
};

/// The errors of all rows, told with the last.
struct Errors {
  std::vector<double> all;
  std::size_t expected = 0;
  std::string add(double predicted_s, const std::vector<double>& measured) {
    const double median = spread(measured).median, error = predicted_s / median - 1;
    all.push_back(std::abs(error));
    std::string text = fmt::format("predicted {:.4g} ms, measured {:.4g} ms, error {:+.1f} %",
                                   predicted_s * 1e3, median * 1e3, error * 100);
    if (all.size() == expected)
      text += fmt::format("; ALL {} ROWS: median error {:.1f} %, largest {:.1f} %", expected,
                          spread(all).median * 100, *std::ranges::max_element(all) * 100);
    return text;
  }
};

}  // namespace

std::vector<Case> predict_cases(const Settings& settings) {
  const DeviceSet devices = open_for_times(settings);
  const bool host = devices.master().kind() == PlatformKind::host;
  const std::int64_t rows = rows_for(settings, devices), probed = rows / 4;
  const std::int64_t samples = settings.quick ? 200'000 : host ? 1'000'000 : 100'000'000;
  const std::int64_t probed_samples = host || settings.quick ? samples / 4 : 1 << 24;
  const auto fit = std::make_shared<Fit>(devices, settings.repeat);
  const auto errors = std::make_shared<Errors>();
  std::vector<Case> cases;
  const auto add = [&](std::string name, std::string work, double units, double predicted_s,
                       std::function<double()> run, std::function<std::string()> mode) {
    Case entry;
    entry.name = std::move(name);
    entry.devices = devices.spec();
    entry.work = std::move(work);
    entry.units = units;
    const auto times = std::make_shared<std::vector<double>>();
    entry.all = [run = std::move(run), times] {
      times->push_back(run());
      return times->back();
    };
    entry.mode_after = std::move(mode);
    entry.limit = "predicted";
    entry.limit_seconds = [predicted_s] { return predicted_s; };
    entry.note_after = [errors, predicted_s, times] {
      // The first is the runner's warm-up.
      return errors->add(predicted_s, {times->begin() + 1, times->end()});
    };
    cases.push_back(std::move(entry));
    ++errors->expected;
  };

  for (const Place& place : places(settings, devices)) {
    const auto scene = built(devices, place.model);
    const bool is_fitted = cases.empty();
    if (is_fitted) fit->fit_machine(*scene, probed);
    // What calls of a few rows cost is no guide for calls that are free to choose.
    scene->rows().forget_costs();
    for (const char* name : {fitted_on, reflections}) {
      const OperationModel operation = fit->probe(*scene, name, probed);
      const auto call = std::make_shared<CalibrationCall>(operation_probe(*scene, name, rows));
      const std::string work = fmt::format(
          "{}, {} random rows; probed: {} and {} rows on the first device, {:.3g} us and {:.3g} ns a row",
          place.text, rows, probed / 2, probed, operation.launch_s * 1e6, operation.row_s * 1e9);
      const auto last = std::make_shared<std::string>();
      const auto add_way = [&](const std::string& way, RowOptions options, double predicted_s) {
        add(
            fmt::format("{}-{}-{}", place.name, name, way), work, static_cast<double>(rows), predicted_s,
            [scene, call, options, last] {
              return seconds_of(scene->devices(), [&] { *last = (*call)(options).mode; });
            },
            [last] { return *last; });
      };
      const double alone = predict_alone(fit->machine, operation, rows);
      add_way("alone", asked(DispatchMode::master, {}), alone);
      if (devices.size() == 1) continue;
      double best = alone;
      const int chunks = RowOptions{}.chunks_per_device;
      for (const Way& way : ways) {
        if (!fit->possible(way)) continue;
        add_way(way.name, asked(way.mode, equal(devices)),
                predict_spread(fit->machine, operation, rows, equal(devices), way.overlap, chunks));
        if (way.overlap == Overlap::none) continue;
        const std::vector<double> balanced =
            balanced_weights(fit->machine, operation, rows, way.overlap, chunks);
        best = std::min(best, predict_spread(fit->machine, operation, rows, balanced, way.overlap, chunks));
      }
      add_way("free", asked(DispatchMode::automatic, {}), best);
    }
    // Maps: the merge is fitted on the cloud, the scene asked for is predicted.
    if (place.name == "light" || (is_fitted && devices.size() == 1)) continue;
    CoverageOptions map = map_of_scene(scene->model(), settings, samples);
    if (is_fitted) {
      map.transmitters = {{{0, 0, 0.5}, 1}};
      map.grid = {2, 0.1, -1, 1, -1, 1, 369, 302};
      fit->fit_map(*scene, map, probed_samples);
      continue;
    }
    const OperationModel operation = fit->probe_map(*scene, map, probed_samples);
    const std::string work = fmt::format(
        "{}, {} rays, 3 reflections, {} x {} cells, 8 passes; probed: {} and {} rays on the first device, "
        "{:.3g} us and {:.3g} ns a ray",
        place.text, samples, map.grid.resolution0, map.grid.resolution1, probed_samples / 2, probed_samples,
        operation.launch_s * 1e6, operation.row_s * 1e9);
    const auto add_map = [&](const char* way, std::vector<double> weights, double predicted_s) {
      const CoverageOptions options = Fit::with_weights(Fit::with_samples(map, samples), std::move(weights));
      const auto last = std::make_shared<std::string>();
      add(
          fmt::format("{}-coverage-{}", place.name, way), work, static_cast<double>(samples), predicted_s,
          [scene, options, last] {
            return seconds_of(scene->devices(),
                              [&] { *last = coverage(*scene, options).get().dispatch.mode; });
          },
          [last] { return *last; });
    };
    add_map("alone", alone_on(0, devices.size()), predict_alone(fit->machine, operation, samples));
    if (devices.size() > 1) add_map("equal", equal(devices), fit->predict_map(operation, map, samples));
  }
  // The fit, before everything that it predicts.
  if (!cases.empty()) cases.front().work = fit->text + "; " + cases.front().work;
  return cases;
}

}  // namespace shardwise::bench
