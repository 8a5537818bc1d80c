#include "rays/intersect_kernel.hpp"

#include "ray_fixtures.hpp"

namespace shardwise::testing {
namespace {

struct Rays {
  std::vector<Vec3f> o, d;
  std::vector<float> tmax;
  std::vector<std::uint8_t> active;
  void add(const TestRay& ray, float limit = INFINITY, bool on = true) {
    o.push_back(ray.o);
    d.push_back(ray.d);
    tmax.push_back(limit);
    active.push_back(on);
  }
  std::size_t rows() const { return o.size(); }
  IntersectInputs inputs() const { return {o.data(), d.data(), tmax.data(), active.data()}; }
};

/// One shape over all faces of a mesh.
struct OneShape {
  std::vector<std::int32_t> shape_of_face;
  std::vector<ShapeFaces> shapes;
  FaceView view;
  explicit OneShape(const Traced& scene) : shape_of_face(scene.mesh.faces.size(), 0), shapes{{0, -1, 0}} {
    view.shape_of_face = shape_of_face.data();
    view.shapes = shapes.data();
  }
};

struct Record {
  std::vector<float> t;
  std::vector<Vec3f> p, geo_n, barycentric, n;
  std::vector<std::int32_t> shape, local, prim;
  std::vector<Vec2f> uv;
  RowCounters counters{};
};

template <class Queries>
Record intersect(const Queries& queries, const FaceView& faces, const Rays& rays) {
  // Filled with rubbish, so that a row that writes nothing shows.
  const std::size_t n = rays.rows();
  Record r{std::vector<float>(n, 7),         std::vector<Vec3f>(n, {7, 7, 7}),
           std::vector<Vec3f>(n, {7, 7, 7}), std::vector<Vec3f>(n, {7, 7, 7}),
           std::vector<Vec3f>(n, {7, 7, 7}), std::vector<std::int32_t>(n, 7),
           std::vector<std::int32_t>(n, 7),  std::vector<std::int32_t>(n, 7),
           std::vector<Vec2f>(n, {7, 7}),    {}};
  run_rows(IntersectRows<Queries>{queries,
                                  faces,
                                  rays.inputs(),
                                  {r.t.data(), r.p.data(), r.geo_n.data(), r.barycentric.data(),
                                   r.shape.data(), r.local.data(), r.prim.data(), r.n.data(), r.uv.data()},
                                  &r.counters},
           n);
  return r;
}

void expect_equal(const Record& want, const Record& got, const std::string& where) {
  EXPECT_TRUE(same_bits(want.t, got.t)) << where;
  EXPECT_TRUE(same_bits(want.p, got.p)) << where;
  EXPECT_TRUE(same_bits(want.geo_n, got.geo_n)) << where;
  EXPECT_TRUE(same_bits(want.barycentric, got.barycentric)) << where;
  EXPECT_TRUE(same_bits(want.n, got.n)) << where;
  EXPECT_EQ(want.shape, got.shape) << where;
  EXPECT_EQ(want.local, got.local) << where;
  EXPECT_EQ(want.prim, got.prim) << where;
  EXPECT_TRUE(same_bits(want.uv, got.uv)) << where;
  EXPECT_EQ(want.counters.rejected, got.counters.rejected) << where;
}

void expect_miss(const Record& r, std::size_t row) {
  EXPECT_EQ(r.t[row], INFINITY) << row;
  for (const auto* column : {&r.p, &r.geo_n, &r.barycentric, &r.n})
    EXPECT_TRUE(is_plus_zero((*column)[row])) << row;
  EXPECT_TRUE(is_plus_zero(r.uv[row].x) && is_plus_zero(r.uv[row].y)) << row;
  EXPECT_EQ(r.shape[row], -1);
  EXPECT_EQ(r.local[row], -1);
  EXPECT_EQ(r.prim[row], -1);
}

TEST(Intersect, EqualsBruteForce) {
  std::size_t hits = 0;
  for (const TestMesh& mesh : oracle_meshes()) {
    const Traced scene(mesh);
    const OneShape shape(scene);
    Random random(12);
    Rays rays;
    for (const TestRay& ray : nasty_rays(mesh, 1000, 4))
      rays.add(ray, random.below(4) == 0 ? random.uniform(0, 3) : INFINITY, random.below(9) != 0);
    const Record want = intersect(BruteQueries{scene.view}, shape.view, rays);
    expect_equal(want, intersect(BvhQueries{scene.view}, shape.view, rays), mesh.name);
    for (std::size_t i = 0; i < rays.rows(); ++i) {
      if (want.prim[i] < 0) {
        expect_miss(want, i);
        continue;
      }
      ++hits;
      EXPECT_EQ(want.geo_n[i], scene.normal_of(want.prim[i]));
      EXPECT_EQ(want.n[i], want.geo_n[i]);
      const Vec3f b = want.barycentric[i];
      EXPECT_NEAR(b.x + b.y + b.z, 1, 1e-6);
      // Along a needle, or in a face's plane, (u, v) are not well determined.
      if (mesh.name.starts_with("slivers") || std::abs(dot(normalized(rays.d[i]), want.geo_n[i])) < 0.1f)
        continue;
      const Vec3f along = rays.o[i] + want.t[i] * rays.d[i];
      EXPECT_LE(max_abs(along - want.p[i]), 3e-5f * (scene.view.max_coordinate + max_abs(rays.o[i])))
          << mesh.name;
    }
  }
  EXPECT_GT(hits, 5000u);
}

TEST(Intersect, BadRowsMissAreCountedAndTouchNoOther) {
  const Traced scene(ball(2));
  const OneShape shape(scene);
  Random random(3);
  Rays good;
  for (int i = 0; i < 400; ++i) good.add({0.3f * random.in_box(-1, 1), random.direction()});
  const Record want = intersect(BvhQueries{scene.view}, shape.view, good);
  Rays mixed;
  std::vector<std::size_t> good_rows, bad_rows, masked_rows;
  const auto add_bad = [&](TestRay ray, float tmax) {
    bad_rows.push_back(mixed.rows());
    mixed.add(ray, tmax);
  };
  for (std::size_t i = 0; i < good.rows(); ++i) {
    const TestRay ray{good.o[i], good.d[i]};
    good_rows.push_back(mixed.rows());
    mixed.add(ray);
    TestRay broken = ray;
    const int axis = static_cast<int>(i % 3);
    const float bad = bad_numbers()[i / 3 % 3];
    switch (i % 5) {
      case 0:
        broken.o.set(axis, bad);
        add_bad(broken, INFINITY);
        break;
      case 1:
        broken.d.set(axis, bad);
        add_bad(broken, INFINITY);
        break;
      case 2:
        broken.d = i % 2 ? Vec3f{} : Vec3f{1e-23f, 0, -1e-24f};
        add_bad(broken, INFINITY);
        break;
      case 3:
        add_bad(ray, i % 2 ? NAN : (i % 4 ? 0.0f : -1.0f));
        break;
      default:
        masked_rows.push_back(mixed.rows());
        mixed.add(ray, INFINITY, false);
    }
  }
  const Record got = intersect(BvhQueries{scene.view}, shape.view, mixed);
  for (std::size_t i = 0; i < good_rows.size(); ++i) {
    ASSERT_GE(want.prim[i], 0);
    EXPECT_EQ(want.prim[i], got.prim[good_rows[i]]);
    EXPECT_EQ(want.t[i], got.t[good_rows[i]]);
    EXPECT_EQ(want.p[i], got.p[good_rows[i]]);
  }
  for (const std::size_t row : bad_rows) expect_miss(got, row);
  for (const std::size_t row : masked_rows) expect_miss(got, row);
  EXPECT_EQ(got.counters.rejected, bad_rows.size());
  EXPECT_EQ(want.counters.rejected, 0u);
  EXPECT_EQ(got.counters.flagged, 0u);
}

TEST(Intersect, EndsAndUnits) {
  TestMesh mesh{"plate", {}, {}};
  mesh.add({0, 0, 2}, {1, 0, 2}, {0, 1, 2});
  const Traced scene(mesh);
  const OneShape shape(scene);
  Rays rays;
  const Vec3f o{0.25f, 0.5f, 0}, up{0, 0, 1};
  rays.add({o, up}, 2.0f);                        // tmax is a hit
  rays.add({o, up}, std::nextafter(2.0f, 0.0f));  // not any more
  rays.add({o, 8.0f * up});                       // t in units of |d|
  rays.add({{0.25f, 0.5f, 2}, up});               // an origin on the surface
  rays.add({{0.25f, 0.5f, 4}, -1.0f * up});       // from behind: not turned
  const Record r = intersect(BvhQueries{scene.view}, shape.view, rays);
  EXPECT_EQ(r.t[0], 2.0f);
  EXPECT_EQ(r.p[0], (Vec3f{0.25f, 0.5f, 2}));
  EXPECT_EQ(r.barycentric[0], (Vec3f{0.25f, 0.25f, 0.5f}));
  EXPECT_EQ(r.uv[0], (Vec2f{0.25f, 0.5f}));
  EXPECT_EQ(r.geo_n[0], (Vec3f{0, 0, 1}));
  expect_miss(r, 1);
  EXPECT_EQ(r.t[2], 0.25f);
  expect_miss(r, 3);
  EXPECT_EQ(r.t[4], 2.0f);
  EXPECT_EQ(r.geo_n[4], (Vec3f{0, 0, 1}));
}

TEST(Intersect, ScalingTheDirectionScalesOnlyT) {
  const Traced scene(boxes(40, 3));
  const OneShape shape(scene);
  Rays rays, scaled;
  for (const TestRay& ray : nasty_rays(scene.mesh, 2000, 14)) {
    rays.add(ray);
    scaled.add({ray.o, 4.0f * ray.d});  // a power of two, so that nothing is rounded
  }
  const Record a = intersect(BvhQueries{scene.view}, shape.view, rays);
  const Record b = intersect(BvhQueries{scene.view}, shape.view, scaled);
  std::size_t hits = 0;
  for (std::size_t i = 0; i < rays.rows(); ++i) {
    if (a.t[i] < 1e-5f) continue;  // t_min is in units of |d|, too
    EXPECT_EQ(a.prim[i], b.prim[i]);
    EXPECT_EQ(a.t[i], 4 * b.t[i]);
    EXPECT_EQ(a.p[i], b.p[i]);
    hits += a.prim[i] >= 0;
  }
  EXPECT_GT(hits, 500u);
}

TEST(Intersect, ReducedRowsAskForNoFaces) {
  const Traced scene(ball(2));
  Random random(4);
  Rays rays;
  for (int i = 0; i < 500; ++i) rays.add({2.0f * random.in_box(-1, 1), random.direction()});
  const OneShape shape(scene);
  const Record full = intersect(BvhQueries{scene.view}, shape.view, rays);
  std::vector<float> t(rays.rows());
  IntersectRows<BvhQueries> body{BvhQueries{scene.view}, {}, rays.inputs(), {}, nullptr};
  body.out.t = t.data();
  run_rows(body, rays.rows());
  EXPECT_TRUE(same_bits(full.t, t));
}

TEST(Intersect, NoRayLeavesAClosedMesh) {
  const int count = rounds(100'000, 1'000'000);
  TestMesh both = ball(4);
  const Traced scene(moved(both, 3, {10, -7, 2}));
  Random random(21);
  Rays rays;
  for (int i = 0; i < count; ++i) {
    const Vec3f o = scene.middle() + 1.5f * random.in_box(-1, 1);
    const FaceIndices& f = scene.mesh.faces[random.below(scene.mesh.faces.size())];
    const Vec3f a = scene.mesh.corner(f, 0), b = scene.mesh.corner(f, 1);
    rays.add({o, i % 3 == 0 ? random.direction() : i % 3 == 1 ? a - o : a + random.uniform() * (b - a) - o});
  }
  std::vector<float> t(rays.rows());
  IntersectRows<BvhQueries> body{BvhQueries{scene.view}, {}, rays.inputs(), {}, nullptr};
  body.out.t = t.data();
  run_rows(body, rays.rows());
  EXPECT_EQ(std::count(t.begin(), t.end(), INFINITY), 0);
}

TEST(Intersect, NormalsAndCoordinatesAreInterpolated) {
  TestMesh mesh{"plate", {}, {}};
  mesh.vertices = {{0, 0, 0}, {4, 0, 0}, {0, 4, 0}, {4, 4, 0}};
  mesh.faces = {{0, 1, 2}, {1, 3, 2}};
  const Traced scene(mesh);
  const std::vector<std::int32_t> shape_of_face{0, 1};
  const std::vector<Vec3f> normals{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, -1, 0}};
  const std::vector<Vec2f> uv{{9, 9}, {0, 0}, {1, 0}, {0, 1}};
  const std::vector<Face> face_uv{{1, 2, 3}};
  std::vector<ShapeFaces> shapes{{0, 0, 1}, {1, -1, 1}};
  FaceView faces{shape_of_face.data(), shapes.data(),  mesh.faces.data(),
                 normals.data(),       face_uv.data(), uv.data()};
  Rays rays;
  rays.add({{1, 2, 3}, {0, 0, -1}});          // face 0, weights (1/4, 1/4, 1/2)
  rays.add({{3, 3, 3}, {0, 0, -1}});          // face 1
  rays.add({{4 - 1e-4f, 2, 3}, {0, 0, -1}});  // face 1, normals of corners 1 and 3 nearly cancel
  Record r = intersect(BvhQueries{scene.view}, faces, rays);
  const Vec3f want = normalized(Vec3f{0.25f, 0.25f, 0.5f});
  EXPECT_LE(max_abs(r.n[0] - want), 1e-6f);
  EXPECT_EQ(r.uv[0], (Vec2f{0.25f, 0.5f}));
  EXPECT_EQ(r.shape[1], 1);
  EXPECT_EQ(r.local[1], 0);
  EXPECT_EQ(r.prim[1], 1);
  // Weights at (3, 3): corner 1 at (4, 0): 1/4, corner 3: 1/2, corner 2 at (0, 4): 1/4.
  EXPECT_LE(max_abs(r.n[1] - normalized(0.25f * normals[1] + 0.5f * normals[3] + 0.25f * normals[2])), 1e-6f);
  EXPECT_EQ(r.uv[1], (Vec2f{r.barycentric[1].y, r.barycentric[1].z}));
  shapes[0].smooth = shapes[1].smooth = 0;
  r = intersect(BvhQueries{scene.view}, faces, rays);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(r.n[i], (Vec3f{0, 0, 1}));
}

TEST(Intersect, NormalsThatCancelGiveTheFaces) {
  TestMesh mesh{"plate", {}, {}};
  mesh.vertices = {{0, 0, 0}, {4, 0, 0}, {0, 4, 0}};
  mesh.faces = {{0, 1, 2}};
  const Traced scene(mesh);
  const OneShape plain(scene);
  const std::vector<Vec3f> normals{{0, 0, 0}, {1, 0, 0}, {-1, 0, 0}};
  const std::vector<ShapeFaces> shapes{{0, -1, 1}};
  FaceView faces = plain.view;
  faces.shapes = shapes.data();
  faces.faces = mesh.faces.data();
  faces.vertex_normals = normals.data();
  Rays rays;
  rays.add({{1, 1, 1}, {0, 0, -1}});
  rays.add({{2, 1, 1}, {0, 0, -1}});
  const Record r = intersect(BvhQueries{scene.view}, faces, rays);
  EXPECT_EQ(r.n[0], (Vec3f{0, 0, 1}));
  EXPECT_EQ(r.n[1], (Vec3f{1, 0, 0}));
}

}  // namespace
}  // namespace shardwise::testing
