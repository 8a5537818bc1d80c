// The nearest-edge bodies against the definition: every edge, the least (d^2, id).

#include "rays/nearest_edge_kernel.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "scene/edge_bvh.hpp"
#include "scene/edge_meshes.hpp"
#include "scene/trace_fixtures.hpp"

namespace shardwise {
namespace {

using namespace testing;

struct EdgeScene {
  std::string name;
  SceneModel model;
  EdgeBvh bvh;
  std::vector<std::uint8_t> mask;

  EdgeView view() const { return view_of(bvh); }
  /// The edges that can be found, by id, as the tree's segments but from the table.
  std::vector<EdgeSegment> found() const {
    std::vector<EdgeSegment> result;
    for (const EdgeRecord& e : model.edges().edges) {
      if (!mask.empty() && !mask[static_cast<std::size_t>(e.global_edge_id)]) continue;
      result.push_back({model.geometry().vertices[static_cast<std::size_t>(e.v0)], e.global_edge_id,
                        model.geometry().vertices[static_cast<std::size_t>(e.v1)], e.geometry_id});
    }
    return result;
  }
};

EdgeScene make(const TestMesh& from, int hidden_of_ten = 0) {
  EdgeScene scene;
  scene.name = from.name;
  Mesh mesh;
  mesh.name = from.name;
  mesh.vertices = from.vertices;
  mesh.faces.assign(from.faces.begin(), from.faces.end());
  scene.model.add_mesh(mesh);
  scene.model.build();
  Random random(17);
  if (hidden_of_ten > 0) {
    scene.name += " masked";
    for (std::size_t e = 0; e < scene.model.edges().edges.size(); ++e)
      scene.mask.push_back(random.below(10) >= static_cast<std::size_t>(hidden_of_ten));
  }
  scene.bvh = build_edge_bvh(scene.model.edges(), scene.model.geometry(), scene.mask);
  return scene;
}

std::vector<EdgeScene> scenes() {
  std::vector<EdgeScene> result;
  TestMesh blocks = boxes(40, 3);
  for (const TestMesh& mesh :
       {cloud(300, 0.2f, 1), grid(16), blocks, slivers(150, 2), ball(2), duplicated(cloud(40, 0.5f, 4))}) {
    result.push_back(make(mesh));
    result.push_back(make(moved(mesh, 1e-3f, {0, 0, 0})));
    result.push_back(make(moved(mesh, 1, {1e3f, -1e3f, 1e3f})));
    result.push_back(make(moved(mesh, 1e-3f, {1e3f, -1e3f, 1e3f})));
    result.push_back(make(moved(mesh, 1e3f, {0, 0, 0}), 3));
  }
  result.push_back(make(cloud(200, 0.3f, 8), 9));
  TestMesh one{"one triangle", {}, {}};
  one.add({0, 0, 0}, {1, 0, 0}, {0, 1, 0});
  result.push_back(make(one));
  return result;
}

/// Random ones near and far, vertices, points on edges, equally far from many.
std::vector<Vec3f> points_for(const EdgeScene& scene, int count) {
  Random random(23);
  const Bounds& bounds = scene.model.geometry().bounds;
  const Vec3f middle = 0.5f * (bounds.low + bounds.high);
  const float size = max_abs(bounds.high - bounds.low);
  const auto edges = scene.found();
  std::vector<Vec3f> points;
  for (int i = 0; i < count; ++i) {
    const EdgeSegment& e = edges[random.below(edges.size())];
    const float s = random.uniform();
    switch (i % 8) {
      case 0:
        points.push_back(middle + 100.0f * size * random.direction());
        break;
      case 1:
        points.push_back(e.a);
        break;
      case 2:
        points.push_back(e.a + s * (e.b - e.a));
        break;
      case 3:
        points.push_back(0.5f * (e.a + e.b) + 1e-3f * size * random.direction());
        break;
      case 4:
        points.push_back({middle.x, middle.y, random.uniform(bounds.low.z, bounds.high.z)});
        break;
      case 5:
        points.push_back(1e9f * random.direction());
        break;
      default:
        points.push_back(middle + size * random.in_box(-1, 1));
    }
  }
  return points;
}

void expect_same(const NearestEdge& got, const EdgeDistance& want, std::int32_t id, const EdgeScene& scene) {
  ASSERT_EQ(got.global_edge_id, id) << scene.name;
  if (id < 0) return;
  EXPECT_EQ(got.distance, static_cast<float>(std::sqrt(want.d2)));
  EXPECT_EQ(got.edge_t, static_cast<float>(want.s));
  const EdgeRecord& record = scene.model.edges().edges[static_cast<std::size_t>(id)];
  EXPECT_EQ(got.shape_id, record.shape_id);
  EXPECT_EQ(got.local_edge_id, record.local_edge_id);
  EXPECT_EQ(got.is_boundary, record.is_boundary);
}

bool same_answer(const NearestEdge& a, const NearestEdge& b) {
  return a.distance == b.distance && a.edge_t == b.edge_t && a.edge_point == b.edge_point &&
         a.point == b.point && a.shape_id == b.shape_id && a.local_edge_id == b.local_edge_id &&
         a.global_edge_id == b.global_edge_id && a.is_boundary == b.is_boundary;
}

TEST(NearestEdgeOfPoint, IsTheDefinition) {
  for (const EdgeScene& scene : scenes()) {
    const auto edges = scene.found();
    for (const Vec3f& q : points_for(scene, 400)) {
      EdgeDistance want{INFINITY, 0, 0};
      std::int32_t id = -1;
      for (const EdgeSegment& e : edges) {  // ascending ids
        const EdgeDistance d = distance_to_point(e, q, scene.bvh.degenerate_length2);
        if (d.d2 < want.d2) want = d, id = e.edge;
      }
      ASSERT_GE(id, 0);
      expect_same(nearest_edge(scene.view(), q), want, id, scene);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(NearestEdgesOfPoint, AreTheDefinition) {
  for (const EdgeScene& scene : scenes()) {
    const auto edges = scene.found();
    for (const Vec3f& q : points_for(scene, 60)) {
      std::vector<std::pair<double, const EdgeSegment*>> all;
      for (const EdgeSegment& e : edges)
        all.push_back({distance_to_point(e, q, scene.bvh.degenerate_length2).d2, &e});
      std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
        return std::pair(a.first, a.second->edge) < std::pair(b.first, b.second->edge);
      });
      for (const bool unique : {false, true}) {
        std::vector<std::int32_t> want;
        std::set<std::int32_t> seen;
        for (const auto& [d2, e] : all)
          if (!unique || seen.insert(e->geometry).second) want.push_back(e->edge);
        for (const int k : {1, 2, 7, 16}) {
          NearestEdgesToPoint search(q, scene.bvh.degenerate_length2, k, unique);
          visit_edges(scene.view(), PointBounds{q}, search);
          ASSERT_EQ(search.found, std::min<int>(k, static_cast<int>(want.size()))) << scene.name;
          for (int i = 0; i < search.found; ++i)
            ASSERT_EQ(search.edge[i], want[static_cast<std::size_t>(i)])
                << scene.name << " slot " << i << " of " << k;
        }
      }
    }
  }
}

/// Distance of a ray and a segment by search, in long double: the function is convex in each parameter.
long double distance_by_search(const EdgeSegment& e, Vec3f o, Vec3f d, long double t_max) {
  using L = long double;
  const L ex = L(e.b.x) - e.a.x, ey = L(e.b.y) - e.a.y, ez = L(e.b.z) - e.a.z;
  const L ee = ex * ex + ey * ey + ez * ez, dd = L(d.x) * d.x + L(d.y) * d.y + L(d.z) * d.z;
  const auto at = [&](L s) {  // the best t for this s
    const L x = L(e.a.x) - o.x + s * ex, y = L(e.a.y) - o.y + s * ey, z = L(e.a.z) - o.z + s * ez;
    L t = (x * d.x + y * d.y + z * d.z) / dd;
    t = t < 0 ? 0 : t > t_max ? t_max : t;
    const L rx = x - t * d.x, ry = y - t * d.y, rz = z - t * d.z;
    return rx * rx + ry * ry + rz * rz;
  };
  if (ee == 0) return std::sqrt(at(0));
  L low = 0, high = 1;
  for (int i = 0; i < 200; ++i) {
    const L m0 = low + (high - low) / 3, m1 = high - (high - low) / 3;
    (at(m0) <= at(m1) ? high : low) = at(m0) <= at(m1) ? m1 : m0;
  }
  return std::sqrt(std::min({at(0), at(1), at((low + high) / 2)}));
}

TEST(NearestEdgeOfRay, IsTheDefinition) {
  for (const EdgeScene& scene : scenes()) {
    TestMesh mesh{"", scene.model.geometry().vertices, {}};
    mesh.faces.assign(scene.model.geometry().faces.begin(), scene.model.geometry().faces.end());
    const auto edges = scene.found();
    int i = 0;
    for (const TestRay& ray : nasty_rays(mesh, 300, 31)) {
      ++i;
      const float scale = i % 3 == 0 ? 1e-3f : i % 3 == 1 ? 1.0f : 7e4f;
      const Vec3f d = scale * ray.d;
      const float t_max = i % 4 == 0 ? 0.3f / scale : i % 4 == 1 ? 3e38f : i % 4 == 2 ? 1e-5f : infinity_f;
      EdgeRay prepared;
      if (!prepared.prepare(ray.o, d, t_max)) continue;
      EdgeDistance want{INFINITY, 0, 0};
      std::int32_t id = -1;
      for (const EdgeSegment& e : edges) {
        const EdgeDistance distance = distance_to_ray(e, prepared, scene.bvh.degenerate_length2);
        if (distance.d2 < want.d2) want = distance, id = e.edge;
      }
      const NearestEdge got = nearest_edge(scene.view(), prepared, d);
      expect_same(got, want, id, scene);
      if (HasFatalFailure()) return;
      EXPECT_GE(got.ray_t, 0);
      EXPECT_LE(got.ray_t, t_max);
      const double apart = length(to_double(got.point) - to_double(got.edge_point));
      EXPECT_NEAR(apart, got.distance,
                  1e-6 * (max_abs(got.point) + max_abs(got.edge_point)) + 1e-6 * got.distance);
    }
  }
}

TEST(NearestEdgeOfRay, DistanceIsThatOfASearch) {
  Random random(5);
  for (int i = 0; i < 3000; ++i) {
    const float size = i % 2 ? 1.0f : 300.0f;
    EdgeSegment e{size * random.in_box(-1, 1), 0, size * random.in_box(-1, 1), 0};
    Vec3f o = size * random.in_box(-1, 1), d = random.in_box(-1, 1);
    switch (i % 5) {
      case 1:  // parallel, overlapping or not
        d = e.b - e.a;
        break;
      case 2:  // nearly parallel
        d = e.b - e.a + 1e-3f * size * random.in_box(-1, 1);
        break;
      case 3:  // meets it
        d = e.a + random.uniform() * (e.b - e.a) - o;
        break;
      case 4:
        e.b = e.a + Vec3f{0, 0, size};
        d = {0, 1, 0};
        break;
      default:;
    }
    const float t_max = i % 7 == 0 ? random.uniform(0.01f, 2) : infinity_f;
    EdgeRay ray;
    ASSERT_TRUE(ray.prepare(o, d, t_max));
    const EdgeDistance got = distance_to_ray(e, ray, 0);
    const auto want = static_cast<double>(distance_by_search(e, o, d, t_max < infinity_f ? t_max : 1e30L));
    EXPECT_NEAR(std::sqrt(got.d2), want, 1e-6 * want + 2e-8 * size) << i;
  }
}

TEST(NearestEdgeOfRay, ParallelEdgesAnswerInTheListedOrder) {
  const EdgeSegment e{{0, 0, 0}, 0, {10, 0, 0}, 0};
  EdgeRay ray;
  ASSERT_TRUE(ray.prepare({2, 3, 0}, {2, 0, 0}, infinity_f));
  EdgeDistance got = distance_to_ray(e, ray, 0);
  EXPECT_EQ(got.d2, 9);
  EXPECT_EQ(got.t, 0) << "the ray's start comes first";
  EXPECT_DOUBLE_EQ(got.s, 0.2);
  ASSERT_TRUE(ray.prepare({-4, 3, 0}, {1, 0, 0}, infinity_f));
  got = distance_to_ray(e, ray, 0);
  EXPECT_EQ(got.s, 0) << "then the edge's start";
  EXPECT_EQ(got.t, 4 * power_of_two(ray.exponent));
  ASSERT_TRUE(ray.prepare({-4, 3, 0}, {1, 0, 0}, 5));
  got = distance_to_ray(e, ray, 0);
  EXPECT_DOUBLE_EQ(got.s, 0.1) << "the ray's end before the edge's start";
}

TEST(NearestEdgeOfRay, RefusesWhatHasNoAnswer) {
  EdgeRay ray;
  const Vec3f o{1, 2, 3}, d{0, 0, 1};
  EXPECT_TRUE(ray.prepare(o, d, infinity_f));
  EXPECT_TRUE(ray.prepare(o, 1e-18f * d, 1e-30f));
  EXPECT_TRUE(ray.prepare(o, 1e18f * d, 3e38f));
  for (const float t_max : {0.0f, -1.0f, NAN, -INFINITY}) EXPECT_FALSE(ray.prepare(o, d, t_max));
  for (const Vec3f bad : {Vec3f{NAN, 0, 0}, Vec3f{INFINITY, 0, 0}}) {
    EXPECT_FALSE(ray.prepare(bad, d, 1));
    EXPECT_FALSE(ray.prepare(o, bad, 1));
  }
  EXPECT_FALSE(ray.prepare(o, {0, 0, 0}, 1));
  EXPECT_FALSE(ray.prepare(o, {1e-20f, 0, 0}, 1)) << "|d|^2 is subnormal";
}

TEST(NearestEdge, NothingToFind) {
  EdgeScene scene = make(ball(1));
  EXPECT_EQ(nearest_edge(EdgeView{}, {0, 0, 0}).global_edge_id, -1);
  scene.mask.assign(scene.model.edges().edges.size(), 0);
  refit_edge_bvh(scene.bvh, scene.model.edges(), scene.model.geometry(), scene.mask);
  const NearestEdge miss = nearest_edge(scene.view(), {0, 0, 0});
  EXPECT_EQ(miss.global_edge_id, -1);
  EXPECT_EQ(miss.distance, INFINITY);
  EdgeRay ray;
  ASSERT_TRUE(ray.prepare({0, 0, 0}, {0, 0, 1}, 5));
  EXPECT_EQ(nearest_edge(scene.view(), ray, {0, 0, 1}).global_edge_id, -1);
  scene.mask[7] = 1;
  refit_edge_bvh(scene.bvh, scene.model.edges(), scene.model.geometry(), scene.mask);
  EXPECT_EQ(nearest_edge(scene.view(), {0, 0, 0}).global_edge_id, 7);
}

TEST(NearestEdge, RefittedTreeIsARebuiltOne) {
  for (EdgeScene& scene : scenes()) {
    SceneModel moved;
    Mesh mesh = scene.model.mesh(0);
    moved.add_mesh(mesh, true);
    moved.build();
    Random random(3);
    for (Vec3f& v : mesh.vertices) v = v + (0.1f * moved.geometry().diagonal) * random.in_box(-1, 1);
    mesh.vertices.back().x = NAN;
    moved.update_mesh_vertices(0, mesh.vertices);
    EdgeBvh bvh = build_edge_bvh(moved.edges(), (moved.sync(), moved.geometry()), scene.mask);
    refit_edge_bvh(scene.bvh, moved.edges(), moved.geometry(), scene.mask);
    scene.bvh.degenerate_length2 = bvh.degenerate_length2;
    for (const Vec3f& q : points_for(scene, 60))
      ASSERT_TRUE(same_answer(nearest_edge(view_of(bvh), q), nearest_edge(scene.view(), q))) << scene.name;
  }
}

TEST(NearestEdge, TreeVisitsLittle) {
  const EdgeScene scene = make(boxes(3000, 12));
  struct Counting : NearestToPoint {
    int offers = 0;
    void offer(const EdgeSegment& segment, std::uint32_t index) {
      ++offers;
      NearestToPoint::offer(segment, index);
    }
  };
  Random random(1);
  double offers = 0;
  for (int i = 0; i < 200; ++i) {
    const Vec3f q = random.in_box(-1, 1);
    Counting search{{q, scene.bvh.degenerate_length2, {}}};
    visit_edges(scene.view(), PointBounds{q}, search);
    offers += search.offers;
  }
  EXPECT_LT(offers / 200, 0.005 * static_cast<double>(scene.bvh.segments.size()));
}

}  // namespace
}  // namespace shardwise
