// Nearest edges on GPUs: the host's bits. The host twin is nearest_edge_operation_test.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "dispatch/row_dispatcher.hpp"
#include "rays/nearest_edge_operation.hpp"
#include "scene/trace_fixtures.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise {
namespace {

using testing::Random;

int gpu_count() {
  try {
    return open_devices("cuda").size();
  } catch (const Error&) {
    return 0;
  }
}

SceneModel make_model(bool masked) {
  SceneModel model;
  for (const auto& from : {testing::boxes(3000, 4), testing::cloud(4000, 0.05f, 5),
                           testing::duplicated(testing::slivers(200, 6)), testing::grid(20)}) {
    Mesh mesh;
    mesh.name = from.name;
    mesh.vertices = from.vertices;
    mesh.faces.assign(from.faces.begin(), from.faces.end());
    model.add_mesh(mesh);
  }
  model.build();
  if (masked) {
    std::vector<std::uint8_t> mask(model.edges().edges.size());
    Random random(9);
    for (auto& shown : mask) shown = random.below(3) == 0;
    model.set_edge_mask(mask);
  }
  return model;
}

struct Batch {
  std::vector<Vec3f> point, direction;
  std::vector<float> tmax;

  explicit Batch(std::size_t rows) {
    Random random(8);
    for (std::size_t i = 0; i < rows; ++i) {
      point.push_back(random.in_box(-1.5f, 1.5f));
      direction.push_back(random.uniform(0.1f, 9) * random.direction());
      tmax.push_back(i % 3 ? infinity_f : random.uniform(0, 2));
      if (i % 100 == 7) point.back().y = NAN;
      if (i % 100 == 8) direction.back() = {0, 0, 0};
    }
  }
  RowSource points() const {
    RowSource source;
    source.kind = SourceKind::on_host;
    source.columns = {RowInput(std::span(point)), RowInput()};
    return source;
  }
  RowSource rays() const {
    RowSource source;
    source.kind = SourceKind::on_host;
    source.columns = {RowInput(std::span(point)), RowInput(std::span(direction)), RowInput(std::span(tmax)),
                      RowInput()};
    return source;
  }
};

/// All bytes of all columns of the three operations, and the seconds that each took the second time.
struct Answers {
  std::vector<std::byte> bytes;
  std::int64_t rejected = 0;
  std::vector<double> seconds;
};

Answers answers_of(const std::string& devices, bool masked, const Batch& batch) {
  SceneModel model = make_model(masked);
  const std::vector<std::uint8_t> mask = model.edge_mask();
  Scene scene(open_devices(devices), std::move(model));
  scene.build();
  if (masked) scene.set_edge_mask(mask);
  Answers answers;
  RowOptions options;
  options.min_rows_per_device = 0;
  const auto add = [&](const auto& make, const RowSource& source) {
    for (const bool timed : {false, true}) {
      const auto start = std::chrono::steady_clock::now();
      const RowResult result = scene.rows().run(make(), source, to_host(), options).get();
      if (timed) {
        answers.seconds.push_back(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        continue;
      }
      answers.rejected += result.rejected;
      for (std::size_t c = 0; c < result.table->names.size(); ++c) {
        std::vector<std::byte> column(static_cast<std::size_t>(result.rows) * result.table->row_bytes[c]);
        result.table->read(static_cast<int>(c), column);
        answers.bytes.insert(answers.bytes.end(), column.begin(), column.end());
      }
    }
  };
  add([&] { return nearest_edge_of_point_operation(scene, false, true); }, batch.points());
  add([&] { return nearest_edge_of_ray_operation(scene, true, false); }, batch.rays());
  add([&] { return nearest_edges_operation(scene, {5, true}, false); }, batch.points());
  return answers;
}

TEST(NearestEdgeGpu, GivesTheHostsBits) {
  const int gpus = gpu_count();
  if (gpus == 0) GTEST_SKIP() << "no CUDA device answers";
  const std::size_t rows = 200'000;
  const Batch batch(rows);
  for (const bool masked : {false, true}) {
    const Answers host = answers_of("host:1", masked, batch), gpu = answers_of("cuda", masked, batch);
    EXPECT_EQ(host.rejected, gpu.rejected);
    EXPECT_GT(host.rejected, 0);
    EXPECT_TRUE(host.bytes == gpu.bytes);
    std::printf(
        "nearest edge%s, %zu rows, %d GPU(s); ms on host and GPU, transfers included: point %.2f %.2f, "
        "ray %.2f %.2f, five of a point %.2f %.2f\n",
        masked ? " (masked)" : "", rows, gpus, 1e3 * host.seconds[0], 1e3 * gpu.seconds[0],
        1e3 * host.seconds[1], 1e3 * gpu.seconds[1], 1e3 * host.seconds[2], 1e3 * gpu.seconds[2]);
  }
}

}  // namespace
}  // namespace shardwise
