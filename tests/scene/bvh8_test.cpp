#include <gtest/gtest.h>

#include "scene/trace_fixtures.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::testing {
namespace {

std::vector<TestMesh> meshes() {
  std::vector<TestMesh> all{cloud(600, 0.2f, 1), cloud(300, 2.0f, 2), grid(16),
                            boxes(60, 3),        slivers(300, 4),     ball(2)};
  const std::vector<TestMesh> plain = all;
  for (const TestMesh& mesh : plain) all.push_back(duplicated(mesh));
  for (const TestMesh& mesh : plain) {
    all.push_back(moved(mesh, 1, {1000, -1000, 1000}));
    all.push_back(moved(mesh, 1e-3f, {0, 0, 0}));
    all.push_back(moved(mesh, 1e-3f, {1000, 1000, 1000}));
    all.push_back(moved(mesh, 1e3f, {0, 0, 0}));
  }
  return all;
}

/// Counts hits and compares every ray with the definition, bit for bit.
std::size_t expect_equal_to_brute_force(const TestMesh& mesh, const Bvh8& bvh, int ray_count,
                                        std::uint64_t seed) {
  const std::vector<std::uint8_t> hittable = mesh.hittable();
  const BvhTracer tracer{view_of(bvh)};
  Random random(seed + 99);
  std::size_t hits = 0;
  for (const TestRay& ray : nasty_rays(mesh, ray_count, seed)) {
    const float t_min = random.below(4) == 0 ? random.uniform(-1, 1) : 0.0f;
    const float t_max = random.below(4) == 0 ? random.uniform(0, 3) : INFINITY;
    const Hit expected = brute_force(mesh, hittable, bvh.max_coordinate, ray, t_min, t_max);
    const Hit got = tracer.closest(ray.o, ray.d, t_min, t_max);
    EXPECT_TRUE(same_hit(expected, got))
        << mesh.name << ": o " << ray.o.x << ' ' << ray.o.y << ' ' << ray.o.z << " d " << ray.d.x << ' '
        << ray.d.y << ' ' << ray.d.z << " expected " << expected.t << " prim " << expected.prim << " got "
        << got.t << " prim " << got.prim;
    if (got.valid()) {
      ++hits;
      EXPECT_EQ(bvh.triangles[got.record].prim, got.prim);
    }
    if (::testing::Test::HasFailure()) return hits;
  }
  return hits;
}

TEST(Bvh8, EqualsBruteForce) {
  for (const TestMesh& mesh : meshes()) {
    const Bvh8 bvh = build_bvh8(mesh.vertices, mesh.faces, mesh.hittable());
    const std::size_t hits = expect_equal_to_brute_force(mesh, bvh, 2000, 7);
    // Needles far from the origin lose their width to rounding: then few faces are left to hit.
    EXPECT_GT(hits, bvh.triangles.size() > mesh.faces.size() / 2 ? 150u : 0u) << mesh.name;
    if (HasFailure()) return;
  }
}

TEST(Bvh8, EightAtOnceIsOneByOne) {
  const TestMesh mesh = boxes(200, 6);
  const Bvh8 bvh = build_bvh8(mesh.vertices, mesh.faces, mesh.hittable());
  Random random(4);
  std::size_t met = 0;
  for (const TestRay& r : nasty_rays(mesh, 3000, 5)) {
    RayData ray;
    if (!ray.prepare(r.o, r.d, bvh.max_coordinate)) continue;
    const NodeRay node_ray(ray);
    for (const Bvh8Node& node : bvh.nodes) {
      const float t_max = random.uniform(0, 4);
      const std::uint32_t slots = hit_slots(node, node_ray, 0.1f, t_max);
      ASSERT_EQ(slots, hit_slots_x8(node, node_ray, 0.1f, t_max));
      met += slots != 0;
    }
  }
  EXPECT_GT(met, 5000u);
}

TEST(Bvh8, OctantPermutationIsAnExclusiveOr) {
  for (std::uint32_t octant = 0; octant < 8; ++octant)
    for (std::uint32_t mask = 0; mask < 256; ++mask) {
      std::uint32_t expected = 0;
      for (std::uint32_t s = 0; s < 8; ++s)
        if (mask >> s & 1) expected |= 1u << (s ^ octant);
      EXPECT_EQ(permute_by_octant(mask, octant), expected);
    }
}

TEST(Bvh8, EveryFaceHasItsRecord) {
  TestMesh mesh = cloud(5000, 0.1f, 5);
  std::vector<std::uint8_t> hittable = mesh.hittable();
  for (std::size_t f = 0; f < hittable.size(); f += 7) hittable[f] = 0;
  const Bvh8 bvh = build_bvh8(mesh.vertices, mesh.faces, hittable);
  ASSERT_EQ(bvh.record_of_prim.size(), mesh.faces.size());
  std::size_t records = 0;
  for (std::uint32_t f = 0; f < mesh.faces.size(); ++f) {
    if (!hittable[f]) {
      EXPECT_EQ(bvh.record_of_prim[f], ~0u);
      continue;
    }
    ++records;
    ASSERT_LT(bvh.record_of_prim[f], bvh.triangles.size());
    const BvhTriangle& triangle = bvh.triangles[bvh.record_of_prim[f]];
    EXPECT_EQ(triangle.prim, f);
    EXPECT_EQ(triangle.v1, mesh.corner(mesh.faces[f], 1));
  }
  EXPECT_EQ(records, bvh.triangles.size());
  EXPECT_LE(bvh.depth, bvh8_max_depth);
}

TEST(Bvh8, EmptyAndSingle) {
  const Bvh8 empty = build_bvh8({}, {}, {});
  EXPECT_TRUE(empty.nodes.empty());
  EXPECT_FALSE(BvhTracer{view_of(empty)}.closest({0, 0, 0}, {0, 0, 1}, 0, INFINITY).valid());
  TestMesh mesh;
  mesh.add({0, 0, 2}, {1, 0, 2}, {0, 1, 2});
  const std::vector<std::uint8_t> none{0}, one{1};
  const Bvh8 dropped = build_bvh8(mesh.vertices, mesh.faces, none);
  EXPECT_FALSE(BvhTracer{view_of(dropped)}.closest({0.2f, 0.2f, 0}, {0, 0, 1}, 0, INFINITY).valid());
  const Bvh8 single = build_bvh8(mesh.vertices, mesh.faces, one);
  const Hit hit = BvhTracer{view_of(single)}.closest({0.25f, 0.5f, 0}, {0, 0, 1}, 0, INFINITY);
  EXPECT_EQ(hit.t, 2.0f);
  EXPECT_EQ(hit.u, 0.25f);
  EXPECT_EQ(hit.v, 0.5f);
  EXPECT_EQ(hit.prim, 0u);
  EXPECT_FALSE(BvhTracer{view_of(single)}.closest({0.25f, 0.5f, 0}, {0, 0, -1}, 0, INFINITY).valid());
}

TEST(Bvh8, InvalidRaysMiss) {
  TestMesh mesh = boxes(10, 1);
  add_box(mesh, {-2, -2, -2}, {2, 2, 2});
  const Bvh8 bvh = build_bvh8(mesh.vertices, mesh.faces, mesh.hittable());
  const BvhTracer tracer{view_of(bvh)};
  ASSERT_TRUE(tracer.closest({0, 0, 1}, {0, 0, 1}, 0, INFINITY).valid());
  for (const float bad : {NAN, INFINITY, -INFINITY})
    for (int axis = 0; axis < 3; ++axis) {
      Vec3f o{0, 0, 1}, d{0, 0, 1};
      o.set(axis, bad);
      EXPECT_FALSE(tracer.closest(o, d, 0, INFINITY).valid());
      o = {0, 0, 1};
      d.set(axis, bad);
      EXPECT_FALSE(tracer.closest(o, d, 0, INFINITY).valid());
    }
  for (const float t_max : {0.0f, -1.0f, -INFINITY, NAN})
    EXPECT_FALSE(tracer.closest({0, 0, 1}, {0, 0, 1}, 0, t_max).valid());
  EXPECT_FALSE(tracer.closest({0, 0, 1}, {0, 0, 0}, 0, INFINITY).valid());
  EXPECT_FALSE(tracer.closest({0, 0, 1}, {0, 0, 1e-30f}, 0, INFINITY).valid());
  EXPECT_FALSE(tracer.closest({0, 0, 1}, {0, 0, 1e30f}, 0, INFINITY).valid());
  EXPECT_FALSE(tracer.closest({0, 0, 1}, {0, 0, 1}, NAN, INFINITY).valid());
  EXPECT_FALSE(tracer.closest({1e38f, -1e38f, 1e38f}, {1, 1e-20f, 0}, 0, INFINITY).valid());
}

TEST(Bvh8, RefitGivesTheHitsOfARebuild) {
  TestMesh mesh = cloud(2000, 0.1f, 8);
  std::vector<std::uint8_t> hittable = mesh.hittable();
  Bvh8 bvh = build_bvh8(mesh.vertices, mesh.faces, hittable);
  Random random(3);
  for (Vec3f& v : mesh.vertices) v = 50.0f * (v + 0.3f * random.in_box(-1, 1)) + Vec3f{100, 0, 0};
  const std::size_t nodes = bvh.nodes.size();
  refit_bvh8(bvh, mesh.vertices, mesh.faces, hittable);
  EXPECT_EQ(bvh.nodes.size(), nodes);
  EXPECT_GT(expect_equal_to_brute_force(mesh, bvh, 2000, 11), 500u);

  // A face that became degenerate: another mask, so another tree.
  mesh.faces[17][1] = mesh.faces[17][0];
  const std::vector<std::uint8_t> changed = mesh.hittable();
  ASSERT_NE(changed, hittable);
  refit_bvh8(bvh, mesh.vertices, mesh.faces, changed);
  EXPECT_EQ(bvh.record_of_prim[17], ~0u);
  EXPECT_GT(expect_equal_to_brute_force(mesh, bvh, 500, 12), 100u);
}

TEST(Bvh8, DepthIsBoundedForGeometricSizes) {
  // Each triangle half as large and half as far as the one before, many times over: the surface heuristic
  // alone would peel them off one by one.
  TestMesh mesh{"spiral", {}, {}};
  for (int i = 0; i < 90; ++i) {
    const float s = std::ldexp(1.0f, 30 - i);
    for (int k = 0; k < 9; ++k)
      mesh.add({s, 0, 0}, {s, s, 0.01f * s * static_cast<float>(k)}, {0.9f * s, 0, s});
  }
  const Bvh8 bvh = build_bvh8(mesh.vertices, mesh.faces, mesh.hittable());
  EXPECT_LE(bvh.depth, bvh8_max_depth);
  EXPECT_EQ(bvh.triangles.size(), mesh.faces.size());
  EXPECT_GT(expect_equal_to_brute_force(mesh, bvh, 1000, 21), 100u);
}

TEST(Bvh8, ClosedBallHasNoHoles) {
  for (const TestMesh& mesh :
       {ball(4), moved(ball(3), 1, {1000, 1000, -1000}), moved(ball(3), 1e3f, {0, 0, 0})}) {
    const Bvh8 bvh = build_bvh8(mesh.vertices, mesh.faces, mesh.hittable());
    const BvhTracer tracer{view_of(bvh)};
    Vec3f low = mesh.vertices[0], high = low;
    for (const Vec3f& v : mesh.vertices)
      for (int a = 0; a < 3; ++a) {
        low.set(a, std::min(low[a], v[a]));
        high.set(a, std::max(high[a], v[a]));
      }
    const Vec3f middle = 0.5f * (low + high);
    const float radius = 0.5f * max_abs(high - low);
    Random random(17);
    std::size_t missed = 0;
    for (int i = 0; i < 340000; ++i) {
      const Vec3f o = middle + 0.4f * radius * random.in_box(-1, 1);
      // A third straight at vertices, a third at edges.
      const FaceIndices& f = mesh.faces[random.below(mesh.faces.size())];
      const Vec3f a = mesh.corner(f, 0), b = mesh.corner(f, 1);
      const Vec3f d = i % 3 == 0   ? random.direction()
                      : i % 3 == 1 ? a - o
                                   : a + random.uniform() * (b - a) - o;
      missed += !tracer.closest(o, d, 0, INFINITY).valid();
    }
    EXPECT_EQ(missed, 0u) << mesh.name;
  }
}

TEST(Bvh8, BadInputIsNamed) {
  TestMesh mesh = cloud(4, 0.1f, 1);
  const std::vector<std::uint8_t> all(4, 1), three(3, 1);
  EXPECT_THROW(build_bvh8(mesh.vertices, mesh.faces, three), Error);
  mesh.faces[2][1] = 12;
  try {
    build_bvh8(mesh.vertices, mesh.faces, all);
    FAIL() << "an index past the end was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("face 2"), std::string::npos) << error.what();
  }
  mesh.faces[2][1] = 1;
  mesh.vertices[1].y = NAN;
  EXPECT_THROW(build_bvh8(mesh.vertices, mesh.faces, all), Error);
}

}  // namespace
}  // namespace shardwise::testing
