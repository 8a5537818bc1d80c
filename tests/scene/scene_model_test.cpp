// SceneModel: ids, instances, updates, versions, defects, and that a call that throws changes nothing.

#include "shardwise/scene/scene_model.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "scene/scene_test_util.hpp"
#include "shardwise/scene/describe.hpp"

namespace shardwise {
namespace {

using test::expect_error;
using test::square;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<Vec3f> moved(std::vector<Vec3f> vertices, Vec3f offset) {
  for (Vec3f& p : vertices) p = p + offset;
  return vertices;
}

TEST(SceneModel, IdsAndOffsetsRunInOrderOfAddition) {
  SceneModel scene;
  const auto concrete = scene.add_material(make_itu_material("wall", "concrete"));
  Mesh first = square("first"), empty, third = square("third", 2);
  empty.name = "empty";
  first.material = concrete;
  EXPECT_EQ(scene.add_mesh(first), 0);
  EXPECT_EQ(scene.add_mesh(empty), 1);
  EXPECT_EQ(scene.add_mesh(third), 2);
  scene.build();
  const SceneGeometry& g = scene.geometry();
  EXPECT_EQ(g.vertex_offset, (std::vector<std::int32_t>{0, 4, 4, 8}));
  EXPECT_EQ(g.face_offset, (std::vector<std::int32_t>{0, 2, 2, 4}));
  EXPECT_EQ(g.shape_id, (std::vector<std::int32_t>{0, 0, 2, 2}));
  EXPECT_EQ(g.local_prim_id, (std::vector<std::int32_t>{0, 1, 0, 1}));
  EXPECT_EQ(g.face_material, (std::vector<std::int32_t>{0, 0, -1, -1}));
  EXPECT_EQ(g.faces[3], (Face{4, 6, 7}));
  EXPECT_EQ(g.face_normal[0], (Vec3f{0, 0, 1}));
  EXPECT_EQ(g.hittable, (std::vector<std::uint8_t>{1, 1, 1, 1}));
  EXPECT_EQ(g.bounds, (Bounds{{0, 0, 0}, {1, 1, 2}}));
  EXPECT_FLOAT_EQ(g.diagonal, std::sqrt(6.0f));
  EXPECT_EQ(g.max_coordinate, 2);
  EXPECT_EQ(scene.num_meshes(), 3);
  EXPECT_EQ(scene.num_geometries(), 3);
}

TEST(SceneModel, FacesAreNeitherWeldedNorReordered) {
  SceneModel scene;
  Mesh mesh;
  mesh.vertices = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  mesh.faces = {{3, 4, 5}, {2, 1, 0}};
  scene.add_mesh(mesh);
  scene.build();
  EXPECT_EQ(scene.geometry().vertices, mesh.vertices);
  EXPECT_EQ(scene.geometry().faces, mesh.faces);
  EXPECT_EQ(scene.geometry().face_normal[1], (Vec3f{0, 0, -1}));
}

TEST(SceneModel, WorldVerticesAreComputedInDoubleAndRoundedOnce) {
  SceneModel scene;
  Mesh mesh = square("far");
  mesh.vertices[0] = {0.1f, -0.0f, 0.3f};
  scene.add_mesh(mesh);
  mesh.to_world = Transform::translation({691000.0625, 0, 0}) * Transform::scaling({1.0 / 3, 1, 1});
  scene.add_mesh(mesh);
  scene.build();
  const auto& vertices = scene.geometry().vertices;
  EXPECT_TRUE(std::signbit(vertices[0].y)) << "the identity keeps every bit";
  EXPECT_EQ(vertices[4].x, static_cast<float>(static_cast<double>(0.1f) * (1.0 / 3) + 691000.0625));
}

TEST(SceneModel, InstancesShareTopologyUnderTheirOwnTransform) {
  SceneModel scene;
  Mesh mesh = square("tile");
  mesh.to_world = Transform::translation({100, 0, 0});
  mesh.material = scene.add_material(make_itu_material("m", "brick"));
  const auto owner = scene.add_mesh(mesh);
  const auto copy = scene.add_instance(owner, Transform::translation({0, 0, 5}));
  const auto named = scene.add_instance(owner, Transform{}, false, "copy");
  scene.build();
  const SceneGeometry& g = scene.geometry();
  EXPECT_EQ(scene.num_meshes(), 3);
  EXPECT_EQ(scene.num_geometries(), 1);
  EXPECT_EQ(g.vertices[4], (Vec3f{0, 0, 5})) << "the owner's to_world does not apply to an instance";
  EXPECT_EQ(g.faces[2], (Face{4, 5, 6}));
  EXPECT_EQ(g.shape_id[2], copy);
  EXPECT_EQ(g.face_material[5], 0);
  EXPECT_EQ(scene.shape_name(copy), "tile#1");
  EXPECT_EQ(scene.shape_name(named), "copy");
  EXPECT_EQ(scene.owner_of(copy), owner);
  EXPECT_TRUE(scene.is_instance(copy));
  EXPECT_FALSE(scene.is_instance(owner));
}

TEST(SceneModel, InstanceRules) {
  SceneModel scene;
  const auto fixed = scene.add_mesh(square("fixed"));
  const auto moving = scene.add_mesh(square("moving"), true);
  const auto copy = scene.add_instance(fixed, Transform{});
  const auto still = scene.add_instance(fixed, Transform{}, false);
  expect_error(ErrorClass::state, {"instance", "dynamic"}, [&] { scene.add_instance(moving, Transform{}); });
  expect_error(ErrorClass::state, {"instance", "itself an instance"},
               [&] { scene.add_instance(copy, Transform{}); });
  expect_error(ErrorClass::usage, {"instance", "[0, 4)", "got 9"},
               [&] { scene.add_instance(9, Transform{}); });
  expect_error(ErrorClass::usage, {"got -1"}, [&] { scene.set_instance_transform(-1, Transform{}); });
  expect_error(ErrorClass::state, {"not an instance"},
               [&] { scene.set_instance_transform(fixed, Transform{}); });
  expect_error(ErrorClass::state, {"not dynamic"}, [&] { scene.set_instance_transform(still, Transform{}); });
  Transform bad;
  bad.m[12] = 1;
  expect_error(ErrorClass::usage, {"(4, 4)", "last row", "(1, 0, 0, 1)"},
               [&] { scene.add_instance(fixed, bad); });
  bad = Transform{};
  bad.m[3] = std::nan("");
  expect_error(ErrorClass::usage, {"(4, 4)", "finite", "column 3"},
               [&] { scene.set_instance_transform(copy, bad); });
  EXPECT_EQ(scene.num_meshes(), 4);
  EXPECT_FALSE(scene.has_pending_updates());
}

TEST(SceneModel, UpdateRules) {
  SceneModel scene;
  const auto fixed = scene.add_mesh(square("fixed"));
  const auto moving = scene.add_mesh(square("moving"), true);
  const auto copy = scene.add_instance(fixed, Transform{});
  const auto vertices = square("x").vertices;
  expect_error(ErrorClass::state, {"not dynamic", "'fixed'"},
               [&] { scene.update_mesh_vertices(fixed, vertices); });
  expect_error(ErrorClass::state, {"instance"}, [&] { scene.update_mesh_vertices(copy, vertices); });
  expect_error(ErrorClass::usage, {"unchanged, 4 (got 3)"},
               [&] { scene.update_mesh_vertices(moving, std::span(vertices).first(3)); });
  expect_error(ErrorClass::usage, {"got 7"}, [&] { scene.update_mesh_vertices(7, vertices); });
}

TEST(SceneModel, MeshesAreCheckedWhenTheyEnter) {
  SceneModel scene;
  const auto refuses = [&](std::initializer_list<std::string> fragments, auto&& change) {
    Mesh mesh = square("bad");
    change(mesh);
    expect_error(ErrorClass::usage, fragments, [&] { scene.add_mesh(mesh); });
  };
  refuses({"faces", "[0, 4)", "got 4", "'bad'", "face 1", "corner 2"}, [](Mesh& m) { m.faces[1][2] = 4; });
  refuses({"faces", "got -1", "face 0", "corner 0"}, [](Mesh& m) { m.faces[0][0] = -1; });
  refuses({"uv and face_uv"}, [](Mesh& m) { m.uv = {{0, 0}}; });
  refuses({"uv and face_uv"}, [](Mesh& m) { m.face_uv = m.faces; });
  refuses({"face_uv", "2 (got 1)"}, [](Mesh& m) {
    m.uv = {{0, 0}};
    m.face_uv = {{0, 0, 0}};
  });
  refuses({"face_uv", "got 1"}, [](Mesh& m) {
    m.uv = {{0, 0}};
    m.face_uv = {{0, 0, 0}, {0, 0, 1}};
  });
  refuses({"vertex_normals", "4 (got 1)"}, [](Mesh& m) { m.vertex_normals = {{0, 0, 1}}; });
  refuses({"last row"}, [](Mesh& m) { m.to_world.m[15] = 2; });
  refuses({"material", "got 0"}, [](Mesh& m) { m.material = 0; });
  EXPECT_EQ(scene.num_meshes(), 0);
}

TEST(SceneModel, LifecycleOfVersions) {
  SceneModel scene;
  expect_error(ErrorClass::state, {"at least one mesh"}, [&] { scene.build(); });
  expect_error(ErrorClass::state, {"not ready", "build()"}, [&] { scene.geometry(); });
  expect_error(ErrorClass::state, {"not built", "build()"}, [&] { scene.sync(); });
  const auto id = scene.add_mesh(square("a"), true);
  EXPECT_FALSE(scene.is_ready());
  EXPECT_EQ(scene.version(), 0);
  scene.build();
  EXPECT_TRUE(scene.is_ready());
  EXPECT_EQ(scene.version(), 1);
  EXPECT_EQ(scene.edge_version(), 1);
  EXPECT_FALSE(scene.sync()) << "nothing queued: no-op";
  EXPECT_EQ(scene.version(), 1);

  scene.update_mesh_vertices(id, moved(square("a").vertices, {0, 0, 1}));
  EXPECT_TRUE(scene.has_pending_updates());
  EXPECT_TRUE(scene.is_ready());
  expect_error(ErrorClass::state, {"pending updates", "sync()"}, [&] { scene.geometry(); });
  EXPECT_TRUE(scene.sync());
  EXPECT_FALSE(scene.has_pending_updates());
  EXPECT_EQ(scene.version(), 2);
  EXPECT_EQ(scene.edge_version(), 2);
  EXPECT_EQ(scene.geometry().vertices[0], (Vec3f{0, 0, 1}));
  EXPECT_EQ(scene.mesh(id).vertices[0], (Vec3f{0, 0, 1}));

  scene.update_mesh_vertices(id, moved(square("a").vertices, {0, 0, 1}));
  EXPECT_FALSE(scene.sync()) << "the same bits are no change";
  EXPECT_EQ(scene.version(), 2);
  EXPECT_FALSE(scene.has_pending_updates());

  scene.add_mesh(square("b"));
  EXPECT_FALSE(scene.is_ready());
  expect_error(ErrorClass::state, {"not built"}, [&] { scene.sync(); });
  scene.build();
  EXPECT_EQ(scene.version(), 3);
  scene.build();
  EXPECT_EQ(scene.version(), 4);
}

TEST(SceneModel, QueuedValuesAreCopiedAndTheLastCounts) {
  SceneModel scene;
  const auto id = scene.add_mesh(square("a"), true);
  const auto copy = scene.add_instance(scene.add_mesh(square("b")), Transform{});
  auto vertices = moved(square("a").vertices, {1, 0, 0});
  scene.update_mesh_vertices(id, vertices);
  vertices = moved(vertices, {1, 0, 0});
  scene.update_mesh_vertices(id, vertices);
  vertices[0] = {99, 99, 99};
  scene.set_instance_transform(copy, Transform::translation({0, 1, 0}));
  scene.set_instance_transform(copy, Transform::translation({0, 2, 0}));
  scene.build();  // consumes the queue, too
  EXPECT_FALSE(scene.has_pending_updates());
  EXPECT_EQ(scene.geometry().vertices[0], (Vec3f{2, 0, 0}));
  EXPECT_EQ(scene.geometry().vertices[8], (Vec3f{0, 2, 0}));
  EXPECT_EQ(scene.to_world(copy), Transform::translation({0, 2, 0}));
}

TEST(SceneModel, SyncKeepsTopologyAndTheDiagonal) {
  SceneModel scene;
  const auto id = scene.add_mesh(square("a"), true);
  scene.add_mesh(square("b", 1));
  scene.build();
  const SceneGeometry before = scene.geometry();
  scene.update_mesh_vertices(id, moved(square("a").vertices, {50, 0, 0}));
  scene.sync();
  const SceneGeometry& after = scene.geometry();
  EXPECT_EQ(before.faces, after.faces);
  EXPECT_EQ(before.shape_id, after.shape_id);
  EXPECT_EQ(before.face_offset, after.face_offset);
  EXPECT_EQ(before.diagonal, after.diagonal) << "the offsets of rays must not move with the scene";
  EXPECT_EQ(after.bounds.high.x, 51);
  EXPECT_EQ(after.max_coordinate, 51);
}

TEST(SceneModel, TellsWhatChangedSinceAVersion) {
  SceneModel scene;
  const auto a = scene.add_mesh(square("a"), true);
  const auto b = scene.add_mesh(square("b"), true);
  const auto c = scene.add_instance(scene.add_mesh(square("c")), Transform{});
  EXPECT_EQ(scene.changes_since(0).kind, SceneChange::Kind::none);
  scene.build();
  EXPECT_EQ(scene.changes_since(0).kind, SceneChange::Kind::everything);
  EXPECT_EQ(scene.changes_since(1).kind, SceneChange::Kind::none);
  scene.update_mesh_vertices(b, moved(square("b").vertices, {1, 0, 0}));
  scene.update_mesh_vertices(a, square("a").vertices);  // no change
  scene.sync();
  scene.set_instance_transform(c, Transform::translation({1, 1, 1}));
  scene.sync();
  EXPECT_EQ(scene.changes_since(1).kind, SceneChange::Kind::vertices);
  EXPECT_EQ(scene.changes_since(1).shapes, (std::vector<std::int32_t>{b, c}));
  EXPECT_EQ(scene.changes_since(2).shapes, (std::vector<std::int32_t>{c}));
  EXPECT_EQ(scene.changes_since(3).kind, SceneChange::Kind::none);
  EXPECT_EQ(scene.changes_since(0).kind, SceneChange::Kind::everything);
  expect_error(ErrorClass::usage, {"[0, 3]", "got 4"}, [&] { scene.changes_since(4); });
}

/// A mesh with one defect of each kind and one good face.
Mesh damaged() {
  Mesh mesh;
  mesh.name = "damaged";
  mesh.vertices = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {kNan, 0, 0}, {2, 0, 0}};
  mesh.faces = {{0, 1, 3}, {0, 1, 1}, {0, 1, 4}, {0, 1, 2}};
  return mesh;
}

TEST(SceneModel, DropListsDefectsAndKeepsIds) {
  SceneModel scene;
  scene.add_mesh(square("good"));
  scene.add_mesh(damaged());
  scene.build();
  const SceneGeometry& g = scene.geometry();
  EXPECT_EQ(g.hittable, (std::vector<std::uint8_t>{1, 1, 0, 0, 0, 1}));
  EXPECT_EQ(g.face_normal[2], (Vec3f{0, 0, 0}));
  EXPECT_EQ(g.face_normal[5], (Vec3f{0, 0, 1}));
  EXPECT_EQ(g.defects, (std::vector<Defect>{{Defect::Kind::non_finite_vertex, 1, 3},
                                            {Defect::Kind::face_of_non_finite_vertex, 1, 0},
                                            {Defect::Kind::repeated_index, 1, 1},
                                            {Defect::Kind::zero_area, 1, 2}}));
  EXPECT_EQ(scene.describe(g.defects[3]), "shape 'damaged' (id 1), face 2: zero area");
  EXPECT_EQ(g.bounds, (Bounds{{0, 0, 0}, {1, 1, 0}})) << "what cannot be hit does not count";
}

TEST(SceneModel, FailNamesEveryDefectAndChangesNothing) {
  SceneModel scene({.defects = DefectPolicy::fail});
  const auto id = scene.add_mesh(square("moving"), true);
  scene.build();
  auto vertices = square("moving").vertices;
  vertices[2].y = kNan;
  scene.update_mesh_vertices(id, vertices);
  expect_error(ErrorClass::data, {"sync", "3 defects", "'moving'", "vertex 2", "face 0", "face 1"},
               [&] { scene.sync(); });
  EXPECT_EQ(scene.version(), 1);
  EXPECT_TRUE(scene.has_pending_updates()) << "the queue is kept";
  vertices[2].y = 3;
  scene.update_mesh_vertices(id, vertices);
  EXPECT_TRUE(scene.sync());
  EXPECT_EQ(scene.geometry().vertices[2].y, 3);

  scene.add_mesh(damaged());
  expect_error(ErrorClass::data, {"build", "4 defects", "'damaged'", "face 2: zero area"},
               [&] { scene.build(); });
  EXPECT_EQ(scene.version(), 2);
  EXPECT_FALSE(scene.is_ready());
}

TEST(SceneModel, DefectsFollowUpdates) {
  SceneModel scene;
  const auto id = scene.add_mesh(square("a"), true);
  scene.add_mesh(damaged());
  scene.build();
  ASSERT_EQ(scene.geometry().defects.size(), 4u);
  auto vertices = square("a").vertices;
  vertices[1] = vertices[0];
  scene.update_mesh_vertices(id, vertices);
  scene.sync();
  ASSERT_EQ(scene.geometry().defects.size(), 5u);
  EXPECT_EQ(scene.geometry().defects[0], (Defect{Defect::Kind::zero_area, id, 0}));
  EXPECT_EQ(scene.geometry().hittable[0], 0);
  scene.update_mesh_vertices(id, square("a").vertices);
  scene.sync();
  EXPECT_EQ(scene.geometry().defects.size(), 4u);
  EXPECT_EQ(scene.geometry().hittable[0], 1);
}

TEST(SceneModel, SmallTrianglesAreNoDefects) {
  // Zero area is judged relative to the edges: a micrometre is a triangle, a hundred kilometres on a line is
  // none.
  SceneModel scene;
  Mesh mesh;
  mesh.vertices = {{0, 0, 0}, {1e-6f, 0, 0}, {0, 1e-6f, 0}, {1e5f, 0, 0}, {5e4f, 0, 0}};
  mesh.faces = {{0, 1, 2}, {0, 3, 4}};
  scene.add_mesh(mesh);
  scene.build();
  EXPECT_EQ(scene.geometry().hittable, (std::vector<std::uint8_t>{1, 0}));
  EXPECT_EQ(scene.geometry().face_normal[0], (Vec3f{0, 0, 1}));
}

TEST(SceneModel, OverflowInTheTransformIsADefect) {
  SceneModel scene;
  Mesh mesh = square("huge");
  mesh.to_world = Transform::scaling({1e300, 1, 1});
  scene.add_mesh(mesh);
  scene.build();
  EXPECT_EQ(scene.geometry().hittable, (std::vector<std::uint8_t>{0, 0}));
  EXPECT_EQ(scene.geometry().diagonal, 0);
}

TEST(SceneModel, AnEmptyMeshBuilds) {
  SceneModel scene;
  scene.add_mesh(Mesh{});
  scene.build();
  EXPECT_TRUE(scene.geometry().faces.empty());
  EXPECT_TRUE(scene.geometry().bounds.empty());
  EXPECT_EQ(scene.geometry().diagonal, 0);
  EXPECT_EQ(scene.geometry().face_offset, (std::vector<std::int32_t>{0, 0}));
}

TEST(SceneModel, Materials) {
  SceneModel scene({.strict_materials = true});
  EXPECT_EQ(scene.add_material(make_itu_material("a", "concrete")), 0);
  EXPECT_EQ(scene.add_material(make_itu_material("b", "concrete")), 1);
  EXPECT_EQ(scene.add_material(make_itu_material("a", "concrete")), 0);
  expect_error(ErrorClass::usage, {"unique", "'a'"},
               [&] { scene.add_material(make_itu_material("a", "brick")); });
  Material bad;
  bad.name = "c";
  bad.sigma = -1;
  expect_error(ErrorClass::usage, {"sigma", "'c'", "-1"}, [&] { scene.add_material(bad); });
  EXPECT_EQ(scene.materials().size(), 2u);
  std::vector<std::string> warnings;
  const auto values = scene.evaluate_materials(3.5e9, &warnings);
  ASSERT_EQ(values.size(), 2u);
  EXPECT_NEAR(values[1].sigma, 0.123087, 5e-7);
  expect_error(ErrorClass::data, {"'a'", "200 GHz"}, [&] { scene.evaluate_materials(200e9, &warnings); });
}

TEST(SceneModel, RandomUpdatesEqualAFreshBuild) {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 30; ++trial) {
    SceneModel scene;
    std::vector<Mesh> meshes;
    for (int i = 0; i < 4; ++i) {
      meshes.push_back(test::random_mesh(random, false, false));
      meshes.back().dynamic = true;
      scene.add_mesh(meshes.back());
    }
    scene.build();
    for (int step = 0; step < 5; ++step) {
      for (int i = 0; i < 4; ++i) {
        if (random() % 2) continue;
        for (Vec3f& p : meshes[i].vertices) p.x = test::random_float(random);
        if (random() % 4 == 0) meshes[i].vertices[0].y = kNan;
        scene.update_mesh_vertices(i, meshes[i].vertices);
      }
      scene.sync();
    }
    SceneModel fresh;
    for (const Mesh& mesh : meshes) fresh.add_mesh(mesh);
    fresh.build();
    const SceneGeometry &a = scene.geometry(), &b = fresh.geometry();
    EXPECT_TRUE(test::same_bits(a.vertices, b.vertices));
    EXPECT_TRUE(test::same_bits(a.face_normal, b.face_normal));
    EXPECT_EQ(a.hittable, b.hittable);
    EXPECT_EQ(a.defects, b.defects);
    EXPECT_EQ(a.bounds, b.bounds);
    EXPECT_EQ(a.max_coordinate, b.max_coordinate);
  }
}

TEST(Describe, CountsShapesMaterialsAndDefects) {
  SceneModel scene;
  Mesh wall = square("wall");
  wall.material = scene.add_material(make_itu_material("m", "brick"));
  Material constants;
  constants.name = "mine";
  scene.add_material(constants);
  const auto owner = scene.add_mesh(wall);
  scene.add_instance(owner, Transform::translation({0, 0, 4}));
  scene.add_mesh(damaged());
  scene.build();
  const SceneDescription info = describe(scene);
  EXPECT_EQ(info.shapes, 3);
  EXPECT_EQ(info.instances, 1);
  EXPECT_EQ(info.geometries, 2);
  EXPECT_EQ(info.triangles, 8);
  EXPECT_EQ(info.vertices, 13);
  EXPECT_EQ(info.dropped, 3);
  EXPECT_EQ(info.bounds.high.z, 4);
  ASSERT_EQ(info.materials.size(), 2u);
  EXPECT_EQ(info.materials[0].itu_class, "brick");
  EXPECT_EQ(info.materials[0].shapes, 2);
  EXPECT_EQ(info.materials[0].faces, 4);
  EXPECT_EQ(info.materials[1].itu_class, "");
  EXPECT_EQ(info.materials[1].faces, 0);
  EXPECT_EQ(info.without_material.faces, 4);
  ASSERT_EQ(info.defects.size(), 4u);
  EXPECT_EQ(info.defects[0], "shape 'damaged' (id 2), vertex 3: not finite");
}

}  // namespace
}  // namespace shardwise
