// Rays that the devices make themselves, reflections that they fold into two numbers: nothing moves between
// them but those. In a closed room every ray has all its bounces.

#include <cstdio>

#include "shardwise/rays/generators.hpp"
#include "shardwise/rays/reducers.hpp"
#include "shardwise/rays/reflections.hpp"
#include "shardwise/runtime/error.hpp"

namespace {

using namespace shardwise;

/// 8 m x 5 m x 3 m.
SceneModel room() {
  Mesh mesh;
  mesh.name = "room";
  for (int k = 0; k < 8; ++k)
    mesh.vertices.push_back({k & 1 ? 8.f : 0.f, k & 2 ? 5.f : 0.f, k & 4 ? 3.f : 0.f});
  mesh.faces = {{0, 2, 3}, {0, 3, 1}, {4, 5, 7}, {4, 7, 6}, {0, 1, 5}, {0, 5, 4},
                {2, 6, 7}, {2, 7, 3}, {0, 4, 6}, {0, 6, 2}, {1, 3, 7}, {1, 7, 5}};
  SceneModel model;
  model.add_mesh(mesh);
  return model;
}

int run() {
  constexpr int bounces = 4, rays = 300000;
  constexpr double longest = 16;  // metres, of a leg: sets the scale of the exact sum
  ReflectionOptions options;
  options.max_bounces = bounces;
  options.fields = ReflectionFields::none;
  options.min_rows_per_device = 0;
  options.sink = reduce(sum_of_column(ReflectionColumns::t, bounces, longest));
  const RowSource source = generated(random_rays(rays, {1, 1, 1}, {7, 4, 2}, /*seed=*/3));

  ColumnSum first;
  bool same = true;
  for (const char* devices : {"host:1", "host:2", "host:3"}) {
    Scene scene(open_devices(devices), room());
    scene.build();
    const Reflections result = trace_reflections(scene, source, options).get();
    const ColumnSum sum = column_sum(result, longest);
    unsigned long long moved = 0;
    for (const DeviceReport& device : result.dispatch.devices) moved += device.bytes_in + device.bytes_out;
    std::printf("%s: %ld legs, %.4f m on average, %llu bytes of rows moved\n", devices,
                static_cast<long>(sum.count), sum.sum / static_cast<double>(sum.count), moved);
    if (first.count == 0) first = sum;
    same = same && sum.count == first.count && sum.sum == first.sum && moved == 0;
  }
  std::puts(same ? "equal bits" : "NOT equal bits");
  return same && first.count == bounces * rays ? 0 : 1;
}

}  // namespace

int main() try { return run(); } catch (const Error& error) {
  std::fprintf(stderr, "generated_reduce: %s\n", error.what());
  return exit_code(error.error_class());
}
