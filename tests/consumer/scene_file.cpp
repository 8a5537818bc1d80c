// Component io: a city is written and read again; two devices see the ground where it is.

#include <cmath>
#include <cstdio>
#include <vector>

#include "shardwise/rays/intersect.hpp"
#include "shardwise/scene/city.hpp"
#include "shardwise/scene/scene_io.hpp"

int main() {
  using namespace shardwise;
  Scene scene(open_devices("host:2"), read_scene(write_city("consumer_city").scene_file));
  scene.build();
  const std::vector<Vec3f> origins(1000, Vec3f{0, 0, 30}), directions(1000, Vec3f{0, 0, -2});
  const Intersections hits = intersect(scene, Rays{origins, directions, {}, {}}).get();
  int right = 0;
  for (const float t : hits.t.to_host()) right += std::fabs(t - 15) < 1e-4f;
  std::printf("%d shapes, %d of 1000 rays see the crossroads 30 m below\n", scene.model().num_meshes(),
              right);
  return right == 1000 && scene.model().num_meshes() > 10 ? 0 : 1;
}
