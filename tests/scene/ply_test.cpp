// PLY: round trips in every encoding, every layout seen in the wild, every way a file can be wrong, and
// damage at random.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "scene/scene_test_util.hpp"
#include "shardwise/scene/scene_io.hpp"

namespace shardwise {
namespace {

using test::expect_error;

constexpr PlyEncoding kEncodings[] = {PlyEncoding::ascii, PlyEncoding::binary_little_endian,
                                      PlyEncoding::binary_big_endian};

std::string ascii(const std::string& vertex_properties, const std::string& body, int vertices, int faces) {
  return "ply\nformat ascii 1.0\nelement vertex " + std::to_string(vertices) + "\n" + vertex_properties +
         "element face " + std::to_string(faces) + "\nproperty list uchar int vertex_indices\nend_header\n" +
         body;
}
const std::string kXyz = "property float x\nproperty float y\nproperty float z\n";
const std::string kTriangle = "0 0 0\n1 0 0\n0 1 0\n";

double area(const Mesh& mesh) {
  double sum = 0;
  for (const Face& face : mesh.faces) {
    const Vec3d a = to_double(mesh.vertices[face[0]]), b = to_double(mesh.vertices[face[1]]),
                c = to_double(mesh.vertices[face[2]]);
    sum += length(cross(b - a, c - a)) / 2;
  }
  return sum;
}

TEST(Ply, RoundTripsBitForBitInEveryEncoding) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 60; ++trial) {
    const Mesh mesh = test::random_mesh(random, trial % 2 == 0, trial % 3 == 0);
    for (const PlyEncoding encoding : kEncodings) {
      test::expect_same_mesh(mesh, parse_ply(format_ply(mesh, encoding), "memory"));
    }
  }
}

TEST(Ply, WritesAndReadsFiles) {
  const test::TemporaryFolder folder;
  const Mesh mesh = test::square("square");
  write_ply(folder.path() / "wall 1.ply", mesh);
  const Mesh back = read_ply(folder.path() / "wall 1.ply");
  test::expect_same_mesh(mesh, back);
  EXPECT_EQ(back.name, "wall 1");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1)
      << "a temporary file was left";
}

TEST(Ply, ReadsTheLayoutsOfTheWild) {
  const Mesh st = parse_ply(ascii(kXyz + "property float s\nproperty float t\n",
                                  "0 0 0 0.5 0.25\n1 0 0 0 0\n0 1 0 1 1\n3 0 1 2\n", 3, 1),
                            "st");
  ASSERT_EQ(st.uv.size(), 3u);
  EXPECT_EQ(st.uv[0], (Vec2f{0.5f, 0.25f}));
  EXPECT_EQ(st.face_uv, st.faces);

  const Mesh full = parse_ply(
      ascii(
          kXyz +
              "property float nx\nproperty float ny\nproperty float nz\nproperty float u\nproperty float v\n"
              "property uchar red\nproperty uchar green\nproperty uchar blue\nproperty uchar alpha\n",
          "0 0 0 0 0 1 0.5 0.25 9 8 7 6\n1 0 0 0 0 1 0 0 1 1 1 1\n0 1 0 0 0 1 1 1 1 1 1 1\n3 2 1 0\n", 3, 1),
      "full");
  ASSERT_EQ(full.vertex_normals.size(), 3u);
  EXPECT_EQ(full.vertex_normals[1], (Vec3f{0, 0, 1}));
  EXPECT_EQ(full.uv[0], (Vec2f{0.5f, 0.25f}));
  EXPECT_EQ(full.faces[0], (Face{2, 1, 0}));
}

TEST(Ply, PassesOverOtherElementsAndProperties) {
  const std::string text =
      "ply\r\nformat ascii 1.0\r\ncomment made by hand\r\nobj_info nothing\r\nelement material 2\r\n"
      "property list uint8 float32 shininess\r\nproperty int16 kind\r\nelement face 1\r\nproperty uchar "
      "flags\r\n"
      "property list uint16 uint32 vertex_index\r\nproperty list uchar float texcoord\r\nelement vertex 3\r\n"
      "property double z\r\nproperty double y\r\nproperty int x\r\nproperty list uchar int tags\r\nelement "
      "edge 1\r\n"
      "property int a\r\nelement nothing 1000000000000\r\nend_header\r\n"
      "2 0.5 0.25 7\r\n0 -3\r\n9 3 0 1 2 2 0.5 0.5\r\n\r\n30 20 10 0\r\n31 20 10 1 5\r\n30 21 +11 2 5 "
      "6\r\n4\r\n";
  const Mesh mesh = parse_ply(text, "odd");
  EXPECT_EQ(mesh.vertices, (std::vector<Vec3f>{{10, 20, 30}, {10, 20, 31}, {11, 21, 30}}));
  EXPECT_EQ(mesh.faces, (std::vector<Face>{{0, 1, 2}}));
}

TEST(Ply, ReadsEveryScalarTypeInBothByteOrders) {
  for (const bool big : {false, true}) {
    std::string text =
        std::string("ply\nformat binary_") + (big ? "big" : "little") +
        "_endian 1.0\nelement vertex 3\nproperty char x\nproperty ushort y\nproperty float64 z\n"
        "element face 1\nproperty list int32 int8 vertex_indices\nend_header\n";
    const auto put = [&](auto value) {
      char bytes[sizeof(value)];
      std::memcpy(bytes, &value, sizeof(value));
      if (big) std::reverse(bytes, bytes + sizeof(value));
      text.append(bytes, sizeof(value));
    };
    for (int i = 0; i < 3; ++i) {
      put(static_cast<std::int8_t>(-i));
      put(static_cast<std::uint16_t>(60000 + i));
      put(0.5 * i);
    }
    put(std::int32_t{3});
    for (int i = 0; i < 3; ++i) put(static_cast<std::int8_t>(i));
    const Mesh mesh = parse_ply(text, "types");
    EXPECT_EQ(mesh.vertices[2], (Vec3f{-2, 60002, 1}));
    EXPECT_EQ(mesh.faces[0], (Face{0, 1, 2}));
  }
}

TEST(Ply, NotFiniteVerticesPassForTheSceneToList) {
  const Mesh mesh = parse_ply(ascii(kXyz, "nan 0 0\n1e999 0 0\n0 -inf 1e-80\n3 0 1 2\n", 3, 1), "nan");
  EXPECT_TRUE(std::isnan(mesh.vertices[0].x));
  EXPECT_TRUE(std::isinf(mesh.vertices[1].x));
  EXPECT_TRUE(std::isinf(mesh.vertices[2].y));
  EXPECT_EQ(mesh.vertices[2].z, 0);
}

TEST(Ply, CutsConvexPolygonsIntoFans) {
  std::vector<std::string> notes;
  const Mesh mesh = parse_ply(ascii(kXyz, "0 0 0\n2 0 0\n3 1 0\n2 2 0\n0 2 0\n5 0 1 2 3 4\n3 0 1 2\n", 5, 2),
                              "five", &notes);
  EXPECT_EQ(mesh.faces, (std::vector<Face>{{0, 1, 2}, {0, 2, 3}, {0, 3, 4}, {0, 1, 2}}));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("1 of 2 faces"), std::string::npos) << notes[0];
}

TEST(Ply, CutsConcavePolygonsWithoutOverlap) {
  // A comb of area 10 + 3 x 2, in three planes and both orientations: the triangles' areas must add up to it.
  const double comb[][2] = {{0, 0}, {5, 0}, {5, 4}, {4, 4}, {4, 2}, {3, 2},
                            {3, 4}, {2, 4}, {2, 2}, {1, 2}, {1, 4}, {0, 4}};
  for (int plane = 0; plane < 3; ++plane) {
    for (const bool reversed : {false, true}) {
      std::string body, face = "12";
      for (int i = 0; i < 12; ++i) {
        const double x = comb[i][0], y = comb[i][1];
        const double p[3][3] = {{7, x, y}, {y, 7, x}, {x, y, 7}};
        for (const double c : p[plane]) body += std::to_string(c) + " ";
        body += "\n";
        face.append(" ").append(std::to_string(reversed ? 11 - i : i));
      }
      const Mesh mesh = parse_ply(ascii(kXyz, body + face + "\n", 12, 1), "comb");
      ASSERT_EQ(mesh.faces.size(), 10u);
      EXPECT_NEAR(area(mesh), 16, 1e-9);
      Vec3d sum;  // every triangle keeps the polygon's orientation
      for (const Face& f : mesh.faces) {
        const Vec3d a = to_double(mesh.vertices[f[0]]);
        sum = sum + cross(to_double(mesh.vertices[f[1]]) - a, to_double(mesh.vertices[f[2]]) - a);
      }
      EXPECT_NEAR(sum[plane], reversed ? -32 : 32, 1e-9);
    }
  }
}

TEST(Ply, CutsRandomStarPolygonsExactly) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> radius(1, 10);
  for (int trial = 0; trial < 200; ++trial) {
    const int n = 4 + static_cast<int>(random() % 40);
    Mesh mesh;
    std::string body, face = std::to_string(n);
    std::vector<Vec3d> ring;
    for (int i = 0; i < n; ++i) {
      const double r = radius(random), angle = 2 * 3.14159265358979 * i / n;
      const Vec3f p{static_cast<float>(r * std::cos(angle)), static_cast<float>(r * std::sin(angle)), 0};
      ring.push_back(to_double(p));
      mesh.vertices.push_back(p);
      face.append(" ").append(std::to_string(i));
    }
    double expected = 0;
    for (int i = 0; i < n; ++i) expected += cross(ring[i], ring[(i + 1) % n]).z / 2;
    std::string text = format_ply(mesh, PlyEncoding::ascii);
    text.replace(text.find("element face 0"), 14, "element face 1");
    const Mesh cut = parse_ply(text + face + "\n", "star");
    EXPECT_EQ(cut.faces.size(), static_cast<std::size_t>(n - 2));
    EXPECT_NEAR(area(cut), expected, 1e-6 * expected);
  }
}

TEST(Ply, SideWithACornerOnItGivesNoFlatTriangle) {
  const Mesh mesh = parse_ply(ascii(kXyz, "0 0 0\n1 0 0\n2 0 0\n2 2 0\n0 2 0\n5 0 1 2 3 4\n", 5, 1), "side");
  ASSERT_EQ(mesh.faces.size(), 3u);
  EXPECT_NEAR(area(mesh), 4, 1e-12);
  for (const Face& f : mesh.faces) {
    Mesh one = mesh;
    one.faces = {f};
    EXPECT_GT(area(one), 0);
  }
}

TEST(Ply, NotesPolygonsThatAreNotPlanar) {
  std::vector<std::string> notes;
  parse_ply(ascii(kXyz, "0 0 0\n1 0 0\n1 1 0.1\n0 1 0\n3 0 1 2\n4 0 1 2 3\n", 4, 2), "bent", &notes);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_NE(notes[1].find("1 polygon is not planar, the first is face 1"), std::string::npos) << notes[1];
}

TEST(PlyErrors, NameTheFileAndWhatIsWrong) {
  const auto refuses = [](const std::string& text, std::initializer_list<std::string> fragments) {
    expect_error(ErrorClass::data, fragments, [&] { parse_ply(text, "in.ply"); });
  };
  expect_error(ErrorClass::data, {"nowhere.ply", "No such file"}, [] { read_ply("nowhere.ply"); });
  expect_error(ErrorClass::data, {"not a regular file"}, [] { read_ply("/"); });
  refuses("", {"in.ply", "not a PLY file"});
  refuses("solid cube\n", {"in.ply", "not a PLY file"});
  refuses("ply\nformat ascii 1.0\nelement vertex 3\n", {"in.ply", "end_header"});
  refuses("ply\nformat binary 1.0\nend_header\n", {"line 2", "'binary'"});
  refuses("ply\nelement vertex 0\n" + kXyz +
              "element face 0\nproperty list uchar int vertex_indices\nend_header\n",
          {"no 'format'"});
  refuses("ply\nformat ascii 1.0\nelement vertex -3\nend_header\n", {"line 3", "'-3'"});
  refuses("ply\nformat ascii 1.0\nelement vertex 3\nproperty real x\nend_header\n", {"line 4", "'real'"});
  refuses("ply\nformat ascii 1.0\nelement vertex 3\nproperty list float int x\nend_header\n",
          {"line 4", "count"});
  refuses("ply\nformat ascii 1.0\nelement vertex 0\n" + kXyz + "end_header\n", {"no element 'face'"});
  refuses(ascii("property float x\nproperty float z\n", "", 0, 0), {"vertex lacks the property y"});
  refuses(ascii(kXyz, kTriangle + "3 0 1 3\n", 3, 1), {"line 13", "face 0", "vertex 3", "3 vertices"});
  refuses(ascii(kXyz, kTriangle + "3 0 -1 2\n", 3, 1), {"line 13", "vertex -1"});
  refuses(ascii(kXyz, kTriangle + "2 0 1\n", 3, 1), {"3 corners or more (got 2)"});
  refuses(ascii(kXyz, kTriangle + "-3 0 1 2\n", 3, 1), {"negative count -3"});
  refuses(ascii(kXyz, kTriangle + "4 0 1 2\n", 3, 1), {"line 13", "4 entries"});
  refuses(ascii(kXyz, kTriangle + "3 0 1 2 2\n", 3, 1), {"line 13", "'2'", "more than the header says"});
  refuses(ascii(kXyz, kTriangle + "3 0 1 2\n3 0 1 2\n", 3, 1), {"bytes follow the last row"});
  refuses(ascii(kXyz, kTriangle + "3 0 1 1.5\n", 3, 1), {"'1.5' is not an integer"});
  refuses(ascii(kXyz, "0 0 zero\n1 0 0\n0 1 0\n3 0 1 2\n", 3, 1), {"line 10", "'zero' is not a number"});
  refuses(ascii(kXyz, "0 0\n1 0 0\n0 1 0\n3 0 1 2\n", 3, 1), {"line 10", "fewer values"});
  refuses(ascii(kXyz, kTriangle + "3 0 1 2\n", 4, 1), {"line 13", "vertex 3", "more than the header"});
  refuses(ascii(kXyz, "0 0 0\n1 0 0\n0 1 0            \n", 3, 1), {"line 13", "face 0", "the file ends"});

  const std::string good = format_ply(test::square("s"), PlyEncoding::binary_little_endian);
  refuses(good.substr(0, good.size() - 1), {"truncated or the count wrong"});
  refuses(good + "x", {"1 bytes follow"});
  std::string past = good;
  past[past.size() - 4] = 4;
  refuses(past, {"byte", "face 1", "vertex 4", "4 vertices"});
}

TEST(PlyErrors, AbsurdCountsAreRefusedBeforeAnyAllocation) {
  expect_error(ErrorClass::data, {"18446744073709551615 rows", "vertex"}, [] {
    parse_ply("ply\nformat binary_little_endian 1.0\nelement vertex 18446744073709551615\n" + kXyz +
                  "element face 0\nproperty list uchar int vertex_indices\nend_header\n",
              "in.ply");
  });
  expect_error(ErrorClass::data, {"4000000000 entries"}, [] {
    std::string text = "ply\nformat binary_little_endian 1.0\nelement vertex 1\n" + kXyz +
                       "element face 1\nproperty list uint int vertex_indices\nend_header\n" +
                       std::string(12, '\0');
    const std::uint32_t count = 4'000'000'000u;
    text.append(reinterpret_cast<const char*>(&count), 4);
    parse_ply(text, "in.ply");
  });
}

TEST(PlyErrors, WriterRefusesWhatPlyCannotHold) {
  Mesh mesh = test::square("s");
  mesh.uv = {{0, 0}, {1, 0}, {1, 1}};
  mesh.face_uv = {{0, 1, 2}, {0, 1, 2}};
  expect_error(ErrorClass::usage, {"'s'", "per vertex"}, [&] { format_ply(mesh, PlyEncoding::ascii); });
  expect_error(ErrorClass::usage, {"no-such-folder/x.ply", "cannot be written"},
               [&] { write_ply("no-such-folder/x.ply", test::square("s")); });
}

/// Damaged files give a data error or a mesh whose indices are in range: never a crash, a hang or another
/// error.
void expect_error_or_valid(const std::string& bytes) {
  try {
    const Mesh mesh = parse_ply(bytes, "fuzz");
    validate_mesh(mesh, "fuzz");
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::data) << error.what();
  }
}

TEST(PlyFuzz, TruncatedAtEveryByte) {
  std::mt19937_64 random(1);
  const Mesh mesh = test::random_mesh(random, true, true);
  for (const PlyEncoding encoding : kEncodings) {
    const std::string good = format_ply(mesh, encoding);
    for (std::size_t size = 0; size < good.size(); ++size) {
      const std::string cut = good.substr(0, size);
      // Without the last line break, or within the last number, an ascii file is whole again or another file.
      if (encoding == PlyEncoding::ascii && size + 2 >= good.size()) {
        expect_error_or_valid(cut);
      } else {
        expect_error(ErrorClass::data, {"cut"}, [&] { parse_ply(cut, "cut"); });
      }
    }
  }
}

TEST(PlyFuzz, BytesFlippedAtRandom) {
  std::mt19937_64 random(2);
  for (int trial = 0; trial < 20000; ++trial) {
    const Mesh mesh = test::random_mesh(random, trial % 2 == 0, trial % 3 == 0);
    std::string bytes = format_ply(mesh, kEncodings[trial % 3]);
    const auto flips = 1 + random() % 4;
    for (std::size_t i = 0; i < flips; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    expect_error_or_valid(bytes);
  }
}

}  // namespace
}  // namespace shardwise
