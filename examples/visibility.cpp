// A wall between two points: what blocks the way, and whether a detour is free.

#include <cstdio>
#include <vector>

#include "shardwise/rays/visible.hpp"
#include "shardwise/runtime/error.hpp"

namespace {

using namespace shardwise;

/// The plane x = 0, 10 m wide and 3 m high.
SceneModel wall() {
  Mesh mesh;
  mesh.name = "wall";
  mesh.vertices = {{0, -5, 0}, {0, 5, 0}, {0, 5, 3}, {0, -5, 3}};
  mesh.faces = {{0, 1, 2}, {0, 2, 3}};
  SceneModel model;
  model.add_mesh(mesh);
  return model;
}

int run() {
  Scene scene(open_devices("host:2"), wall());
  scene.build();
  const Vec3f left{-4, 0, 1}, right{4, 0, 1}, over_the_wall{0, 0, 3.5f};

  VisibleOptions which;
  which.first_blocker = true;
  which.min_rows_per_device = 0;
  const std::vector<Vec3f> starts{left, left, left}, ends{right, over_the_wall, {-1, 2, 1}};
  const Visibility direct = visible(scene, Segments{starts, ends, {}, {}}, which).get();
  for (std::size_t i = 0; i < ends.size(); ++i)
    std::printf("(%g, %g, %g) is %s, blocked by face %d\n", ends[i].x, ends[i].y, ends[i].z,
                direct.visible.span()[i] ? "visible" : "hidden", direct.first_blocker.span()[i]);

  // The face that hides the other side may be ignored: then the way is free.
  const std::vector<std::int32_t> ignored{direct.first_blocker.span()[0]};
  const std::vector<Vec3f> start{left}, end{right};
  std::printf("without that face: %d\n",
              visible(scene, Segments{start, end, ignored, {}}).get().visible.span()[0]);

  VisibleChainOptions chain;
  chain.points_per_chain = 3;
  const std::vector<Vec3f> points{left, over_the_wall, right, left, {2, 0, 1}, right};
  const ChainVisibility ways = visible_chain(scene, Chains{points, {}, {}, {}}, chain).get();
  for (std::size_t i = 0; i < 2; ++i)
    std::printf("detour %zu: free %d, first blocked segment %d\n", i, ways.all_visible.span()[i],
                ways.first_blocked_segment.span()[i]);
  return 0;
}

}  // namespace

int main() try { return run(); } catch (const Error& error) {
  std::fprintf(stderr, "visibility: %s\n", error.what());
  return exit_code(error.error_class());
}
