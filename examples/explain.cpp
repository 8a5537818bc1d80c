// What a call would do, asked before it runs; then the same call in every way, with the same bits.

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
  Scene scene(open_devices("host:3"), ground());
  scene.build();
  const std::size_t count = 60000;
  const std::vector<Vec3f> directions(count, Vec3f{0, 0, -1});
  std::vector<Vec3f> origins;
  for (std::uint64_t i = 0; i < count; ++i) {
    const PhiloxWords random = philox(/*seed=*/1, i, /*stream=*/0);
    origins.push_back(to_float({60 * random.uniform_double(0), 60 * random.uniform_double(1), 10}));
  }
  const Rays rays{origins, directions, {}, {}};

  const std::vector<float> expected =
      intersect(scene, rays).get().t.to_host();  // below the floor: the master alone
  bool same = true;
  const auto show = [&](const char* title, IntersectOptions options) {
    options.plan_only = true;
    const DispatchReport plan = intersect(scene, rays, options).get().dispatch;  // nothing ran
    std::printf("%s: %s, %ld launches of up to %ld rows, because: %s\n", title, plan.mode.c_str(),
                static_cast<long>(plan.chunk_count), static_cast<long>(plan.chunk_rows), plan.reason.c_str());
    options.plan_only = false;
    same = same && intersect(scene, rays, options).get().t.to_host() == expected;
  };

  IntersectOptions options;
  show("defaults", options);
  options.min_rows_per_device = 0;  // no floor: small batches are spread, too
  show("no floor", options);
  options.weights = {5, 1, 0};
  show("weights 5,1,0", options);
  options.mode = DispatchMode::pipelined;
  show("pipelined", options);
  options.chunk_rows = 20000;
  show("chunks", options);
  std::puts(same ? "the same bits every time" : "NOT the same bits");
  return same ? 0 : 1;
}

}  // namespace

int main() try { return run(); } catch (const Error& error) {
  std::fprintf(stderr, "explain: %s\n", error.what());
  return exit_code(error.error_class());
}
