// Which edge diffracts? The nearest edge of a point among all edges, then among the wedges only.

#include <cstdio>
#include <numbers>
#include <vector>

#include "shardwise/rays/nearest_edge.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/scene/wedges.hpp"

namespace {

using namespace shardwise;

/// A house of 4 m x 4 m x 3 m without a floor, on the ground.
SceneModel house() {
  Mesh ground;
  ground.name = "ground";
  ground.vertices = {{-20, -20, 0}, {20, -20, 0}, {20, 20, 0}, {-20, 20, 0}};
  ground.faces = {{0, 1, 2}, {0, 2, 3}};
  Mesh walls;
  walls.name = "house";
  for (int k = 0; k < 8; ++k)
    walls.vertices.push_back({k & 1 ? 4.f : 0.f, k & 2 ? 4.f : 0.f, k & 4 ? 3.f : 0.f});
  walls.faces = {{4, 5, 7}, {4, 7, 6}, {0, 1, 5}, {0, 5, 4}, {2, 6, 7},
                 {2, 7, 3}, {0, 4, 6}, {0, 6, 2}, {1, 3, 7}, {1, 7, 5}};
  SceneModel model;
  model.add_mesh(ground);
  model.add_mesh(walls);
  return model;
}

int run() {
  Scene scene(open_devices("host:2"), house());
  scene.build();
  const Wedges wedges = classify_wedges(scene.model());
  std::printf("%zu edges, %ld wedges, %ld feet of walls\n", wedges.kind.size(),
              static_cast<long>(wedges.wedges), static_cast<long>(wedges.wall_feet));

  // Beside a corner, and close to the foot of a wall.
  const std::vector<Vec3f> points{{5, 5, 1}, {2, -0.5f, 0.25f}};
  const auto show = [&](const char* what) {
    const NearestEdges nearest = nearest_edge(scene, Points{points, {}}).get();
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto edge = static_cast<std::size_t>(nearest.global_edge_id.span()[i]);
      const Vec3f at = nearest.edge_point.span()[i];
      std::printf("point %zu, %s: %.3f m to (%g, %g, %g), exterior angle %.0f degrees\n", i, what,
                  nearest.distance.span()[i], at.x, at.y, at.z,
                  wedges.exterior_angle[edge] * 180 / std::numbers::pi);
    }
  };
  show("all edges");
  scene.set_edge_mask(wedges.is_wedge);
  show("wedges");
  return 0;
}

}  // namespace

int main() try { return run(); } catch (const Error& error) {
  std::fprintf(stderr, "nearest_wedges: %s\n", error.what());
  return exit_code(error.error_class());
}
