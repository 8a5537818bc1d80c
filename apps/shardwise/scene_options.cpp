#include "scene_options.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <utility>

#include "log.hpp"
#include "materials_file.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"
#include "shardwise/scene/scene_io.hpp"
#include "signals.hpp"
#include "values.hpp"

namespace shardwise::program {

namespace {

/// Exact definitions: the international yard and pound agreement of 1959; the US survey foot is 1200/3937 m.
double metres_of(const std::string& unit) {
  static const std::vector<std::pair<std::string, double>> units{{"m", 1},
                                                                 {"cm", 0.01},
                                                                 {"mm", 0.001},
                                                                 {"km", 1000},
                                                                 {"in", 0.0254},
                                                                 {"ft", 0.3048},
                                                                 {"us-ft", 1200.0 / 3937},
                                                                 {"yd", 0.9144}};
  std::vector<std::string> names;
  for (const auto& [name, metres] : units) names.push_back(name);
  const std::string known = word_value("--unit", unit, names);
  return std::ranges::find(units, known, &std::pair<std::string, double>::first)->second;
}

SceneOrigin origin_of(const std::string& text) {
  if (text == "auto") return {};
  if (text == "none") return {SceneOrigin::Kind::none, 0, 0};
  if (text.find(',') == std::string::npos) word_value("--origin", text, {"auto", "none", "x,y"});
  const auto place = parse_tuple(text, "--origin", {"x", "y"});
  return {SceneOrigin::Kind::given, place[0], place[1]};
}

UpAxis up_of(const std::string& text) {
  if (text.empty()) return UpAxis::of_format;
  const std::string axis = word_value("--up", text, {"x", "y", "z"});
  return axis == "x" ? UpAxis::x : axis == "y" ? UpAxis::y : UpAxis::z;
}

}  // namespace

void add_scene_options(CLI::App& app, SceneFileOptions& options) {
  app.add_option("--material", options.material, "ITU class of shapes that have no material: concrete")
      ->type_name("CLASS")
      ->group("Scene");
  app.add_option("--materials", options.materials, "Materials by the scene's names: a class or constants")
      ->type_name("FILE.toml")
      ->group("Scene");
  app.add_flag("--strict-materials", options.strict_materials,
               "Fail where a frequency is outside a material's range")
      ->group("Scene");
  app.add_option("--defects", options.defects,
                 "drop or fail: what to do with faces that cannot be hit (drop)")
      ->type_name("D")
      ->group("Scene");
  app.add_option("--up", options.up, "Which axis of the file points up: x, y or z (y for glTF, else z)")
      ->type_name("AXIS")
      ->group("Scene");
  app.add_option("--unit", options.unit, "Of the file's coordinates: m, cm, mm, km, in, ft, us-ft, yd (m)")
      ->type_name("U")
      ->group("Scene");
  app.add_option(
         "--origin", options.origin,
         "Subtracted from x and y: x,y in whole metres, none, or auto: whole kilometres beyond 10 km (auto)")
      ->type_name("X,Y")
      ->group("Scene");
}

SceneModelOptions model_options_of(const SceneFileOptions& options) {
  SceneModelOptions model;
  model.defects = word_value("--defects", options.defects, {"drop", "fail"}) == "fail" ? DefectPolicy::fail
                                                                                       : DefectPolicy::drop;
  model.strict_materials = options.strict_materials;
  return model;
}

SceneModel load_scene(const std::string& path, const SceneFileOptions& options,
                      std::vector<std::string>* remarks) {
  SceneReadOptions read;
  read.model = model_options_of(options);
  if (!options.material.empty()) {
    make_itu_material("--material", options.material);  // throws for a class that is none
    read.material_override = options.material;
  }
  read.up = up_of(options.up);
  read.unit = metres_of(options.unit);
  read.origin = origin_of(options.origin);
  if (!options.materials.empty()) read.materials = read_materials_file(options.materials);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw_data(fmt::format("the scene '{}' does not exist; check the name", path));
  }
  throw_if_stopped();
  std::vector<std::string> notes;
  SceneModel model = read_scene(path, read, &notes);
  throw_if_stopped();
  constexpr std::size_t said = 4;  // the rest is in 'scene info', and with --verbose
  for (std::size_t i = 0; i < notes.size(); ++i) {
    if (i < said) {
      log_note(notes[i]);
    } else {
      log_debug(notes[i]);
    }
  }
  if (notes.size() > said) {
    log_note(fmt::format("{} more remarks; 'shardwise scene info' lists them", notes.size() - said));
  }
  if (remarks) remarks->insert(remarks->end(), notes.begin(), notes.end());
  return model;
}

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

}  // namespace shardwise::program
