// What replicas hold of faces beside their corners.

#include "scene/face_data.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "rays/intersect_operation.hpp"
#include "shardwise/rays/intersect.hpp"
#include "shardwise/runtime/devices.hpp"

namespace shardwise {
namespace {

Mesh plate(const char* name) {
  Mesh mesh;
  mesh.name = name;
  mesh.vertices = {{0, 0, 0}, {2, 0, 0}, {0, 2, 0}, {2, 2, 0}};
  mesh.faces = {{0, 1, 2}, {1, 3, 2}};
  return mesh;
}

/// Four faces that meet at vertex 0; faces 0 and 1 are small.
Mesh tent() {
  Mesh mesh;
  mesh.name = "tent";
  mesh.vertices = {{0, 0, 1}, {1, 0, 0}, {0, 1, 0}, {-3, 0, 0}, {0, -3, 0}};
  mesh.faces = {{0, 1, 2}, {0, 2, 3}, {0, 3, 4}, {0, 4, 1}};
  return mesh;
}

FaceArrays arrays_of(std::vector<Mesh> meshes) {
  SceneModel model;
  for (Mesh& mesh : meshes) model.add_mesh(std::move(mesh));
  model.build();
  return make_face_arrays(model);
}

void expect_near(Vec3f a, Vec3f b) {
  EXPECT_LE(max_abs(a - b), 1e-6f) << a.x << ' ' << a.y << ' ' << a.z << " against " << b.x << ' ' << b.y
                                   << ' ' << b.z;
}

TEST(FaceArrays, MeansAreWeightedByArea) {
  Mesh mesh = tent();
  mesh.faces.pop_back();
  const FaceArrays arrays = arrays_of({mesh});
  ASSERT_EQ(arrays.vertex_normals.size(), 5u);
  Vec3d sum{}, plain{};
  for (const Face& f : mesh.faces) {
    const Vec3d a = to_double(mesh.vertices[static_cast<std::size_t>(f[0])]);
    const Vec3d n = cross(to_double(mesh.vertices[static_cast<std::size_t>(f[1])]) - a,
                          to_double(mesh.vertices[static_cast<std::size_t>(f[2])]) - a);
    sum = sum + n;
    plain = plain + normalized(n);
  }
  expect_near(arrays.vertex_normals[0], to_float(normalized(sum)));
  EXPECT_GT(max_abs(arrays.vertex_normals[0] - to_float(normalized(plain))), 0.05f);
  EXPECT_EQ(arrays.shapes[0].smooth, 1);
}

TEST(FaceArrays, FlatShapesNeedNoNormals) {
  Mesh flat = tent();
  flat.use_face_normals = true;
  FaceArrays arrays = arrays_of({flat});
  EXPECT_TRUE(arrays.vertex_normals.empty());
  EXPECT_TRUE(arrays.faces.empty());
  EXPECT_EQ(arrays.shapes[0].smooth, 0);
  arrays = arrays_of({flat, tent()});
  ASSERT_EQ(arrays.vertex_normals.size(), 10u);
  EXPECT_EQ(arrays.vertex_normals[2], (Vec3f{}));
  EXPECT_NEAR(length(arrays.vertex_normals[7]), 1, 1e-6);
  EXPECT_EQ(arrays.shapes[1].face_offset, 4);
  EXPECT_EQ(arrays.shape_of_face, (std::vector<std::int32_t>{0, 0, 0, 0, 1, 1, 1, 1}));
}

TEST(FaceArrays, GivenNormalsTurnAsFacesDo) {
  Mesh mesh = plate("plate");
  // The plate's own normal, tilted ones, and one that is none.
  mesh.vertex_normals = {{0, 0, 5}, {1, 0, 1}, {0, -1, 1}, {NAN, 0, 1}};
  for (const Vec3d scale : {Vec3d{1, 1, 1}, Vec3d{2, 1, 0.5}, Vec3d{-1, 1, 1}, Vec3d{3, -2, -1}}) {
    Mesh scaled = mesh;
    scaled.to_world = Transform::translation({5, 6, 7}) * Transform::scaling(scale);
    SceneModel model;
    model.add_mesh(scaled);
    model.build();
    const FaceArrays arrays = make_face_arrays(model);
    // Vertex 0's normal is the faces', whatever the transform; by winding, so a mirror image turns it.
    expect_near(arrays.vertex_normals[0], model.geometry().face_normal[0]);
    // A plane's normal transforms with the inverse transpose, up to the sign.
    const Vec3d n{1 / scale.x, 0, 1 / scale.z};
    const double mirrored = scale.x * scale.y * scale.z < 0 ? -1 : 1;
    expect_near(arrays.vertex_normals[1], to_float(mirrored * normalized(n)));
    EXPECT_EQ(arrays.vertex_normals[3], (Vec3f{}));
  }
}

TEST(FaceArrays, DegenerateFacesGiveNothing) {
  Mesh mesh = plate("plate");
  mesh.vertices.push_back({0, 0, 9});
  mesh.vertices.push_back({NAN, 0, 9});
  mesh.faces.push_back({0, 4, 4});
  mesh.faces.push_back({0, 4, 5});
  const FaceArrays arrays = arrays_of({mesh});
  expect_near(arrays.vertex_normals[0], {0, 0, 1});
  EXPECT_EQ(arrays.vertex_normals[4], (Vec3f{}));
}

TEST(FaceArrays, InstancesShareTextureCoordinates) {
  Mesh bare = plate("bare"), textured = plate("textured");
  textured.uv = {{0, 0}, {1, 0}, {0, 1}, {0.5f, 0.5f}};
  textured.face_uv = {{0, 1, 2}, {3, 3, 3}};
  SceneModel model;
  model.add_mesh(bare);
  model.add_mesh(textured);
  model.add_instance(1, Transform::translation({9, 0, 0}));
  model.add_mesh(textured);
  model.build();
  const FaceArrays arrays = make_face_arrays(model);
  EXPECT_EQ(arrays.shapes[0].face_uv, -1);
  EXPECT_EQ(arrays.shapes[1].face_uv, 0);
  EXPECT_EQ(arrays.shapes[2].face_uv, 0);
  EXPECT_EQ(arrays.shapes[3].face_uv, 2);
  EXPECT_EQ(arrays.uv.size(), 8u);
  EXPECT_EQ(arrays.face_uv[2], (Face{4, 5, 6}));
}

std::uint64_t face_bytes(const Scene& scene, int device) {
  for (const auto& [name, bytes] : scene.scene_bytes(device))
    if (name == "face_data") return bytes;
  return 0;
}

class FaceDataOnDevices : public testing::TestWithParam<const char*> {};

TEST_P(FaceDataOnDevices, UploadedAtTheFirstNeedAndKeptInStep) {
  SceneModel model;
  Mesh block = tent();
  const std::int32_t owner = model.add_mesh(block);
  model.add_instance(owner, Transform::translation({10, 0, 0}), true);
  Mesh moving = plate("moving");
  for (Vec3f& v : moving.vertices) v = v + Vec3f{-10, 0, 0};
  moving.uv = {{0, 0}, {1, 0}, {0, 1}, {1, 1}};
  moving.face_uv = {{0, 1, 2}, {1, 3, 2}};
  model.add_mesh(moving, true);
  Scene scene(open_devices(GetParam()), std::move(model));
  scene.build();

  const std::vector<Vec3f> origins{{10.3f, 0.3f, 9}, {-9.5f, 0.5f, 9}}, directions{{0, 0, -1}, {0, 0, -1}};
  const auto look = [&](IntersectFields fields) {
    IntersectOptions options;
    options.fields = fields;
    options.min_rows_per_device = 0;
    return intersect(scene, Rays{origins, directions, {}, {}}, options).get();
  };
  look(IntersectFields::none);
  for (int d = 0; d < scene.devices().size(); ++d) EXPECT_EQ(face_bytes(scene, d), 0u);
  const std::uint64_t before = scene.devices()[0].memory(MemoryUse::scene).current();
  Intersections hits = look(IntersectFields::all);
  const std::uint64_t held = face_bytes(scene, 0);
  EXPECT_GT(held, 0u);
  EXPECT_EQ(scene.devices()[0].memory(MemoryUse::scene).current(), before + held);
  for (int d = 0; d < scene.devices().size(); ++d) EXPECT_EQ(face_bytes(scene, d), held);
  EXPECT_EQ(hits.shape_id.to_host(), (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(hits.local_prim_id.to_host(), (std::vector<std::int32_t>{0, 0}));
  EXPECT_EQ(hits.global_prim_id.to_host(), (std::vector<std::int32_t>{4, 8}));
  const Vec3f smooth = hits.shading_normal.to_host()[0];
  EXPECT_GT(max_abs(smooth - hits.geometric_normal.to_host()[0]), 0.01f);
  expect_near(hits.shading_normal.to_host()[1], {0, 0, 1});
  EXPECT_EQ(hits.uv.to_host()[1], (Vec2f{0.25f, 0.25f}));

  // The instance turns by half a turn about z, the plate tilts.
  Transform turned = Transform::translation({10, 0, 0});
  turned(0, 0) = turned(1, 1) = -1;
  scene.model().set_instance_transform(1, turned);
  std::vector<Vec3f> tilted = moving.vertices;
  for (Vec3f& v : tilted) v.z = v.x + 10;
  scene.model().update_mesh_vertices(2, tilted);
  ASSERT_TRUE(scene.sync());
  hits = look(IntersectFields::all);
  EXPECT_EQ(hits.shape_id.to_host(), (std::vector<std::int32_t>{1, 2}));
  expect_near(hits.shading_normal.to_host()[1], normalized(Vec3f{-1, 0, 1}));
  EXPECT_GT(max_abs(hits.shading_normal.to_host()[0] - smooth), 0.01f);
  // As a scene that was built there.
  SceneModel fresh_model;
  fresh_model.add_mesh(block);
  fresh_model.add_instance(0, turned);
  moving.vertices = tilted;
  fresh_model.add_mesh(moving);
  Scene fresh(open_devices("host:1"), std::move(fresh_model));
  fresh.build();
  const Intersections want = intersect(fresh, Rays{origins, directions, {}, {}}, IntersectOptions{}).get();
  EXPECT_EQ(hits.shading_normal.to_host(), want.shading_normal.to_host());
  EXPECT_EQ(hits.point.to_host(), want.point.to_host());

  // A build with other shapes: the data follows.
  scene.model().add_mesh(plate("more"));
  scene.build();
  for (int d = 0; d < scene.devices().size(); ++d) EXPECT_GT(face_bytes(scene, d), held);
  EXPECT_EQ(look(IntersectFields::all).shape_id.to_host(), (std::vector<std::int32_t>{1, 2}));
}
INSTANTIATE_TEST_SUITE_P(Sets, FaceDataOnDevices, testing::Values("host:1", "host:2x1", "sim:3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

}  // namespace
}  // namespace shardwise
