#include "shardwise/scene/describe.hpp"

#include <algorithm>

namespace shardwise {

SceneDescription describe(const SceneModel& scene) {
  const SceneGeometry& geometry = scene.geometry();
  SceneDescription result;
  result.shapes = scene.num_meshes();
  result.geometries = scene.num_geometries();
  result.instances = result.shapes - result.geometries;
  result.triangles = static_cast<std::int64_t>(geometry.faces.size());
  result.vertices = static_cast<std::int64_t>(geometry.vertices.size());
  result.dropped = std::count(geometry.hittable.begin(), geometry.hittable.end(), 0);
  result.bounds = geometry.bounds;
  result.diagonal = geometry.diagonal;
  result.max_coordinate = geometry.max_coordinate;
  for (const Material& material : scene.materials()) {
    const bool is_class = material.kind == Material::Kind::itu_class;
    result.materials.push_back({material.name, is_class ? material.itu_class : "", 0, 0});
  }
  for (std::int32_t id = 0; id < scene.num_meshes(); ++id) {
    const Mesh& mesh = scene.mesh(id);
    MaterialUse& use = mesh.material < 0 ? result.without_material
                                         : result.materials[static_cast<std::size_t>(mesh.material)];
    ++use.shapes;
    use.faces += static_cast<std::int64_t>(mesh.faces.size());
  }
  for (const Defect& defect : geometry.defects) result.defects.push_back(scene.describe(defect));
  return result;
}

}  // namespace shardwise
