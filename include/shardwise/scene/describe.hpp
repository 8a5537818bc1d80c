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

/// The edges of a scene in numbers; see Wedges.
struct EdgeDescription {
  std::int64_t edges = 0;  ///< records
  std::int64_t boundary_edges = 0;
  std::int64_t non_manifold_edges = 0;  ///< places where three or more faces meet
  std::int64_t inconsistent_edges = 0;  ///< windings that disagree, as given
  std::int64_t wedges = 0;              ///< convex ones, and boundary edges that lie on no face
  std::int64_t convex = 0, concave = 0, coplanar = 0, half_planes = 0;
  std::int64_t wall_feet = 0;  ///< boundary edges that lie on other faces: no wedges
  std::int64_t closed_components = 0, oriented_components = 0;
  std::int64_t near_coincident_vertices = 0;  ///< apart, yet within the offset at that place: left unwelded
};

/// Counts edges and wedges of a built scene (classify_wedges() with its default tolerance).
EdgeDescription describe_edges(const SceneModel& scene);

/// Describes a built scene; a state error where it is not, or has pending updates.
SceneDescription describe(const SceneModel& scene);

}  // namespace shardwise
