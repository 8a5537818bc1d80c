// The walks of the BVH against trying every triangle.

#include "ray_fixtures.hpp"

namespace shardwise::testing {
namespace {

std::vector<std::int32_t> some_prims(Random& random, const Traced& scene, std::size_t count) {
  std::vector<std::int32_t> prims;
  for (std::size_t i = 0; i < count; ++i)
    prims.push_back(random.below(4) == 0 ? -1
                                         : static_cast<std::int32_t>(random.below(scene.mesh.faces.size())));
  return prims;
}

TEST(RayQueries, FirstBlockerIsTheBruteForceOne) {
  std::size_t found = 0, ignored_one = 0;
  for (const TestMesh& mesh : oracle_meshes()) {
    const Traced scene(mesh);
    const BvhQueries queries{scene.view};
    const BruteQueries brute{scene.view};
    Random random(5);
    for (const TestRay& ray : nasty_rays(mesh, 800, 3)) {
      const float scale = scene.size() / std::max(max_abs(ray.d), 1e-30f);
      const float low = random.below(3) == 0 ? 0.0f : random.uniform(0, 1) * scale;
      const float high = low + random.uniform(-0.2f, 3) * scale;
      std::vector<std::int32_t> prims = some_prims(random, scene, random.below(5));
      const Hit open = brute.first_between(ray.o, ray.d, low, high, {});
      if (open.valid() && random.below(2)) prims.push_back(static_cast<std::int32_t>(open.prim));
      const IgnoreList ignore{prims.data(), static_cast<int>(prims.size())};
      const Hit want = brute.first_between(ray.o, ray.d, low, high, ignore);
      const Hit got = queries.first_between(ray.o, ray.d, low, high, ignore);
      ASSERT_TRUE(same_hit(want, got))
          << mesh.name << ": " << want.prim << " at " << want.t << ", got " << got.prim << " at " << got.t;
      ASSERT_EQ(want.valid(), queries.any_between(ray.o, ray.d, low, high, ignore)) << mesh.name;
      if (got.valid()) {
        ASSERT_EQ(scene.view.triangles[got.record].prim, got.prim);
      }
      found += want.valid();
      ignored_one += open.valid() && !same_hit(open, want);
    }
  }
  EXPECT_GT(found, 1500u);
  EXPECT_GT(ignored_one, 500u);
}

TEST(RayQueries, EndsOfTheIntervalAreOpen) {
  TestMesh mesh{"plate", {}, {}};
  mesh.add({0, 0, 2}, {1, 0, 2}, {0, 1, 2});
  const Traced scene(mesh);
  const BvhQueries queries{scene.view};
  const Vec3f o{0.25f, 0.25f, 0}, d{0, 0, 1};
  const float under = std::nextafter(2.0f, 0.0f), over = std::nextafter(2.0f, 3.0f);
  EXPECT_TRUE(queries.any_between(o, d, 0, over, {}));
  EXPECT_FALSE(queries.any_between(o, d, 0, 2, {}));
  EXPECT_TRUE(queries.any_between(o, d, under, 3, {}));
  EXPECT_FALSE(queries.any_between(o, d, 2, 3, {}));
  EXPECT_FALSE(queries.any_between(o, d, over, 3, {}));
  EXPECT_FALSE(queries.any_between(o, d, 3, 1, {}));
  EXPECT_FALSE(queries.any_between(o, d, NAN, 3, {}));
  EXPECT_FALSE(queries.any_between(o, d, 0, NAN, {}));
  EXPECT_TRUE(queries.first_between(o, d, under, over, {}).valid());
  EXPECT_EQ(next_above(0.0f), std::nextafter(0.0f, 1.0f));
  EXPECT_EQ(next_above(-0.0f), std::nextafter(0.0f, 1.0f));
  EXPECT_EQ(next_above(2.0f), over);
  EXPECT_EQ(next_below(2.0f), under);
}

TEST(RayQueries, IgnoreListsTakeAnyNumber) {
  TestMesh mesh{"plate", {}, {}};
  mesh.add({0, 0, 2}, {1, 0, 2}, {0, 1, 2});
  const Traced scene(mesh);
  const BvhQueries queries{scene.view};
  const auto blocked = [&](std::vector<std::int32_t> ids) {
    return queries.any_between({0.25f, 0.25f, 0}, {0, 0, 1}, 0, 3,
                               {ids.data(), static_cast<int>(ids.size())});
  };
  EXPECT_TRUE(blocked({}));
  EXPECT_TRUE(blocked({-1, 1, 7, INT32_MIN, INT32_MAX}));
  EXPECT_FALSE(blocked({-1, 0}));
}

TEST(RayQueries, NextHitsComeInOrderAndNoneIsLost) {
  std::size_t hits = 0, ties = 0;
  for (const TestMesh& mesh : oracle_meshes()) {
    const Traced scene(mesh);
    const BvhQueries queries{scene.view};
    for (const TestRay& r : nasty_rays(mesh, 200, 8)) {
      // All hits at once, sorted.
      std::vector<Hit> all;
      RayData ray;
      if (!ray.prepare(r.o, r.d, scene.view.max_coordinate)) continue;  // along an edge of no length
      const float high = 2.5f * scene.size() / max_abs(r.d);
      for (std::uint32_t k = 0; k < scene.view.triangle_count; ++k) {
        const BvhTriangle& t = scene.view.triangles[k];
        TriangleHit hit;
        if (intersect_triangle(ray, t.v0, t.v1, t.v2, smallest_normal_f, 3.4e38f, hit) && hit.t < high)
          all.push_back({hit.t, hit.u, hit.v, t.prim, k});
      }
      std::sort(all.begin(), all.end(),
                [](const Hit& a, const Hit& b) { return a.t < b.t || (a.t == b.t && a.prim < b.prim); });
      Hit hit = queries.first_between(r.o, r.d, 0, high, {});
      for (std::size_t k = 0; k < all.size(); ++k) {
        ASSERT_TRUE(same_hit(all[k], hit)) << mesh.name << ", hit " << k << " of " << all.size();
        ties += k > 0 && all[k].t == all[k - 1].t;
        hit = queries.next_after(r.o, r.d, hit, high);
      }
      ASSERT_FALSE(hit.valid()) << mesh.name;
      hits += all.size();
    }
  }
  EXPECT_GT(hits, 8000u);
  EXPECT_GT(ties, 500u);
}

TEST(RayQueries, RaysThatHitNothingByContract) {
  const Traced scene(ball(1));
  const BvhQueries queries{scene.view};
  for (const float bad : bad_numbers())
    for (int axis = 0; axis < 3; ++axis) {
      Vec3f o{}, d{0, 0, 1};
      o.set(axis, bad);
      EXPECT_FALSE(queries.any_between(o, {0, 0, 1}, 0, 9, {}));
      d.set(axis, bad);
      EXPECT_FALSE(queries.first_between({}, d, 0, 9, {}).valid());
      EXPECT_FALSE(queries.next_after({}, d, {0.5f, 0, 0, 0, 0}, 9).valid());
    }
  EXPECT_FALSE(queries.any_between({}, {}, 0, 9, {}));
  ASSERT_TRUE(queries.any_between({}, {0, 0, 1}, 0, 9, {}));
  const Traced empty(TestMesh{"nothing", {}, {}});
  EXPECT_FALSE(BvhQueries{empty.view}.any_between({}, {0, 0, 1}, 0, 9, {}));
}

}  // namespace
}  // namespace shardwise::testing
