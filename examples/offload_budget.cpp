// More rows than a device may hold: chunks go through it under a budget, and a function takes each chunk's
// results as they come. The same rows in one piece are refused, with the bytes they need.

#include <cmath>
#include <cstdio>
#include <vector>

#include "shardwise/numeric/philox.hpp"
#include "shardwise/rays/intersect.hpp"
#include "shardwise/runtime/error.hpp"

namespace {

using namespace shardwise;

SceneModel ground() {
  SceneModel model;
  Mesh mesh;
  mesh.name = "ground";
  mesh.vertices = {{-50, -50, 0}, {50, -50, 0}, {50, 50, 0}, {-50, 50, 0}};
  mesh.faces = {{0, 1, 2}, {0, 2, 3}};
  model.add_mesh(mesh);
  return model;
}

int run() {
  Scene scene(open_devices("host:2"), ground());
  scene.build();
  const std::size_t count = 500000;
  const std::vector<Vec3f> directions(count, Vec3f{0, 0, -1});
  std::vector<Vec3f> origins;
  for (std::uint64_t i = 0; i < count; ++i) {
    const PhiloxWords random = philox(/*seed=*/1, i, /*stream=*/0);
    origins.push_back(to_float({100 * random.uniform_double(0), 100 * random.uniform_double(1), 10}));
  }
  const Rays rays{origins, directions, {}, {}};

  std::int64_t rows = 0, hits = 0;
  IntersectOptions options;
  options.memory_bytes = 2 << 20;  // a device, above the built scene
  options.sink = offload(
      [&](const RowChunk& chunk) {
        rows += chunk.count;
        for (const float t : chunk.column<float>(IntersectColumns::t)) hits += std::isfinite(t);
      },
      /*to_host_memory=*/true);
  const Intersections result = intersect(scene, on_host(rays), options).get();
  bool kept = true;
  for (const DeviceReport& device : result.dispatch.devices) {
    kept = kept && device.peak_bytes <= options.memory_bytes;
    std::printf("%s: at most %llu of %llu bytes\n", device.name.c_str(),
                static_cast<unsigned long long>(device.peak_bytes),
                static_cast<unsigned long long>(options.memory_bytes));
  }
  std::printf("%ld chunks, %ld rows, %.3f of them hit\n", static_cast<long>(result.dispatch.chunk_count),
              static_cast<long>(rows), static_cast<double>(hits) / static_cast<double>(rows));

  options.sink = to_master();
  try {
    (void)intersect(scene, on_master(rays), options);
  } catch (const Error& error) {
    std::printf("refused (%s): %s\n", to_string(error.error_class()), error.what());
    return kept && rows == static_cast<std::int64_t>(count) ? 0 : 1;
  }
  return 1;
}

}  // namespace

int main() try { return run(); } catch (const Error& error) {
  std::fprintf(stderr, "offload_budget: %s\n", error.what());
  return exit_code(error.error_class());
}
