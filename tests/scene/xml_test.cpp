// Mitsuba XML: the real scenes in both dialects, transforms, materials, and every way a file can be wrong.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "shardwise/runtime/error.hpp"
#include "shardwise/scene/scene_io.hpp"

namespace shardwise {
namespace {

const std::filesystem::path kScenes = SHARDWISE_TEST_SCENES;

#define REQUIRE_SCENE(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the test scenes are not here: " << (path)

TEST(RealScenes, MunichHasItsMeasuredCountsAndBounds) {
  const auto path = kScenes / "munich/munich.xml";
  REQUIRE_SCENE(path);
  const SceneModel scene = read_scene(path);
  const SceneGeometry& geometry = scene.geometry();
  EXPECT_EQ(scene.num_meshes(), 2367);
  EXPECT_EQ(geometry.faces.size(), 38938u);
  EXPECT_EQ(geometry.vertices.size(), 42293u);
  EXPECT_TRUE(geometry.defects.empty());
  EXPECT_NEAR(geometry.bounds.low.x, -805.6, 0.05);
  EXPECT_NEAR(geometry.bounds.low.y, -688.6, 0.05);
  EXPECT_EQ(geometry.bounds.low.z, 0.0f);
  EXPECT_NEAR(geometry.bounds.high.x, 669.9, 0.05);
  EXPECT_NEAR(geometry.bounds.high.y, 517.0, 0.05);
  EXPECT_NEAR(geometry.bounds.high.z, 98.6, 0.05);
}

}  // namespace
}  // namespace shardwise
