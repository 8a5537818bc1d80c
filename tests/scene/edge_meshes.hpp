#pragma once
// Solids for the tests of edges.

#include <utility>

#include "shardwise/scene/scene_model.hpp"

namespace shardwise::test {

/// A cube whose six sides are squares with vertices of their own: 24 vertices, 12 faces, outward.
inline Mesh split_cube(Vec3f low = {0, 0, 0}, float size = 1) {
  Mesh mesh;
  mesh.name = "cube";
  static constexpr int quads[6][4] = {{0, 2, 3, 1}, {4, 5, 7, 6}, {0, 1, 5, 4},
                                      {2, 6, 7, 3}, {0, 4, 6, 2}, {1, 3, 7, 5}};
  for (const auto& quad : quads) {
    const auto n = static_cast<std::int32_t>(mesh.vertices.size());
    for (const int k : quad)
      mesh.vertices.push_back(low +
                              size * Vec3f{k & 1 ? 1.0f : 0.0f, k & 2 ? 1.0f : 0.0f, k & 4 ? 1.0f : 0.0f});
    mesh.faces.push_back({n, n + 1, n + 2});
    mesh.faces.push_back({n, n + 2, n + 3});
  }
  return mesh;
}

inline Mesh inverted(Mesh mesh) {
  for (Face& face : mesh.faces) std::swap(face[1], face[2]);
  return mesh;
}

inline SceneModel built(std::vector<Mesh> meshes, SceneModelOptions options = {}) {
  SceneModel scene(options);
  for (Mesh& mesh : meshes) scene.add_mesh(std::move(mesh));
  scene.build();
  return scene;
}

}  // namespace shardwise::test
