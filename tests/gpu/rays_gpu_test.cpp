// Row operations on rays on GPUs: the bits of the host's BVH, on any set of them.

#include <gtest/gtest.h>

#include <cstdio>

#include "rays/all_operations.hpp"
#include "shardwise/runtime/devices.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::testing {
namespace {

int gpu_count() {
  try {
    return open_devices("cuda").size();
  } catch (const Error&) {
    return 0;
  }
}

class RaysGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu_count() == 0) GTEST_SKIP() << "no CUDA device answers";
  }
  static Scene make_scene(const std::string& devices) {
    Scene scene(open_devices(devices), room_with_blocks(), {TracerChoice::bvh});
    scene.build();
    return scene;
  }
};

TEST_F(RaysGpu, EveryOperationGivesTheHostsBits) {
  Scene host = make_scene("host:1"), cuda = make_scene("cuda:0");
  for (const int rows : {0, 1, 33, 200'000}) {
    const Inputs in(rows);
    const Answers want = run_all(host, in, true), got = run_all(cuda, in, true);
    EXPECT_EQ(std::vector<std::string>(), differences(want, got)) << rows << " rows";
    if (rows == 200'000) {
      for (const auto& [name, answer] : got) {
        EXPECT_GT(answer.rejected, 5000) << name;
        std::printf("%s: %zu bytes equal\n", name.c_str(), answer.bytes.size());
      }
    }
  }
}

TEST_F(RaysGpu, ChunksAndSetsGiveTheSameBits) {
  const Inputs in(50'000);
  Scene one = make_scene("cuda:0");
  const Answers want = run_all(one, in, true);
  const auto in_chunks = [](RowOptions& o) { o.chunk_rows = 7'001; };
  EXPECT_EQ(std::vector<std::string>(), differences(want, run_all(one, in, true, in_chunks)));
  if (gpu_count() < 2) {
    std::printf("one GPU here: sets of several were not run\n");
    return;
  }
  Scene two = make_scene("cuda:0,1");
  EXPECT_EQ(std::vector<std::string>(), differences(want, run_all(two, in, true)));
  EXPECT_EQ(std::vector<std::string>(), differences(want, run_all(two, in, true, [](RowOptions& o) {
                                                      o.weights = {1, 5};
                                                      o.chunk_rows = 7'001;
                                                    })));
}

TEST_F(RaysGpu, MovedScenesAreSeenByTheNextCall) {
  const Inputs in(20'000);
  Scene host = make_scene("host:1"), cuda = make_scene("cuda:0");
  run_all(cuda, in, true);  // face data and edges are there before the scene moves
  for (Scene* scene : {&host, &cuda}) {
    for (std::int32_t id = 2; id < 7; ++id)
      scene->model().set_instance_transform(id, Transform::translation({7.0 - 2.9 * id, 1.3 * id - 6, 0.2}));
    ASSERT_TRUE(scene->sync());
  }
  EXPECT_EQ(std::vector<std::string>(), differences(run_all(host, in, true), run_all(cuda, in, true)));
}

}  // namespace
}  // namespace shardwise::testing
