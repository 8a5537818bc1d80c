// Edges by position: records, ids, which vertices are one, what sync() and the mask do.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "scene/edge_meshes.hpp"
#include "scene/scene_test_util.hpp"
#include "shardwise/scene/scene_io.hpp"
#include "shardwise/scene/scene_model.hpp"

namespace shardwise {
namespace {

using namespace test;

const std::filesystem::path kScenes = SHARDWISE_TEST_SCENES;

/// The definition, by maps: every unordered pair of equal corners, its faces in ascending order.
void expect_definition(const SceneModel& scene) {
  const SceneGeometry& g = scene.geometry();
  const EdgeTable& table = scene.edges();
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::int32_t>> faces_of;
  std::map<std::tuple<std::int32_t, float, float, float>, std::int32_t> lowest;
  std::vector<std::int32_t> canonical(g.vertices.size(), -1);
  for (std::size_t f = 0; f < g.faces.size(); ++f) {
    if (!g.hittable[f]) continue;
    for (const std::int32_t v : g.faces[f]) {
      const auto k = static_cast<std::size_t>(v);
      const auto key =
          std::make_tuple(table.weld_group[k], g.vertices[k].x, g.vertices[k].y, g.vertices[k].z);
      const auto [found, inserted] = lowest.insert({key, v});
      found->second = std::min(found->second, v);
    }
  }
  for (std::size_t f = 0; f < g.faces.size(); ++f) {
    if (!g.hittable[f]) continue;
    std::int32_t c[3];
    for (std::size_t i = 0; i < 3; ++i) {
      const auto k = static_cast<std::size_t>(g.faces[f][i]);
      c[i] = lowest.at({table.weld_group[k], g.vertices[k].x, g.vertices[k].y, g.vertices[k].z});
      canonical[k] = c[i];
    }
    for (int i = 0; i < 3; ++i)
      faces_of[std::minmax(c[i], c[(i + 1) % 3])].push_back(static_cast<std::int32_t>(f));
  }
  EXPECT_EQ(table.canonical, canonical);
  std::size_t at = 0;
  std::map<std::int32_t, std::int32_t> local;
  for (const auto& [key, faces] : faces_of) {
    const auto first = static_cast<std::int32_t>(at);
    const std::size_t pairs = faces.size() == 1 ? 1 : faces.size() * (faces.size() - 1) / 2;
    std::set<std::pair<std::int32_t, std::int32_t>> want, got;
    for (std::size_t i = 0; i < faces.size(); ++i)
      for (std::size_t j = i + 1; j < faces.size(); ++j) want.insert({faces[i], faces[j]});
    if (faces.size() == 1) want.insert({faces[0], -1});
    for (std::size_t p = 0; p < pairs; ++p, ++at) {
      ASSERT_LT(at, table.edges.size());
      const EdgeRecord& record = table.edges[at];
      EXPECT_EQ(record.v0, key.first);
      EXPECT_EQ(record.v1, key.second);
      EXPECT_EQ(record.global_edge_id, static_cast<std::int32_t>(at));
      EXPECT_EQ(record.geometry_id, first);
      EXPECT_EQ(record.is_boundary, faces.size() == 1);
      EXPECT_EQ(record.non_manifold, faces.size() > 2);
      EXPECT_EQ(record.shape_id, g.shape_id[static_cast<std::size_t>(record.face0)]);
      EXPECT_EQ(record.local_edge_id, local[record.shape_id]++);
      got.insert({record.face0, record.face1});
      for (const auto& [face, opposite] :
           {std::pair{record.face0, record.opp0}, {record.face1, record.opp1}}) {
        if (face < 0) {
          EXPECT_EQ(opposite, -1);
          continue;
        }
        std::multiset<std::int32_t> corners, expected{record.v0, record.v1, opposite};
        for (const std::int32_t v : g.faces[static_cast<std::size_t>(face)])
          corners.insert(canonical[static_cast<std::size_t>(v)]);
        EXPECT_EQ(corners, expected);
      }
    }
    EXPECT_EQ(got, want);
  }
  EXPECT_EQ(at, table.edges.size());
}

TEST(EdgeTable, CubeOfSplitSidesIsWhole) {
  const SceneModel scene = built({split_cube()});
  EXPECT_EQ(scene.edges().edges.size(), 18u);
  EXPECT_EQ(scene.edges().boundary_edges, 0);
  EXPECT_EQ(scene.edges().inconsistent_edges, 0);
  expect_definition(scene);
  const SceneModel by_index = built({split_cube()}, {.weld = EdgeWeld::mesh_index});
  EXPECT_EQ(by_index.edges().edges.size(), 30u);
  EXPECT_EQ(by_index.edges().boundary_edges, 24);
}

TEST(EdgeTable, JoinsStaticMeshesAndBothZeros) {
  Mesh left = square("left"), right = square("right");
  for (Vec3f& v : right.vertices) v.x = v.x == 1 ? 0.0f : -1.0f;  // from -1 to 0, wound the other way
  for (Vec3f& v : left.vertices)
    if (v.x == 0) v.x = -0.0f;
  const SceneModel scene = built({left, right});
  const auto& edges = scene.edges().edges;
  EXPECT_EQ(edges.size(), 9u);
  EXPECT_EQ(scene.edges().boundary_edges, 6);
  const auto seam = std::find_if(edges.begin(), edges.end(),
                                 [](const EdgeRecord& e) { return e.face0 < 2 && e.face1 >= 2; });
  ASSERT_NE(seam, edges.end());
  EXPECT_EQ(seam->shape_id, 0);
  EXPECT_EQ(seam->v0, 0);
  EXPECT_EQ(seam->v1, 3);
  EXPECT_FALSE(seam->inconsistent);
  expect_definition(scene);
}

TEST(EdgeTable, WindingsThatDisagree) {
  Mesh mesh = square("folded");
  mesh.faces[1] = {0, 3, 2};
  const SceneModel scene = built({mesh});
  EXPECT_EQ(scene.edges().inconsistent_edges, 1);
  for (const EdgeRecord& e : scene.edges().edges) EXPECT_EQ(e.inconsistent, !e.is_boundary);
}

TEST(EdgeTable, RandomMeshesAgreeWithTheDefinition) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    SceneModel scene;
    const int meshes = 1 + static_cast<int>(random() % 3);
    for (int m = 0; m < meshes; ++m) {
      Mesh mesh;
      mesh.name = "lattice";
      const std::size_t vertices = 4 + random() % 30;
      // Few positions, so that many vertices coincide, and a NaN now and then.
      for (std::size_t v = 0; v < vertices; ++v) {
        const auto coordinate = [&] { return static_cast<float>(random() % 3) - 1.0f; };
        mesh.vertices.push_back({coordinate(), coordinate() * -0.0f, coordinate()});
        if (random() % 2) mesh.vertices.back().y = coordinate();
        if (random() % 25 == 0) mesh.vertices.back().z = std::numeric_limits<float>::quiet_NaN();
      }
      for (std::size_t f = random() % 40; f-- > 0;) {
        Face face;
        for (auto& index : face) index = static_cast<std::int32_t>(random() % vertices);
        mesh.faces.push_back(face);
      }
      scene.add_mesh(mesh, random() % 3 == 0);
    }
    scene.build();
    expect_definition(scene);
  }
}

TEST(EdgeTable, ManyFacesAtOneEdgeAreOneRecordAPair) {
  Mesh fan;
  fan.name = "fan";
  fan.vertices = {{0, 0, 0}, {0, 0, 1}, {1, 0, 0}, {0, 1, 0}, {-1, 0, 0}, {0, -1, 0}};
  fan.faces = {{0, 1, 2}, {0, 1, 3}, {1, 0, 4}, {0, 1, 5}};
  const SceneModel scene = built({fan});
  const auto& edges = scene.edges().edges;
  ASSERT_EQ(edges.size(), 6u + 8u);
  EXPECT_EQ(scene.edges().non_manifold_edges, 1);
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(edges[static_cast<std::size_t>(i)].non_manifold);
    EXPECT_EQ(edges[static_cast<std::size_t>(i)].geometry_id, 0);
  }
  EXPECT_EQ(scene.edges().inconsistent_edges, 3) << "the pairs of faces 0, 1 and 3";
  expect_definition(scene);
}

TEST(EdgeTable, DisabledMeshKeepsItsFacesForOthers) {
  Mesh left = square("left"), right = square("right");
  for (Vec3f& v : right.vertices) v.x = v.x == 1 ? 0.0f : -1.0f;
  left.edges_enabled = false;
  const SceneModel scene = built({left, right});
  const auto& edges = scene.edges().edges;
  EXPECT_EQ(edges.size(), 5u) << "the other mesh's edges, the seam among them";
  EXPECT_EQ(scene.edges().boundary_edges, 3);
  for (const EdgeRecord& e : edges) EXPECT_TRUE(e.face0 >= 2 || e.face1 >= 2);
  left.edges_enabled = true;
  right.edges_enabled = false;
  EXPECT_EQ(built({left, right}).edges().edges.size(), 5u);
  EXPECT_EQ(built({left, right}).edges().hidden.size(), 4u);
}

TEST(EdgeTable, DroppedFacesTakeNoPart) {
  Mesh mesh = square("torn");
  mesh.vertices.push_back({std::numeric_limits<float>::quiet_NaN(), 0, 0});
  mesh.vertices.push_back({0.5f, 0.5f, 0});
  mesh.faces.push_back({0, 1, 4});
  mesh.faces.push_back({0, 5, 2});  // no area
  mesh.faces.push_back({1, 1, 2});
  const SceneModel scene = built({mesh});
  EXPECT_EQ(scene.edges().edges.size(), 5u);
  EXPECT_EQ(scene.edges().canonical[4], -1);
  EXPECT_EQ(scene.edges().canonical[5], -1);
}

TEST(EdgeTable, DynamicMeshesAndInstancesStandAlone) {
  SceneModel scene;
  const auto cube = scene.add_mesh(split_cube());
  scene.add_mesh(split_cube({1, 0, 0}), true);                  // touches the first, is not joined
  scene.add_instance(cube, Transform::translation({0, 1, 0}));  // as well
  const auto flat = scene.add_instance(cube, Transform::scaling({1, 1, 0}));  // keeps its owner's table
  scene.build();
  const auto& edges = scene.edges().edges;
  ASSERT_EQ(edges.size(), 4u * 18);
  for (std::size_t e = 0; e < edges.size(); ++e) {
    EXPECT_FALSE(edges[e].is_boundary);
    EXPECT_EQ(edges[e].shape_id, static_cast<std::int32_t>(e / 18));
    EXPECT_EQ(edges[e].local_edge_id, static_cast<std::int32_t>(e % 18));
    EXPECT_EQ(edges[e].v0 - edges[e % 18].v0, static_cast<std::int32_t>(e / 18) * 24);
  }
  EXPECT_EQ(edges[static_cast<std::size_t>(flat) * 18].shape_id, flat);
}

TEST(EdgeTable, ClassesAreThoseOfBuild) {
  for (const bool asked_before : {true, false}) {
    SceneModel scene;
    const auto id = scene.add_mesh(split_cube(), true);
    scene.build();
    if (asked_before) {
      EXPECT_EQ(scene.edges().edges.size(), 18u);
    }
    EXPECT_EQ(asked_before ? scene.drifted_edge_classes() : 0, 0);
    Mesh torn = split_cube();
    for (std::size_t v = 0; v < 4; ++v) torn.vertices[v].z -= 1;  // the bottom falls
    scene.update_mesh_vertices(id, torn.vertices);
    expect_error(ErrorClass::state, {"pending"}, [&] { scene.drifted_edge_classes(); });
    ASSERT_TRUE(scene.sync());
    EXPECT_EQ(scene.edges().edges.size(), 18u) << "asked before: " << asked_before;
    EXPECT_EQ(scene.edges().boundary_edges, 0);
    EXPECT_EQ(scene.drifted_edge_classes(), 4);
    scene.update_mesh_vertices(id, split_cube().vertices);
    scene.sync();
    EXPECT_EQ(scene.drifted_edge_classes(), 0);
    scene.update_mesh_vertices(id, torn.vertices);
    scene.build();
    EXPECT_EQ(scene.edges().edges.size(), 18u + 4u) << "a build welds anew";
    EXPECT_EQ(scene.edges().boundary_edges, 8);
  }
}

TEST(EdgeMask, CountsVersionsAndSurvivesSync) {
  SceneModel scene;
  expect_error(ErrorClass::state, {"set_edge_mask", "not built", "build()"},
               [&] { scene.set_edge_mask(std::vector<std::uint8_t>(3)); });
  expect_error(ErrorClass::state, {"edges", "build()"}, [&] { scene.edges(); });
  const auto id = scene.add_mesh(split_cube(), true);
  scene.build();
  expect_error(ErrorClass::usage, {"set_edge_mask", "length 18", "got 17"},
               [&] { scene.set_edge_mask(std::vector<std::uint8_t>(17)); });
  EXPECT_FALSE(scene.set_edge_mask(std::vector<std::uint8_t>(18, 7))) << "all shown is what is in force";
  EXPECT_EQ(scene.version(), 1);
  std::vector<std::uint8_t> mask(18, 1);
  mask[5] = 0;
  const std::int64_t edge_version = scene.edge_version();
  EXPECT_TRUE(scene.set_edge_mask(mask));
  EXPECT_EQ(scene.version(), 2);
  EXPECT_EQ(scene.edge_version(), edge_version + 1);
  EXPECT_EQ(scene.changes_since(1).kind, SceneChange::Kind::edge_mask);
  EXPECT_EQ(scene.changes_since(0).kind, SceneChange::Kind::everything);
  EXPECT_FALSE(scene.set_edge_mask(mask));
  EXPECT_EQ(scene.version(), 2);
  scene.update_mesh_vertices(id, split_cube({1, 2, 3}).vertices);
  EXPECT_TRUE(scene.sync());
  EXPECT_EQ(scene.edge_mask(), mask);
  EXPECT_EQ(scene.changes_since(2).kind, SceneChange::Kind::vertices);
  EXPECT_EQ(scene.changes_since(1).kind, SceneChange::Kind::vertices);
  EXPECT_TRUE(scene.set_edge_mask(std::vector<std::uint8_t>(18, 1)));
  EXPECT_TRUE(scene.edge_mask().empty());
  EXPECT_TRUE(scene.set_edge_mask(mask));
  scene.build();
  EXPECT_TRUE(scene.edge_mask().empty()) << "ids may be others after a build";
}

TEST(EdgeTable, CopiesOfASceneAreApart) {
  SceneModel scene = built({split_cube()});
  EXPECT_EQ(scene.edges().edges.size(), 18u);
  SceneModel copy = scene;
  copy.add_mesh(split_cube({5, 0, 0}));
  copy.build();
  EXPECT_EQ(copy.edges().edges.size(), 36u);
  EXPECT_EQ(scene.edges().edges.size(), 18u);
}

TEST(EdgeTable, NoFacesNoEdges) {
  Mesh empty;
  empty.name = "empty";
  EXPECT_TRUE(built({empty}).edges().edges.empty());
}

#if SHARDWISE_WITH_IO
struct Figures {
  const char* scene;
  std::int64_t boundary_by_index, boundary;
};

class EdgesOfRealScenes : public testing::TestWithParam<Figures> {};

TEST_P(EdgesOfRealScenes, HaveTheirMeasuredBoundaries) {
  const auto path = kScenes / GetParam().scene / (std::string(GetParam().scene) + ".xml");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the test scenes are not here: " << path;
  EXPECT_EQ(read_scene(path).edges().boundary_edges, GetParam().boundary);
  SceneReadOptions by_index;
  by_index.model.weld = EdgeWeld::mesh_index;
  EXPECT_EQ(read_scene(path, by_index).edges().boundary_edges, GetParam().boundary_by_index);
}

INSTANTIATE_TEST_SUITE_P(All, EdgesOfRealScenes,
                         testing::Values(Figures{"box", 14, 0}, Figures{"munich", 42488, 7322}),
                         [](const auto& info) { return std::string(info.param.scene); });
#endif

}  // namespace
}  // namespace shardwise
