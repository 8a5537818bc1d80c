// OBJ, STL and glTF: triangles come back as they were, and every way in which a file can be wrong has its
// words.

#include <gtest/gtest.h>

#include "scene/format_writers.hpp"
#include "scene/io/gltf_file.hpp"
#include "scene/io/mesh_formats.hpp"
#include "scene/scene_test_util.hpp"

namespace shardwise {
namespace {

using test::append;
using test::expect_error;
using test::PlainShape;
using test::small_scene;

void expect_same_shape(const FileMesh& found, const PlainShape& expected) {
  EXPECT_EQ(found.mesh.name, expected.name);
  EXPECT_EQ(found.material, expected.material);
  EXPECT_TRUE(test::same_bits(found.mesh.vertices, expected.vertices)) << expected.name;
  EXPECT_EQ(found.mesh.faces, expected.faces) << expected.name;
}

TEST(Obj, ComesBackShapeByShape) {
  for (const char* line_end : {"\n", "\r\n", "\r"}) {
    std::vector<std::string> notes;
    const auto shapes = parse_obj(test::obj_text(small_scene(), line_end), "a.obj", "a", &notes);
    ASSERT_EQ(shapes.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) expect_same_shape(shapes[i], small_scene()[i]);
    EXPECT_TRUE(notes.empty()) << notes.front();
  }
}

const std::string kCorners = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\n";

TEST(Obj, EveryWayToWriteAFace) {
  for (const char* face : {"f 1 2 3\n", "f 1/7 2/8 3/9\n", "f 1//7 2//8 3//9\n", "f 1/1/1 2/1/1 3/1/1\n",
                           "f -4 -3 -2\n", "f 1 2 \\\n  3\n", "f\t1  2\t3 # a comment\n"}) {
    const auto shapes = parse_obj(kCorners + face, "a.obj", "stem");
    ASSERT_EQ(shapes.size(), 1u) << face;
    EXPECT_EQ(shapes[0].mesh.name, "stem");
    EXPECT_EQ(shapes[0].mesh.faces, (std::vector<Face>{{0, 1, 2}})) << face;
    EXPECT_EQ(shapes[0].mesh.vertices.size(), 3u) << "the vertices that are used";
  }
  EXPECT_EQ(parse_obj("\xef\xbb\xbf" + kCorners + "f 1 2 3\n", "a.obj", "a")[0].mesh.faces.size(), 1u);
  // Indices may point forward, and colours or weights may follow a vertex.
  EXPECT_EQ(
      parse_obj("f 1 2 3\nv 0 0 0 1\nv 1 0 0 0.5 0.5 0.5\nv 0 1 0\n", "a.obj", "a")[0].mesh.faces.size(), 1u);
}

TEST(Obj, ShapesFollowObjectsGroupsAndMaterials) {
  const auto shapes =
      parse_obj(kCorners +
                    "g walls\nusemtl brick wall\nf 1 2 3\nusemtl b\nf 1 3 4\no tower\nf 2 3 4\n"
                    "g top\nf 1 2 4\ng top\nf 1 2 3\n",
                "a.obj", "a");
  const std::vector<std::pair<std::string, std::string>> expected{
      {"walls", "brick wall"}, {"walls", "b"}, {"tower", "b"}, {"tower/top", "b"}};
  ASSERT_EQ(shapes.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(shapes[i].mesh.name, expected[i].first);
    EXPECT_EQ(shapes[i].material, expected[i].second);
  }
  EXPECT_EQ(shapes[3].mesh.faces.size(), 2u);
  const FileMesh joined = parse_obj_joined(kCorners + "usemtl a\nf 1 2 3\nusemtl b\nf 1 3 4\n", "a.obj");
  EXPECT_EQ(joined.mesh.faces, (std::vector<Face>{{0, 1, 2}, {0, 2, 3}}));
  EXPECT_EQ(joined.mesh.vertices.size(), 4u);
}

TEST(Obj, PolygonsAreCutAndBentOnesReported) {
  std::vector<std::string> notes;
  const auto shapes =
      parse_obj(kCorners + "v 0 0 5\nf 1 2 3 4\nf 1 2 3 5 4\nl 1 2\np 1\nl 3 4\n", "a.obj", "a", &notes);
  EXPECT_EQ(shapes[0].mesh.faces.size(), 5u);
  ASSERT_EQ(notes.size(), 4u);
  EXPECT_NE(notes[0].find("2 of 2 faces have more than 3 corners"), std::string::npos) << notes[0];
  EXPECT_NE(notes[1].find("1 polygon is not planar, the first is face 1"), std::string::npos) << notes[1];
  EXPECT_NE(notes[2].find("lines are passed over (2 statements)"), std::string::npos) << notes[2];
  EXPECT_NE(notes[3].find("points"), std::string::npos) << notes[3];
}

/// Far from the origin a float's steps (0.5 m here) would bend every polygon and move every corner.
TEST(Obj, FarCoordinatesStayInDouble) {
  std::vector<std::string> notes;
  const auto shapes = parse_obj(
      "v 691000.125 5334000.25 1\nv 691010.125 5334000.25 1\nv 691010.125 5334010.25 1\nv 691000.125 "
      "5334010.25 1\n"
      "f 1 2 3 4\n",
      "utm.obj", "utm", &notes);
  ASSERT_EQ(shapes[0].exact.size(), 4u);
  EXPECT_EQ(shapes[0].exact[0], (Vec3d{691000.125, 5334000.25, 1}));
  EXPECT_FALSE(shapes[0].stored_as_float);
  EXPECT_EQ(notes.size(), 1u) << "planar";
}

TEST(Obj, Errors) {
  const auto refuses = [](const std::string& text, std::initializer_list<std::string> fragments) {
    expect_error(ErrorClass::data, fragments, [&] { parse_obj(text, "bad.obj", "bad"); });
  };
  refuses("", {"bad.obj", "no faces", "0 vertices"});
  refuses(kCorners, {"no faces", "4 vertices"});
  refuses(kCorners + "f 1 2 9\n",
          {"bad.obj", "line 5", "corner 3 uses vertex 9", "the file has 4", "truncated"});
  refuses(kCorners + "f 1 2 -5\n", {"line 5", "'-5'", "4 stand before"});
  refuses(kCorners + "f 0 1 2\n", {"line 5", "'0' is no corner"});
  refuses(kCorners + "f 1 2\n", {"line 5", "3 corners or more (got 2)"});
  refuses(kCorners + "f 1 2 3/x\n", {"'3/x' is no corner"});
  refuses(kCorners + "f 1 2 3/1/1/1\n", {"more than 3 indices"});
  refuses(kCorners + "f 1 2 99999999999999999999\n", {"no corner"});
  refuses("v 0 0\n", {"line 1", "3 coordinates"});
  refuses("v 0 0 1,5\n", {"line 1", "'1,5' is not a number"});
  refuses("v 0 0 0 x\n", {"'x' is not a number"});
  refuses(
      "\x7f"
      "ELF\n",
      {"is no OBJ statement", "another format"});
  refuses(kCorners + "f 1 2 3\n" + std::string("\0v 9 9 9\n", 9), {"line 6", "'?v' is no OBJ statement"});
  std::string many = kCorners + "f";
  for (int i = 0; i < 1025; ++i) many += " 1";
  refuses(many, {"at most 1024 corners"});
  // A vertex that is no number passes: the scene lists it.
  EXPECT_TRUE(
      std::isnan(parse_obj("v nan 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", "a", "a")[0].mesh.vertices[0].x));
}

TEST(Stl, BinaryAndTextComeBackFacetByFacet) {
  const auto scene = small_scene();
  const auto binary = parse_stl(test::stl_bytes(scene), "a.stl", "a");
  ASSERT_EQ(binary.size(), 1u);
  EXPECT_EQ(binary[0].mesh.name, "a");
  EXPECT_TRUE(binary[0].stored_as_float);
  const auto text = parse_stl(test::stl_text(scene), "a.stl", "a");
  ASSERT_EQ(text.size(), 2u);
  std::size_t facet = 0;
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(text[s].mesh.name, scene[s].name);
    ASSERT_EQ(text[s].mesh.faces.size(), scene[s].faces.size());
    for (std::size_t f = 0; f < scene[s].faces.size(); ++f, ++facet) {
      for (std::size_t k = 0; k < 3; ++k) {
        const Vec3f expected = scene[s].vertices[static_cast<std::size_t>(scene[s].faces[f][k])];
        EXPECT_EQ(text[s].mesh.vertices[3 * f + k], expected);
        EXPECT_EQ(binary[0].mesh.vertices[3 * facet + k], expected);
        EXPECT_EQ(text[s].mesh.faces[f][k], static_cast<std::int32_t>(3 * f + k));
      }
    }
  }
  EXPECT_EQ(binary[0].mesh.faces.size(), facet);
}

TEST(Stl, TextInCapitalsWithWindowsLineEnds) {
  std::string text = test::stl_text({small_scene()[0]});
  for (char& c : text) c = static_cast<char>(std::toupper(c));
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2)
    text.insert(text.begin() + static_cast<std::ptrdiff_t>(at), '\r');
  EXPECT_EQ(parse_stl(text, "a.stl", "a")[0].mesh.faces.size(), 2u);
  EXPECT_EQ(parse_stl(std::string("  ").append(test::stl_text(small_scene())), "a.stl", "a").size(), 2u);
}

TEST(Stl, Errors) {
  const auto refuses = [](const std::string& bytes, std::initializer_list<std::string> fragments) {
    expect_error(ErrorClass::data, fragments, [&] { parse_stl(bytes, "bad.stl", "bad"); });
  };
  std::string binary = test::stl_bytes(small_scene());
  binary[0] = 'x';
  refuses(binary.substr(0, binary.size() - 1),
          {"bad.stl", "truncated or damaged", "16 facets, 884 bytes", "883"});
  refuses(binary + "more", {"announces 16 facets"});
  refuses(binary.substr(0, 40), {"not an STL file", "40 bytes"});
  refuses("", {"no facets"});
  refuses("solid a\nendsolid a\n", {"no facets"});
  refuses(std::string(84, '\0'), {"no facets"});
  const std::string text = test::stl_text(small_scene());
  refuses(text.substr(0, text.rfind("vertex")),
          {"bad.stl", "line", "ends where 'vertex' should", "truncated"});
  refuses("solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0\nvertex 1 0 0\n",
          {"line 5", "'vertex' is not a number"});
  refuses("solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nvertex 1 1 1\n",
          {"line 7", "'vertex' stands where 'endloop' should"});
  refuses("solid a\nfacets\n", {"line 2", "'facets'", "'facet' or 'endsolid'"});
  refuses(text + "x", {"'x' stands where 'solid' should"});
}

TEST(Gltf, ComesBackNodeByNodeInThreeContainers) {
  const test::TemporaryFolder folder;
  const auto scene = small_scene();
  const auto [json, buffer] = test::gltf_parts(scene, "with%20blank\\\\a.bin");
  std::filesystem::create_directory(folder.path() / "with blank");
  test::save(folder.path() / "with blank" / "a.bin", buffer);
  const auto beside = parse_gltf(json, folder.path(), "a.gltf", "a");
  const auto binary = parse_gltf(test::glb_bytes(scene), ".", "a.glb", "a");
  for (const auto& shapes : {beside, binary}) {
    ASSERT_EQ(shapes.size(), 2u);
    for (std::size_t s = 0; s < 2; ++s) {
      EXPECT_EQ(shapes[s].mesh.name, scene[s].name);
      EXPECT_EQ(shapes[s].material, scene[s].material);
      EXPECT_EQ(shapes[s].mesh.faces, scene[s].faces);
      for (std::size_t i = 0; i < scene[s].vertices.size(); ++i) {
        const Vec3f p = scene[s].vertices[i];
        EXPECT_EQ(shapes[s].mesh.vertices[i], (Vec3f{p.x, p.z, -p.y})) << "y is up in the file";
      }
    }
  }
  expect_error(ErrorClass::data, {"glTF buffer", "a.bin", "No such file"},
               [&, &text = json] { parse_gltf(text, folder.path() / "nowhere", "a.gltf", "a"); });
}

/// A file of one triangle in a data: uri; `more` and `primitive` add to it.
std::string gltf(const std::string& nodes = "{\"mesh\":0}", const std::string& primitive = "",
                 const std::string& more = "", const std::string& indices_accessor = "",
                 const std::string& position_accessor = "") {
  // (0,0,0) (1,0,0) (0,1,0) (1,1,0) as floats; 0 1 2 3 as bytes.
  return "{\"asset\":{\"version\":\"2.0\"},\"nodes\":[" + nodes +
         "],\"meshes\":[{\"name\":\"m\",\"primitives\":[{\"attributes\":{\"POSITION\":0}" + primitive +
         "}]}],\"accessors\":[{\"bufferView\":0,\"componentType\":5126,\"type\":\"VEC3\",\"count\":4" +
         position_accessor + "},{\"bufferView\":1,\"componentType\":5121,\"type\":\"SCALAR\",\"count\":3" +
         indices_accessor +
         "}],\"bufferViews\":[{\"buffer\":0,\"byteLength\":48},{\"buffer\":0,\"byteOffset\":48,"
         "\"byteLength\":4}],"
         "\"buffers\":[{\"byteLength\":52,\"uri\":\"data:application/octet-stream;base64,"
         "AAAAAAAAAAAAAAAAAACAPwAAAAAAAAAAAAAAAAAAgD8AAAAAAACAPwAAgD8AAAAAAAECAw==\"}]" +
         more + "}";
}
std::vector<FileMesh> read_gltf(const std::string& text, std::vector<std::string>* notes = nullptr) {
  return parse_gltf(text, ".", "a.gltf", "a", notes);
}

TEST(Gltf, TrianglesStripsAndFans) {
  EXPECT_EQ(read_gltf(gltf("{\"mesh\":0}", ",\"indices\":1"))[0].mesh.faces, (std::vector<Face>{{0, 1, 2}}));
  EXPECT_EQ(read_gltf(gltf("{\"mesh\":0}", ",\"mode\":5"))[0].mesh.faces,
            (std::vector<Face>{{0, 1, 2}, {1, 3, 2}}));
  EXPECT_EQ(read_gltf(gltf("{\"mesh\":0}", ",\"mode\":6"))[0].mesh.faces,
            (std::vector<Face>{{1, 2, 0}, {2, 3, 0}}));
  expect_error(ErrorClass::data, {"no triangles"}, [] { read_gltf(gltf("{\"mesh\":0}", ",\"mode\":1")); });
}

TEST(Gltf, NodesComposeAndMirrorsTurnTheWinding) {
  const auto shapes =
      read_gltf(gltf("{\"name\":\"root\",\"translation\":[691000.125,0,-5334000.25],\"children\":[2,1]},"
                     "{\"mesh\":0,\"name\":\"second\",\"scale\":[-1,1,1]},"
                     "{\"mesh\":0,\"rotation\":[0,0,0.7071067811865476,0.7071067811865476]}",
                     ",\"indices\":1"));
  ASSERT_EQ(shapes.size(), 2u);
  EXPECT_EQ(shapes[0].mesh.name, "m");
  const Vec3d turned = shapes[0].mesh.to_world.apply({1, 0, 0});
  EXPECT_NEAR(turned.x, 691000.125, 1e-9);
  EXPECT_NEAR(turned.y, 1, 1e-15);
  EXPECT_EQ(turned.z, -5334000.25);
  EXPECT_EQ(shapes[1].mesh.name, "second");
  EXPECT_EQ(shapes[1].mesh.to_world.apply({1, 0, 0}).x, 690999.125);
  EXPECT_EQ(shapes[1].mesh.faces, (std::vector<Face>{{0, 2, 1}}));
  const auto matrix =
      read_gltf(gltf("{\"mesh\":0,\"matrix\":[1,0,0,0, 0,1,0,0, 0,0,1,0, 7,8,9,1]}", ",\"indices\":1"));
  EXPECT_EQ(matrix[0].mesh.to_world.apply({0, 0, 0}), (Vec3d{7, 8, 9}));
}

TEST(Gltf, QuantizedPositions) {
  const auto shapes =
      read_gltf(gltf("{\"mesh\":0}", ",\"indices\":1", ",\"extensionsRequired\":[\"KHR_mesh_quantization\"]",
                     "", ",\"normalized\":true"));
  EXPECT_EQ(shapes.size(), 1u) << "floats are not scaled";
  std::string text = gltf("{\"mesh\":0}", "", "", "", ",\"normalized\":true");
  text.replace(text.find("5126"), 4, "5121");
  const auto bytes = read_gltf(text.replace(text.find("\"count\":4"), 9, "\"count\":6"));
  EXPECT_EQ(bytes[0].mesh.vertices[4], (Vec3f{0, 0, 128 / 255.0f}));
  EXPECT_EQ(bytes[0].mesh.vertices[5], (Vec3f{63 / 255.0f, 0, 0}));
}

TEST(Gltf, NotesWhatItPassesOver) {
  std::vector<std::string> notes;
  read_gltf(gltf("{\"mesh\":0,\"skin\":0}", ",\"indices\":1", ",\"animations\":[{}]"), &notes);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_NE(notes[0].find("skins"), std::string::npos);
  EXPECT_NE(notes[1].find("animations"), std::string::npos);
}

TEST(Gltf, Errors) {
  const auto refuses = [](const std::string& text, std::initializer_list<std::string> fragments) {
    expect_error(ErrorClass::data, fragments, [&] { parse_gltf(text, ".", "bad.gltf", "bad"); });
  };
  refuses("", {"bad.gltf", "JSON is damaged"});
  refuses(gltf().substr(0, 200), {"bad.gltf", "byte", "cut short"});
  refuses("[]", {"no object"});
  refuses("{}", {"no asset"});
  refuses("{\"asset\":{\"version\":\"1.0\"}}", {"'1.0' is not 2.x"});
  refuses("{\"asset\":{\"version\":\"2.0\"}}", {"no triangles"});
  refuses(gltf("{\"mesh\":1}"), {"nodes[0]", "uses meshes[1]", "there are 1"});
  refuses(gltf("{\"mesh\":-1}"), {"nodes[0]", "whole number", "-1"});
  refuses(gltf("{\"mesh\":0,\"children\":[0]}"), {"no triangles"});  // a ring has no root
  refuses(gltf("{\"children\":[1,1]},{\"mesh\":0}", ",\"indices\":1"), {"nodes[1]", "two parents"});
  refuses(gltf("{\"mesh\":0,\"scale\":[1e999,1,1]}"), {"bad.gltf"});
  refuses(gltf("{\"mesh\":0,\"scale\":[1,1]}"), {"nodes[0]", "3 numbers (got 2)"});
  refuses(gltf("{\"mesh\":0,\"matrix\":[1,0,0,1, 0,1,0,0, 0,0,1,0, 7,8,9,1]}"), {"last row"});
  refuses(gltf("{\"mesh\":0}"), {"primitives[0]", "4 corners make no triangles"});
  refuses(gltf("{\"mesh\":0}", ",\"indices\":1", "", ",\"byteOffset\":2"),
          {"accessors[1]", "lie outside bufferViews[1]"});
  refuses(gltf("{\"mesh\":0}", ",\"indices\":1", "", ",\"byteOffset\":18446744073709551615"),
          {"accessors[1]", "outside"});
  refuses(gltf("{\"mesh\":0}", ",\"indices\":1", "", "", ",\"sparse\":{}"), {"accessors[0]", "sparse"});
  refuses(gltf("{\"mesh\":0}", ",\"indices\":0"), {"accessors[0]", "of type SCALAR (got 'VEC3')"});
  // A value of the wrong kind is no absent one: a default in its place would be another mesh.
  refuses(gltf("{\"mesh\":0}", ",\"indices\":\"1\""), {"primitives[0]", "indices must be a whole number"});
  refuses(gltf("{\"mesh\":0}", ",\"indices\":-3"), {"primitives[0]", "indices must be a whole number"});
  refuses(gltf("{\"mesh\":0}", ",\"mode\":\"5\""), {"primitives[0]", "mode must be a whole number"});
  refuses(gltf("{\"mesh\":0,\"translation\":\"5 0 0\"}"), {"nodes[0]", "translation is not an array"});
  refuses(gltf("{\"mesh\":0}", "", "", "", ",\"normalized\":\"true\""),
          {"accessors[0]", "normalized", "true or false"});
  refuses(gltf("{\"mesh\":0}", ",\"indices\":1,\"extensions\":{\"KHR_draco_mesh_compression\":{}}"),
          {"compressed with KHR_draco_mesh_compression", "without compression"});
  refuses(gltf("{\"mesh\":0}", "", ",\"extensionsRequired\":[\"EXT_mesh_gpu_instancing\"]"),
          {"EXT_mesh_gpu_instancing"});
  refuses(gltf("{\"mesh\":0}", ",\"mode\":9"), {"mode 9"});
  std::string text = gltf("{\"mesh\":0}", ",\"indices\":1");
  text = gltf("{\"mesh\":0}", ",\"indices\":1");
  refuses(std::string(text).replace(text.find("\"byteLength\":52"), 15, "\"byteLength\":53"),
          {"buffers[0]", "53", "52 bytes"});
  refuses(std::string(text).replace(text.find(";base64"), 7, ";base32"), {"not base64"});
  refuses(std::string(text).replace(text.find("data:app"), 8, "https://"), {"not a file beside the scene"});

  const std::string glb = test::glb_bytes(small_scene());
  for (std::size_t size = 4; size < glb.size(); size += 1 + size / 3) {
    expect_error(ErrorClass::data, {"cut.glb"},
                 [&] { parse_gltf(glb.substr(0, size), ".", "cut.glb", "cut"); });
  }
  std::string old = glb;
  old[4] = 1;
  refuses(old, {"version 1"});
}

TEST(Gltf, AnIndexPastTheEnd) {
  auto shapes = small_scene();
  shapes[1].faces[3][2] = 10;
  expect_error(ErrorClass::data, {"a.glb", "accessors[3]", "element 11 uses vertex 10, but there are 10"},
               [&] { parse_gltf(test::glb_bytes(shapes), ".", "a.glb", "a"); });
}

/// 2,000 nodes that share a mesh of 100,000 triangles are refused before memory is gone.
TEST(Gltf, RunawaySizesAreRefused) {
  PlainShape big;
  big.name = "big";
  big.vertices = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}};
  big.faces.assign(100000, Face{0, 1, 2});
  auto [json, buffer] = test::gltf_parts({big}, "");
  std::string nodes, list;
  for (int i = 0; i < 2000; ++i) {
    nodes += i > 0 ? ",{\"mesh\":0}" : "{\"mesh\":0}";
    if (i > 0) list += ",";
    list += std::to_string(i);
  }
  const auto replace = [&text = json](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("\"scenes\":[{\"nodes\":[0]}]", "\"scenes\":[{\"nodes\":[" + list + "]}]");
  replace("\"nodes\":[{\"name\":\"big\",\"mesh\":0}]", "\"nodes\":[" + nodes + "]");
  expect_error(
      ErrorClass::data, {"more than", "triangles", "split the scene"},
      [&, &text = json, &bytes = buffer] { parse_gltf(test::glb_of(text, bytes), ".", "a.glb", "a"); });
}

TEST(Gltf, Base64AndPercent) {
  std::string bytes;
  EXPECT_TRUE(gltf::decode_base64("aGVsbG8=", bytes));
  EXPECT_EQ(bytes, "hello");
  bytes.clear();
  EXPECT_FALSE(gltf::decode_base64("aGV*", bytes));
  EXPECT_FALSE(gltf::decode_base64("aGVsb", bytes));
  EXPECT_EQ(gltf::decode_percent("a%20b%2F%zz%4"), "a b/%zz%4");
}

}  // namespace
}  // namespace shardwise
