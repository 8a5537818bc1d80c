// Every operation on rows on GPUs has the bits of one host device (strict), whatever the set and the way.

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
    fill(good);
    const std::vector<float> expected = intersect(scene, batch, options).get().t.to_host();
    for (int round = 0; round < 200; ++round) {
      fill(bad);  // stands in for a slow kernel: a megabyte through pageable memory
      fill(good);
      Pending<Intersections> call = intersect(scene, batch, options);
      fill(bad);
      ASSERT_TRUE(call.get().t.to_host() == expected) << spec << ", round " << round;
    }
    mine.synchronize();
  }
}

}  // namespace
}  // namespace shardwise::test
