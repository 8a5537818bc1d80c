#include "scene_options.hpp"

#include <fmt/core.h>

#include <filesystem>

#include "command.hpp"
#include "log.hpp"
#include "materials_file.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/scene/scene_io.hpp"
#include "signals.hpp"
#include "values.hpp"

namespace shardwise::program {

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
  add_refused(app, {"--up", "--unit", "--origin"});
}

SceneModel load_scene(const std::string& path, const SceneFileOptions& options,
                      std::vector<std::string>* remarks) {
  SceneReadOptions read;
  read.model.defects = word_value("--defects", options.defects, {"drop", "fail"}) == "fail"
                           ? DefectPolicy::fail
                           : DefectPolicy::drop;
  read.model.strict_materials = options.strict_materials;
  if (!options.material.empty()) {
    make_itu_material("--material", options.material);  // throws for a class that is none
    read.material_override = options.material;
  }
  if (!options.materials.empty()) read.materials = read_materials_file(options.materials);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw_data(fmt::format("the scene '{}' does not exist; check the name", path));
  }
  throw_if_stopped();
  std::vector<std::string> notes;
  SceneModel model = read_scene(path, read, &notes);
  throw_if_stopped();
  for (const std::string& note : notes) log_debug(note);
  if (remarks) remarks->insert(remarks->end(), notes.begin(), notes.end());
  return model;
}

}  // namespace shardwise::program
