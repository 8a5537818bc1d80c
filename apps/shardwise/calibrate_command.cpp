// shardwise calibrate: the shares of the devices at which an operation is fastest, found, proved and kept.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "calibration_option.hpp"
#include "command.hpp"
#include "coverage_request.hpp"
#include "coverage_run.hpp"
#include "log.hpp"
#include "output_file.hpp"
#include "report_file.hpp"
#include "scene_options.hpp"
#include "shardwise/dispatch/operation_table.hpp"
#include "shardwise/rays/calibrate.hpp"
#include "shardwise/runtime/error.hpp"
#include "signals.hpp"
#include "surfaces.hpp"
#include "values.hpp"

namespace shardwise::program {
namespace {

/// As typed.
struct CalibrateText {
  std::string repeats = "11", warm_up = "1", probes = "7", output;
};

struct RowsText : CalibrateText {
  std::string operation, scene, rows = "1M", tracer = "auto", json;
  bool strict = false;
  DeviceOptions devices;
  SceneFileOptions scene_options;
};

struct MapText : CalibrateText {
  CoverageText coverage;
};

void add_calibrate_options(CLI::App& app, CalibrateText& text) {
  const auto add = [&app](const char* name, std::string& target, const char* type, const char* help) {
    app.add_option(name, target, help)->type_name(type)->group("Calibration");
  };
  add("--repeats", text.repeats, "N", "Rounds of the test: every split once, in turn (11)");
  add("--warm-up", text.warm_up, "N", "Calls before any is timed, of the first device and of all (1)");
  add("--probes", text.probes, "N", "Rounds of probes: each device alone once, then all together (7)");
  add("-o,--output", text.output, "FILE",
      "Keep the record, for --calibration; other operations in the file stay");
}

CalibrateOptions options_of(const CalibrateText& text) {
  CalibrateOptions options;
  options.repeats = static_cast<int>(count_value("--repeats", text.repeats, 3, 10000));
  options.warm_up = static_cast<int>(count_value("--warm-up", text.warm_up, 0, 10000));
  options.probes = static_cast<int>(count_value("--probes", text.probes, 1, 10000));
  return options;
}

/// Weights are what is looked for.
void check_free(const DeviceOptions& devices) {
  if (!devices.weights.empty())
    throw_usage(
        fmt::format("calibrate: --weights '{}' is what calibrating finds; leave it out", devices.weights));
  if (!devices.calibration.empty())
    throw_usage(fmt::format("calibrate: --calibration '{}' is what calibrating writes; name it with -o",
                            devices.calibration));
  if (!devices.min_rows.empty())
    throw_usage("calibrate: the floor (--min-rows) is off while calibrating; leave it out");
}

/// The records of a file that this one joins; none where it is new, or of other devices or another build.
std::vector<CalibrationRecord> kept_records(const std::string& path, const DeviceSet& devices) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::is_regular_file(path, ignored)) return {};
  try {
    return read_calibration(path, devices);
  } catch (const Error& error) {
    log_warning(fmt::format("{}: it is replaced", error.what()));
    return {};
  }
}

int finish(const CalibrateText& text, const std::string& json, const DeviceSet& devices,
           const CalibrationRecord& record) {
  std::vector<CalibrationRecord> records = kept_records(text.output, devices);
  std::erase_if(records, [&](const CalibrationRecord& old) { return old.operation == record.operation; });
  records.push_back(record);
  OutputSet outputs;
  if (!text.output.empty()) outputs.stage(text.output, calibration_json(devices, records));
  const std::string alone = calibration_json(devices, {record});
  if (!json.empty() && json != "-") outputs.stage(json, alone);
  outputs.commit();
  if (json == "-") {
    write_stdout(alone);
    return 0;
  }
  std::string out = record.describe();
  const bool is_map = record.operation == "coverage";
  if (devices.size() == 1)
    out += "name several devices with --devices to find their shares\n";
  else if (text.output.empty())
    out += "\nnothing was kept: add -o FILE to use these shares later\n";
  else if (is_map)
    out += fmt::format(
        "\nkept in {0}: 'shardwise coverage ... --calibration {0}' splits maps like this one so\n",
        text.output);
  else
    out += fmt::format(
        "\nkept in {0}: C++ calls of this size split so with operation_weights = load_calibration(\"{0}\", "
        "...)\n",
        text.output);
  write_stdout(out);
  return 0;
}

void check_files(const CalibrateText& text, const std::string& json) {
  if (text.output == "-") throw_usage("-o cannot be standard output ('-'); use --json - for that");
  if (!text.output.empty()) check_output(text.output, "-o");
  if (!json.empty()) check_output(json, "--json");
  if (!json.empty() && json == text.output)
    throw_usage(fmt::format("-o and --json name the same file ('{}')", json));
}

int run_rows(const RowsText& text) {
  if (text.operation.empty()) {
    std::vector<std::string> names{"coverage"};
    for (const OperationEntry& entry : operation_table())
      if (entry.operation_class == OperationClass::rows &&
          std::ranges::find(names, entry.family) == names.end())
        names.emplace_back(entry.family);
    throw_usage(
        fmt::format("calibrate needs an operation and a scene; there are {}", fmt::join(names, ", ")));
  }
  require_operation(text.operation, "calibrate");
  if (text.scene.empty())
    throw_usage(
        fmt::format("calibrate {0}: no scene; write 'shardwise calibrate {0} SCENE'", text.operation));
  const CalibrateOptions options = options_of(text);
  check_free(text.devices);
  check_files(text, text.json);
  const std::int64_t rows = count_value("--rows", text.rows, 2, std::int64_t{1} << 40);
  const std::string tracer = word_value("--tracer", text.tracer, {"auto", "bvh", "embree"});
  if (text.strict && tracer == "embree")
    throw_usage("--strict and --tracer embree exclude each other; leave one out");
  const DeviceSet devices = open(text.devices);
  const SceneModel model = load_scene(text.scene, text.scene_options);
  check_faces(model, text.scene);
  Scene scene(devices, model,
              SceneOptions{text.strict || tracer == "bvh" ? TracerChoice::bvh
                           : tracer == "embree"           ? TracerChoice::embree
                                                          : TracerChoice::automatic});
  scene.build();
  const CalibrationCall probe = operation_probe(scene, text.operation, rows);
  const CalibrationCall call = [&probe](const RowOptions& how) {
    throw_if_stopped();
    return probe(how);
  };
  return finish(text, text.json, devices,
                calibrate(devices, exact_operation(text.operation), rows, call, options));
}

/// Options of the run that mean nothing to its calibration.
void check_map_options(const CoverageText& text) {
  const auto refuse = [](bool given, const char* option) {
    if (given)
      throw_usage(fmt::format(
          "calibrate coverage: {} is of the run itself, which writes nothing here; leave it out", option));
  };
  refuse(!text.png.empty(), "--png");
  refuse(!text.map.empty(), "--map");
  refuse(!text.error_map.empty(), "--error-map");
  refuse(!text.count_map.empty(), "--count-map");
  refuse(!text.trace.empty(), "--trace");
  refuse(!text.partial.empty(), "--partial");
  refuse(!text.checkpoint.empty(), "--checkpoint");
  refuse(!text.resume.empty(), "--resume");
  refuse(!text.target_error.empty(), "--target-error");
  refuse(text.verify, "--verify");
  refuse(text.dry_run, "--dry-run");
}

int run_map(const MapText& text) {
  const CoverageText& coverage = text.coverage;
  const CalibrateOptions options = options_of(text);
  check_map_options(coverage);
  check_free(coverage.devices);
  check_files(text, coverage.json);
  CoverageRequest request = check_request(coverage);
  const DeviceSet devices = open(coverage.devices);
  request.options.split = split_of(coverage.devices, devices.size());
  const SceneModel model = load_scene(coverage.scene, coverage.scene_options);
  check_faces(model, coverage.scene);
  const Surfaces surfaces(model);
  place_request(request, surfaces, model.origin_shift());
  CoverageRunner runner(devices, model, request.tracer);
  runner.set_deadline(deadline_of(coverage.devices));
  const CalibrationCall call = [&](const RowOptions& how) {
    CoverageOptions one = request.options;
    one.split.weights = how.weights;
    one.split.min_rows_per_device = how.min_rows_per_device;
    return runner.run(one).result.dispatch;
  };
  return finish(text, coverage.json, devices,
                calibrate(devices, "coverage", lanes_of(request), call, options));
}

}  // namespace

void add_calibrate(Commands& commands, CLI::App& root) {
  const auto rows = std::make_shared<RowsText>();
  CLI::App* app = add_command(
      commands, root, "calibrate",
      "Find and prove the shares of the devices at which an operation is fastest",
      "shardwise calibrate intersect:full city/city.xml --rows 4M --devices cuda:0,1 -o shares.json\n"
      "  shardwise calibrate coverage city/city.xml --tx 0,0,30 --devices cuda:0,1 -o shares.json");
  app->add_option("operation", rows->operation,
                  "An operation on rows ('shardwise devices' lists them), tried with random rows")
      ->type_name("OPERATION");
  app->add_option("scene", rows->scene, kSceneHelp)->type_name("SCENE");
  app->add_option("--rows", rows->rows, "Rows of a call (1M)")->type_name("N")->group("Calibration");
  add_calibrate_options(*app, *rows);
  app->add_option("--json", rows->json, "The record as JSON ('-': to standard output, alone)")
      ->type_name("FILE")
      ->group("Calibration");
  add_scene_options(*app, rows->scene_options);
  add_device_options(*app, rows->devices);
  app->add_flag("--strict", rows->strict, "Hits by the same code on every device")->group("Devices");
  app->add_option("--tracer", rows->tracer, "auto, bvh or embree: what answers on host devices (auto)")
      ->type_name("NAME")
      ->group("Devices");
  commands.actions[app] = [rows] { return run_rows(*rows); };

  const auto map = std::make_shared<MapText>();
  CLI::App* coverage = add_command(
      commands, *app, "coverage", "The same for a map: takes the options of 'shardwise coverage'",
      "shardwise calibrate coverage city/city.xml --tx 0,0,30 --samples 10M --devices host:1x1+host:1x3 "
      "--allow-mixed -o shares.json");
  add_calibrate_options(*coverage, *map);
  add_coverage_options(*coverage, map->coverage);
  commands.actions[coverage] = [map] { return run_map(*map); };
}

}  // namespace shardwise::program
