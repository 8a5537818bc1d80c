#include "shardwise/scene/describe.hpp"

#include <algorithm>

#include "shardwise/scene/wedges.hpp"

namespace shardwise {

EdgeDescription describe_edges(const SceneModel& scene) {
  const Wedges wedges = classify_wedges(scene);
  const EdgeTable& table = scene.edges();
  EdgeDescription result;
  result.edges = static_cast<std::int64_t>(table.edges.size());
  result.boundary_edges = table.boundary_edges;
  result.non_manifold_edges = table.non_manifold_edges;
  result.inconsistent_edges = table.inconsistent_edges;
  result.wedges = wedges.wedges;
  result.convex = wedges.convex;
  result.concave = wedges.concave;
  result.coplanar = wedges.coplanar;
  result.half_planes = wedges.free_boundary;
  result.wall_feet = wedges.wall_feet;
  result.closed_components = wedges.closed_components;
  result.oriented_components = wedges.oriented_components;
  result.near_coincident_vertices = count_near_coincident_vertices(scene);
  return result;
}

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
