// Axes, units and origins: one scene in many files, the same bits in the scene.

#include <gtest/gtest.h>

#include "scene/file_util.hpp"
#include "scene/format_writers.hpp"
#include "scene/scene_test_util.hpp"
#include "shardwise/scene/describe.hpp"

namespace shardwise {
namespace {

using test::expect_error;
using test::PlainShape;
using test::save;
using test::small_scene;

bool holds(const std::vector<std::string>& notes, const std::string& part) {
  return std::any_of(notes.begin(), notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

class Placement : public testing::Test {
 protected:
  void SetUp() override {
    test::save_as_xml(folder_.path(), classes(), [](const PlainShape& s) {
      return format_ply(test::mesh_of(s), PlyEncoding::binary_little_endian);
    });
    expected_ = read_scene(path("scene.xml"));
  }
  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  /// XML names classes without a prefix here.
  static std::vector<PlainShape> classes() {
    auto shapes = small_scene();
    for (PlainShape& shape : shapes) shape.material = shape.material.substr(4);
    return shapes;
  }
  /// The same triangles in the same order, bit for bit (zeros of either sign), and the same materials.
  void expect_same_scene(const SceneModel& found) const {
    const SceneGeometry &a = expected_.geometry(), &b = found.geometry();
    EXPECT_EQ(a.vertices, b.vertices);
    EXPECT_EQ(a.faces, b.faces);
    EXPECT_EQ(a.bounds, b.bounds);
    ASSERT_EQ(expected_.num_meshes(), found.num_meshes());
    for (std::int32_t id = 0; id < found.num_meshes(); ++id) {
      EXPECT_EQ(found.shape_name(id), expected_.shape_name(id));
      EXPECT_EQ(class_of(found, id), class_of(expected_, id));
    }
  }
  static std::string class_of(const SceneModel& scene, std::int32_t id) {
    return scene.materials()[static_cast<std::size_t>(scene.mesh(id).material)].itu_class;
  }
  test::TemporaryFolder folder_;
  SceneModel expected_;
};

TEST_F(Placement, EveryFormatGivesTheSameScene) {
  save(path("a.obj"), test::obj_text(small_scene()));
  save(path("a.glb"), test::glb_bytes(small_scene()));
  const auto [json, buffer] = test::gltf_parts(small_scene(), "a.bin");
  save(path("a.gltf"), json);
  save(path("a.bin"), buffer);
  for (const char* name : {"a.obj", "a.glb", "a.gltf"}) {
    SCOPED_TRACE(name);
    std::vector<std::string> notes;
    expect_same_scene(read_scene(path(name), {}, &notes));
    EXPECT_TRUE(notes.empty()) << notes.front();
  }
}

TEST_F(Placement, UpAxes) {
  auto shapes = small_scene();
  for (PlainShape& shape : shapes) {
    for (Vec3f& p : shape.vertices) p = {p.x, p.z, -p.y};
  }
  save(path("y.obj"), test::obj_text(shapes));
  SceneReadOptions options;
  options.up = UpAxis::y;
  expect_same_scene(read_scene(path("y.obj"), options));
  shapes = small_scene();
  for (PlainShape& shape : shapes) {
    for (Vec3f& p : shape.vertices) p = {p.z, p.y, -p.x};
  }
  save(path("x.obj"), test::obj_text(shapes));
  options.up = UpAxis::x;
  expect_same_scene(read_scene(path("x.obj"), options));
  // z up said of a glTF file leaves it as it is.
  save(path("a.glb"), test::glb_bytes(small_scene()));
  options.up = UpAxis::z;
  EXPECT_EQ(read_scene(path("a.glb"), options).geometry().bounds.high.y, 5.05f);
}

TEST_F(Placement, Units) {
  auto shapes = small_scene();
  for (PlainShape& shape : shapes) {
    for (Vec3f& p : shape.vertices) p = 4.0f * p;
  }
  save(path("quarter.obj"), test::obj_text(shapes));
  SceneReadOptions options;
  options.unit = 0.25;  // exact, so that the bits can be compared
  expect_same_scene(read_scene(path("quarter.obj"), options));
  options.unit = 0.3048;
  const Bounds bounds = read_scene(path("quarter.obj"), options).geometry().bounds;
  EXPECT_EQ(bounds.high.x, static_cast<float>(4 * 20.1f * 0.3048));
  options.unit = 0;
  expect_error(ErrorClass::usage, {"--unit"}, [&] { read_scene(path("quarter.obj"), options); });
}

TEST_F(Placement, AFarSceneComesBackBitForBit) {
  const Vec3d far{691000, 5334000, 0};
  const test::TemporaryFolder moved;
  test::save_as_xml(moved.path(), classes(), [&](const PlainShape& s) { return test::double_ply(s, far); });
  SceneReadOptions options;
  std::vector<std::string> notes;
  const SceneModel automatic = read_scene(moved.path() / "scene.xml", options, &notes);
  EXPECT_EQ(automatic.origin_shift(), far) << "whole kilometres at the scene's middle";
  EXPECT_TRUE(holds(notes, "(691000, 5334000) m was subtracted")) << notes.front();
  EXPECT_FALSE(holds(notes, "stores coordinates as floats"));
  expect_same_scene(automatic);

  options.origin = {SceneOrigin::Kind::given, 691000, 5334000};
  expect_same_scene(read_scene(moved.path() / "scene.xml", options));

  options.origin = {SceneOrigin::Kind::given, 690000, 5333000};
  EXPECT_NEAR(read_scene(moved.path() / "scene.xml", options).geometry().bounds.high.x, 1020.1, 1e-4);

  options.origin.kind = SceneOrigin::Kind::none;
  notes.clear();
  const SceneModel coarse = read_scene(moved.path() / "scene.xml", options, &notes);
  EXPECT_EQ(coarse.origin_shift(), (Vec3d{}));
  EXPECT_TRUE(holds(notes, "steps are")) << notes.size();

  options.origin = {SceneOrigin::Kind::given, 0.5, 0};
  expect_error(ErrorClass::usage, {"--origin", "whole metres", "0.5"},
               [&] { read_scene(moved.path() / "scene.xml", options); });
}

/// In OBJ text with axes, unit and origin together: 691 km in centimetres, y up.
TEST_F(Placement, AxesUnitAndOriginTogether) {
  std::string text;
  for (const PlainShape& shape : small_scene()) {
    text += "o " + shape.name + "\nusemtl " + shape.material + "\n";
    for (const Vec3f& p : shape.vertices) {
      const Vec3d world = to_double(p) + Vec3d{691000, 5334000, 0};
      text += "v " + test::number_text(100 * world.x) + " " + test::number_text(100 * world.z) + " " +
              test::number_text(-100 * world.y) + "\n";
    }
    for (const Face& face : shape.faces) {
      text += "f";
      for (const std::int32_t index : face) {
        text.append(" ").append(std::to_string(index - static_cast<std::int32_t>(shape.vertices.size())));
      }
      text += "\n";
    }
  }
  save(path("cm.obj"), text);
  SceneReadOptions options;
  options.up = UpAxis::y;
  options.unit = 0.01;
  const SceneModel scene = read_scene(path("cm.obj"), options);
  EXPECT_EQ(scene.origin_shift(), (Vec3d{691000, 5334000, 0}));
  const SceneGeometry& g = scene.geometry();
  ASSERT_EQ(g.vertices.size(), expected_.geometry().vertices.size());
  for (std::size_t i = 0; i < g.vertices.size(); ++i) {
    EXPECT_LT(max_abs(g.vertices[i] - expected_.geometry().vertices[i]), 3e-6f) << i;
  }
}

TEST_F(Placement, FloatsFarOutAreReported) {
  auto shapes = small_scene();
  for (PlainShape& shape : shapes) {
    for (Vec3f& p : shape.vertices) p = p + Vec3f{691000, 5334000, 0};
  }
  save(path("far.glb"), test::glb_bytes(shapes));
  std::vector<std::string> notes;
  read_scene(path("far.glb"), {}, &notes);
  EXPECT_TRUE(holds(notes, "stores coordinates as floats")) << notes.size();
  // The node carries the distance instead: nothing is lost.
  auto [json, buffer] = test::gltf_parts(small_scene(), "");
  const std::string from = "\"mesh\":0}", to = "\"mesh\":0,\"translation\":[691000,0,-5334000]}";
  json.replace(json.find(from), from.size(), to);
  save(path("node.glb"), test::glb_of(json, buffer));
  notes.clear();
  const SceneModel scene =
      read_scene(path("node.glb"), {.origin = {SceneOrigin::Kind::given, 691000, 5334000}}, &notes);
  EXPECT_FALSE(holds(notes, "stores coordinates as floats"));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(scene.geometry().vertices[i], expected_.geometry().vertices[i]);
  }
}

TEST_F(Placement, ADumpKeepsItsShift) {
  const test::TemporaryFolder moved;
  test::save_as_xml(moved.path(), classes(), [](const PlainShape& s) {
    return test::double_ply(s, {691000, 5334000, 0});
  });
  write_swscene(path("d.swscene"), read_scene(moved.path() / "scene.xml"));
  std::vector<std::string> notes;
  const SceneModel back = read_scene(path("d.swscene"), {}, &notes);
  EXPECT_EQ(back.origin_shift(), (Vec3d{691000, 5334000, 0}));
  EXPECT_TRUE(holds(notes, "(691000, 5334000)"));
  expect_same_scene(back);
  SceneReadOptions options;
  options.unit = 0.01;
  expect_error(ErrorClass::usage, {"d.swscene", "--unit", "scene dump"},
               [&] { read_scene(path("d.swscene"), options); });
}

TEST_F(Placement, DumpsTakeMaterialsToo) {
  SceneModel bare;
  bare.add_material(make_itu_material("old", "wood"));
  Mesh mesh = test::square("a");
  bare.add_mesh(mesh);
  mesh.name = "b";
  mesh.material = 0;
  bare.add_mesh(mesh);
  bare.add_instance(1, Transform::translation({0, 0, 5}));
  bare.build();
  write_swscene(path("bare.swscene"), bare);
  SceneReadOptions options;
  options.material_override = "glass";
  options.materials["old"] = make_itu_material("x", "metal", 0.3);
  const SceneModel scene = read_scene(path("bare.swscene"), options);
  EXPECT_EQ(class_of(scene, 0), "glass");
  EXPECT_EQ(class_of(scene, 1), "metal");
  EXPECT_EQ(scene.num_meshes(), 3);
  EXPECT_TRUE(scene.is_instance(2));
}

TEST_F(Placement, ObjShapesInsideXml) {
  save(path("house.obj"), test::obj_text({small_scene()[1]}, "\r\n"));
  save(path("o.xml"),
       "<scene version=\"2.1.0\"><bsdf type=\"itu-radio-material\" id=\"b\"><string name=\"type\" "
       "value=\"brick\"/></bsdf>"
       "<shape type=\"obj\" id=\"house\"><string name=\"filename\" value=\".\\house.obj\"/>"
       "<transform name=\"to_world\"><translate z=\"2\"/></transform><ref id=\"b\"/></shape></scene>");
  const SceneModel scene = read_scene(path("o.xml"));
  EXPECT_EQ(scene.shape_name(0), "house");
  EXPECT_EQ(scene.geometry().faces.size(), 14u);
  EXPECT_EQ(scene.geometry().vertices[8], (Vec3f{1.1f, 4.4f, static_cast<float>(2.0 + 5.05f)}));
  save(path("house.obj"), "v 0 0 0\nf 1 2 3\n");
  expect_error(ErrorClass::data, {"house.obj", "line 2", "(shape 'house', scene '", "o.xml"},
               [&] { read_scene(path("o.xml")); });
}

TEST_F(Placement, UnknownNamesAllAtOnce) {
  auto shapes = small_scene();
  shapes[0].material = "Principled BSDF";
  shapes[1].material = "brick_wall.001";
  shapes.push_back({"tower", "Principled BSDF", shapes[1].vertices, shapes[1].faces});
  for (const char* name : {"bad.obj", "bad.glb"}) {
    save(path(name), std::string(name) == "bad.obj" ? test::obj_text(shapes) : test::glb_bytes(shapes));
    expect_error(ErrorClass::data,
                 {name, "material 'Principled BSDF', its name is no class", "'ground', 'tower'",
                  "'brick_wall.001'", "nearest class: ", "'house'", "schema = 1\n",
                  "\"Principled BSDF\" = \"", "\"brick_wall.001\" = \"brick\""},
                 [&] { read_scene(path(name)); });
    // Given under the name without the copy's number, it serves all copies.
    SceneReadOptions options;
    options.materials["brick_wall"] = make_itu_material("x", "brick");
    options.materials["Principled BSDF"] = make_itu_material("x", "glass");
    std::vector<std::string> notes;
    const SceneModel scene = read_scene(path(name), options, &notes);
    EXPECT_EQ(class_of(scene, 0), "glass");
    EXPECT_EQ(class_of(scene, 1), "brick");
    EXPECT_TRUE(holds(notes, "'brick_wall.001' is taken as 'brick_wall'"));
  }
}

TEST_F(Placement, NamesWithSuffixesAndShapesWithoutMaterials) {
  auto shapes = small_scene();
  shapes[0].material = "itu_concrete.001";
  shapes[1].material = "";
  save(path("s.obj"), std::string("g bare\n").append(test::obj_text({shapes[1], shapes[0]})));
  expect_error(ErrorClass::data, {"shapes without a material (--material CLASS gives them one): 'house'"},
               [&] { read_scene(path("s.obj")); });
  SceneReadOptions options;
  options.material_override = "wood";
  std::vector<std::string> notes;
  const SceneModel scene = read_scene(path("s.obj"), options, &notes);
  EXPECT_EQ(class_of(scene, 0), "wood");
  EXPECT_EQ(class_of(scene, 1), "concrete");
  EXPECT_TRUE(holds(notes, "'itu_concrete.001' is taken as class 'concrete'"));
}

TEST_F(Placement, AStrayVertexDoesNotChooseTheOrigin) {
  save(path("stray.obj"),
       "v 0 0 0\nv 691000 5334000 0\nv 691010 5334000 0\nv 691000 5334010 0\nusemtl brick\nf 2 3 4\n");
  EXPECT_EQ(read_scene(path("stray.obj")).origin_shift(), (Vec3d{691000, 5334000, 0}));
  PlainShape lone = small_scene()[0];
  lone.vertices.push_back({0, 0, 0});
  save(path("stray.ply"), test::double_ply(lone, {691000, 5334000, 0}));
  EXPECT_EQ(read_scene(path("stray.ply"), {.material_override = "brick"}).origin_shift(),
            (Vec3d{691000, 5334000, 0}));
}

}  // namespace
}  // namespace shardwise
