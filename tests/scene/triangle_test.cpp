#include <gtest/gtest.h>

#include "scene/trace_fixtures.hpp"

namespace shardwise::testing {
namespace {

const Vec3f v0{0, 0, 2}, v1{1, 0, 2}, v2{0, 1, 2};

bool test(Vec3f o, Vec3f d, float t_min, float t_max, TriangleHit& hit) {
  RayData ray;
  return ray.prepare(o, d, 2.0f) && intersect_triangle(ray, v0, v1, v2, t_min, t_max, hit);
}

TEST(Triangle, IntervalIsClosed) {
  TriangleHit hit;
  const Vec3f o{0.25f, 0.25f, 0}, d{0, 0, 1};
  ASSERT_TRUE(test(o, d, 2.0f, 2.0f, hit));
  EXPECT_EQ(hit.t, 2.0f);
  EXPECT_FALSE(test(o, d, std::nextafter(2.0f, 3.0f), 10.0f, hit));
  EXPECT_FALSE(test(o, d, 0.0f, std::nextafter(2.0f, 1.0f), hit));
  EXPECT_FALSE(test(o, d, NAN, 10.0f, hit));
  EXPECT_FALSE(test(o, d, 0.0f, NAN, hit));
}

TEST(Triangle, BothSidesAndBorders) {
  TriangleHit hit;
  EXPECT_TRUE(test({0.25f, 0.25f, 4}, {0, 0, -1}, 0, 10, hit));
  for (const Vec3f p : {v0, v1, v2, 0.5f * (v0 + v1), 0.5f * (v1 + v2), 0.5f * (v2 + v0)}) {
    EXPECT_TRUE(test({p.x, p.y, 0}, {0, 0, 1}, 0, 10, hit));
    EXPECT_EQ(hit.t, 2.0f);
  }
  EXPECT_FALSE(test({-1e-6f, 0.5f, 0}, {0, 0, 1}, 0, 10, hit));
  EXPECT_FALSE(test({0.5f, 0.50001f, 0}, {0, 0, 1}, 0, 10, hit));
  EXPECT_FALSE(test({-1, 0.25f, 2}, {1, 0, 0}, 0, 10, hit)) << "a ray in the plane hits nothing";
}

TEST(Triangle, WeightsNameThePoint) {
  Random random(5);
  int hits = 0;
  for (int i = 0; i < 20000; ++i) {
    const Vec3f a = random.in_box(-1, 1), b = random.in_box(-1, 1), c = random.in_box(-1, 1);
    const Vec3f o = 3.0f * random.in_box(-1, 1);
    const float s = random.uniform(), r = random.uniform();
    const Vec3f target = a + s * (b - a) + r * (1 - s) * (c - a);
    RayData ray;
    TriangleHit hit;
    ASSERT_TRUE(ray.prepare(o, target - o, 1.0f));
    const Vec3d normal = cross(to_double(b - a), to_double(c - a));
    const double cosine =
        dot(normal, to_double(target - o)) / (length(normal) * length(to_double(target - o)));
    if (std::abs(cosine) < 0.1 || length(normal) < 0.1) continue;
    if (!intersect_triangle(ray, a, b, c, 0, 10, hit)) continue;
    ++hits;
    EXPECT_NEAR(hit.t, 1.0, 2e-4);
    EXPECT_NEAR(hit.u, s, 2e-4);
    EXPECT_NEAR(hit.v, r * (1 - s), 2e-4);
  }
  EXPECT_GT(hits, 10000);
}

TEST(Triangle, TScalesWithTheDirection) {
  Random random(6);
  int hits = 0;
  for (int i = 0; i < 5000; ++i) {
    const Vec3f o = random.in_box(-1, 1), target{random.uniform(0, 0.7f), random.uniform(0, 0.7f), 2};
    TriangleHit hit, scaled;
    if (!test(o, target - o, 0, 10, hit)) continue;
    ++hits;
    for (const float power : {0x1p-40f, 0.5f, 0x1p40f}) {
      ASSERT_TRUE(test(o, power * (target - o), 0, 3e38f, scaled));
      EXPECT_EQ(scaled.t, hit.t / power) << "a power of two changes the exponent only";
      EXPECT_EQ(scaled.u, hit.u);
    }
    if (hit.u < 1e-5f || hit.v < 1e-5f || hit.u + hit.v > 0.99999f) continue;
    ASSERT_TRUE(test(o, 3.0f * (target - o), 0, 10, scaled));
    EXPECT_NEAR(3 * scaled.t, hit.t, 1e-6f);
  }
  EXPECT_GT(hits, 1000);
}

TEST(Triangle, TStaysInTheReferenceInterval) {
  // Needles seen edge-on: T / det alone leaves the triangle's bounds.
  const TestMesh mesh = slivers(400, 9);
  std::size_t hits = 0;
  for (const TestRay& r : nasty_rays(mesh, 4000, 10)) {
    RayData ray;
    if (!ray.prepare(r.o, r.d, 3.0f)) continue;
    for (const FaceIndices& f : mesh.faces) {
      const Vec3f a = mesh.corner(f, 0), b = mesh.corner(f, 1), c = mesh.corner(f, 2);
      TriangleHit hit;
      if (!intersect_triangle(ray, a, b, c, -1e30f, 1e30f, hit)) continue;
      float near, far;
      reference_interval(ray, a, b, c, near, far);
      EXPECT_LE(near, hit.t);
      EXPECT_LE(hit.t, far);
      ++hits;
    }
  }
  EXPECT_GT(hits, 1000u);
}

TEST(Triangle, NonFiniteCornersNeverHit) {
  RayData ray;
  ASSERT_TRUE(ray.prepare({0.1f, 0.1f, 0}, {0, 0, 1}, 2.0f));
  TriangleHit hit;
  for (const float bad : {NAN, INFINITY, -INFINITY})
    for (int axis = 0; axis < 3; ++axis) {
      Vec3f corner = v1;
      corner.set(axis, bad);
      EXPECT_FALSE(intersect_triangle(ray, v0, corner, v2, 0, 1e30f, hit));
    }
}

}  // namespace
}  // namespace shardwise::testing
