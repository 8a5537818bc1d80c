// shardwise coverage: a path-gain map on a plane.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "calibration_option.hpp"
#include "command.hpp"
#include "coverage_outputs.hpp"
#include "coverage_picture.hpp"
#include "coverage_pieces.hpp"
#include "coverage_plan.hpp"
#include "coverage_ranks.hpp"
#include "coverage_warnings.hpp"
#include "fault_options.hpp"
#include "progress.hpp"
#include "ranks.hpp"
#include "run_parameters.hpp"
#include "shardwise/runtime/error.hpp"
#include "signals.hpp"

namespace shardwise::program {
namespace {

/// What `fast` and `ordered` promise between different splits.
constexpr double inexact_tolerance = 1e-9;

Verification compare(const std::vector<double>& one, const std::vector<double>& other) {
  Verification verification;
  verification.ran = true;
  verification.equal = digest_of(one) == digest_of(other);
  for (std::size_t i = 0; i < one.size(); ++i) {
    const double larger = std::max(std::abs(one[i]), std::abs(other[i]));
    if (larger > 0)
      verification.max_relative = std::max(verification.max_relative, std::abs(one[i] - other[i]) / larger);
  }
  return verification;
}

void check_verification(const Verification& verification, Accumulation accumulation) {
  const bool good = accumulation == Accumulation::exact ? verification.equal
                                                        : verification.max_relative <= inexact_tolerance;
  if (good) return;
  throw Error(
      ErrorClass::mismatch,
      fmt::format(
          "--verify: one device gives another map (largest relative difference {:.3g}, --accumulation "
          "{}); please report this with the command line",
          verification.max_relative, to_string(accumulation)));
}

/// What an earlier run left in the file to resume from, where it is of this run. A missing file is a run that
/// has not begun, if the same file is named as its checkpoint: one command line then starts and restarts.
void resume(PartialFile& state, const CoverageRequest& request, const CoverageText& text) {
  const std::string& path = request.pieces.resume;
  if (path.empty()) return;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    if (text.checkpoint != path)
      throw_data(fmt::format(
          "--resume: '{}' does not exist; check the name, or give --checkpoint {} as well to begin "
          "there",
          path, path));
    log_note(fmt::format("'{}' does not exist yet: beginning", path));
    return;
  }
  PartialFile found = read_partial(path);
  check_same_run(state.parameters, "this run", found.parameters, "'" + path + "'");
  const PieceRequest& pieces = request.pieces;
  for (const Window& window : found.sums.windows)
    if (pieces.has_window && (window.begin < pieces.first_lane || window.end() > pieces.end_lane))
      throw_data(fmt::format(
          "--resume: '{}' holds the lanes {}, more than --lanes {}:{}; give the lanes that it was begun "
          "with",
          path, windows_text(found.sums.windows), pieces.first_lane, pieces.end_lane));
  log_note(fmt::format("'{}' holds {} lanes; going on from there", path, found.sums.lanes()));
  state.sums = std::move(found.sums);
  state.seconds = found.seconds;
}

int run(const CoverageText& text) {
  CoverageRequest request = check_request(text);
  const bool first = is_first_rank();
  if (has_ranks() && request.options.accumulation != Accumulation::exact)
    throw_usage(
        fmt::format("--accumulation {} under a launcher of {} ranks: their sums are joined exactly; leave it "
                    "out, or start one process",
                    to_string(request.options.accumulation), ranks().size()));
  if (first) check_outputs(text, request.axis, request.pieces.checkpoint);
  const DeviceSet devices = open(text.devices);
  request.options.split = split_of(text.devices, devices.size());
  const std::optional<CalibrationRecord> calibrated = calibration_of(text.devices, devices, "coverage");

  std::vector<std::string> remarks;
  const SceneModel model = load_scene_together(text.scene, text.scene_options, &remarks);
  check_faces(model, text.scene);
  const SceneGeometry& geometry = model.geometry();
  const Surfaces surfaces(model);
  place_request(request, surfaces, model.origin_shift());
  std::vector<std::string> of_split;
  if (calibrated)
    of_split = use_calibration(*calibrated, text.devices, lanes_of(request), request.options.split);
  if (text.dry_run) return dry_run(text, request, devices, model);
  if (!first) {
    CoverageRunner runner(devices, model, request.tracer);
    runner.set_deadline(deadline_of(text.devices));
    const DispatchReport mine = serve_pieces(runner, request.options);
    gather_coverage_reports(mine, runner.transport());
    return 0;
  }

  CoverageReport report;
  report.request = &request;
  report.grid = request.options.grid;
  report.total_lanes = coverage_lanes(request.options);
  report.scene = {static_cast<std::int64_t>(geometry.faces.size()), model.num_meshes(),
                  static_cast<std::int64_t>(model.materials().size()),
                  static_cast<std::int64_t>(geometry.defects.size())};
  report.warnings = devices.warnings();
  const auto warn = [&report](const std::vector<std::string>& warnings) {
    for (const std::string& warning : warnings) {
      log_warning(warning);
      report.warnings.push_back(warning);
    }
  };
  if (!geometry.defects.empty()) {
    warn({fmt::format("{} defects in the scene, the first: {}; 'shardwise scene info' lists them",
                      geometry.defects.size(), model.describe(geometry.defects.front()))});
  }
  warn(of_split);
  warn(place_warnings(request, model, surfaces));
  std::vector<std::string> of_materials;
  model.evaluate_materials(request.options.frequency_hz, &of_materials);
  warn(of_materials);
  report.census = count_cells(surfaces, report.grid, request.options.transmitters, stop_requested());

  CoverageRunner runner(devices, model, request.tracer);
  runner.set_deadline(deadline_of(text.devices));
  const std::string title = scene_title(text.scene);
  PartialFile state;
  const bool record = !text.trace.empty();
  if (record) devices.timeline().start();
  CoverageRun main_run;
  if (request.pieces.wanted()) {
    state = empty_partial(report, model, runner.tracer(), title);
    resume(state, request, text);
    main_run = run_pieces(runner, request, state, &report.target);
  } else if (has_ranks()) {
    Progress progress("coverage", "lanes");
    CoverageOptions all = request.options;
    all.lane_count = report.total_lanes;
    main_run = run_piece_on_ranks(
        runner, all, [&progress](std::int64_t done, std::int64_t total) { progress.update(done, total); });
    end_pieces();
  } else {
    main_run = runner.run(request.options, "coverage");
  }
  if (record) devices.timeline().stop();
  if (has_ranks()) report.ranks = gather_coverage_reports(main_run.result.dispatch, runner.transport());
  report.result = &main_run.result;
  report.seconds = main_run.seconds;
  report.virtual_s = main_run.virtual_s;
  if (text.verify) {
    CoverageOptions again = request.options;
    again.split = SplitOptions{};
    CoverageRunner one(devices.first(), model, request.tracer);
    one.set_deadline(deadline_of(text.devices));
    report.verification = compare(main_run.result.gain, one.run(again, "verify").result.gain);
  }
  summarize(report);
  if (!request.pieces.has_window)
    report.open_reached = open_cells_reached(runner, request.options, main_run.result, report.census,
                                             least_reach * static_cast<double>(report.census.open));
  warn(result_warnings(report));
  warn(faults_not_met(text.devices, devices));

  OutputSet outputs;
  stage_maps(outputs, text, report,
             text.png.empty() ? std::vector<Segment>{} : scene_outlines(model, report.grid.axis), title);
  if (record) {
    std::ostringstream trace;
    devices.timeline().write_chrome_trace(trace);
    outputs.stage(text.trace, trace.str());
  }
  if (!text.partial.empty()) outputs.stage(text.partial, partial_bytes(state));
  outputs.commit();
  write_stdout(text.json == "-" ? json_text(coverage_json(report)) : coverage_text(report));
  if (text.verify) check_verification(report.verification, request.options.accumulation);
  return 0;
}

}  // namespace

void add_coverage(Commands& commands, CLI::App& root) {
  const auto text = std::make_shared<CoverageText>();
  CLI::App* app =
      add_command(commands, root, "coverage", "Path-gain map on a grid: line of sight and reflections",
                  "shardwise coverage city/city.xml --tx 0,0,30 --frequency 3.5GHz --cell 4 --png map.png");
  add_coverage_options(*app, *text);
  commands.actions[app] = [text] { return run(*text); };
  commands.on_all_ranks.insert(app);
}

}  // namespace shardwise::program
