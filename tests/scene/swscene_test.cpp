// .swscene: everything comes back bit for bit, and every damaged byte is found.

#include <gtest/gtest.h>

#include <limits>

#include "scene/file_util.hpp"
#include "scene/scene_test_util.hpp"
#include "shardwise/scene/scene_io.hpp"

namespace shardwise {
namespace {

using test::expect_error;

SceneModel rich_scene() {
  std::mt19937_64 random(5);
  SceneModel scene;
  Material mine;
  mine.name = "mine";
  mine.sigma = std::numeric_limits<double>::infinity();
  mine.unused = {{"scattering_coefficient", "0.3"}, {"xpd", ""}};
  scene.add_material(make_itu_material("wall", "concrete", 0.25));
  scene.add_material(mine);
  Mesh mesh = test::random_mesh(random, true, true);
  mesh.vertices[0] = {std::numeric_limits<float>::quiet_NaN(), -0.0f, 1e-42f};
  mesh.to_world = Transform::translation({1, 2, 1.0 / 3});
  mesh.material = 1;
  mesh.use_face_normals = true;
  mesh.edges_enabled = false;
  scene.add_mesh(mesh);
  scene.add_mesh(test::square("moving"), true);
  scene.add_mesh(Mesh{});
  scene.add_instance(0, Transform::scaling({2, 2, 2}), false, "copy");
  scene.add_instance(0, Transform::scaling({3, 2, 2}));
  scene.build();
  return scene;
}

TEST(Swscene, RoundTripsBitForBit) {
  const SceneModel scene = rich_scene();
  const std::string bytes = format_swscene(scene);
  const SceneModel back = parse_swscene(bytes, "memory");
  EXPECT_EQ(format_swscene(back), bytes);
  EXPECT_EQ(back.materials(), scene.materials());
  ASSERT_EQ(back.num_meshes(), scene.num_meshes());
  EXPECT_EQ(back.num_geometries(), 3);
  for (std::int32_t id = 0; id < scene.num_meshes(); ++id) {
    EXPECT_EQ(back.shape_name(id), scene.shape_name(id));
    EXPECT_EQ(back.is_instance(id), scene.is_instance(id));
    EXPECT_EQ(back.is_dynamic(id), scene.is_dynamic(id));
    EXPECT_EQ(back.owner_of(id), scene.owner_of(id));
    EXPECT_EQ(back.to_world(id), scene.to_world(id));
    EXPECT_EQ(back.mesh(id).use_face_normals, scene.mesh(id).use_face_normals);
    EXPECT_EQ(back.mesh(id).edges_enabled, scene.mesh(id).edges_enabled);
    EXPECT_EQ(back.mesh(id).material, scene.mesh(id).material);
    test::expect_same_mesh(back.mesh(id), scene.mesh(id));
  }
  EXPECT_TRUE(test::same_bits(back.geometry().vertices, scene.geometry().vertices));
  EXPECT_EQ(back.geometry().defects, scene.geometry().defects);
}

TEST(Swscene, WritesThroughATemporaryName) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "scene.swscene";
  const SceneModel scene = rich_scene();
  write_swscene(path, scene);
  write_swscene(path, scene);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_EQ(format_swscene(read_swscene(path)), format_swscene(scene));
  EXPECT_EQ(format_swscene(read_scene(path)), format_swscene(scene));
  expect_error(ErrorClass::usage, {"no-such-folder", "cannot be written"},
               [&] { write_swscene(folder.path() / "no-such-folder" / "s.swscene", scene); });
  expect_error(ErrorClass::data, {"gone.swscene", "No such file"},
               [&] { read_swscene(folder.path() / "gone.swscene"); });
}

TEST(Swscene, FailedWriteLeavesNothing) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "taken.swscene");
  expect_error(ErrorClass::io, {"taken.swscene", "rename"},
               [&] { write_swscene(folder.path() / "taken.swscene", rich_scene()); });
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Swscene, RefusesPendingUpdates) {
  SceneModel scene = rich_scene();
  scene.update_mesh_vertices(1, test::square("x", 3).vertices);
  expect_error(ErrorClass::state, {"pending updates", "sync()"}, [&] { format_swscene(scene); });
}

TEST(Swscene, FindsEveryTruncationAndEveryFlippedByte) {
  const std::string good = format_swscene(rich_scene());
  for (std::size_t size = 0; size < good.size(); ++size) {
    expect_error(ErrorClass::data, {"cut"}, [&] { parse_swscene(good.substr(0, size), "cut"); });
  }
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    expect_error(ErrorClass::data, {"flipped"}, [&] { parse_swscene(bad, "flipped"); });
  }
  expect_error(ErrorClass::data, {"damaged", "bytes and has"}, [&] { parse_swscene(good + "x", "longer"); });
  expect_error(ErrorClass::data, {"not a .swscene file"}, [] { parse_swscene("<scene/>", "xml"); });
  std::string other = good;
  other[8] = 3;
  expect_error(ErrorClass::data, {"schema 3"}, [&] { parse_swscene(other, "newer"); });
}

/// With a checksum that fits, the reader itself must refuse or read damaged content.
TEST(Swscene, SurvivesDamageUnderAValidChecksum) {
  const std::string good = format_swscene(rich_scene());
  std::mt19937_64 random(9);
  for (int trial = 0; trial < 20000; ++trial) {
    std::string bad = good;
    for (int i = 0; i < 3; ++i) bad[24 + random() % (good.size() - 32)] = static_cast<char>(random());
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (std::size_t i = 0; i + 8 < bad.size(); ++i) {
      hash = (hash ^ static_cast<unsigned char>(bad[i])) * 0x100000001b3u;
    }
    std::memcpy(bad.data() + bad.size() - 8, &hash, 8);
    try {
      parse_swscene(bad, "fuzz");
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::data) << error.what();
    }
  }
}

}  // namespace
}  // namespace shardwise
