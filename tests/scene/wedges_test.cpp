// Which edges diffract, at what angle, and what is inside.

#include "shardwise/scene/wedges.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "scene/edge_meshes.hpp"
#include "scene/scene_test_util.hpp"
#include "scene/scene_view.hpp"
#include "scene/trace_fixtures.hpp"
#include "shardwise/scene/scene_io.hpp"

namespace shardwise {
namespace {

using namespace test;
using std::numbers::pi;

const std::filesystem::path kScenes = SHARDWISE_TEST_SCENES;

void expect_sums(const SceneModel& scene, const Wedges& w) {
  const auto edges = static_cast<std::int64_t>(scene.edges().edges.size());
  EXPECT_EQ(w.convex + w.concave + w.coplanar + w.free_boundary + w.wall_feet + w.undefined, edges);
  EXPECT_EQ(w.free_boundary + w.wall_feet, scene.edges().boundary_edges);
  EXPECT_EQ(w.wedges, w.convex + w.free_boundary);
  std::int64_t wedges = 0;
  for (const auto flag : w.is_wedge) wedges += flag;
  EXPECT_EQ(wedges, w.wedges);
}

TEST(Wedges, CubeHasTwelveOfThreeHalves) {
  for (const bool inward : {false, true}) {
    const SceneModel scene = built({inward ? inverted(split_cube()) : split_cube()});
    const Wedges w = classify_wedges(scene);
    expect_sums(scene, w);
    EXPECT_EQ(w.convex, 12);
    EXPECT_EQ(w.coplanar, 6);
    EXPECT_EQ(w.closed_components, 1);
    EXPECT_EQ(w.oriented_components, inward ? 1 : 0);
    for (const auto flag : w.flipped) EXPECT_EQ(flag, inward ? 1 : 0);
    for (std::size_t e = 0; e < w.kind.size(); ++e)
      EXPECT_FLOAT_EQ(w.exterior_angle[e], static_cast<float>(w.is_wedge[e] ? 1.5 * pi : pi));
    const Wedges given = classify_wedges(scene, {.orient_closed = false});
    EXPECT_EQ(given.convex, inward ? 0 : 12);
    EXPECT_EQ(given.concave, inward ? 12 : 0);
    EXPECT_EQ(given.closed_components, 0);
  }
}

TEST(Wedges, ClosedSolidWithMixedWindingsIsMended) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    Mesh mesh = split_cube({1e3f, -2e3f, 0}, 7);
    for (Face& face : mesh.faces)
      if (random() % 2) std::swap(face[1], face[2]);
    const SceneModel scene = built({mesh});
    const Wedges w = classify_wedges(scene);
    EXPECT_EQ(w.convex, 12);
    EXPECT_EQ(w.undefined, 0);
    for (std::size_t f = 0; f < 12; ++f) {
      const Vec3d centre{1e3 + 3.5, -2e3 + 3.5, 3.5};
      const Face face = scene.geometry().faces[f];
      const Vec3d from = to_double(scene.geometry().vertices[static_cast<std::size_t>(face[0])]) - centre;
      const double outward = dot(from, to_double(scene.geometry().face_normal[f])) * (w.flipped[f] ? -1 : 1);
      EXPECT_GT(outward, 0) << "face " << f;
    }
  }
}

TEST(Wedges, OpenMeshesKeepTheirWindings) {
  Mesh open = inverted(split_cube());
  open.faces.pop_back();  // one half of a side is missing
  const SceneModel scene = built({open});
  const Wedges w = classify_wedges(scene);
  expect_sums(scene, w);
  EXPECT_EQ(w.closed_components, 0);
  EXPECT_EQ(w.convex, 0);
  EXPECT_EQ(w.concave, 10);
  EXPECT_EQ(w.free_boundary, 3);
  Mesh disagreeing = square("folded");
  disagreeing.faces[1] = {0, 3, 2};
  const Wedges folded = classify_wedges(built({disagreeing}));
  EXPECT_EQ(folded.undefined, 1);
  EXPECT_EQ(folded.free_boundary, 4);
}

TEST(Wedges, AnglesOfFoldedSheets) {
  for (const double angle : {-3.0, -1.2, -0.01, -0.0005, 0.0, 0.0005, 0.002, 0.7, 1.57, 3.1}) {
    SCOPED_TRACE(angle);
    Mesh sheet;
    sheet.name = "sheet";
    // The fold is the y axis; the second half bends down by `angle`, seen from the side of the normals (+z).
    const auto x = static_cast<float>(100 * std::cos(angle)), z = static_cast<float>(-100 * std::sin(angle));
    sheet.vertices = {{0, 0, 0}, {0, 90, 0}, {-80, 30, 0}, {x, 40, z}};
    sheet.faces = {{0, 1, 2}, {1, 0, 3}};
    const SceneModel scene = built({sheet});
    const Wedges w = classify_wedges(scene);
    const std::size_t fold = 0;
    ASSERT_FALSE(scene.edges().edges[fold].is_boundary);
    EXPECT_NEAR(w.exterior_angle[fold], pi + angle, 2e-6);
    EXPECT_EQ(w.kind[fold], std::abs(angle) <= 1e-3 ? EdgeKind::coplanar
                            : angle > 0             ? EdgeKind::convex
                                                    : EdgeKind::concave);
    EXPECT_EQ(w.is_wedge[fold], angle > 1e-3);
    for (std::size_t e = 1; e < 5; ++e) EXPECT_FLOAT_EQ(w.exterior_angle[e], static_cast<float>(2 * pi));
    EXPECT_EQ(classify_wedges(scene, {.coplanar_tolerance = 1.0}).coplanar, std::abs(angle) <= 1.0 ? 1 : 0);
  }
  const SceneModel scene = built({square("s")});
  expect_error(ErrorClass::usage, {"coplanar_tolerance", "-1"}, [&] { classify_wedges(scene, {-1}); });
  expect_error(ErrorClass::usage, {"coplanar_tolerance", "nan"}, [&] { classify_wedges(scene, {NAN}); });
  expect_error(ErrorClass::state, {"build()"}, [] { classify_wedges(SceneModel()); });
}

/// A wall over the floor's diagonal, its foot at height z, from x = begin to x = end.
SceneModel wall_on_floor(float z, float begin, float end) {
  Mesh floor = square("floor"), wall;
  for (Vec3f& v : floor.vertices) v = 40.0f * v;
  wall.name = "wall";
  wall.vertices = {{begin, 7, z}, {end, 11, z}, {end, 11, z + 5}, {begin, 7, z + 5}};
  wall.faces = {{0, 1, 2}, {0, 2, 3}};
  return built({floor, wall});
}

TEST(Wedges, FootOfAWallIsNone) {
  const auto feet = [](const SceneModel& scene) {
    const Wedges w = classify_wedges(scene);
    expect_sums(scene, w);
    for (std::size_t e = 0; e < w.kind.size(); ++e) {
      if (w.kind[e] != EdgeKind::boundary_on_face) continue;
      EXPECT_EQ(scene.edges().edges[e].shape_id, 1);
      EXPECT_FALSE(w.is_wedge[e]);
      EXPECT_FLOAT_EQ(w.exterior_angle[e], static_cast<float>(2 * pi));
    }
    return w.wall_feet;
  };
  EXPECT_EQ(feet(wall_on_floor(0, 3, 33)), 1) << "over both triangles of the floor";
  EXPECT_EQ(feet(wall_on_floor(5e-5f, 3, 33)), 1) << "within the offset, 8e-5 m at 40 m";
  EXPECT_EQ(feet(wall_on_floor(-5e-5f, 3, 33)), 1);
  EXPECT_EQ(feet(wall_on_floor(2e-4f, 3, 33)), 0) << "above it";
  EXPECT_EQ(feet(wall_on_floor(0, 3, 41)), 0) << "one metre over the rim";
  EXPECT_EQ(feet(wall_on_floor(0, 3, 40)), 1) << "to the rim";
}

TEST(Wedges, SheetOfTwoSidesIsNoSolid) {
  Mesh front = square("front"), back = inverted(square("back"));
  const SceneModel scene = built({front, back});
  const Wedges w = classify_wedges(scene);
  expect_sums(scene, w);
  EXPECT_EQ(w.closed_components, 0) << "no volume";
  EXPECT_EQ(w.convex, 4 + 2) << "the rim, and where each triangle lies on its back, is a knife's edge";
  EXPECT_EQ(w.undefined, 2) << "a triangle and its neighbour seen from behind";
}

TEST(Wedges, CubesThatTouchAlongAnEdgeAreTwoSolids) {
  const SceneModel scene = built({inverted(split_cube()), split_cube({1, 1, 0})});
  EXPECT_EQ(scene.edges().non_manifold_edges, 1);
  const Wedges w = classify_wedges(scene);
  EXPECT_EQ(w.closed_components, 2);
  EXPECT_EQ(w.oriented_components, 1);
  for (std::size_t f = 0; f < 24; ++f) EXPECT_EQ(w.flipped[f], f < 12 ? 1 : 0);
}

TEST(Wedges, HiddenEdgesStillCloseASolid) {
  Mesh shell = inverted(split_cube()), lid = shell;
  lid.faces.erase(lid.faces.begin(), lid.faces.end() - 2);
  shell.faces.resize(10);
  shell.edges_enabled = false;
  const SceneModel scene = built({shell, lid});
  const Wedges w = classify_wedges(scene);
  EXPECT_EQ(w.closed_components, 1);
  EXPECT_EQ(w.oriented_components, 1);
  EXPECT_EQ(w.convex, 4) << "around the lid";
  EXPECT_EQ(w.coplanar, 1);
}

TEST(NearCoincident, CountsWhatTheFileMeantToJoin) {
  EXPECT_EQ(count_near_coincident_vertices(built({split_cube()})), 0);
  Mesh left = square("left"), right = square("right");
  for (Vec3f& v : right.vertices) v.x += 1;
  right.vertices[0].x += 1e-6f;  // offsets are about 4e-6 m here
  EXPECT_EQ(count_near_coincident_vertices(built({left, right})), 2);
  right.vertices[0].x += 1e-4f;
  EXPECT_EQ(count_near_coincident_vertices(built({left, right})), 0);

  // Against all pairs.
  std::mt19937_64 random(5);
  Mesh crowd;
  crowd.name = "crowd";
  for (int i = 0; i < 600; ++i) {
    const auto c = [&] {
      return 100.0f + static_cast<float>(random() % 3) + 1e-4f * static_cast<float>(random() % 8);
    };
    crowd.vertices.push_back({c(), c(), c()});
  }
  for (std::int32_t i = 0; i + 2 < 600; i += 3) crowd.faces.push_back({i, i + 1, i + 2});
  const SceneModel scene = built({crowd});
  SceneView view;
  view.diagonal = scene.geometry().diagonal;
  std::int64_t want = 0;
  const auto& canonical = scene.edges().canonical;
  for (std::size_t i = 0; i < canonical.size(); ++i) {
    if (canonical[i] != static_cast<std::int32_t>(i)) continue;
    bool found = false;
    for (std::size_t j = 0; j < canonical.size(); ++j) {
      if (j == i || canonical[j] != static_cast<std::int32_t>(j)) continue;
      const Vec3f a = scene.geometry().vertices[i], b = scene.geometry().vertices[j];
      found = found || length(to_double(a) - to_double(b)) <= view.offset_at(a);
    }
    want += found;
  }
  EXPECT_GT(want, 20);
  EXPECT_EQ(count_near_coincident_vertices(scene), want);
}

TEST(Inside, OddNumberOfFacesAbove) {
  Mesh hut = split_cube({10, 10, 0}, 4);  // no floor
  hut.faces.erase(hut.faces.begin(), hut.faces.begin() + 2);
  Mesh ground = square("ground");
  for (Vec3f& v : ground.vertices) v = 40.0f * v;
  const InsideTest test(built({ground, inverted(split_cube({20, 20, 1}, 3)), hut}));
  std::mt19937_64 random(9);
  int inside = 0;
  for (int i = 0; i < 4000; ++i) {
    const auto c = [&](int range) { return static_cast<double>(random() % 4096) / 4096 * range; };
    // Often exactly on a diagonal or over a rim seen from above.
    Vec3d p{8 + c(18), 8 + c(18), c(6) - 0.5};
    if (i % 3 == 0) p.y = p.x;
    if (i % 5 == 0) p.x = 10 + std::floor(c(13));
    const auto in = [&](double low, double size) {
      return p.x > low && p.x < low + size && p.y > low && p.y < low + size;
    };
    const auto rim = [&](double low, double size) {
      return p.x == low || p.x == low + size || p.y == low || p.y == low + size;
    };
    if (rim(10, 4) || rim(20, 3) || p.z == 1 || p.z == 0) continue;
    const bool want = (in(10, 4) && p.z < 4 && p.z > 0) || (in(20, 3) && p.z > 1 && p.z < 4);
    const bool under = p.z < 0;  // the ground is one more face above
    const bool buried = under && in(10, 4);
    EXPECT_EQ(test.inside(p), under ? !buried : want) << p.x << " " << p.y << " " << p.z;
    inside += want;
  }
  EXPECT_GT(inside, 100);
  EXPECT_FALSE(test.inside({NAN, 0, 0}));
  expect_error(ErrorClass::state, {"build()"}, [] { InsideTest{SceneModel()}; });
}

TEST(Inside, BallWithoutLeaks) {
  const shardwise::testing::TestMesh ball = shardwise::testing::ball(3);
  Mesh mesh;
  mesh.name = "ball";
  mesh.vertices = ball.vertices;
  mesh.faces.assign(ball.faces.begin(), ball.faces.end());
  const SceneModel scene = built({mesh});
  EXPECT_EQ(classify_wedges(scene).closed_components, 1);
  EXPECT_EQ(classify_wedges(scene).concave, 0);
  const InsideTest test(scene);
  for (const Vec3f& v : mesh.vertices) {
    EXPECT_TRUE(test.inside(0.9 * to_double(v)));
    EXPECT_FALSE(test.inside(1.05 * to_double(v)));
    // Right under, and right over, a vertex.
    EXPECT_FALSE(test.inside({v.x, v.y, 2.0}));
    EXPECT_FALSE(test.inside({v.x, v.y, -2.0})) << "an even number";
  }
}

#if SHARDWISE_WITH_IO
SceneModel real_scene(const std::string& name) {
  return read_scene(kScenes / name / (name + ".xml"));
}
#define REQUIRE_REAL_SCENE(name)                \
  if (!std::filesystem::exists(kScenes / name)) \
  GTEST_SKIP() << "the test scenes are not here: " << kScenes / name

TEST(WedgesOfRealScenes, Box) {
  REQUIRE_REAL_SCENE("box");
  const SceneModel scene = real_scene("box");
  const Wedges w = classify_wedges(scene);
  EXPECT_EQ(w.wedges, 12);
  EXPECT_EQ(w.convex, 12);
  for (std::size_t e = 0; e < w.kind.size(); ++e)
    if (w.is_wedge[e]) {
      EXPECT_NEAR(w.exterior_angle[e] / pi, 1.5, 1e-6);
    }
}

TEST(WedgesOfRealScenes, StreetCanyonIsInsideOut) {
  REQUIRE_REAL_SCENE("simple_street_canyon");
  const SceneModel scene = real_scene("simple_street_canyon");
  const Wedges given = classify_wedges(scene, {.orient_closed = false});
  EXPECT_EQ(given.concave, 72);
  EXPECT_EQ(given.convex, 0);
  const Wedges w = classify_wedges(scene);
  EXPECT_EQ(w.convex, 72);
  EXPECT_EQ(w.concave, 0);
  EXPECT_EQ(w.closed_components, 6);
  EXPECT_EQ(w.oriented_components, 6);
  EXPECT_EQ(w.free_boundary, 4) << "the ground's rim";
}

TEST(WedgesOfRealScenes, MunichStandsOnItsGround) {
  REQUIRE_REAL_SCENE("munich");
  const SceneModel scene = real_scene("munich");
  const SceneGeometry& g = scene.geometry();
  const Wedges w = classify_wedges(scene);
  expect_sums(scene, w);
  // 6,514 boundary edges lie in the ground's plane; four are the rim of the ground itself, on nothing else.
  std::int64_t low = 0, low_feet = 0;
  for (std::size_t e = 0; e < w.kind.size(); ++e) {
    const EdgeRecord& edge = scene.edges().edges[e];
    const Vec3f a = g.vertices[static_cast<std::size_t>(edge.v0)],
                b = g.vertices[static_cast<std::size_t>(edge.v1)];
    if (!edge.is_boundary || std::abs(a.z) > 1e-3f || std::abs(b.z) > 1e-3f) continue;
    ++low;
    low_feet += w.kind[e] == EdgeKind::boundary_on_face;
  }
  EXPECT_EQ(low, 6514);
  EXPECT_EQ(low_feet, 6510);
  EXPECT_EQ(w.wall_feet, 6584) << "with those of what stands on roofs";
  EXPECT_EQ(scene.edges().boundary_edges, 7322);
}
#endif

}  // namespace
}  // namespace shardwise
