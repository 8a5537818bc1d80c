#pragma once
// The options that say how a scene file is read, the same for every command.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "shardwise/scene/scene_model.hpp"

namespace shardwise::program {

struct SceneFileOptions {
  std::string material, materials, defects = "drop", up, unit = "m", origin = "auto";
  bool strict_materials = false;
};

/// What `FILE` may be, for the help of commands.
inline constexpr const char* kSceneHelp = "Scene: .xml (Mitsuba), .obj, .gltf, .glb, .stl, .ply or .swscene";

void add_scene_options(CLI::App& app, SceneFileOptions& options);

/// How the scene is built, whoever reads it. Throws usage errors.
SceneModelOptions model_options_of(const SceneFileOptions& options);

/// Reads and builds a scene. Remarks go to the log; `*remarks` gets them too, where given. Throws data errors
/// that name the file, usage errors for the options.
SceneModel load_scene(const std::string& path, const SceneFileOptions& options,
                      std::vector<std::string>* remarks = nullptr);

/// Throws a data error unless the scene has a face that can be hit.
void check_faces(const SceneModel& model, const std::string& path);

}  // namespace shardwise::program
