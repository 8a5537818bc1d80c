// Mitsuba XML: the real scenes in both dialects, transforms, materials, and every way a file can be wrong.

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>

#include "scene/file_util.hpp"
#include "scene/scene_test_util.hpp"
#include "shardwise/scene/describe.hpp"
#include "shardwise/scene/scene_io.hpp"

namespace shardwise {
namespace {

using test::expect_error;

const std::filesystem::path kScenes = SHARDWISE_TEST_SCENES;

#define REQUIRE_SCENE(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the test scenes are not here: " << (path)

struct RealScene {
  const char* name;
  int shapes, triangles;
  std::vector<std::string> classes;
};

class RealScenes : public testing::TestWithParam<RealScene> {};

TEST_P(RealScenes, Load) {
  const RealScene& expected = GetParam();
  const auto path = kScenes / expected.name / (std::string(expected.name) + ".xml");
  REQUIRE_SCENE(path);
  std::vector<std::string> notes;
  const SceneModel scene = read_scene(path, {.model = {.defects = DefectPolicy::fail}}, &notes);
  EXPECT_TRUE(notes.empty()) << notes.front();
  const SceneDescription info = describe(scene);
  EXPECT_EQ(info.shapes, expected.shapes);
  EXPECT_EQ(info.triangles, expected.triangles);
  EXPECT_EQ(info.without_material.faces, 0);
  std::vector<std::string> classes;
  for (const MaterialUse& use : info.materials) {
    EXPECT_GT(use.faces, 0) << use.name;
    classes.push_back(use.itu_class);
  }
  std::sort(classes.begin(), classes.end());
  EXPECT_EQ(classes, expected.classes);
}

INSTANTIATE_TEST_SUITE_P(
    All, RealScenes,
    testing::Values(RealScene{"box", 1, 12, {"metal"}}, RealScene{"double_reflector", 2, 4, {"metal"}},
                    RealScene{"floor_wall", 2, 4, {"brick", "concrete"}},
                    RealScene{"munich", 2367, 38938, {"brick", "concrete", "marble", "metal", "wood"}},
                    RealScene{
                        "simple_street_canyon", 7, 74, {"brick", "concrete", "glass", "marble", "wood"}},
                    RealScene{"simple_street_canyon_with_cars",
                              15,
                              234,
                              {"brick", "concrete", "glass", "marble", "metal", "wood"}},
                    RealScene{"simple_wedge", 1, 4, {"concrete"}},
                    RealScene{"triple_reflector", 3, 6, {"metal"}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(RealScenesMunich, HasItsMeasuredBoundsAndLoadsQuickly) {
  const auto path = kScenes / "munich/munich.xml";
  REQUIRE_SCENE(path);
  const auto start = std::chrono::steady_clock::now();
  const SceneModel scene = read_scene(path);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 1.0);
  const SceneGeometry& geometry = scene.geometry();
  EXPECT_EQ(geometry.vertices.size(), 42293u);
  EXPECT_NEAR(geometry.bounds.low.x, -805.6, 0.05);
  EXPECT_NEAR(geometry.bounds.low.y, -688.6, 0.05);
  EXPECT_EQ(geometry.bounds.low.z, 0.0f);
  EXPECT_NEAR(geometry.bounds.high.x, 669.9, 0.05);
  EXPECT_NEAR(geometry.bounds.high.y, 517.0, 0.05);
  EXPECT_NEAR(geometry.bounds.high.z, 98.6, 0.05);
  const std::string dump = format_swscene(scene);
  const SceneModel back = parse_swscene(dump, "munich");
  EXPECT_TRUE(test::same_bits(back.geometry().vertices, geometry.vertices));
  EXPECT_EQ(format_swscene(back), dump);
}

SceneModel read(const std::string& body, const SceneReadOptions& options = {},
                std::vector<std::string>* notes = nullptr) {
  return read_mitsuba_xml("<scene version=\"2.1.0\">\n" + body + "\n</scene>", ".", "in.xml", options, notes);
}
const std::string kConcrete =
    "<bsdf type=\"itu-radio-material\" id=\"m\"><string name=\"type\" value=\"concrete\"/></bsdf>\n";
const std::string kRef = "<ref id=\"m\"/>";
std::string shape(const std::string& inside, const std::string& type = "rectangle",
                  const std::string& id = "wall") {
  return "<shape type=\"" + type + "\" id=\"" + id + "\">" + inside + "</shape>\n";
}
/// A rectangle's first corner, (-1, -1, 0), after a transform.
Vec3f corner_after(const std::string& transform) {
  return read(kConcrete + shape("<transform name=\"to_world\">" + transform + "</transform>" + kRef))
      .geometry()
      .vertices[0];
}
void expect_near(Vec3f found, Vec3d expected) {
  EXPECT_NEAR(found.x, expected.x, 1e-6);
  EXPECT_NEAR(found.y, expected.y, 1e-6);
  EXPECT_NEAR(found.z, expected.z, 1e-6);
}

TEST(Xml, RectangleAndCube) {
  const SceneModel scene = read(kConcrete + shape(kRef) + shape(kRef, "cube", "block"));
  const SceneGeometry& g = scene.geometry();
  EXPECT_EQ(g.faces.size(), 14u);
  EXPECT_EQ(g.face_normal[0], (Vec3f{0, 0, 1}));
  EXPECT_EQ(g.bounds, (Bounds{{-1, -1, -1}, {1, 1, 1}}));
  double volume = 0;
  for (std::size_t f = 2; f < 14; ++f) {
    const Vec3d a = to_double(g.vertices[g.faces[f][0]]), b = to_double(g.vertices[g.faces[f][1]]),
                c = to_double(g.vertices[g.faces[f][2]]);
    volume += dot(a, cross(b, c)) / 6;
    EXPECT_GT(dot(to_double(g.face_normal[f]), a), 0) << "faces look outward";
  }
  EXPECT_DOUBLE_EQ(volume, 8);
}

TEST(Xml, TransformsComposeInDocumentOrder) {
  expect_near(corner_after("<translate x=\"5\"/>"), {4, -1, 0});
  expect_near(corner_after("<translate value=\"1, 2, 3\"/>"), {0, 1, 3});
  expect_near(corner_after("<scale value=\"2\"/>"), {-2, -2, 0});
  expect_near(corner_after("<scale x=\"3\"/>"), {-3, -1, 0});
  expect_near(corner_after("<scale value=\"2 4 1\"/><translate x=\"1\"/>"), {-1, -4, 0});
  expect_near(corner_after("<translate x=\"1\"/><scale value=\"2 4 1\"/>"), {0, -4, 0});
  EXPECT_EQ(corner_after("<rotate z=\"1\" angle=\"90\"/>"), (Vec3f{1, -1, 0}));
  EXPECT_EQ(corner_after("<rotate value=\"1 0 0\" angle=\"-90\"/>"), (Vec3f{-1, 0, 1}));
  expect_near(corner_after("<rotate z=\"2\" angle=\"45\"/>"), {0, -std::sqrt(2.0), 0});
  expect_near(corner_after("<rotate x=\"1\" y=\"1\" z=\"1\" angle=\"120\"/>"), {0, -1, -1});
  expect_near(corner_after("<matrix value=\"1 0 0 7  0 2 0 8  0 0 1 9  0 0 0 1\"/>"), {6, 6, 9});
  expect_near(corner_after("<matrix value=\"0 1 0 1 0 0 0 0 1\"/>"), {-1, -1, 0});
  // Looking from (0, 0, 5) along +x with z up: object x goes to the left (+y), object y up.
  expect_near(corner_after("<lookat origin=\"0, 0, 5\" target=\"1, 0, 5\" up=\"0, 0, 1\"/>"), {0, -1, 4});
}

TEST(Xml, DefaultsAreSubstituted) {
  const SceneModel scene = read(
      "<default name=\"h\" value=\"2.5\"/><default name=\"class\" value=\"glass\"/>"
      "<default name=\"kind\" value=\"itu_$class\"/><default name=\"full\" value=\"1 $h\"/>"
      "<bsdf type=\"diffuse\" id=\"itu_glass\"/>" +
      shape("<transform name=\"to_world\"><translate z=\"$h\"/><scale value=\"$full 2\"/></transform>"
            "<ref id=\"$kind\"/>"));
  EXPECT_EQ(scene.geometry().vertices[0], (Vec3f{-1, -2.5f, 5}));
  expect_error(ErrorClass::data, {"in.xml", "line 3", "$none"}, [] {
    read(kConcrete + shape("<transform name=\"to_world\"><translate z=\"$none\"/></transform>" + kRef));
  });
}

TEST(Xml, BothDialectsOfMaterials) {
  const SceneModel scene = read(
      "<bsdf type=\"itu-radio-material\" id=\"roof\"><string name=\"type\" value=\"metal\"/><float "
      "name=\"thickness\" value=\"0.5\"/></bsdf>"
      "<bsdf type=\"twosided\" id=\"mat-itu_wood\"><bsdf type=\"diffuse\"><rgb name=\"reflectance\" "
      "value=\"1 0 0\"/></bsdf></bsdf>"
      "<bsdf type=\"twosided\"><bsdf type=\"itu-radio-material\" id=\"inner\"><string name=\"type\" "
      "value=\"itu_brick\"/></bsdf></bsdf>"
      "<bsdf type=\"radio-material\" id=\"mine\"><float name=\"relative_permittivity\" value=\"3.5\"/>"
      "<float name=\"conductivity\" value=\"inf\"/><float name=\"thickness\" value=\"0.2\"/></bsdf>" +
      shape("<ref id=\"roof\" name=\"bsdf\"/>", "rectangle", "a") +
      shape("<ref id=\"mat-itu_wood\"/>", "rectangle", "b") + shape("<ref id=\"inner\"/>", "rectangle", "c") +
      shape("<ref id=\"mine\"/>", "rectangle", "d") +
      shape("<bsdf type=\"twosided\"><bsdf type=\"itu-radio-material\"><string name=\"type\" "
            "value=\"glass\"/></bsdf></bsdf>",
            "rectangle", "e") +
      shape("<bsdf type=\"itu-radio-material\"><string name=\"type\" value=\"glass\"/><float "
            "name=\"thickness\" value=\"1\"/></bsdf>",
            "rectangle", "f") +
      shape("<ref id=\"roof\"/>", "rectangle", "g"));
  ASSERT_EQ(scene.materials().size(), 6u);
  const auto material = [&](std::int32_t id) {
    return scene.materials()[static_cast<std::size_t>(scene.mesh(id).material)];
  };
  EXPECT_EQ(material(0).itu_class, "metal");
  EXPECT_EQ(material(0).name, "roof");
  EXPECT_EQ(material(0).thickness, 0.5);
  EXPECT_EQ(material(1).itu_class, "wood");
  EXPECT_EQ(material(1).thickness, 0.1);
  EXPECT_EQ(material(2).itu_class, "brick");
  EXPECT_EQ(material(3).kind, Material::Kind::constants);
  EXPECT_EQ(material(3).eta_r, 3.5);
  EXPECT_TRUE(std::isinf(material(3).sigma));
  EXPECT_EQ(material(4).itu_class, "glass");
  EXPECT_EQ(material(5).thickness, 1);
  EXPECT_EQ(material(5).name, "glass@f") << "told apart from the other unnamed glass";
  EXPECT_EQ(scene.mesh(6).material, scene.mesh(0).material);
}

TEST(Xml, NotesSuffixesAndUnusedKeys) {
  std::vector<std::string> notes;
  const SceneModel scene = read(
      "<bsdf type=\"diffuse\" id=\"itu_concrete.001\"/>"
      "<bsdf type=\"itu-radio-material\" id=\"g\"><string name=\"type\" value=\"glass\"/><float "
      "name=\"scattering_coefficient\" value=\"0.4\"/></bsdf>" +
          shape("<ref id=\"itu_concrete.001\"/><float name=\"speed\" value=\"3\"/>") +
          shape("<ref id=\"g\"/>"),
      {}, &notes);
  EXPECT_EQ(scene.materials()[0].itu_class, "concrete");
  EXPECT_EQ(scene.materials()[1].unused,
            (std::vector<std::pair<std::string, std::string>>{{"scattering_coefficient", "0.4"}}));
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_NE(notes[1].find("itu_concrete.001"), std::string::npos) << notes[1];
  EXPECT_NE(notes[0].find("'speed'"), std::string::npos) << notes[0];
  EXPECT_NE(notes[2].find("'scattering_coefficient' = '0.4'"), std::string::npos) << notes[2];
}

TEST(Xml, SensorsAndTheirLikeAreSkippedInSilence) {
  std::vector<std::string> notes;
  read(
      "<integrator type=\"path\"/><sensor type=\"x\"><film type=\"y\"><integer name=\"w\" "
      "value=\"$undefined\"/></film></sensor>"
      "<emitter type=\"constant\"/><film type=\"z\"/>" +
          kConcrete + shape(kRef + "<emitter type=\"area\"/>"),
      {}, &notes);
  EXPECT_TRUE(notes.empty());
}

TEST(Xml, FlipNormalsTurnsFaces) {
  const SceneModel scene = read(kConcrete + shape("<boolean name=\"flip_normals\" value=\"true\"/>" + kRef));
  EXPECT_EQ(scene.geometry().face_normal[0], (Vec3f{0, 0, -1}));
}

TEST(Xml, AllUnknownsAreListedAtOnceWithWhatMendsThem) {
  expect_error(
      ErrorClass::data,
      {"in.xml",
       "'mat-steel'",
       "nearest class: metal",
       "'a'",
       "'b'",
       "of unknown type 'conrete'",
       "'odd'",
       "'c'",
       "no bsdf has this id",
       "'lost'",
       "'d'",
       "plugin 'sphere' is not known",
       "'e'",
       "shapes without a material (--material CLASS",
       "'g'",
       "<include> is not known",
       "medium plugin 'fog'",
       "'h'",
       "--materials FILE.toml",
       "\"odd\" = \"concrete\"",
       "schema = 1"},
      [] {
        read(kConcrete + "<bsdf type=\"diffuse\" id=\"mat-steel\"/>" +
             "<bsdf type=\"itu-radio-material\" id=\"odd\"><string name=\"type\" value=\"conrete\"/></bsdf>" +
             shape("<ref id=\"mat-steel\"/>", "ply", "a") + shape("<ref id=\"mat-steel\"/>", "ply", "b") +
             shape("<ref id=\"odd\"/>", "cube", "c") + shape("<ref id=\"lost\"/>", "cube", "d") +
             shape(kRef, "sphere", "e") + shape("", "cube", "g") + "<include filename=\"x.xml\"/>" +
             shape(kRef + "<medium type=\"fog\"/>", "cube", "h"));
      });
}

TEST(Xml, LongListsOfShapesAreCut) {
  std::string body;
  for (int i = 0; i < 12; ++i) body += shape("", "cube", std::string("s").append(std::to_string(i)));
  expect_error(ErrorClass::data, {"'s0'", "'s7'", "and 4 more"}, [&] { read(body); });
}

TEST(Xml, GivenMaterialsWin) {
  SceneReadOptions options;
  options.materials["mat-steel"] = make_itu_material("any", "metal", 0.02);
  options.materials["m"] = make_itu_material("any", "brick");
  options.materials["lost"] = make_itu_material("any", "glass");
  options.materials["nobody"] = make_itu_material("any", "glass");
  std::vector<std::string> notes;
  const SceneModel scene =
      read(kConcrete + "<bsdf type=\"diffuse\" id=\"mat-steel\"/>" + shape("<ref id=\"mat-steel\"/>") +
               shape(kRef) + shape("<ref id=\"lost\"/>"),
           options, &notes);
  ASSERT_EQ(scene.materials().size(), 3u);
  EXPECT_EQ(scene.materials()[0].name, "mat-steel");
  EXPECT_EQ(scene.materials()[0].itu_class, "metal");
  EXPECT_EQ(scene.materials()[0].thickness, 0.02);
  EXPECT_EQ(scene.materials()[1].itu_class, "brick");
  EXPECT_EQ(scene.materials()[2].itu_class, "glass");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("'nobody'"), std::string::npos);
}

TEST(Xml, MaterialOverrideFillsShapesWithoutOne) {
  SceneReadOptions options;
  options.material_override = "brick";
  const SceneModel scene = read(
      kConcrete +
          "<bsdf type=\"itu-radio-material\" id=\"brick\"><string name=\"type\" value=\"glass\"/></bsdf>" +
          shape("") + shape(kRef) + shape("<ref id=\"brick\"/>"),
      options);
  const auto material = [&](std::int32_t id) {
    return scene.materials()[static_cast<std::size_t>(scene.mesh(id).material)];
  };
  EXPECT_EQ(material(0).itu_class, "brick");
  EXPECT_EQ(material(1).itu_class, "concrete");
  EXPECT_EQ(material(2).itu_class, "glass");
}

TEST(XmlErrors, NameFileAndLine) {
  const auto refuses = [](const std::string& body, std::initializer_list<std::string> fragments) {
    expect_error(ErrorClass::data, fragments, [&] { read(body); });
  };
  refuses("<shape", {"in.xml", "not well-formed"});
  refuses("", {"in.xml", "no shapes"});
  expect_error(ErrorClass::data, {"no <scene>"}, [] { read_mitsuba_xml("<mesh/>", ".", "in.xml"); });
  std::string deep, ends;
  for (int i = 0; i < 50'000; ++i) deep += "<bsdf type='twosided'>", ends += "</bsdf>";
  refuses(deep + ends, {"is nested more than 32 deep"});
  refuses(kConcrete + kConcrete, {"line 3", "'m'", "line 2"});
  refuses(kConcrete + shape(kRef + kRef), {"line 3", "'wall'", "2 materials"});
  refuses(kConcrete + shape(kRef, "ply"), {"line 3", "'wall'", "no filename"});
  refuses(kConcrete + shape("<string name=\"filename\" value=\"meshes\\gone.ply\"/>" + kRef, "ply"),
          {"meshes/gone.ply", "No such file", "'wall'", "line 3"});
  const auto transform = [](const std::string& step) {
    return kConcrete + shape("<transform name=\"to_world\">" + step + "</transform>" + kRef);
  };
  refuses(transform("<shear x=\"1\"/>"), {"line 3", "<shear>", "none of translate"});
  refuses(transform("<translate x=\"one\"/>"), {"line 3", "x=\"one\""});
  refuses(transform("<translate value=\"1 2\"/>"), {"1 or 3 numbers (got 2)"});
  refuses(transform("<rotate angle=\"3\"/>"), {"axis must not be zero"});
  refuses(transform("<rotate x=\"1\"/>"), {"angle"});
  refuses(transform("<matrix value=\"1 2 3\"/>"), {"16 or 9 numbers", "got 3"});
  refuses(transform("<matrix value=\"1 0 0 0 0 1 0 0 0 0 1 0 0 0 1 1\"/>"), {"last row"});
  refuses(transform("<lookat origin=\"0 0 0\" target=\"0 0 1\" up=\"0 0 1\"/>"), {"parallel"});
  refuses(transform("<scale value=\"inf\"/><scale value=\"0\"/>"), {"not finite"});
  const auto constants = [](const std::string& keys) {
    return "<bsdf type=\"radio-material\" id=\"m\">" + keys + "</bsdf>" + shape(kRef);
  };
  refuses(constants(""), {"'m'", "no relative_permittivity"});
  refuses(constants("<float name=\"relative_permittivity\" value=\"-2\"/>"),
          {"line 2", "eta_r", "'m'", "-2"});
  refuses(constants("<float name=\"eta_r\" value=\"2\"/><float name=\"thickness\" value=\"-1\"/>"),
          {"thickness", "-1"});
  refuses(kConcrete + shape("<boolean name=\"face_normals\" value=\"yes\"/>" + kRef),
          {"true or false", "\"yes\""});
}

TEST(ReadScene, DispatchesOnTheSuffix) {
  const test::TemporaryFolder folder;
  Mesh mesh = test::square("s");
  write_ply(folder.path() / "wall.PLY", mesh);
  expect_error(ErrorClass::data, {"wall.PLY", "--material CLASS"},
               [&] { read_scene(folder.path() / "wall.PLY"); });
  SceneReadOptions options;
  options.material_override = "glass";
  EXPECT_EQ(read_scene(folder.path() / "wall.PLY", options).materials()[0].itu_class, "glass");
  options.material_override = "glas";
  expect_error(ErrorClass::usage, {"--material 'glas'", "'glass'"},
               [&] { read_scene(folder.path() / "wall.PLY", options); });
  expect_error(ErrorClass::data, {".blend", ".swscene"}, [&] { read_scene(folder.path() / "x.blend"); });
  expect_error(ErrorClass::data, {"gone.xml", "No such file"},
               [&] { read_scene(folder.path() / "gone.xml"); });

  std::filesystem::create_directory(folder.path() / "meshes");
  write_ply(folder.path() / "meshes" / "wall.ply", mesh);
  write_whole_file(folder.path() / "s.xml", "<scene version=\"2.1.0\">" + kConcrete +
                                                shape("<string name=\"filename\" value=\"meshes\\wall.ply\"/>"
                                                      "<boolean name=\"face_normals\" value=\"true\"/>" +
                                                          kRef,
                                                      "ply") +
                                                "</scene>");
  const SceneModel scene = read_scene(folder.path() / "s.xml");
  EXPECT_EQ(scene.shape_name(0), "wall");
  EXPECT_TRUE(scene.mesh(0).use_face_normals);
}

TEST(ReadScene, ShiftsCoordinatesTooFarForFloat) {
  std::vector<std::string> notes;
  const test::TemporaryFolder folder;
  Mesh mesh = test::square("far");
  for (Vec3f& p : mesh.vertices) p.x += 691000;
  write_ply(folder.path() / "far.ply", mesh);
  read_scene(folder.path() / "far.ply", {.model = {}, .material_override = "glass", .materials = {}}, &notes);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_NE(notes[0].find("(691000, 0) m was subtracted"), std::string::npos) << notes[0];
  EXPECT_NE(notes[1].find("stores coordinates as floats"), std::string::npos) << notes[1];
}

}  // namespace
}  // namespace shardwise
