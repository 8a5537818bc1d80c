// Every operation on rows on GPUs has the bits of one host device (strict), whatever the set and the way.

#include <cuda_runtime.h>

#include <deque>
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

/// Keeps a stream busy for some milliseconds.
class SlowKernel {
 public:
  explicit SlowKernel(Stream& stream) : stream_(stream), scratch_(stream, 2 * rows, "scratch") {}
  void operator()() {
    Operation operation;
    operation.name = "slow kernel";
    operation.accesses = {scratch_.writes()};
    operation.body = [out = scratch_.data()](LaunchContext& context) {
      RowLaunch launch;
      launch.count = rows;
      launch.outputs[0] = out;
      launch.outputs[1] = out + rows;
      for (int i = 0; i < 4; ++i) random_rays(rows, {0, 0, 0}, {1, 1, 1}).make(context, launch);
    };
    stream_.enqueue(std::move(operation));
  }

 private:
  static constexpr std::int64_t rows = 1 << 24;
  Stream& stream_;
  Buffer<Vec3f> scratch_;
};

/// A scene's own streams for its callers, one a device.
struct CallersStreams {
  explicit CallersStreams(const DeviceSet& devices) {
    for (int d = 0; d < devices.size(); ++d) {
      streams.push_back(devices[d].create_stream("mine"));
      context.streams.emplace_back(*streams.back());
    }
  }
  std::vector<std::unique_ptr<Stream>> streams;
  ExecutionContext context;
};

/// A kernel on the caller's stream that takes a while, then a call, then an overwrite of its inputs: nothing
/// is waited for on the host.
TEST(RowsGpu, CallersStreamsOrderWhatACallReads) {
  if (gpu_count() == 0) GTEST_SKIP() << "no CUDA device answers";
  for (const std::string spec : {"cuda:0", "cuda:0,1"}) {
    if (spec == "cuda:0,1" && gpu_count() < 2) continue;
    Scene scene(open_devices(spec), test_model());
    scene.build();
    CallersStreams callers(scene.devices());
    Stream& mine = *callers.streams.front();
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
    options.context = &callers.context;
    options.fields = IntersectFields::none;
    options.weights = scene.devices().size() == 2 ? std::vector<double>{1, 1} : std::vector<double>{};
    SlowKernel slow_kernel(mine);
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

/// Every device's stream is busy, a query waits behind that, the geometry changes, a second query follows:
/// each sees the geometry of its moment.
TEST(RowsGpu, QueriesSeeTheGeometryOfTheirMoment) {
  if (gpu_count() == 0) GTEST_SKIP() << "no CUDA device answers";
  for (const std::string spec : {"cuda:0", "cuda:0,1"}) {
    if (spec == "cuda:0,1" && gpu_count() < 2) continue;
    Scene scene(open_devices(spec), moving_model());
    scene.build();
    CallersStreams callers(scene.devices());
    std::deque<SlowKernel> slow_kernels;
    for (const auto& stream : callers.streams) slow_kernels.emplace_back(*stream);
    constexpr std::size_t rows = 100000;
    const std::vector<Vec3f> origins(rows, Vec3f{0.2f, 0.2f, 10}), directions(rows, Vec3f{0, 0, -1});
    Rays rays;
    rays.origins = origins;
    rays.directions = directions;
    IntersectOptions options;
    options.min_rows_per_device = 0;
    options.context = &callers.context;
    options.fields = IntersectFields::none;
    options.weights.assign(static_cast<std::size_t>(scene.devices().size()), 1.0);
    Buffer<Vec3f> device_origins(*callers.streams.front(), rows, "origins"),
        device_directions(*callers.streams.front(), rows, "directions");
    callers.streams.front()->enqueue(copy_operation("origins", device_origins.data(), origins.data(),
                                                    device_origins.bytes(), {device_origins.writes()}));
    callers.streams.front()->enqueue(copy_operation("directions", device_directions.data(), directions.data(),
                                                    device_directions.bytes(), {device_directions.writes()}));
    rays.origins = {device_origins.data(), rows};
    rays.directions = {device_directions.data(), rows};
    for (int step = 0; step < 20; ++step) {
      for (SlowKernel& slow_kernel : slow_kernels) slow_kernel();
      Pending<Intersections> before = intersect(scene, rays, options);
      move_triangle(scene.model(), static_cast<float>(step % 5 + 1));
      scene.sync();
      Pending<Intersections> after = intersect(scene, rays, options);
      const float was = step == 0 ? 0.0f : static_cast<float>((step - 1) % 5 + 1);
      for (const float t : before.get().t.to_host()) ASSERT_NEAR(t, 10.0f - was, 1e-5f) << spec;
      for (const float t : after.get().t.to_host())
        ASSERT_NEAR(t, 9.0f - static_cast<float>(step % 5), 1e-5f) << spec;
    }
    for (const auto& stream : callers.streams) stream->synchronize();
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
  // In turns, so that a neighbour on the machine meets both.
  std::vector<double> ratios;
  for (int turn = 0; turn < 5; ++turn) {
    const double alone =
        std::max(seconds_of([&] { rounds_of(sides[0]); }), seconds_of([&] { rounds_of(sides[1]); }));
    const double together = seconds_of([&] {
      std::thread other([&] { rounds_of(sides[1]); });
      rounds_of(sides[0]);
      other.join();
    });
    ratios.push_back(together / alone);
  }
  EXPECT_EQ(wrong.load(), 0);
  std::ranges::sort(ratios);
  std::printf(
      "two scenes on %s and %s, two threads, %d rounds: %.3f times one run (median of 5, least %.3f)\n",
      specs[0].c_str(), specs[1].c_str(), rounds, ratios[2], ratios[0]);
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
