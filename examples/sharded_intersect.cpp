#include <cstdio>
#include "shardwise/rays/intersect.hpp"
#include "shardwise/scene/city.hpp"
#include "shardwise/scene/scene_io.hpp"
int main() {
  using namespace shardwise;
  Scene scene(open_devices("host:2"), read_scene(write_city("city").scene_file));
  scene.build();
  const std::vector<Vec3f> origins(1 << 20, Vec3f{0, 0, 30});
  std::vector<Vec3f> directions;
  for (int i = 0; i < 1 << 20; ++i) directions.push_back({i % 1024 / 512.f - 1, i / 1024 / 512.f - 1, -1});
  const Intersections hits = intersect(scene, Rays{origins, directions, {}, {}}).get();
  for (const auto& d : hits.dispatch.devices) std::printf("%s: %ld rays\n", d.name.c_str(), long(d.lanes));
  std::printf("straight down: %.2f m\n", hits.t.span()[512 * 1024 + 512]);
}
