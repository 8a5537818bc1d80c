#pragma once
// What `shardwise scene info` says of a scene, as data.

#include <cstdint>
#include <string>
#include <vector>

#include "shardwise/scene/scene_model.hpp"

namespace shardwise {

/// How much of a scene a material covers.
struct MaterialUse {
  std::string name;
  std::string itu_class;  ///< empty for explicit constants
  std::int64_t shapes = 0;
  std::int64_t faces = 0;
};

struct SceneDescription {
  std::int32_t shapes = 0;  ///< meshes and instances
  std::int32_t instances = 0;
  std::int32_t geometries = 0;  ///< distinct meshes
  std::int64_t triangles = 0;   ///< all faces, dropped ones included
  std::int64_t vertices = 0;
  std::int64_t dropped = 0;  ///< faces that are never hit
  Bounds bounds;
  float diagonal = 0;
  float max_coordinate = 0;
  std::vector<MaterialUse> materials;  ///< in table order; those without faces too
  MaterialUse without_material;        ///< shapes and faces that have none
  std::vector<std::string> defects;    ///< SceneModel::describe() of each, all of them
};

/// Describes a built scene; a state error where it is not, or has pending updates.
SceneDescription describe(const SceneModel& scene);

}  // namespace shardwise
