#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "mesh_formats.hpp"
#include "placement.hpp"
#include "scene/file_util.hpp"
#include "scene_materials.hpp"
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

/// A file of shapes whose materials are names at most.
SceneModel read_mesh_scene(const std::filesystem::path& path, const std::string& suffix,
                           const SceneReadOptions& options, std::vector<std::string>* notes) {
  const std::string label = path.string(), stem = path.stem().string();
  const std::string bytes = read_whole_file(path, "scene file");
  std::vector<FileMesh> shapes;
  UpAxis native_up = UpAxis::z;
  if (suffix == ".ply") {
    shapes.push_back(parse_ply_file(bytes, label, notes));
    shapes.back().mesh.name = stem;
  } else if (suffix == ".obj") {
    shapes = parse_obj(bytes, label, stem, notes);
  } else if (suffix == ".stl") {
    shapes = parse_stl(bytes, label, stem, notes);
  } else {
    shapes = parse_gltf(bytes, path.parent_path(), label, stem, notes);
    native_up = UpAxis::y;
  }
  SceneModel scene(options.model);
  NamedMaterials materials(scene, options, notes);
  for (FileMesh& shape : shapes) {
    shape.mesh.material = materials.index_of(shape.material, shape.mesh.name);
  }
  materials.finish(label);
  return place_shapes(std::move(scene), std::move(shapes), native_up, options, notes);
}

/// A dump with other materials: those given for its names, and the override where a mesh has none.
SceneModel with_materials(const SceneModel& dump, const SceneReadOptions& options, const std::string& label,
                          std::vector<std::string>* notes) {
  SceneModel scene(options.model);
  NamedMaterials materials(scene, options, notes);
  std::vector<std::int32_t> index;
  for (const Material& material : dump.materials()) {
    std::string key, note;
    const bool given = given_material(material.name, options, &key, &note).has_value();
    index.push_back(given ? materials.index_of(material.name, "") : scene.add_material(material));
  }
  for (std::int32_t id = 0; id < dump.num_meshes(); ++id) {
    if (dump.is_instance(id)) {
      scene.add_instance(dump.owner_of(id), dump.to_world(id), dump.is_dynamic(id), dump.shape_name(id));
      continue;
    }
    Mesh mesh = dump.mesh(id);
    mesh.material = mesh.material >= 0          ? index[static_cast<std::size_t>(mesh.material)]
                    : options.material_override ? materials.index_of("", mesh.name)
                                                : -1;
    scene.add_mesh(std::move(mesh));
  }
  materials.finish(label);
  scene.set_origin_shift(dump.origin_shift());
  scene.build();
  return scene;
}

SceneModel read_dump(const std::filesystem::path& path, const SceneReadOptions& options,
                     std::vector<std::string>* notes) {
  if (options.up != UpAxis::of_format || options.unit != 1 ||
      options.origin.kind != SceneOrigin::Kind::automatic) {
    throw_usage(
        fmt::format("scene '{}': a .swscene is in metres, z up, near its origin; give --up, --unit and "
                    "--origin to the 'scene dump' that writes it",
                    path.string()));
  }
  SceneModel dump = read_swscene(path, options.model);
  if (notes && (dump.origin_shift().x != 0 || dump.origin_shift().y != 0)) {
    notes->push_back(
        fmt::format("origin: ({:.0f}, {:.0f}) m was subtracted from x and y when the scene was "
                    "dumped; transmitters, areas and reports are in the coordinates before that",
                    dump.origin_shift().x, dump.origin_shift().y));
  }
  if (options.materials.empty() && !options.material_override) return dump;
  return with_materials(dump, options, path.string(), notes);
}

void check_options(const SceneReadOptions& options) {
  if (options.material_override && !is_itu_class(*options.material_override)) {
    throw_usage(fmt::format("--material '{}' is no material class; the nearest is '{}'",
                            *options.material_override, nearest_itu_class(*options.material_override)));
  }
  for (const auto& [name, material] : options.materials) validate_material(material, "--materials");
  if (!(options.unit > 0) || !is_finite(options.unit)) {
    throw_usage(fmt::format("--unit must be a length above 0 m (got {})", options.unit));
  }
  const SceneOrigin& origin = options.origin;
  if (origin.kind == SceneOrigin::Kind::given &&
      !(is_finite(origin.x) && is_finite(origin.y) && origin.x == std::floor(origin.x) &&
        origin.y == std::floor(origin.y))) {
    throw_usage(fmt::format("--origin must be whole metres (got {}, {})", origin.x, origin.y));
  }
}

/// Coordinates are float: far from the origin they become coarse.
void note_coarse_coordinates(const SceneModel& scene, std::vector<std::string>* notes) {
  const float largest = scene.geometry().max_coordinate;
  if (notes && largest > 10e3f) {
    notes->push_back(
        fmt::format("coordinates reach {} m, where a float's steps are {} mm; leave out --origin none, or "
                    "move the scene to the origin",
                    largest, static_cast<double>(largest) * 1e3 * 0x1p-23));
  }
}

}  // namespace

SceneModel read_scene(const std::filesystem::path& path, const SceneReadOptions& options,
                      std::vector<std::string>* notes) {
  check_options(options);
  const std::string suffix = lower_suffix(path);
  const auto read = [&]() -> SceneModel {
    if (suffix == ".swscene") return read_dump(path, options, notes);
    for (const char* known : {".ply", ".obj", ".stl", ".gltf", ".glb"}) {
      if (suffix == known) return read_mesh_scene(path, suffix, options, notes);
    }
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
    throw_data(
        fmt::format("scene '{}': suffix '{}' is none of .xml, .obj, .gltf, .glb, .stl, .ply, .swscene; "
                    "export the scene as one of them",
                    path.string(), suffix));
  };
  SceneModel scene = read();
  note_coarse_coordinates(scene, notes);
  return scene;
}

}  // namespace shardwise
