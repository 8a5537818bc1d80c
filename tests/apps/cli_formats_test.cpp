// Scenes as planners have them: formats, axes, units, far origins and foreign materials, through the program.

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "run_program.hpp"
#include "scene/format_writers.hpp"
#include "scene/io/mesh_formats.hpp"

namespace shardwise::test {
namespace {

using Json = nlohmann::json;

class Formats : public ProgramTest {
 protected:
  /// The report of a small map, whose frame is given in the file's coordinates.
  Json coverage_of(const std::string& scene, Vec3d shift = {},
                   const std::vector<std::string>& more = {}) const {
    const auto place = [&](double x, double y) {
      return number_text(x + shift.x).append(",").append(number_text(y + shift.y));
    };
    std::vector<std::string> arguments{
        "coverage",
        scene,
        std::string("--tx=").append(place(-5.25, 0.5)).append(",4"),
        std::string("--area=").append(place(-20, -15)).append(",").append(place(20, 15)),
        "--cell",
        "2",
        "--samples",
        "20k",
        "--devices",
        "host:1x1",
        "--json",
        "-"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << scene << ": " << outcome.err;
    return outcome.code == 0 ? Json::parse(outcome.out) : Json();
  }
  std::string digest_of(const std::string& scene, const std::vector<std::string>& more = {}) const {
    const Json report = coverage_of(scene, {}, more);
    return report.is_null() ? "" : report["grid"]["digest"].get<std::string>();
  }
  std::string xml_with(const std::string& folder, Vec3d shift) const {
    auto shapes = small_scene();
    for (PlainShape& shape : shapes) shape.material = shape.material.substr(4);
    save_as_xml(folder_ / folder, shapes, [&](const PlainShape& s) { return double_ply(s, shift); });
    return path(folder + "/scene.xml");
  }
};

TEST_F(Formats, EveryFormatGivesTheSameMap) {
  const std::string expected = digest_of(xml_with("xml", {}));
  ASSERT_FALSE(expected.empty());
  write("a.obj", obj_text(small_scene(), "\r\n"));
  write("a.glb", glb_bytes(small_scene()));
  const auto [json, buffer] = gltf_parts(small_scene(), "a.bin");
  write("a.gltf", json);
  write("a.bin", buffer);
  for (const char* name : {"a.obj", "a.glb", "a.gltf"}) EXPECT_EQ(digest_of(path(name)), expected) << name;
  EXPECT_EQ(run({"scene", "dump", path("a.obj"), "-o", path("a.swscene")}).code, 0);
  EXPECT_EQ(digest_of(path("a.swscene")), expected);
  // Without materials the formats agree with each other.
  auto plain = small_scene();
  for (PlainShape& shape : plain) shape.material.clear();
  write("plain.obj", obj_text(plain));
  write("plain.stl", stl_bytes(plain));
  write("text.stl", stl_text(plain));
  const std::string one_class = digest_of(path("plain.obj"), {"--material", "brick"});
  EXPECT_NE(one_class, expected);
  EXPECT_EQ(digest_of(path("plain.stl"), {"--material", "brick"}), one_class);
  EXPECT_EQ(digest_of(path("text.stl"), {"--material", "brick"}), one_class);
}

TEST_F(Formats, AUtmSceneHasTheMapOfTheSceneAtTheOrigin) {
  const Vec3d far{691000, 5334000, 0};
  const Json near = coverage_of(xml_with("near", {}));
  const std::string scene = xml_with("far", far);
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{}, {"--origin", "691000,5334000"}}) {
    const Json report = coverage_of(scene, far, options);
    ASSERT_FALSE(report.is_null());
    EXPECT_EQ(report["grid"]["digest"], near["grid"]["digest"]);
    EXPECT_EQ(report["scene"]["origin_shift"], (Json{691000.0, 5334000.0}));
    // What the user reads is in his coordinates.
    EXPECT_EQ(report["grid"]["origin"][0], 690980.0);
    EXPECT_EQ(report["grid"]["origin"][1], 5333985.0);
    EXPECT_EQ(report["transmitters"][0]["position"], (Json{690994.75, 5334000.5, 4.0}));
  }
  EXPECT_EQ(near["scene"]["origin_shift"], (Json{0.0, 0.0}));

  const Json info = Json::parse(run({"scene", "info", scene, "--json", "-"}).out);
  EXPECT_NEAR(info["bounds"]["low"][0].get<double>(), 690979.9, 1e-4);
  EXPECT_NEAR(info["bounds"]["high"][1].get<double>(), 5334015.3, 1e-4);
  EXPECT_EQ(info["origin_shift"], (Json{691000.0, 5334000.0}));
  EXPECT_NE(info["remarks"][0].get<std::string>().find("was subtracted"), std::string::npos);

  // The shift outlives a dump; without one the map is there, too, and coarse coordinates are told.
  EXPECT_EQ(run({"scene", "dump", scene, "-o", path("far.swscene")}).code, 0);
  EXPECT_EQ(coverage_of(path("far.swscene"), far)["grid"]["digest"], near["grid"]["digest"]);
  const Outcome coarse = run({"scene", "info", scene, "--origin", "none"});
  EXPECT_NE(coarse.out.find("float's steps are"), std::string::npos) << coarse.out;
  EXPECT_NE(run({"scene", "info", scene}).err.find("was subtracted from x and y"), std::string::npos);
}

TEST_F(Formats, WarningsAndWorldFilesSpeakOfTheFilesCoordinates) {
  const std::string scene = xml_with("far", {691000, 5334000, 0});
  const Outcome outcome =
      run({"coverage", scene, "--tx", "692000,5334000,10", "--area", "690980,5333985,691020,5334015",
           "--samples", "10k", "--devices", "host:1x1", "--png", path("m.png")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("transmitter 0 (692000"), std::string::npos) << outcome.err;
  if (!exists("m.pgw")) GTEST_SKIP() << "this build has no pictures";
  double lines[6];
  std::ifstream file(path("m.pgw"));
  for (double& line : lines) file >> line;
  EXPECT_NEAR(lines[4], 690980, 20);
  EXPECT_NEAR(lines[5], 5334015, 20);
}

TEST_F(Formats, HeightsAndPartsSpeakOfTheFilesCoordinatesToo) {
  const std::string near = xml_with("near", {}), far = xml_with("far", {691000, 5334000, 0});
  const auto report_of = [&](const std::vector<std::string>& arguments) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? Json::parse(outcome.out) : Json();
  };
  const auto options = [](const std::string& scene, const std::string& tx) {
    return std::vector<std::string>{"coverage",  scene, "--tx",      tx,         "--height", "ground+1",
                                    "--samples", "10k", "--devices", "host:1x1", "--json",   "-"};
  };
  const Json here = report_of(options(near, "-5.25,0.5,ground+4"));
  std::vector<std::string> there = options(far, "690994.75,5334000.5,ground+4");
  there.insert(there.end(), {"--partial", path("far.part")});
  EXPECT_EQ(report_of(there)["grid"]["digest"], here["grid"]["digest"]);
  const Json joined = report_of({"merge", path("far.part"), "--json", "-"});
  EXPECT_EQ(joined["grid"]["digest"], here["grid"]["digest"]);
  EXPECT_EQ(joined["grid"]["origin"][0], here["grid"]["origin"][0].get<double>() + 691000);
  EXPECT_EQ(joined["transmitters"][0]["position"][1], 5334000.5);
  EXPECT_EQ(joined["scene"]["origin_shift"], (Json{691000.0, 5334000.0}));
}

TEST_F(Formats, AxesAndUnits) {
  auto shapes = small_scene();
  for (PlainShape& shape : shapes) {
    for (Vec3f& p : shape.vertices) p = {p.x, p.z, -p.y};
  }
  write("y.obj", obj_text(shapes));
  const Json up = Json::parse(run({"scene", "info", path("y.obj"), "--up", "y", "--json", "-"}).out);
  EXPECT_NEAR(up["bounds"]["high"][2].get<double>(), 5.05, 1e-6);
  for (const auto& [unit, metres] : {std::pair{"ft", 0.3048},
                                     {"cm", 0.01},
                                     {"mm", 0.001},
                                     {"in", 0.0254},
                                     {"us-ft", 1200.0 / 3937},
                                     {"km", 1000.0},
                                     {"yd", 0.9144},
                                     {"m", 1.0}}) {
    const Json info = Json::parse(run({"scene", "info", path("y.obj"), "--unit", unit, "--json", "-"}).out);
    EXPECT_NEAR(info["bounds"]["high"][0].get<double>(), 20.1 * metres, 2e-6 * metres * 20) << unit;
  }
  expect_one_line_error(run({"scene", "info", path("y.obj"), "--unit", "inch"}), 2, "--unit");
  expect_one_line_error(run({"scene", "info", path("y.obj"), "--up", "w"}), 2, "--up");
  expect_one_line_error(run({"scene", "info", path("y.obj"), "--origin", "1"}), 2, "--origin");
  expect_one_line_error(run({"scene", "info", path("y.obj"), "--origin", "1.5,2"}), 2, "whole metres");
}

/// An exporter's materials: refused together, with TOML that mends them when it is given back.
TEST_F(Formats, TheTomlOfTheErrorMendsIt) {
  auto shapes = small_scene();
  shapes[0].material = "Principled BSDF.003";
  shapes[1].material = "Brick \\\"old\\\"";  // as JSON spells it
  write("p.glb", glb_bytes(shapes));
  const Outcome refused = run({"scene", "info", path("p.glb")});
  EXPECT_EQ(refused.code, 3);
  for (const char* part : {"Principled BSDF.003", "'ground'", "'house'", "Brick"}) {
    EXPECT_NE(refused.err.find(part), std::string::npos) << part << ": " << refused.err;
  }
  const std::size_t at = refused.err.find("    schema = 1");
  ASSERT_NE(at, std::string::npos) << refused.err;
  write("m.toml", refused.err.substr(at));
  const Outcome mended = run({"scene", "info", path("p.glb"), "--materials", path("m.toml")});
  EXPECT_EQ(mended.code, 0) << mended.err << read("m.toml");
  write("m.toml", "schema = 2\n");
  expect_one_line_error(run({"scene", "info", path("p.glb"), "--materials", path("m.toml")}), 3,
                        "schema must be 1");

  write("x.xml",
        "<scene version=\"2.1.0\"><bsdf type=\"twosided\" id=\"mat-Roof.002\"><bsdf type=\"principled\">"
        "<float name=\"roughness\" value=\"0.5\"/></bsdf></bsdf>"
        "<shape type=\"cube\" id=\"c\"><ref id=\"mat-Roof.002\"/></shape></scene>");
  EXPECT_EQ(run({"scene", "info", path("x.xml")}).code, 3);
  write("m.toml", "mat-Roof = \"metal\"\n");
  const Outcome roof = run({"scene", "info", path("x.xml"), "--materials", path("m.toml")});
  EXPECT_EQ(roof.code, 0) << roof.err;
  EXPECT_NE(roof.out.find("'mat-Roof.002' is taken as 'mat-Roof'"), std::string::npos) << roof.out;
}

TEST_F(Formats, BadFiles) {
  write("bare.obj", "v 0 0 0\nv 9 0 0\nv 9 9 0\nv 0 9 3\nf 1 2 3 4\n");
  const Outcome bare = run({"scene", "info", path("bare.obj")});
  EXPECT_EQ(bare.code, 3);
  EXPECT_NE(bare.err.find("without a material (--material CLASS"), std::string::npos) << bare.err;
  const Outcome bent = run({"coverage", path("bare.obj"), "--material", "concrete", "--tx", "4,4,9",
                            "--samples", "10k", "--devices", "host:1x1"});
  EXPECT_EQ(bent.code, 0) << bent.err;
  EXPECT_NE(bent.err.find("1 polygon is not planar, the first is face 0"), std::string::npos) << bent.err;

  write("windows.ply",
        "ply\r\nformat ascii 1.0\r\nelement vertex 3\r\nproperty float x\r\nproperty float y\r\nproperty "
        "float z\r\n"
        "element face 1\r\nproperty list uchar int vertex_indices\r\nend_header\r\n0 0 0\r\n9 0 0\r\n0 9 "
        "0\r\n3 0 1 2\r\n");
  EXPECT_EQ(run({"scene", "info", path("windows.ply"), "--material", "concrete"}).code, 0);

  const std::string glb = glb_bytes(small_scene());
  write("cut.glb", glb.substr(0, glb.size() - 9));
  expect_one_line_error(run({"scene", "info", path("cut.glb")}), 3, "truncated");
  const std::string stl = stl_bytes(small_scene());
  write("cut.stl", std::string("x").append(stl, 1, stl.size() - 9));
  expect_one_line_error(run({"scene", "info", path("cut.stl"), "--material", "wood"}), 3, "truncated");
  write("index.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 7\n");
  expect_one_line_error(run({"scene", "info", path("index.obj"), "--material", "wood"}), 3,
                        "line 4: corner 3 uses vertex 7");
  for (const char* name : {"empty.obj", "empty.stl", "empty.glb", "empty.gltf"}) {
    write(name, "");
    expect_one_line_error(run({"scene", "info", path(name), "--material", "wood"}), 3, name);
  }
  write("a.fbx", "x");
  expect_one_line_error(run({"scene", "info", path("a.fbx")}), 3, ".obj, .gltf");
  write("nan.obj", "v nan 0 0\nv 9 0 0\nv 0 9 0\nv 0 0 0\nf 1 2 3\nf 4 2 3\n");
  EXPECT_NE(run({"scene", "info", path("nan.obj"), "--material", "wood"}).out.find("vertex 0: not finite"),
            std::string::npos);
}

/// munich in every format: its triangles, its materials where the format has them, its boundary edges, its
/// map.
class Munich : public Formats {
 protected:
  void SetUp() override {
    Formats::SetUp();
    const std::filesystem::path scenes = SHARDWISE_TEST_SCENES;
    file_ = scenes / "munich" / "munich.xml";
    if (!std::filesystem::exists(file_)) GTEST_SKIP() << "the test scenes are not here: " << file_;
    ASSERT_EQ(run({"scene", "dump", file_.string(), "-o", path("munich.swscene")}).code, 0);
    shapes_ = plain_shapes(read_swscene(path("munich.swscene")));
  }
  Json map_of(const std::string& scene, Vec3d shift = {}, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{
        "coverage",  scene,
        "--tx",      number_text(8.5 + shift.x).append(",").append(number_text(21 + shift.y)).append(",60"),
        "--cell",    "4",
        "--samples", "200k",
        "--devices", "host:1x2",
        "--json",    "-"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << scene << ": " << outcome.err.substr(0, 2000);
    return outcome.code == 0 ? Json::parse(outcome.out) : Json();
  }
  /// Triangles, materials and boundary edges as `scene info` counts them.
  void expect_same_info(const std::string& scene, const std::vector<std::string>& more,
                        bool materials) const {
    std::vector<std::string> arguments{"scene", "info", scene, "--json", "-"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Json info = Json::parse(run(arguments).out), expected = expected_info();
    EXPECT_EQ(info["triangles"], 38938) << scene;
    EXPECT_EQ(info["edges"]["boundary"], 7322) << scene;
    if (!materials) return;
    ASSERT_EQ(info["shapes"].size(), expected["shapes"].size());
    for (std::size_t i = 0; i < info["shapes"].size(); ++i) {
      EXPECT_EQ(info["shapes"][i]["name"], expected["shapes"][i]["name"]);
      EXPECT_EQ(info["shapes"][i]["triangles"], expected["shapes"][i]["triangles"]);
      EXPECT_EQ(info["shapes"][i]["material"], expected["shapes"][i]["material"]);
    }
  }
  Json expected_info() const {
    return Json::parse(run({"scene", "info", path("munich.swscene"), "--json", "-"}).out);
  }

  std::filesystem::path file_;
  std::vector<PlainShape> shapes_;
};

TEST_F(Munich, ComesBackFromFormatsWithMaterials) {
  const Json expected = map_of(file_.string());
  ASSERT_FALSE(expected.is_null());
  write("m.obj", obj_text(shapes_));
  write("m.glb", glb_bytes(shapes_));
  const auto [json, buffer] = gltf_parts(shapes_, "m.bin");
  write("m.gltf", json);
  write("m.bin", buffer);
  for (const auto& [folder, encoding] :
       {std::pair{"ascii", PlyEncoding::ascii}, {"big", PlyEncoding::binary_big_endian}}) {
    save_as_xml(folder_ / folder, shapes_,
                [&, e = encoding](const PlainShape& s) { return format_ply(mesh_of(s), e); });
  }
  for (const char* name : {"m.obj", "m.glb", "m.gltf", "ascii/scene.xml", "big/scene.xml"}) {
    SCOPED_TRACE(name);
    expect_same_info(path(name), {}, true);
    const Json report = map_of(path(name));
    EXPECT_EQ(report["grid"]["digest"], expected["grid"]["digest"]);
    EXPECT_EQ(report["grid"]["stderr_digest"], expected["grid"]["stderr_digest"]);
  }
}

TEST_F(Munich, ComesBackFromStlWithOneMaterial) {
  auto plain = shapes_;
  for (PlainShape& shape : plain) shape.material.clear();
  write("one.obj", obj_text(plain));
  write("b.stl", stl_bytes(plain));
  write("t.stl", stl_text(plain));
  const std::vector<std::string> material{"--material", "concrete"};
  const Json expected = map_of(path("one.obj"), {}, material);
  for (const char* name : {"b.stl", "t.stl"}) {
    SCOPED_TRACE(name);
    expect_same_info(path(name), material, false);
    EXPECT_EQ(map_of(path(name), {}, material)["grid"]["digest"], expected["grid"]["digest"]);
  }
}

TEST_F(Munich, MovedToUtmItHasItsMap) {
  const Vec3d far{691000, 5334000, 0};
  const Json expected = map_of(file_.string());
  save_as_xml(folder_ / "utm", shapes_, [&](const PlainShape& s) { return double_ply(s, far); });
  const std::string scene = path("utm/scene.xml");
  expect_same_info(scene, {}, true);
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--origin", "691000,5334000"}, {}}) {
    const Json report = map_of(scene, far, options);
    ASSERT_FALSE(report.is_null());
    EXPECT_EQ(report["grid"]["digest"], expected["grid"]["digest"]);
    EXPECT_EQ(report["scene"]["origin_shift"], (Json{691000.0, 5334000.0}));
    EXPECT_NEAR(report["grid"]["origin"][0].get<double>() - 691000,
                expected["grid"]["origin"][0].get<double>(), 1e-8);
    EXPECT_NEAR(report["grid"]["origin"][1].get<double>() - 5334000,
                expected["grid"]["origin"][1].get<double>(), 1e-8);
  }
}

}  // namespace
}  // namespace shardwise::test
