#pragma once
// The library call in tests: scenes as models, maps over a scene's bounds, digests, and what devices did.

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "reference/simulate.hpp"
#include "reference/test_scene.hpp"
#include "shardwise/radio/accumulate.hpp"
#include "shardwise/radio/coverage.hpp"
#include "shardwise/runtime/sim.hpp"
#include "shardwise/scene/scene.hpp"
#include "shardwise/shard/hash.hpp"

namespace shardwise::test {

/// One mesh per material; corners and numbers as in the test scene.
inline SceneModel model_of(const TestScene& scene) {
  SceneModel model;
  const std::vector<MaterialNumbers>& numbers = scene.material_numbers();
  for (std::size_t m = 0; m < numbers.size(); ++m) {
    Material material;
    material.name = "material " + std::to_string(m);
    material.eta_r = numbers[m].eta_r;
    material.sigma = numbers[m].sigma;
    material.mu_r = numbers[m].mu_r;
    material.thickness = numbers[m].thickness;
    material.gain = numbers[m].gain;
    Mesh mesh;
    mesh.name = "mesh " + std::to_string(m);
    mesh.material = model.add_material(material);
    for (std::size_t k = 0; k < scene.triangles().size(); ++k) {
      if (scene.material_of(k) != static_cast<int>(m)) continue;
      const BvhTriangle& t = scene.triangles()[k];
      const auto first = static_cast<std::int32_t>(mesh.vertices.size());
      for (const Vec3f corner : {t.v0, t.v1, t.v2}) mesh.vertices.push_back(corner);
      mesh.faces.push_back({first, first + 1, first + 2});
    }
    if (!mesh.faces.empty()) model.add_mesh(std::move(mesh));
  }
  if (model.num_meshes() == 0) model.add_mesh(Mesh{});  // free space
  return model;
}

inline Scene open_scene(const std::string& devices, SceneModel model, std::uint64_t sim_seed = 1,
                        TracerChoice tracer = TracerChoice::automatic) {
  OpenOptions options;
  options.sim_seed = sim_seed;
  Scene scene(open_devices(devices, options), std::move(model), SceneOptions{tracer});
  scene.build();
  return scene;
}

inline CoverageOptions coverage_options(const SimulateOptions& from, bool fields) {
  CoverageOptions options;
  for (const auto& source : from.transmitters) options.transmitters.push_back({source.position, source.gain});
  options.grid = {from.axis, from.position, from.min0,        from.max0,
                  from.min1, from.max1,     from.resolution0, from.resolution1};
  options.frequency_hz = from.frequency_hz;
  options.samples = from.samples;
  options.passes = from.passes;
  options.bounces = from.bounces;
  options.line_of_sight = from.line_of_sight;
  options.slab_walls = from.slab_walls;
  options.field = fields;
  options.polarization = from.polarization;
  options.seed = from.seed;
  return options;
}

/// simulate() by the library call on host:1 with its own tracer. An overflow is an Error there.
inline SimulateResult simulate_on_library(const TestScene& test_scene, const SimulateOptions& options,
                                          bool fields = false) {
  Scene scene = open_scene("host:1", model_of(test_scene));
  CoverageResult map = coverage(scene, coverage_options(options, fields)).get();
  SimulateResult result;
  result.gain = std::move(map.gain);
  result.standard_error = std::move(map.standard_error);
  result.crossings = std::move(map.crossings);
  for (std::size_t k = 0; k + 2 < map.field.size(); k += 3)
    result.field.push_back({map.field[k], map.field[k + 1], map.field[k + 2]});
  result.segments = map.segments;
  result.lanes = map.lanes;
  return result;
}

/// The map over a scene's bounds that the program makes: the area grows to whole cells.
inline CoverageGrid grid_over(const Scene& scene, double cell, double height = 1.5) {
  const Bounds& b = scene.model().geometry().bounds;
  const auto cells = [cell](double low, double high) {
    return std::max(1.0, std::ceil((high - low) / cell - 1e-9));
  };
  const double columns = cells(b.low.x, b.high.x), rows = cells(b.low.y, b.high.y);
  return {2,
          height,
          b.low.x,
          b.low.x + columns * cell,
          b.low.y,
          b.low.y + rows * cell,
          static_cast<std::int64_t>(columns),
          static_cast<std::int64_t>(rows)};
}

template <class T>
std::string digest_of(const std::vector<T>& values) {
  return blake3_hex(values.data(), values.size() * sizeof(T));
}

/// Of everything that a map holds.
inline std::string digest_of(const CoverageResult& map) {
  return digest_of(map.gain) + "/" + digest_of(map.standard_error) + "/" + digest_of(map.crossings) + "/" +
         digest_of(map.field);
}

inline std::string races_of(const DeviceSet& devices) {
  std::string text;
  if (devices.sim_world())
    for (const RaceReport& race : devices.sim_world()->races()) text += race.text + "\n";
  return text;
}

/// The file of a real scene; empty where it is not beside the checkout.
inline std::filesystem::path real_scene(const std::string& name) {
  const auto path = std::filesystem::path(SHARDWISE_TEST_SCENES) / name / (name + ".xml");
  return std::filesystem::exists(path) ? path : std::filesystem::path{};
}

/// Whether scripts/test --full asks for long runs.
inline bool long_runs() {
  const char* value = std::getenv("SHARDWISE_LONG");
  return value != nullptr && std::string(value) != "0" && std::string(value) != "";
}

}  // namespace shardwise::test
