#include <gtest/gtest.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cstdio>

#include "scene/embree_tracer.hpp"
#include "scene/trace_fixtures.hpp"
#include "scene/triangle_cover.hpp"

namespace shardwise::testing {
namespace {

struct Built {
  TestMesh mesh;
  std::vector<std::uint8_t> hittable;
  Bvh8 bvh;
  SceneView scene;
  EmbreeScene embree;

  explicit Built(TestMesh m, int threads = 1)
      : mesh(std::move(m)),
        hittable(mesh.hittable()),
        bvh(build_bvh8(mesh.vertices, mesh.faces, hittable)),
        scene(view_of(bvh)),
        embree(built_with(threads, scene)) {}

  /// Embree builds in the caller's arena.
  static EmbreeScene built_with(int threads, const SceneView& view) {
    return tbb::task_arena(threads).execute([&] { return EmbreeScene(view); });
  }
  EmbreeTracer ranked(std::uint64_t* fallbacks = nullptr) const { return {scene, &embree, fallbacks}; }
  BvhTracer body() const { return {scene}; }
};

std::vector<TestMesh> meshes() {
  std::vector<TestMesh> all{cloud(600, 0.2f, 1),
                            cloud(300, 2.0f, 2),
                            grid(16),
                            boxes(60, 3),
                            ball(2),
                            duplicated(cloud(300, 0.3f, 4)),
                            duplicated(grid(8)),
                            duplicated(boxes(20, 5))};
  const std::vector<TestMesh> plain = all;
  for (const TestMesh& mesh : plain) {
    all.push_back(moved(mesh, 1, {1000, -1000, 1000}));
    all.push_back(moved(mesh, 1e-3f, {0, 0, 0}));
    all.push_back(moved(mesh, 1e3f, {0, 0, 0}));
  }
  return all;
}

std::uint32_t ulps_apart(float a, float b) {
  const auto x = std::bit_cast<std::uint32_t>(a), y = std::bit_cast<std::uint32_t>(b);
  return x > y ? x - y : y - x;
}

/// True for a ray that meets the face at a grazing angle and, seen along the ray, as near to its border as
/// roundings move a ray at this size. There a cover's rim is too narrow, and Embree may pass by.
bool grazes_border(const Built& built, const TestRay& r, std::uint32_t prim) {
  const FaceIndices& f = built.mesh.faces[prim];
  const Vec3d o = to_double(r.o), d = normalized(to_double(r.d));
  RayData ray;
  if (!ray.prepare(r.o, r.d, built.scene.max_coordinate)) return false;
  Vec3d corner[3];
  for (int k = 0; k < 3; ++k) corner[k] = to_double(built.mesh.corner(f, k)) - o;
  const Vec3d n = normalized(cross(corner[1] - corner[0], corner[2] - corner[0]));
  double nearest = INFINITY;
  for (int k = 0; k < 3; ++k) {  // the distance from the ray's line to a side's line, or to its end
    const Vec3d a = corner[k], side = corner[(k + 1) % 3] - a, across = cross(side, d);
    nearest = std::min(nearest, length(cross(a, d)));
    if (length(across) > 0) nearest = std::min(nearest, std::abs(dot(a, across)) / length(across));
  }
  return std::abs(dot(n, d)) <= 0.15 && nearest <= 2.0 * ray.pad;
}

struct Difference {
  std::size_t rays = 0, hits = 0, near_ties = 0, grazing = 0;
  std::uint64_t fallbacks = 0;
};

void compare(const Built& built, const std::vector<TestRay>& rays, Difference& total) {
  Random random(8);
  const EmbreeTracer ranked = built.ranked(&total.fallbacks);
  for (const TestRay& ray : rays) {
    const float t_min = random.below(4) == 0 ? random.uniform(0, 1) : 0.0f;
    const float t_max = random.below(4) == 0 ? random.uniform(0, 3) : INFINITY;
    const Hit expected = built.body().closest(ray.o, ray.d, t_min, t_max);
    const Hit got = ranked.closest(ray.o, ray.d, t_min, t_max);
    ++total.rays;
    total.hits += expected.valid();
    if (got.valid()) {
      ASSERT_EQ(built.bvh.triangles[got.record].prim, got.prim);
    }
    if (same_hit(expected, got)) continue;
    // Embree only proposes: what it returns is never nearer than the winner.
    ASSERT_TRUE(expected.valid());
    ASSERT_LE(expected.t, got.t);
    if (got.valid() && ulps_apart(expected.t, got.t) <= 8) {
      ++total.near_ties;
    } else {
      ASSERT_TRUE(grazes_border(built, ray, expected.prim))
          << built.mesh.name << ": o " << ray.o.x << ' ' << ray.o.y << ' ' << ray.o.z << " d " << ray.d.x
          << ' ' << ray.d.y << ' ' << ray.d.z << " in [" << t_min << ", " << t_max << "] body " << expected.t
          << " prim " << expected.prim << " u " << expected.u << " v " << expected.v << "; ranked " << got.t
          << " prim " << got.prim;
      ++total.grazing;
    }
  }
}

TEST(Embree, NastyRaysGiveTheHitsOfTheBody) {
  Difference total;
  for (const TestMesh& mesh : meshes()) {
    const Built built(mesh);
    compare(built, nasty_rays(mesh, 4000, 31), total);
    if (HasFatalFailure()) return;
  }
  std::printf("%zu rays, %zu hits: %zu near ties, %zu grazing, %llu decided by the BVH\n", total.rays,
              total.hits, total.near_ties, total.grazing, static_cast<unsigned long long>(total.fallbacks));
  EXPECT_GT(total.hits, total.rays / 4);
  EXPECT_LE(total.near_ties + total.grazing, total.rays / 100);
}

TEST(Embree, OrdinaryRaysGiveTheHitsOfTheBody) {
  Difference total;
  for (const TestMesh& mesh : {cloud(20000, 0.05f, 3), boxes(400, 9), ball(4)}) {
    const Built built(mesh);
    Random random(77);
    std::vector<TestRay> rays;
    for (int i = 0; i < 60000; ++i) rays.push_back({0.9f * random.in_box(-1, 1), random.direction()});
    compare(built, rays, total);
    if (HasFatalFailure()) return;
  }
  std::printf("%zu rays, %zu hits: %zu near ties, %zu grazing, %llu decided by the BVH\n", total.rays,
              total.hits, total.near_ties, total.grazing, static_cast<unsigned long long>(total.fallbacks));
  EXPECT_GT(total.hits, total.rays / 4);
  EXPECT_LE(total.near_ties + total.grazing, total.rays / 10000);
}

TEST(Embree, BatchesGiveTheHitsOfSingleRays) {
  Random random(91);
  std::size_t hits = 0;
  std::uint64_t decided_alone = 0, decided_together = 0;
  for (const TestMesh& mesh : meshes()) {
    const Built built(mesh);
    std::vector<TestRay> rays = nasty_rays(mesh, 3000, 92);
    for (int i = 0; i < 1000; ++i) rays.push_back({0.9f * random.in_box(-1, 1), random.direction()});
    rays.push_back({{NAN, 0, 0}, {0, 0, 1}});
    rays.push_back({{0, 0, 0}, {0, INFINITY, 1}});
    rays.push_back({{0, 0, 0}, {0, 0, 0}});
    rays.push_back({{1e8f, 0, 0}, {-1, 0, 0}});
    RayBatch batch;
    HitBatch found;
    for (std::size_t first = 0; first < rays.size();) {
      const auto count = std::min<std::size_t>(1 + random.below(RayBatch::capacity), rays.size() - first);
      const float t_min = random.below(8) == 0 ? -1.0f : random.below(3) == 0 ? random.uniform(0, 1) : 0.0f;
      for (std::size_t i = 0; i < count; ++i) {
        const int k = static_cast<int>(i);
        batch.set_origin(k, rays[first + i].o);
        batch.set_direction(k, rays[first + i].d);
        batch.t_max[i] = random.below(16) == 0  ? NAN
                         : random.below(4) == 0 ? random.uniform(-1, 3)
                                                : INFINITY;
      }
      built.ranked(&decided_together).closest(batch, static_cast<int>(count), t_min, found);
      for (std::size_t i = 0; i < count; ++i) {
        const int k = static_cast<int>(i);
        const Hit hit =
            built.ranked(&decided_alone).closest(batch.origin(k), batch.direction(k), t_min, batch.t_max[i]);
        ASSERT_EQ(found.prim[i], hit.prim) << mesh.name;
        ASSERT_EQ(found.t[i], hit.t);
        if (!hit.valid()) continue;
        ++hits;
        ASSERT_TRUE(same_hit({found.t[i], found.u[i], found.v[i], found.prim[i], found.record[i]}, hit));
        ASSERT_EQ(found.record[i], hit.record);
        ASSERT_EQ(found.corner_of(k, 0), built.scene.triangles[hit.record].v0);
        ASSERT_EQ(found.corner_of(k, 1), built.scene.triangles[hit.record].v1);
        ASSERT_EQ(found.corner_of(k, 2), built.scene.triangles[hit.record].v2);
      }
      first += count;
    }
  }
  EXPECT_GT(hits, 20000u);
  EXPECT_EQ(decided_alone, decided_together);
}

TEST(Embree, TiesGoToTheLowerId) {
  // Many copies of one triangle: more equal candidates than the query keeps, and the order is Embree's.
  for (const int copies : {2, 5, 40}) {
    TestMesh mesh;
    for (int i = 0; i < copies; ++i) mesh.add({0, 0, 2}, {1, 0, 2}, {0, 1, 2});
    for (int i = 0; i < copies; ++i) mesh.add({0, 0, 3}, {1, 0, 3}, {0, 1, 3});
    const Built built(mesh);
    const Hit hit = built.ranked().closest({0.2f, 0.3f, 0}, {0, 0, 1}, 0, INFINITY);
    EXPECT_EQ(hit.prim, 0u);
    EXPECT_EQ(hit.t, 2.0f);
    const Hit behind =
        built.ranked().closest({0.2f, 0.3f, 0}, {0, 0, 1}, std::nextafter(2.0f, 3.0f), INFINITY);
    EXPECT_EQ(behind.prim, static_cast<std::uint32_t>(copies));
  }
}

TEST(Embree, IntervalIsClosed) {
  TestMesh mesh;
  mesh.add({0, 0, 2}, {1, 0, 2}, {0, 1, 2});
  const Built built(mesh);
  const Vec3f o{0.25f, 0.25f, 0}, d{0, 0, 1};
  EXPECT_TRUE(built.ranked().closest(o, d, 2.0f, 2.0f).valid());
  EXPECT_FALSE(built.ranked().closest(o, d, std::nextafter(2.0f, 3.0f), INFINITY).valid());
  EXPECT_FALSE(built.ranked().closest(o, d, 0, std::nextafter(2.0f, 1.0f)).valid());
  EXPECT_TRUE(built.ranked().closest(o, -d, -2.0f, INFINITY).valid()) << "a negative t_min is the BVH's";
  EXPECT_FALSE(built.ranked().closest(o, d, NAN, INFINITY).valid());
  EXPECT_FALSE(built.ranked().closest(o, d, 0, NAN).valid());
  EXPECT_FALSE(built.ranked().closest(o, {NAN, 0, 1}, 0, INFINITY).valid());
  EXPECT_FALSE(built.ranked().closest(o, {0, 0, 0}, 0, INFINITY).valid());
}

TEST(Embree, ClosedBallHasNoHoles) {
  const Built built(ball(4));
  Random random(19);
  std::size_t missed = 0;
  for (int i = 0; i < 1000000; ++i) {
    const Vec3f o = 0.4f * random.in_box(-1, 1);
    const FaceIndices& f = built.mesh.faces[random.below(built.mesh.faces.size())];
    const Vec3f a = built.mesh.corner(f, 0), b = built.mesh.corner(f, 1);
    const Vec3f d = i % 3 == 0 ? random.direction() : i % 3 == 1 ? a - o : a + random.uniform() * (b - a) - o;
    missed += !built.ranked().closest(o, d, 0, INFINITY).valid();
  }
  EXPECT_EQ(missed, 0u);
}

TEST(Embree, TheBuildsThreadsDoNotShow) {
  const TestMesh mesh = duplicated(cloud(20000, 0.1f, 12));
  const Built one(mesh, 1);
  tbb::task_arena arena(2);
  arena.execute([&] {
    const Built two(mesh, 2);
    for (const TestRay& ray : nasty_rays(mesh, 20000, 6))
      ASSERT_TRUE(same_hit(one.ranked().closest(ray.o, ray.d, 0, INFINITY),
                           two.ranked().closest(ray.o, ray.d, 0, INFINITY)));
  });
}

TEST(Embree, UpdateFollowsTheVertices) {
  Built built(cloud(3000, 0.1f, 13));
  const std::size_t bytes = built.embree.memory_bytes();
  EXPECT_GT(bytes, 3000u * 12u);
  Random random(2);
  for (Vec3f& v : built.mesh.vertices) v = 10.0f * v + Vec3f{5, 0, 0} + 0.1f * random.in_box(-1, 1);
  refit_bvh8(built.bvh, built.mesh.vertices, built.mesh.faces, built.hittable);
  built.scene = view_of(built.bvh);
  built.embree.update(built.scene);
  Difference total;
  compare(built, nasty_rays(built.mesh, 3000, 14), total);
  EXPECT_GT(total.hits, 500u);
}

TEST(Embree, CoversContainTheRim) {
  Random random(21);
  for (int i = 0; i < 20000; ++i) {
    const double hair = std::ldexp(1.0, -static_cast<int>(random.below(30)));
    const Vec3d a = to_double(random.in_box(-1, 1)), b = a + to_double(random.in_box(-1, 1)),
                c = a + random.uniform() * (b - a) + hair * to_double(random.in_box(-1, 1));
    const Vec3d n = normalized(cross(b - a, c - a));
    const double rim = std::ldexp(1.0, -static_cast<int>(random.below(20)));
    const auto cover = cover_of(a, b, c, rim);
    // Points of the rim around corners and sides, 0.999 of it away.
    const Vec3d corners[3] = {a, b, c};
    const Vec3d from = corners[i % 3] + random.uniform() * (corners[(i + 1) % 3] - corners[i % 3]);
    const Vec3d side = normalized(corners[1] - corners[0]);
    const double angle = 6.2831853 * random.uniform();
    const Vec3d p = from + (0.999 * rim) * (std::cos(angle) * side + std::sin(angle) * cross(n, side));
    const Vec3d m = cross(cover[1] - cover[0], cover[2] - cover[0]);
    for (std::size_t k = 0; k < 3; ++k)
      ASSERT_GT(dot(cross(cover[(k + 1) % 3] - cover[k], p - cover[k]), m), 0.0)
          << "hair " << hair << " rim " << rim;
    for (const Vec3d& v : cover) ASSERT_LT(length(v - a), 20.0 + 20 * rim);
  }
}

TEST(Embree, EmptyScene) {
  const Built built(TestMesh{});
  EXPECT_FALSE(built.ranked().closest({0, 0, 0}, {0, 0, 1}, 0, INFINITY).valid());
}

}  // namespace
}  // namespace shardwise::testing
