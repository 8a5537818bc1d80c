#include <fmt/format.h>

#include <algorithm>

#include "scene/file_util.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/scene/scene_io.hpp"

namespace shardwise {
namespace {

std::string lower_suffix(const std::filesystem::path& path) {
  std::string suffix = path.extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return suffix;
}

SceneModel read_ply_scene(const std::filesystem::path& path, const SceneReadOptions& options,
                          std::vector<std::string>* notes) {
  Mesh mesh = read_ply(path, notes);
  if (!options.material_override) {
    throw_data(fmt::format("PLY file '{}' says nothing of its material; give one with --material CLASS",
                           path.string()));
  }
  SceneModel scene(options.model);
  mesh.material =
      scene.add_material(make_itu_material(*options.material_override, *options.material_override));
  scene.add_mesh(std::move(mesh));
  scene.build();
  return scene;
}

/// Coordinates are float: far from the origin they become coarse.
void note_coarse_coordinates(const SceneModel& scene, std::vector<std::string>* notes) {
  const float largest = scene.geometry().max_coordinate;
  if (notes && largest > 10e3f) {
    notes->push_back(
        fmt::format("coordinates reach {} m, where a float's steps are {} mm; move the scene to the origin",
                    largest, static_cast<double>(largest) * 1e3 * 0x1p-23));
  }
}

}  // namespace

SceneModel read_scene(const std::filesystem::path& path, const SceneReadOptions& options,
                      std::vector<std::string>* notes) {
  if (options.material_override && !is_itu_class(*options.material_override)) {
    throw_usage(fmt::format("--material '{}' is no material class; the nearest is '{}'",
                            *options.material_override, nearest_itu_class(*options.material_override)));
  }
  for (const auto& [name, material] : options.materials) validate_material(material, "--materials");
  const std::string suffix = lower_suffix(path);
  const auto read = [&]() -> SceneModel {
    if (suffix == ".swscene") return read_swscene(path, options.model);
    if (suffix == ".ply") return read_ply_scene(path, options, notes);
    if (suffix == ".xml") {
#if SHARDWISE_WITH_IO
      return read_mitsuba_xml(read_whole_file(path, "scene file"), path.parent_path(), path.string(), options,
                              notes);
#else
      throw_usage(
          fmt::format("scene '{}': this build reads no XML; build with libpugixml-dev, or dump the scene to "
                      ".swscene where one does",
                      path.string()));
#endif
    }
    throw_data(fmt::format("scene '{}': suffix '{}' is none of .xml, .ply, .swscene", path.string(), suffix));
  };
  SceneModel scene = read();
  note_coarse_coordinates(scene, notes);
  return scene;
}

}  // namespace shardwise
