// Every operation on rows on GPUs has the bits of one host device (strict), whatever the set and the way.

#include <cuda_runtime.h>

#include <thread>

#include "dispatch/row_operation.hpp"
#include "rays/row_sweep.hpp"

namespace shardwise::test {
namespace {

int gpu_count() {
  try {
    return open_devices("cuda").size();
  } catch (const Error&) {
    return 0;
  }
}

TEST(RowsGpu, EveryOperationHasTheHostsBitsOnOneGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << "no CUDA device answers";
  sweep({"cuda:0"}, 12, 21, TracerChoice::bvh);
}

TEST(RowsGpu, EveryOperationHasTheHostsBitsOnTwoGpus) {
  if (gpu_count() < 2) GTEST_SKIP() << "one GPU here";
  sweep({"cuda:0,1", "cuda:1,0"}, 20, 22, TracerChoice::bvh);
}

TEST(RowsGpu, GeneratedRowsAreReducedToTheHostsBits) {
  if (gpu_count() == 0) GTEST_SKIP() << "no CUDA device answers";
  IntersectOptions options;
  options.fields = IntersectFields::none;
  options.min_rows_per_device = 0;
  options.sink = reduce(sum_of_column(IntersectColumns::t, 1, 16));
  const RowGenerator rays = random_rays(200000, {-3, -3, -3}, {3, 3, 3}, 5);
  Scene single(open_devices("host:1"), test_model(), {TracerChoice::bvh});
  single.build();
  const ColumnSum expected = column_sum(intersect(single, generated(rays), options).get(), 16);
  for (const std::string spec : {"cuda:0", "cuda:0,1"}) {
    if (spec == "cuda:0,1" && gpu_count() < 2) continue;
    Scene scene(open_devices(spec), test_model());
    scene.build();
    const Intersections result = intersect(scene, generated(rays), options).get();
    const ColumnSum sum = column_sum(result, 16);
    EXPECT_EQ(sum.count, expected.count) << spec;
    EXPECT_EQ(sum.sum, expected.sum) << spec;
  }
}

/// A kernel on the caller's stream that takes a while, then a call, then an overwrite of its inputs: nothing
/// is waited for on the host.
TEST(RowsGpu, CallersStreamsOrderWhatACallReads) {
  if (gpu_count() == 0) GTEST_SKIP() << "no CUDA device answers";
  for (const std::string spec : {"cuda:0", "cuda:0,1"}) {
    if (spec == "cuda:0,1" && gpu_count() < 2) continue;
    Scene scene(open_devices(spec), test_model());
    scene.build();
    ExecutionContext context;
    std::vector<std::unique_ptr<Stream>> streams;
    for (int d = 0; d < scene.devices().size(); ++d) {
      streams.push_back(scene.devices()[d].create_stream("mine"));
      context.streams.emplace_back(*streams.back());
    }
    Stream& mine = *streams.front();
    constexpr std::int64_t rows = 100000;
    const Batches good(rows, 1), bad(rows, 2);
    Buffer<Vec3f> origins(mine, rows, "origins"), directions(mine, rows, "directions");
    const auto fill = [&](const Batches& from) {
      const Rays rays = from.rays();
      mine.enqueue(copy_operation("origins", origins.data(), rays.origins.data(), origins.bytes(),
                                  {origins.writes()}));
      mine.enqueue(copy_operation("directions", directions.data(), rays.directions.data(), directions.bytes(),
                                  {directions.writes()}));
    };
    Rays batch;
    batch.origins = {origins.data(), rows};
    batch.directions = {directions.data(), rows};
    IntersectOptions options;
    options.min_rows_per_device = 0;
    options.context = &context;
    options.fields = IntersectFields::none;
    options.weights = scene.devices().size() == 2 ? std::vector<double>{1, 1} : std::vector<double>{};
    // Takes some milliseconds.
    constexpr std::int64_t slow_rows = 1 << 24;
    Buffer<Vec3f> scratch(mine, 2 * slow_rows, "scratch");
    const auto slow_kernel = [&] {
      Operation operation;
      operation.name = "slow kernel";
      operation.accesses = {scratch.writes()};
      operation.body = [&scratch](LaunchContext& launch_context) {
        RowLaunch launch;
        launch.count = slow_rows;
        launch.outputs[0] = scratch.data();
        launch.outputs[1] = scratch.data() + slow_rows;
        for (int i = 0; i < 4; ++i) random_rays(slow_rows, {0, 0, 0}, {1, 1, 1}).make(launch_context, launch);
      };
      mine.enqueue(std::move(operation));
    };
    fill(good);
    const std::vector<float> expected = intersect(scene, batch, options).get().t.to_host();
    for (int round = 0; round < 200; ++round) {
      fill(bad);
      slow_kernel();
      fill(good);
      Pending<Intersections> call = intersect(scene, batch, options);
      fill(bad);
      ASSERT_TRUE(call.get().t.to_host() == expected) << spec << ", round " << round;
    }
    mine.synchronize();
  }
}

/// Two threads, each with a scene and streams of its own: the bits of the single runs.
TEST(RowsGpu, TwoScenesOnTwoThreads) {
  if (gpu_count() == 0) GTEST_SKIP() << "no CUDA device answers";
  const std::string specs[2] = {"cuda:0", gpu_count() > 1 ? "cuda:1" : "cuda:0"};
  struct Side {
    explicit Side(const std::string& spec) : scene(open_devices(spec), test_model()) {
      scene.build();
      stream = scene.devices().master().create_stream("mine");
      context.streams.emplace_back(*stream);
    }
    std::vector<float> run() {
      IntersectOptions options;
      options.fields = IntersectFields::none;
      options.context = &context;
      options.sink = to_host();
      return intersect(scene, on_host(batch.rays()), options).get().t.to_host();
    }
    Scene scene;
    std::unique_ptr<Stream> stream;
    ExecutionContext context;
    Batches batch{20000, 3};
  };
  Side sides[2] = {Side(specs[0]), Side(specs[1])};
  const std::vector<float> expected = sides[0].run();
  ASSERT_TRUE(sides[1].run() == expected);
  const auto seconds_of = [](const auto& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  constexpr int rounds = 1000;
  std::atomic<int> wrong{0};
  const auto rounds_of = [&](Side& side) {
    for (int i = 0; i < rounds; ++i) wrong += side.run() != expected;
  };
  const double alone =
      std::max(seconds_of([&] { rounds_of(sides[0]); }), seconds_of([&] { rounds_of(sides[1]); }));
  const double together = seconds_of([&] {
    std::thread other([&] { rounds_of(sides[1]); });
    rounds_of(sides[0]);
    other.join();
  });
  EXPECT_EQ(wrong.load(), 0);
  std::printf("two scenes on %s and %s, two threads, %d rounds: %.3f times one run\n", specs[0].c_str(),
              specs[1].c_str(), rounds, together / alone);
}

/// The current device of the calling thread is nobody's business.
TEST(RowsGpu, CallsOnDevice1LeaveDevice0Current) {
  if (gpu_count() < 2) GTEST_SKIP() << "one GPU here";
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  const auto current = [] {
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    return device;
  };
  Scene scene(open_devices("cuda:1"), test_model());
  EXPECT_EQ(current(), 0);
  scene.build();
  EXPECT_EQ(current(), 0);
  Scene single(open_devices("host:1"), test_model(), {TracerChoice::bvh});
  single.build();
  const Batches batch(1000, 9);
  for (const Op& op : all_operations()) {
    std::vector<Memory> memory;
    const RowResult expected = op.run(single, batch, Place{}, {}, {});
    const RowResult result = op.run(scene, batch, Place{SourceKind::on_master, &scene, &memory}, {}, {});
    EXPECT_EQ(current(), 0) << op.name;
    EXPECT_TRUE(bytes_of(*result.table) == bytes_of(*expected.table)) << op.name;
    EXPECT_EQ(current(), 0) << op.name;
  }
}

}  // namespace
}  // namespace shardwise::test
