// shardwise coverage: a path-gain map on a plane.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <sstream>

#include "cell_census.hpp"
#include "command.hpp"
#include "coverage_picture.hpp"
#include "coverage_plan.hpp"
#include "coverage_report.hpp"
#include "coverage_request.hpp"
#include "coverage_run.hpp"
#include "npy.hpp"
#include "output_file.hpp"
#include "progress.hpp"
#include "shardwise/runtime/error.hpp"
#include "signals.hpp"

namespace shardwise::program {
namespace {

/// What `fast` and `ordered` promise between different splits.
constexpr double inexact_tolerance = 1e-9;

void check_faces(const SceneModel& model, const std::string& path) {
  const SceneGeometry& geometry = model.geometry();
  if (geometry.faces.empty()) {
    throw_data(fmt::format("the scene '{}' has no faces (0 triangles in {} shapes); give one with surfaces",
                           path, model.num_meshes()));
  }
  if (std::ranges::none_of(geometry.hittable, [](std::uint8_t hittable) { return hittable != 0; })) {
    throw_data(fmt::format("none of the {} faces of '{}' can be hit ({}); mend the scene",
                           geometry.faces.size(), path, model.describe(geometry.defects.front())));
  }
}

/// Warnings that need no result: transmitters outside the map or at a surface, a map under everything.
std::vector<std::string> place_warnings(const CoverageRequest& request, const CoverageGrid& grid,
                                        const SceneModel& model, const CellCounter& counter) {
  std::vector<std::string> warnings;
  const int first = grid.axis == 0 ? 1 : 0, second = grid.axis == 2 ? 1 : 2;
  for (std::size_t i = 0; i < request.options.transmitters.size(); ++i) {
    const Vec3d& p = request.options.transmitters[i].position;
    const Vec3d shift = request.origin_shift;
    if (p[first] < grid.min0 || p[first] > grid.max0 || p[second] < grid.min1 || p[second] > grid.max1) {
      warnings.push_back(
          fmt::format("transmitter {} ({:g}, {:g}, {:g}) is outside the map's area ({:g}, {:g}) to "
                      "({:g}, {:g})",
                      i, p.x + shift.x, p.y + shift.y, p.z, grid.min0 + shift[first],
                      grid.min1 + shift[second], grid.max0 + shift[first], grid.max1 + shift[second]));
    }
  }
  std::ranges::move(counter.close_surfaces(request.options.transmitters), std::back_inserter(warnings));
  const Bounds& bounds = model.geometry().bounds;
  if (grid.axis == 2 && grid.position < bounds.low.z) {
    warnings.push_back(
        fmt::format("the map at z = {:g} m lies under every surface (the lowest is at z = {:g} m); raise "
                    "--height",
                    grid.position, bounds.low.z));
  }
  return warnings;
}

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

void stage_outputs(OutputSet& outputs, const CoverageText& text, const CoverageReport& report,
                   const SceneModel& model, const DeviceSet& devices) {
  const CoverageResult& result = *report.result;
  const std::vector<std::int64_t> shape{report.grid.resolution1, report.grid.resolution0};
  if (!text.map.empty()) outputs.stage(text.map, npy_bytes(result.gain, shape));
  if (!text.error_map.empty()) outputs.stage(text.error_map, npy_bytes(result.standard_error, shape));
  if (!text.count_map.empty()) outputs.stage(text.count_map, npy_bytes(result.crossings, shape));
  if (!text.png.empty()) {
    const Picture picture = coverage_picture(report, model, text.scene);
    outputs.stage(text.png, picture_png(picture));
    if (report.grid.axis == 2) outputs.stage(world_file_name(text.png), world_file(picture));
  }
  if (!text.trace.empty()) {
    std::ostringstream trace;
    devices.timeline().write_chrome_trace(trace);
    outputs.stage(text.trace, trace.str());
  }
  stage_json(outputs, text.json, coverage_json(report));
}

int run(const CoverageText& text) {
  CoverageRequest request = check_request(text);
  check_outputs(text, request);
  const DeviceSet devices = open(text.devices);
  request.options.split = split_of(text.devices, devices.size());

  std::vector<std::string> remarks;
  const SceneModel model = load_scene(text.scene, text.scene_options, &remarks);
  check_faces(model, text.scene);
  to_scene_frame(request, model.origin_shift());
  const SceneGeometry& geometry = model.geometry();
  request.options.grid = make_grid(request, geometry.bounds);
  if (request.options.samples == 0)
    request.options.samples = automatic_samples(request, request.options.grid);
  if (text.dry_run) return dry_run(text, request, devices, model);

  CoverageReport report;
  report.request = &request;
  report.grid = request.options.grid;
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
  {
    const CellCounter counter(model);
    warn(place_warnings(request, report.grid, model, counter));
    report.census = counter.count(report.grid, request.options.transmitters, stop_requested());
  }

  CoverageRun main_run =
      run_coverage(devices, model, request.tracer, request.options, "coverage", !text.trace.empty());
  report.result = &main_run.result;
  report.seconds = main_run.seconds;
  warn(main_run.result.warnings);
  if (text.verify) {
    CoverageOptions again = request.options;
    again.split = SplitOptions{};
    const CoverageRun other = run_coverage(devices.first(), model, request.tracer, again, "verify", false);
    report.verification = compare(main_run.result.gain, other.result.gain);
  }
  summarize(report);
  warn(result_warnings(report));

  OutputSet outputs;
  stage_outputs(outputs, text, report, model, devices);
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
}

}  // namespace shardwise::program
