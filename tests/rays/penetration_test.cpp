#include "rays/penetration_kernel.hpp"

#include "ray_fixtures.hpp"

namespace shardwise::testing {
namespace {

struct Crossings {
  std::size_t slots;
  std::vector<std::int32_t> count;
  std::vector<std::uint8_t> reached, overflow;
  std::vector<float> distance;
  std::vector<Vec3f> direction;
  std::vector<std::uint8_t> valid;
  std::vector<float> t;
  std::vector<Vec3f> position, shading, normal;
  std::vector<std::int32_t> prim;
  RowCounters counters{};
};

template <class Queries>
Crossings cross_all(const Queries& queries, const Traced& scene, const std::vector<Vec3f>& a,
                    const std::vector<Vec3f>& b, int capacity, const std::uint8_t* active = nullptr) {
  const std::size_t n = a.size(), all = n * static_cast<std::size_t>(capacity);
  const Vec3f rubbish{7, 7, 7};
  Crossings c{static_cast<std::size_t>(capacity),
              std::vector<std::int32_t>(n, 7),
              std::vector<std::uint8_t>(n, 7),
              std::vector<std::uint8_t>(n, 7),
              std::vector<float>(n, 7),
              std::vector<Vec3f>(n, rubbish),
              std::vector<std::uint8_t>(all, 7),
              std::vector<float>(all, 7),
              std::vector<Vec3f>(all, rubbish),
              std::vector<Vec3f>(all, rubbish),
              std::vector<Vec3f>(all, rubbish),
              std::vector<std::int32_t>(all, 7),
              {}};
  const std::vector<std::int32_t> shape_of_face(scene.mesh.faces.size(), 0);
  const std::vector<ShapeFaces> shapes{{0, -1, 0}};
  FaceView faces;
  faces.shape_of_face = shape_of_face.data();
  faces.shapes = shapes.data();
  run_rows(PenetrationRows<Queries>{queries,
                                    faces,
                                    {a.data(), b.data(), active},
                                    {c.count.data(), c.reached.data(), c.overflow.data(), c.distance.data(),
                                     c.direction.data(), c.valid.data(), c.t.data(), c.position.data(),
                                     c.shading.data(), c.normal.data(), c.prim.data()},
                                    capacity,
                                    &c.counters},
           n);
  return c;
}

/// All hits strictly inside, sorted, those on a border of a face that already counts left out.
std::vector<Hit> reference(const Traced& scene, Vec3f x, Vec3f y) {
  std::vector<Hit> all, kept;
  const Vec3d e = to_double(y) - to_double(x);
  const double exact = std::sqrt(dot(e, e));
  const float near = scene.view.offset_at(x), far = static_cast<float>(exact) - scene.view.offset_at(y);
  RayData ray;
  if (!(near < far) || !ray.prepare(x, to_float(e * (1 / exact)), scene.view.max_coordinate)) return {};
  for (std::uint32_t k = 0; k < scene.view.triangle_count; ++k) {
    const BvhTriangle& t = scene.view.triangles[k];
    TriangleHit hit;
    if (intersect_triangle(ray, t.v0, t.v1, t.v2, -3.4e38f, 3.4e38f, hit) && hit.t > near && hit.t < far)
      all.push_back({hit.t, hit.u, hit.v, t.prim, k});
  }
  std::sort(all.begin(), all.end(),
            [](const Hit& a, const Hit& b) { return a.t < b.t || (a.t == b.t && a.prim < b.prim); });
  for (const Hit& hit : all) {
    const auto same = [&](const Hit& other) {
      const float scale = std::max({scene.view.max_coordinate, max_abs(x), hit.t});
      if (hit.t - other.t > 4 * 0x1p-23f * scale) return false;
      const auto corners = [&](const Hit& h) {
        const BvhTriangle& t = scene.view.triangles[h.record];
        return std::vector<std::pair<Vec3f, float>>{{t.v0, 1 - h.u - h.v}, {t.v1, h.u}, {t.v2, h.v}};
      };
      const auto common = [&](const Hit& h, const Hit& other_hit) {
        int count = 0, index = 0;
        bool on_border = true;
        for (const auto& [p, weight] : corners(h)) {
          bool found = false;
          for (const auto& entry : corners(other_hit)) found = found || entry.first == p;
          count += found;
          on_border = on_border && (found || std::abs(weight) <= (index == 0 ? 0x1p-22f : 0.0f));
          ++index;
        }
        return on_border ? count : 0;
      };
      const int shared = common(hit, other);
      return (shared == 1 || shared == 2) && common(other, hit) > 0;
    };
    if (std::none_of(kept.begin(), kept.end(), same)) kept.push_back(hit);
  }
  return kept;
}

std::vector<std::pair<Vec3f, Vec3f>> segments_through(const Traced& scene, int count, std::uint64_t seed) {
  std::vector<std::pair<Vec3f, Vec3f>> result;
  Random random(seed);
  for (const TestRay& ray : nasty_rays(scene.mesh, count, seed))
    result.push_back({ray.o, ray.o + (random.uniform(0.3f, 2.5f) * scene.size()) * normalized(ray.d)});
  return result;
}

TEST(Penetration, EqualsBruteForce) {
  std::size_t crossings = 0, overflows = 0;
  for (const TestMesh& mesh : oracle_meshes()) {
    const Traced scene(mesh);
    std::vector<Vec3f> a, b;
    for (const auto& [from, to] : segments_through(scene, 400, 18)) a.push_back(from), b.push_back(to);
    const int capacity = 6;
    const Crossings got = cross_all(BvhQueries{scene.view}, scene, a, b, capacity);
    const Crossings brute = cross_all(BruteQueries{scene.view}, scene, a, b, capacity);
    EXPECT_TRUE(same_bits(got.t, brute.t) && same_bits(got.position, brute.position)) << mesh.name;
    std::uint64_t flagged = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::vector<Hit> want = reference(scene, a[i], b[i]);
      const bool over = want.size() > capacity;
      ASSERT_EQ(got.count[i], static_cast<std::int32_t>(std::min<std::size_t>(want.size(), capacity)))
          << mesh.name << " row " << i;
      EXPECT_EQ(got.overflow[i], over);
      EXPECT_EQ(got.reached[i], !over);
      flagged += over;
      EXPECT_NEAR(got.distance[i], length(to_double(b[i]) - to_double(a[i])), 1e-6 * scene.size());
      for (std::size_t k = 0; k < capacity; ++k) {
        const std::size_t slot = i * capacity + k;
        if (k >= want.size()) {
          EXPECT_EQ(got.valid[slot], 0);
          EXPECT_EQ(got.t[slot], INFINITY);
          EXPECT_EQ(got.prim[slot], -1);
          EXPECT_TRUE(is_plus_zero(got.position[slot]) && is_plus_zero(got.normal[slot]) &&
                      is_plus_zero(got.shading[slot]));
          continue;
        }
        ASSERT_EQ(got.valid[slot], 1);
        ASSERT_EQ(got.t[slot], want[k].t) << mesh.name;
        ASSERT_EQ(got.prim[slot], static_cast<std::int32_t>(want[k].prim)) << mesh.name;
        EXPECT_EQ(got.normal[slot], scene.normal_of(got.prim[slot]));
        EXPECT_EQ(got.shading[slot], got.normal[slot]);
        ++crossings;
      }
    }
    EXPECT_EQ(got.counters.flagged, flagged);
    EXPECT_EQ(got.counters.rejected, 0u);
    overflows += flagged;
  }
  EXPECT_GT(crossings, 8000u);
  EXPECT_GT(overflows, 50u);
}

/// Into and out of closed surfaces: an odd number of crossings where one end is inside. Segments aim at
/// corners, edges and faces.
TEST(Penetration, CrossingsTellInsideFromOutside) {
  const int count = rounds(6000, 200'000);
  for (const TestMesh& mesh : {ball(3), moved(ball(3), 1, {100, -100, 50}), moved(ball(2), 1e-3f, {0, 0, 0}),
                               moved(ball(3), 1e3f, {0, 0, 0})}) {
    const Traced scene(mesh);
    const float radius = 0.5f * scene.size();
    Random random(4);
    std::vector<Vec3f> a, b;
    std::vector<int> want;
    for (int i = 0; i < count; ++i) {
      const Vec3f inside = scene.middle() + 0.4f * radius * random.in_box(-1, 1);
      const FaceIndices& f = mesh.faces[random.below(mesh.faces.size())];
      const Vec3f corner = mesh.corner(f, 0), other = mesh.corner(f, 1);
      const Vec3f aim = i % 3 == 0   ? scene.middle() + radius * random.direction()
                        : i % 3 == 1 ? corner
                                     : corner + random.uniform() * (other - corner);
      if (i % 10 == 9) {  // past it or through it, outside at both ends
        const Vec3f far = scene.middle() + 3.0f * radius * random.direction();
        const Vec3f at = scene.middle() + 1.02f * radius * random.direction();
        a.push_back(far), b.push_back(far + 5.0f * radius / length(at - far) * (at - far));
        want.push_back(-1);
        continue;
      }
      const Vec3f outside = inside + 4.0f * radius / length(aim - inside) * (aim - inside);
      switch (i / 3 % 3) {
        case 0:
          a.push_back(inside), b.push_back(outside);
          want.push_back(1);
          break;
        case 1:
          a.push_back(outside), b.push_back(inside);
          want.push_back(1);
          break;
        default:  // through the middle of it and out at the other side
          a.push_back(outside), b.push_back(inside - (outside - inside));
          want.push_back(2);
      }
    }
    const Crossings got = cross_all(BvhQueries{scene.view}, scene, a, b, 8);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
      wrong += want[i] < 0 ? got.count[i] % 2 : got.count[i] != want[i];
    EXPECT_EQ(wrong, 0u) << mesh.name << ", of " << a.size();
  }
}

TEST(Penetration, ManyClosedBodies) {
  // Disjoint boxes in a row, each crossed twice.
  TestMesh mesh{"row of boxes", {}, {}};
  for (int k = 0; k < 7; ++k)
    add_box(mesh, {2.0f * static_cast<float>(k), -1, -1}, {2.0f * static_cast<float>(k) + 1, 1, 1});
  const Traced scene(mesh);
  Random random(2);
  std::vector<Vec3f> a, b;
  for (int i = 0; i < 500; ++i) {
    // Among them through diagonals (y = z) and middle lines of the squares.
    const float y = random.uniform(-0.9f, 0.9f), z = i % 3 == 0   ? y
                                                     : i % 3 == 1 ? -y
                                                                  : random.uniform(-0.9f, 0.9f);
    a.push_back({-1, y, z});
    b.push_back({20, y, z});
  }
  const Crossings c = cross_all(BvhQueries{scene.view}, scene, a, b, 14);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(c.count[i], 14) << i;
    EXPECT_EQ(c.overflow[i], 0);
    for (std::size_t k = 0; k < 14; ++k) EXPECT_NEAR(c.t[14 * i + k], static_cast<float>(k + 1), 1e-4);
    EXPECT_EQ(c.direction[i], (Vec3f{1, 0, 0}));
    EXPECT_EQ(c.distance[i], 21.0f);
  }
  const Crossings few = cross_all(BvhQueries{scene.view}, scene, a, b, 13);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(few.count[i], 13);
    EXPECT_EQ(few.overflow[i], 1);
    EXPECT_EQ(few.reached[i], 0);
    for (std::size_t k = 0; k < 13; ++k) EXPECT_EQ(few.prim[13 * i + k], c.prim[14 * i + k]);
  }
  EXPECT_EQ(few.counters.flagged, a.size());
}

TEST(Penetration, FacesOnTopOfEachOtherCountEach) {
  TestMesh mesh{"twice", {}, {}};
  add_box(mesh, {0, 0, 0}, {1, 1, 1});
  add_box(mesh, {0, 0, 0}, {1, 1, 1});
  const Traced scene(mesh);
  const std::vector<Vec3f> a{{-1, 0.3f, 0.6f}, {-1, 0.5f, 0.5f}, {0.5f, 0.3f, 0.6f}},
      b{{2, 0.3f, 0.6f}, {2, 0.5f, 0.5f}, {2, 0.3f, 0.6f}};
  const Crossings c = cross_all(BvhQueries{scene.view}, scene, a, b, 8);
  EXPECT_EQ(c.count, (std::vector<std::int32_t>{4, 4, 2}));
}

TEST(Penetration, CapacityZeroAndShortSegments) {
  TestMesh mesh{"box", {}, {}};
  add_box(mesh, {0, 0, 0}, {1, 1, 1});
  const Traced scene(mesh);
  const std::vector<Vec3f> a{{-1, 0.3f, 0.6f}, {-1, 0.3f, 0.6f}, {-1, 0.3f, 0.6f}, {0, 0.3f, 0.6f}},
      b{{2, 0.3f, 0.6f}, {-0.5f, 0.3f, 0.6f}, {-1, 0.3f, 0.6f}, {1e-9f, 0.3f, 0.6f}};
  const Crossings c = cross_all(BvhQueries{scene.view}, scene, a, b, 0);
  EXPECT_EQ(c.count, (std::vector<std::int32_t>{0, 0, 0, 0}));
  EXPECT_EQ(c.overflow, (std::vector<std::uint8_t>{1, 0, 0, 0}));
  EXPECT_EQ(c.reached, (std::vector<std::uint8_t>{0, 1, 1, 1}));
  EXPECT_EQ(c.distance[2], 0.0f);
  EXPECT_TRUE(is_plus_zero(c.direction[2]));
  EXPECT_EQ(c.distance[3], 1e-9f);
  EXPECT_EQ(c.counters.rejected, 0u);
}

TEST(Penetration, BadRowsAreEmptyAndTouchNoOther) {
  const Traced scene(ball(2));
  std::vector<Vec3f> a, b;
  std::vector<std::uint8_t> active;
  std::uint64_t bad_rows = 0;
  for (int end = 0; end < 2; ++end)
    for (const float bad : bad_numbers())
      for (int axis = 0; axis < 3; ++axis) {
        a.insert(a.end(), 2, {-3, 0.1f, 0.2f});
        b.insert(b.end(), 2, {3, 0.1f, 0.2f});
        (end ? a : b).back().set(axis, bad);
        active.insert(active.end(), {1, 1});
        ++bad_rows;
      }
  a.insert(a.end(), 2, {-3, 0.1f, 0.2f});
  b.insert(b.end(), 2, {3, 0.1f, 0.2f});
  active.insert(active.end(), {1, 0});
  const Crossings c = cross_all(BvhQueries{scene.view}, scene, a, b, 4, active.data());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (i % 2 == 0) {
      EXPECT_EQ(c.count[i], 2);
      EXPECT_EQ(c.reached[i], 1);
      continue;
    }
    EXPECT_EQ(c.count[i], 0);
    EXPECT_EQ(c.reached[i], 0);
    EXPECT_EQ(c.overflow[i], 0);
    EXPECT_EQ(c.distance[i], INFINITY);
    EXPECT_TRUE(is_plus_zero(c.direction[i]));
    for (std::size_t k = 0; k < 4; ++k) {
      EXPECT_EQ(c.valid[4 * i + k], 0);
      EXPECT_EQ(c.t[4 * i + k], INFINITY);
      EXPECT_EQ(c.prim[4 * i + k], -1);
    }
  }
  EXPECT_EQ(c.counters.rejected, bad_rows);
}

}  // namespace
}  // namespace shardwise::testing
