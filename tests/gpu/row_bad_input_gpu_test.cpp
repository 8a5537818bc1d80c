// Rows in the wrong memory, and devices that are named twice: what only GPUs can get wrong.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "gpu/gpu_fixture.hpp"
#include "rays/row_batch.hpp"
#include "scene/scene_test_util.hpp"

namespace shardwise::test {
namespace {

/// Memory of a GPU that nobody of ours has allocated, as a caller's is.
class GpuColumn {
 public:
  GpuColumn(int gpu, std::size_t rows) : rows_(rows) {
    int current = 0;
    EXPECT_EQ(cudaGetDevice(&current), cudaSuccess);
    EXPECT_EQ(cudaSetDevice(gpu), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&memory_, rows * sizeof(Vec3f)), cudaSuccess);
    EXPECT_EQ(cudaMemset(memory_, 0, rows * sizeof(Vec3f)), cudaSuccess);
    EXPECT_EQ(cudaSetDevice(current), cudaSuccess);
  }
  ~GpuColumn() { cudaFree(memory_); }
  GpuColumn(const GpuColumn&) = delete;
  GpuColumn& operator=(const GpuColumn&) = delete;
  std::span<Vec3f> span() const { return {static_cast<Vec3f*>(memory_), rows_}; }

 private:
  void* memory_ = nullptr;
  std::size_t rows_;
};

TEST(RowBadInputGpu, RowsInTheWrongMemoryAreRefusedWithWhereTheyAre) {
  SKIP_WITHOUT_GPUS(1);
  constexpr std::size_t count = 100;
  Scene on_gpu(open_devices("cuda:0"), test_model()), on_cpu(open_devices("host:2x1"), test_model());
  on_gpu.build();
  on_cpu.build();
  const std::vector<Vec3f> origins(count), directions(count, Vec3f{0, 0, 1});
  const GpuColumn gpu_origins(0, count);
  const Rays host{origins, directions, {}, {}}, mixed{gpu_origins.span(), directions, {}, {}};
  expect_error(ErrorClass::usage, {"intersect", "origin is in host memory", "cuda:0", "on_host"},
               [&] { (void)intersect(on_gpu, on_master(host)); });
  expect_error(ErrorClass::usage, {"intersect", "direction is in host memory"},
               [&] { (void)intersect(on_gpu, on_master(mixed)); });
  expect_error(ErrorClass::usage, {"intersect", "origin is in the memory of cuda:0", "on_master"},
               [&] { (void)intersect(on_gpu, on_host(mixed)); });
  expect_error(ErrorClass::usage, {"intersect", "origin is in the memory of cuda:0", "host:0"},
               [&] { (void)intersect(on_cpu, on_master(mixed)); });

  // Results, too.
  std::vector<float> t(count);
  const std::span<float> gpu_t{reinterpret_cast<float*>(gpu_origins.span().data()), count};
  IntersectOptions options;
  options.sink = to_master({std::span(t)});
  expect_error(ErrorClass::usage, {"output t is in host memory"},
               [&] { (void)intersect(on_gpu, on_host(host), options); });
  options.sink = to_host({gpu_t});
  expect_error(ErrorClass::usage, {"output t is in the memory of cuda:0"},
               [&] { (void)intersect(on_gpu, on_host(host), options); });
  options.sink = to_host({std::span(t)});
  EXPECT_EQ(intersect(on_gpu, on_host(host), options).get().rows, static_cast<std::int64_t>(count));
}

TEST(RowBadInputGpu, MemoryOfAnotherGpuIsNotTheMasters) {
  SKIP_WITHOUT_GPUS(2);
  Scene scene(open_devices("cuda:0,1"), test_model());
  scene.build();
  const GpuColumn origins(1, 10), directions(1, 10);
  expect_error(ErrorClass::usage, {"origin is in the memory of cuda:1", "first device is cuda:0"}, [&] {
    (void)intersect(scene, Rays{origins.span(), directions.span(), {}, {}});
  });
}

TEST(RowBadInputGpu, DevicesAreNamedOnce) {
  SKIP_WITHOUT_GPUS(1);
  for (const char* spec : {"cuda:0,0", "cuda:0+cuda:0"})
    expect_error(ErrorClass::usage, {"cuda:0 is named twice", spec}, [&] { (void)open_devices(spec); });
}

}  // namespace
}  // namespace shardwise::test
