#include "run_parameters.hpp"

#include <fmt/core.h>

#include <cstddef>

#include "coverage_picture.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"
#include "shardwise/shard/hash.hpp"
#include "version.hpp"

namespace shardwise::program {
namespace {

template <class T>
void add(Blake3& hasher, const std::vector<T>& values) {
  const std::uint64_t count = values.size();
  hasher.update(&count, sizeof count).update(values.data(), values.size() * sizeof(T));
}

std::string scene_digest(const SceneGeometry& geometry) {
  Blake3 hasher;
  add(hasher, geometry.vertices);
  add(hasher, geometry.faces);
  add(hasher, geometry.hittable);
  add(hasher, geometry.face_material);
  hasher.update(&geometry.diagonal, sizeof geometry.diagonal);
  return hasher.hex();
}

std::string material_digest(const std::vector<MaterialAtFrequency>& materials) {
  Blake3 hasher;
  for (const MaterialAtFrequency& m : materials) {
    const double numbers[] = {m.eta_r, m.sigma, m.mu_r, m.thickness, m.gain, m.perfect_conductor ? 1.0 : 0.0};
    hasher.update(numbers, sizeof numbers);
  }
  return hasher.hex();
}

Vec3d vector_of(const Json& json) {
  return {json.at(0).get<double>(), json.at(1).get<double>(), json.at(2).get<double>()};
}

}  // namespace

Json run_parameters(const CoverageRequest& request, const SceneModel& model, const std::string& tracer) {
  const CoverageOptions& o = request.options;
  Json transmitters = Json::array();
  for (const Transmitter& t : o.transmitters)
    transmitters.push_back({t.position.x, t.position.y, t.position.z, t.gain});
  const CoverageGrid& g = o.grid;
  return {{"version", build_facts().version},
          {"scene", scene_digest(model.geometry())},
          {"materials", material_digest(model.evaluate_materials(o.frequency_hz, nullptr))},
          {"origin_shift", {request.origin_shift.x, request.origin_shift.y, request.origin_shift.z}},
          {"transmitters", transmitters},
          {"frequency_hz", o.frequency_hz},
          {"samples", o.samples},
          {"passes", o.passes},
          {"bounces", o.bounces},
          {"polarization", {o.polarization.x, o.polarization.y, o.polarization.z}},
          {"walls", request.walls},
          {"seed", o.seed},
          {"plane", {{"axis", g.axis}, {"position", g.position}}},
          {"area", {g.min0, g.min1, g.max0, g.max1}},
          {"cells", {g.resolution0, g.resolution1}},
          {"per_tx", o.per_transmitter},
          {"target_error_db",
           request.pieces.target_error_db ? Json(*request.pieces.target_error_db) : Json(nullptr)},
          {"tracer", tracer}};
}

Json run_context(const CoverageReport& report, const std::string& title) {
  const CoverageRequest& request = *report.request;
  return {{"title", title},
          {"scene",
           {{"triangles", report.scene.triangles},
            {"shapes", report.scene.shapes},
            {"materials", report.scene.materials},
            {"defects", report.scene.defects}}},
          {"polarization", request.polarization},
          {"cell_m", request.cell},
          {"cells", {{"open", report.census.open}, {"los", report.census.line_of_sight}}},
          {"warnings", report.warnings}};
}

PartialFile empty_partial(const CoverageReport& report, const SceneModel& model, const std::string& tracer,
                          const std::string& title) {
  PartialFile partial;
  partial.parameters = run_parameters(*report.request, model, tracer);
  partial.context = run_context(report, title);
  partial.is_open = report.census.is_open;
  partial.outlines = scene_outlines(model, report.grid.axis);
  return partial;
}

JoinedRun joined_run(const PartialFile& partial, const std::string& path) {
  JoinedRun run;
  CoverageRequest& request = run.request;
  CoverageOptions& o = request.options;
  try {
    const Json& p = partial.parameters;
    for (const Json& t : p.at("transmitters"))
      o.transmitters.push_back({vector_of(t), t.at(3).get<double>()});
    request.origin_shift = vector_of(p.at("origin_shift"));
    o.frequency_hz = p.at("frequency_hz").get<double>();
    o.samples = p.at("samples").get<std::int64_t>();
    o.passes = p.at("passes").get<int>();
    o.bounces = p.at("bounces").get<int>();
    o.polarization = vector_of(p.at("polarization"));
    request.walls = p.at("walls").get<std::string>();
    o.slab_walls = request.walls == "slab";
    o.seed = p.at("seed").get<std::uint64_t>();
    o.per_transmitter = p.at("per_tx").get<bool>();
    CoverageGrid& g = o.grid;
    g.axis = p.at("plane").at("axis").get<int>();
    g.position = p.at("plane").at("position").get<double>();
    const Json& area = p.at("area");
    g.min0 = area.at(0).get<double>(), g.min1 = area.at(1).get<double>();
    g.max0 = area.at(2).get<double>(), g.max1 = area.at(3).get<double>();
    g.resolution0 = p.at("cells").at(0).get<std::int64_t>();
    g.resolution1 = p.at("cells").at(1).get<std::int64_t>();
    if (!p.at("target_error_db").is_null())
      request.pieces.target_error_db = p.at("target_error_db").get<double>();

    const Json& c = partial.context;
    run.title = c.at("title").get<std::string>();
    request.polarization = c.at("polarization").get<std::string>();
    request.cell = c.at("cell_m").get<double>();
    CoverageReport& report = run.report;
    const Json& scene = c.at("scene");
    report.scene = {scene.at("triangles").get<std::int64_t>(), scene.at("shapes").get<std::int64_t>(),
                    scene.at("materials").get<std::int64_t>(), scene.at("defects").get<std::int64_t>()};
    report.census.open = c.at("cells").at("open").get<std::int64_t>();
    report.census.line_of_sight = c.at("cells").at("los").get<std::int64_t>();
    report.census.is_open = partial.is_open;
    report.warnings = c.at("warnings").get<std::vector<std::string>>();
  } catch (const Json::exception& error) {
    throw_data(fmt::format("'{}' does not say what run it is part of ({})", path, error.what()));
  }
  request.axis = o.grid.axis;
  request.position = o.grid.position;
  request.frequency = frequency_text(o.frequency_hz);
  run.report.grid = o.grid;
  const std::int64_t cells = o.grid.cell_count();
  if (o.grid.axis < 0 || o.grid.axis > 2 || o.grid.resolution0 < 1 || o.grid.resolution1 < 1 ||
      cells != partial.sums.cell_count || static_cast<std::int64_t>(partial.is_open.size()) != cells)
    throw_data(fmt::format("'{}' is damaged: its map of {} x {} cells has sums for {}", path,
                           o.grid.resolution0, o.grid.resolution1, partial.sums.cell_count));
  return run;
}

}  // namespace shardwise::program
