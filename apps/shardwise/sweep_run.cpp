#include "sweep_run.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <utility>

#include "coverage_picture.hpp"
#include "coverage_ranks.hpp"
#include "coverage_warnings.hpp"
#include "npy.hpp"
#include "picture.hpp"
#include "ranks.hpp"
#include "scene/file_util.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/shard/hash.hpp"
#include "signals.hpp"

namespace shardwise::program {
namespace {

/// Of a built scene on a device, for each face: nodes, triangles, shading data and the edges' share.
constexpr std::uint64_t kBytesPerFace = 256;

/// Of a file's bytes and of what the scene knows it by: files that change places are another scene. The scene
/// itself may be moved and renamed with all that belongs to it.
std::string named_digest(const std::string& file, const std::string& digest, const std::string& scene) {
  namespace fs = std::filesystem;
  const fs::path whole = fs::absolute(scene).lexically_normal(), part = fs::absolute(file).lexically_normal();
  const std::string name = part == whole ? "" : part.lexically_proximate(whole.parent_path()).string();
  return Blake3().update(std::string_view(name)).update(std::string_view("\0", 1)).update(digest).hex();
}

Json optional_json(const std::optional<double>& value) {
  return value ? number_or_null(*value) : Json(nullptr);
}

}  // namespace

SceneModel SweepScene::load(const std::string& path, const SceneFileOptions& options, SweepScene& scene) {
  const FileReadLog log;
  // On ranks all come here, in the order of the plan, and rank 0 reads.
  SceneModel model = load_scene_together(path, options, &scene.remarks);
  for (const auto& [file, digest] : log.digests())
    scene.file_digests.push_back(named_digest(file, digest, path));
  if (has_ranks()) {
    std::string digests = Json(scene.file_digests).dump();
    ranks().broadcast(digests, 0, "digests of the scene's files");
    scene.file_digests = Json::parse(digests).get<std::vector<std::string>>();
  }
  const SceneGeometry& geometry = model.geometry();
  if (std::ranges::none_of(geometry.hittable, [](std::uint8_t hittable) { return hittable != 0; }))
    throw_data(fmt::format("the scene '{}' has no face that can be hit ({} faces); give one with surfaces",
                           path, geometry.faces.size()));
  return model;
}

SweepScene::SweepScene(const std::string& path, const SceneFileOptions& options)
    : title(scene_title(path)), model(load(path, options, *this)), surfaces(model) {}

double SweepItem::work() const {
  return static_cast<double>(coverage_lanes(request.options)) * (request.options.bounces + 1);
}

std::uint64_t SweepItem::bytes() const {
  const auto cells = static_cast<std::uint64_t>(request.options.grid.cell_count());
  const auto grids = static_cast<std::uint64_t>(request.options.passes) *
                     (request.options.per_transmitter ? request.options.transmitters.size() : 1);
  return cells * (sizeof(ExactCell) * grids + 64);
}

SweepItem make_item(SweepRun run, std::shared_ptr<const SweepScene> scene, const std::string& backend) {
  SweepItem item;
  item.request = run.request;
  item.key = sweep_key(scene->file_digests, canonical_parameters(run), backend);
  try {
    place_request(item.request, scene->surfaces, scene->model.origin_shift());
  } catch (const Error& error) {
    throw_data(fmt::format("run '{}' (line {} of the plan): {}", run.name, run.line, error.what()));
  }
  item.run = std::move(run);
  item.scene = std::move(scene);
  return item;
}

std::shared_ptr<SweepResult> compute(const SweepItem& item, SweepScenes& scenes, JobContext& job) {
  const SceneModel& model = item.scene->model;
  const SceneGeometry& geometry = model.geometry();
  const std::string key = fmt::format("{}:{}", item.scene->key, static_cast<int>(item.request.tracer));
  const std::shared_ptr<CoverageRunner> runner =
      scenes.get(job, key, geometry.faces.size() * kBytesPerFace,
                 [&] { return std::make_shared<CoverageRunner>(job.devices(), model, item.request.tracer); });
  auto result = std::make_shared<SweepResult>();
  result->request = item.request;
  CoverageReport& report = result->report;
  report.command = "sweep";
  report.request = &result->request;
  report.grid = item.request.options.grid;
  report.total_lanes = coverage_lanes(item.request.options);
  report.scene = {static_cast<std::int64_t>(geometry.faces.size()), model.num_meshes(),
                  static_cast<std::int64_t>(model.materials().size()),
                  static_cast<std::int64_t>(geometry.defects.size())};
  const auto warn = [&report](std::vector<std::string> warnings) {
    for (std::string& warning : warnings) report.warnings.push_back(std::move(warning));
  };
  warn(place_warnings(item.request, model, item.scene->surfaces));
  std::vector<std::string> of_materials;
  model.evaluate_materials(item.request.options.frequency_hz, &of_materials);
  warn(std::move(of_materials));
  report.census =
      count_cells(item.scene->surfaces, report.grid, item.request.options.transmitters, stop_requested());
  // Past its timeout, or cancelled: nobody waits for the map, and the device is wanted back.
  std::atomic<bool> is_over{false};
  CoverageOptions options = item.request.options;
  options.cancel = &is_over;
  result->run = runner->run(options, [&](std::int64_t, std::int64_t) {
    if (stop_requested() || job.is_cancelled()) is_over = true;
  });
  report.result = &result->run.result;
  report.seconds = result->run.seconds;
  summarize(report);
  report.open_reached =
      open_cells_reached(result->run.result, item.request.options.transmitters.size(), report.census.is_open);
  warn(result_warnings(report));
  return result;
}

SweepEntry entry_of(const SweepItem& item, const SweepResult& result) {
  const CoverageReport& report = result.report;
  const CoverageResult& map = result.run.result;
  SweepEntry entry;
  entry.facts = {{"covered_fraction", report.covered_fraction},
                 {"median_gain_db", optional_json(report.median_gain_db)},
                 {"max_gain_db", optional_json(report.max_gain_db)},
                 {"digest", report.digest},
                 {"columns", report.grid.resolution0},
                 {"rows", report.grid.resolution1},
                 {"seconds", report.seconds},
                 {"warnings", report.warnings.size()}};
  std::vector<std::int64_t> shape{report.grid.resolution1, report.grid.resolution0};
  const bool each = item.request.options.per_transmitter;
  if (each) shape.insert(shape.begin(), static_cast<std::int64_t>(item.request.options.transmitters.size()));
  entry.files.emplace_back("report.json", json_text(coverage_json(report)));
  entry.files.emplace_back("map.npy", npy_bytes(each ? map.transmitter_gain : map.gain, shape));
  if (!map.standard_error.empty())
    entry.files.emplace_back("error-map.npy",
                             npy_bytes(each ? map.transmitter_standard_error : map.standard_error, shape));
  entry.files.emplace_back("count-map.npy",
                           npy_bytes(each ? map.transmitter_crossings : map.crossings, shape));
  if (pictures_built()) {
    const Picture picture =
        coverage_picture(report, scene_outlines(item.scene->model, report.grid.axis), item.scene->title);
    entry.files.emplace_back("map.png", picture_png(picture));
    if (report.grid.axis == 2) entry.files.emplace_back(world_file_name("map.png"), world_file(picture));
  }
  return entry;
}

}  // namespace shardwise::program
