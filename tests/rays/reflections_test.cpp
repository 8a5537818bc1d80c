#include "rays/reflections_kernel.hpp"

#include "ray_fixtures.hpp"

namespace shardwise::testing {
namespace {

struct Chains {
  std::size_t rows, slots;
  std::vector<std::uint8_t> valid;
  std::vector<float> t;
  std::vector<std::int32_t> prims, shapes, locals, count;
  std::vector<Vec3f> images, points, normals;
  std::vector<float> trailing_t;
  std::vector<std::int32_t> trailing_prim;
  std::vector<Vec3f> trailing_direction, trailing_origin;
  RowCounters counters{};

  Chains(std::size_t n, int bounces) : rows(n), slots(static_cast<std::size_t>(bounces)) {
    const std::size_t all = n * slots;
    valid.assign(all, 7), t.assign(all, 7), prims.assign(all, 7), shapes.assign(all, 7),
        locals.assign(all, 7);
    images.assign(all, {7, 7, 7}), points = normals = images;
    count.assign(n, 7), trailing_t.assign(n, 7), trailing_prim.assign(n, 7);
    trailing_direction.assign(n, {7, 7, 7}), trailing_origin = trailing_direction;
  }
  ReflectionOutputs outputs() {
    return {valid.data(),          t.data(),          prims.data(),         images.data(),
            count.data(),          points.data(),     normals.data(),       shapes.data(),
            locals.data(),         trailing_t.data(), trailing_prim.data(), trailing_direction.data(),
            trailing_origin.data()};
  }
};

struct Faces {
  std::vector<std::int32_t> shape_of_face;
  std::vector<ShapeFaces> shapes{{0, -1, 0}, {10, -1, 0}};
  FaceView view;
  explicit Faces(std::size_t count) : shape_of_face(count, 0) {
    for (std::size_t f = 10; f < count; ++f) shape_of_face[f] = 1;
    view.shape_of_face = shape_of_face.data();
    view.shapes = shapes.data();
  }
};

template <class Queries>
Chains reflect(const Queries& queries, const Traced& scene, const std::vector<TestRay>& rays, int bounces,
               const float* tmax = nullptr, const std::uint8_t* active = nullptr) {
  std::vector<Vec3f> o, d;
  for (const TestRay& ray : rays) o.push_back(ray.o), d.push_back(ray.d);
  Chains chains(rays.size(), bounces);
  const Faces faces(scene.mesh.faces.size());
  run_rows(ReflectionRows<Queries>{queries,
                                   faces.view,
                                   {o.data(), d.data(), tmax, active},
                                   chains.outputs(),
                                   bounces,
                                   &chains.counters},
           rays.size());
  return chains;
}

/// A closed room with boxes in it.
TestMesh room() {
  TestMesh mesh = boxes(30, 5);
  add_box(mesh, {-1.5f, -1.6f, -0.51f}, {1.7f, 1.4f, 1.2f});
  mesh.name = "room";
  return mesh;
}

std::vector<TestRay> rays_inside(const Traced& scene, int count, std::uint64_t seed) {
  Random random(seed);
  std::vector<TestRay> rays;
  for (int i = 0; i < count; ++i)
    rays.push_back({scene.middle() + 0.2f * scene.size() * random.in_box(-1, 1),
                    random.uniform(0.5f, 4) * random.direction()});
  return rays;
}

TEST(Reflections, EqualBruteForce) {
  std::size_t bounces = 0;
  for (const TestMesh& mesh : {room(), moved(room(), 1e-3f, {0, 0, 0}), moved(room(), 1, {1000, 1000, -1000}),
                               cloud(300, 0.4f, 1), slivers(150, 4), duplicated(ball(1))}) {
    const Traced scene(mesh);
    std::vector<TestRay> rays = nasty_rays(mesh, 400, 2);
    for (const TestRay& ray : rays_inside(scene, 200, 3)) rays.push_back(ray);
    const Chains want = reflect(BruteQueries{scene.view}, scene, rays, 4);
    const Chains got = reflect(BvhQueries{scene.view}, scene, rays, 4);
    EXPECT_EQ(want.valid, got.valid) << mesh.name;
    EXPECT_EQ(want.prims, got.prims) << mesh.name;
    EXPECT_TRUE(same_bits(want.t, got.t)) << mesh.name;
    EXPECT_TRUE(same_bits(want.images, got.images)) << mesh.name;
    EXPECT_TRUE(same_bits(want.points, got.points)) << mesh.name;
    EXPECT_TRUE(same_bits(want.trailing_t, got.trailing_t)) << mesh.name;
    EXPECT_EQ(want.trailing_prim, got.trailing_prim) << mesh.name;
    for (const auto v : want.valid) bounces += v;
  }
  EXPECT_GT(bounces, 3000u);
}

/// |y - I_b| is the length of the unfolded path to any y on the segment after bounce b; angles are equal;
/// chains are gapless; what follows the last bounce is the trailing segment.
TEST(Reflections, ImagesAnglesAndLengths) {
  for (const TestMesh& mesh :
       {room(), ball(2), moved(room(), 100, {0, 0, 0}), moved(room(), 1e-2f, {0, 0, 0})}) {
    const Traced scene(mesh);
    const std::vector<TestRay> rays = rays_inside(scene, 500, 23);
    constexpr int bounces = 5;
    const Chains chains = reflect(BvhQueries{scene.view}, scene, rays, bounces);
    const float size = scene.size();
    std::size_t checked = 0;
    for (std::size_t i = 0; i < rays.size(); ++i) {
      ASSERT_EQ(chains.count[i], bounces) << mesh.name << ": a ray got out of a closed room";
      const double unit = length(to_double(rays[i].d));
      double path = 0;
      Vec3f from = rays[i].o;
      Vec3d direction = normalized(to_double(rays[i].d));
      for (std::size_t b = 0; b < bounces; ++b) {
        const std::size_t slot = i * bounces + b;
        const Vec3f hit = chains.points[slot], normal = chains.normals[slot];
        const double leg = length(to_double(hit) - to_double(from));
        EXPECT_NEAR(chains.t[slot] * unit, leg, 2e-5 * size);
        path += leg;
        EXPECT_LE(dot(direction, to_double(normal)), 0);
        EXPECT_NEAR(std::abs(dot(normal, scene.normal_of(chains.prims[slot]))), 1, 1e-6);
        const Vec3f next = b + 1 < bounces ? chains.points[slot + 1]
                                           : from + 0.0f * from;  // replaced below by the trailing segment
        Vec3d outgoing = normalized(to_double(next) - to_double(hit));
        if (b + 1 == bounces) outgoing = normalized(to_double(chains.trailing_direction[i]));
        // Legs that are short against the offset have no direction to speak of.
        const double ahead = b + 1 < bounces ? length(to_double(next) - to_double(hit)) : size;
        const double slack =
            1e-5 + 3.0 * static_cast<double>(scene.view.offset_at(hit)) * (1 / ahead + 1 / leg);
        EXPECT_NEAR(dot(direction, to_double(normal)), -dot(outgoing, to_double(normal)), slack);
        // Mirrored at b: what comes before the next bounce is as far from the image as along the path.
        const Vec3d y = to_double(hit) + 0.37 * size * outgoing;
        EXPECT_NEAR(length(y - to_double(chains.images[slot])), path + 0.37 * size, size * (1e-4 + slack))
            << mesh.name << " bounce " << b;
        direction = outgoing;
        from = hit;
        ++checked;
      }
      EXPECT_EQ(chains.trailing_origin[i], from);
      ASSERT_GE(chains.trailing_prim[i], 0);
      EXPECT_NEAR(length(chains.trailing_direction[i]), unit, 1e-5 * unit);
    }
    EXPECT_EQ(checked, rays.size() * bounces);
  }
}

TEST(Reflections, ImagesDependOnOriginAndFacesOnly) {
  const Traced scene(room());
  Random random(5);
  std::vector<TestRay> rays;
  const Vec3f o = scene.middle();
  for (int i = 0; i < 4000; ++i) rays.push_back({o, random.direction()});
  const Chains chains = reflect(BvhQueries{scene.view}, scene, rays, 3);
  std::map<std::vector<std::int32_t>, Vec3f> image_of;
  std::size_t again = 0;
  for (std::size_t i = 0; i < rays.size(); ++i) {
    const auto* prims = chains.prims.data() + 3 * i;
    const auto [found, added] =
        image_of.emplace(std::vector<std::int32_t>(prims, prims + 3), chains.images[3 * i + 2]);
    if (added) continue;
    ++again;
    EXPECT_EQ(std::memcmp(&found->second, &chains.images[3 * i + 2], sizeof(Vec3f)), 0);
  }
  EXPECT_GT(again, 1000u);
}

TEST(Reflections, KnownCorner) {
  // Two mirrors x = 0 and y = 0: a corner turns a ray round.
  TestMesh mesh{"corner", {}, {}};
  mesh.add({0, 0, -9}, {0, 9, -9}, {0, 0, 9});
  mesh.add({0, 0, -9}, {0, 0, 9}, {9, 0, -9});
  const Traced scene(mesh);
  const std::vector<TestRay> rays{{{2, 1, -1}, {-2, -0.5f, 0}}};
  const Chains c = reflect(BvhQueries{scene.view}, scene, rays, 4);
  EXPECT_EQ(c.count[0], 2);
  EXPECT_EQ(c.valid, (std::vector<std::uint8_t>{1, 1, 0, 0}));
  EXPECT_EQ(c.prims, (std::vector<std::int32_t>{0, 1, -1, -1}));
  EXPECT_NEAR(c.t[0], 1, 1e-6);
  EXPECT_NEAR(c.t[1], 1, 1e-4);  // (0, 0.5) to (2, 0), moved sideways by the offset
  EXPECT_EQ(c.t[2], INFINITY);
  EXPECT_EQ(c.points[0], (Vec3f{0, 0.5f, -1}));
  EXPECT_EQ(c.normals[0], (Vec3f{1, 0, 0}));
  EXPECT_EQ(c.normals[1], (Vec3f{0, 1, 0}));
  EXPECT_EQ(c.images[0], (Vec3f{-2, 1, -1}));
  EXPECT_EQ(c.images[1], (Vec3f{-2, -1, -1}));
  for (std::size_t slot : {2u, 3u}) {
    EXPECT_TRUE(is_plus_zero(c.images[slot]) && is_plus_zero(c.points[slot]) &&
                is_plus_zero(c.normals[slot]));
    EXPECT_EQ(c.shapes[slot], -1);
    EXPECT_EQ(c.locals[slot], -1);
  }
  EXPECT_EQ(c.trailing_t[0], INFINITY);
  EXPECT_EQ(c.trailing_prim[0], -1);
  EXPECT_LE(max_abs(c.trailing_direction[0] - Vec3f{2, 0.5f, 0}), 1e-6f);
}

TEST(Reflections, ShapesOfHits) {
  const Traced scene(room());
  const Chains c = reflect(BvhQueries{scene.view}, scene, rays_inside(scene, 300, 2), 3);
  std::size_t second = 0;
  for (std::size_t slot = 0; slot < c.prims.size(); ++slot) {
    if (!c.valid[slot]) continue;
    EXPECT_EQ(c.shapes[slot], c.prims[slot] >= 10);
    EXPECT_EQ(c.locals[slot], c.prims[slot] - (c.shapes[slot] ? 10 : 0));
    second += static_cast<std::size_t>(c.shapes[slot]);
  }
  EXPECT_GT(second, 100u);
}

TEST(Reflections, TmaxEndsTheFirstLegOnly) {
  const Traced scene(room());
  const std::vector<TestRay> rays = rays_inside(scene, 300, 40);
  const Chains open = reflect(BvhQueries{scene.view}, scene, rays, 3);
  std::vector<float> tmax;
  for (std::size_t i = 0; i < rays.size(); ++i) tmax.push_back(open.t[3 * i] * (i % 2 ? 1.01f : 0.99f));
  const Chains cut = reflect(BvhQueries{scene.view}, scene, rays, 3, tmax.data());
  for (std::size_t i = 0; i < rays.size(); ++i) {
    EXPECT_EQ(cut.count[i], i % 2 ? 3 : 0);
    if (i % 2) {
      EXPECT_EQ(cut.prims[3 * i + 2], open.prims[3 * i + 2]);
    } else {
      EXPECT_EQ(cut.trailing_t[i], INFINITY);
      EXPECT_EQ(cut.trailing_origin[i], rays[i].o);
      EXPECT_EQ(cut.trailing_direction[i], rays[i].d);
    }
  }
}

TEST(Reflections, ReducedRowsAndFewerBouncesAreTheSame) {
  const Traced scene(room());
  const std::vector<TestRay> rays = rays_inside(scene, 300, 8);
  const Chains full = reflect(BvhQueries{scene.view}, scene, rays, 4);
  const Chains shorter = reflect(BvhQueries{scene.view}, scene, rays, 2);
  std::vector<Vec3f> o, d;
  for (const TestRay& ray : rays) o.push_back(ray.o), d.push_back(ray.d);
  Chains reduced(rays.size(), 4);
  ReflectionOutputs out;
  out.valid = reduced.valid.data();
  out.t = reduced.t.data();
  out.prim_ids = reduced.prims.data();
  run_rows(
      ReflectionRows<BvhQueries>{
          BvhQueries{scene.view}, {}, {o.data(), d.data(), nullptr, nullptr}, out, 4, nullptr},
      rays.size());
  EXPECT_EQ(full.valid, reduced.valid);
  EXPECT_TRUE(same_bits(full.t, reduced.t));
  EXPECT_EQ(full.prims, reduced.prims);
  for (std::size_t i = 0; i < rays.size(); ++i) {
    for (std::size_t b = 0; b < 2; ++b) EXPECT_EQ(full.images[4 * i + b], shorter.images[2 * i + b]);
    EXPECT_EQ(shorter.trailing_prim[i], full.prims[4 * i + 2]);
    EXPECT_EQ(shorter.trailing_t[i], full.t[4 * i + 2]);
  }
}

TEST(Reflections, BadRowsAreEmptyAndTouchNoOther) {
  const Traced scene(room());
  const std::vector<TestRay> good = rays_inside(scene, 60, 9);
  std::vector<TestRay> mixed;
  std::vector<float> tmax;
  std::vector<std::uint8_t> active;
  for (std::size_t i = 0; i < good.size(); ++i) {
    mixed.insert(mixed.end(), {good[i], good[i]});
    tmax.insert(tmax.end(), {INFINITY, INFINITY});
    active.insert(active.end(), {1, 1});
    const float bad = bad_numbers()[i % 3];
    if (i % 5 == 0) mixed.back().o.set(static_cast<int>(i / 5 % 3), bad);
    if (i % 5 == 1) mixed.back().d.set(static_cast<int>(i / 5 % 3), bad);
    if (i % 5 == 2) mixed.back().d = {};
    if (i % 5 == 3) tmax.back() = i % 2 ? NAN : 0.0f;
    if (i % 5 == 4) active.back() = 0;
  }
  const Chains want = reflect(BvhQueries{scene.view}, scene, good, 3);
  const Chains got = reflect(BvhQueries{scene.view}, scene, mixed, 3, tmax.data(), active.data());
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (std::size_t b = 0; b < 3; ++b) {
      EXPECT_EQ(want.prims[3 * i + b], got.prims[6 * i + b]);
      EXPECT_EQ(want.images[3 * i + b], got.images[6 * i + b]);
      const std::size_t slot = 6 * i + 3 + b;
      EXPECT_EQ(got.valid[slot], 0);
      EXPECT_EQ(got.t[slot], INFINITY);
      EXPECT_EQ(got.prims[slot], -1);
      EXPECT_TRUE(is_plus_zero(got.images[slot]) && is_plus_zero(got.points[slot]) &&
                  is_plus_zero(got.normals[slot]));
    }
    EXPECT_EQ(got.count[2 * i + 1], 0);
    EXPECT_EQ(got.trailing_t[2 * i + 1], INFINITY);
    EXPECT_EQ(got.trailing_prim[2 * i + 1], -1);
    EXPECT_TRUE(is_plus_zero(got.trailing_direction[2 * i + 1]));
    EXPECT_TRUE(is_plus_zero(got.trailing_origin[2 * i + 1]));
  }
  EXPECT_EQ(got.counters.rejected, good.size() * 4 / 5);
}

}  // namespace
}  // namespace shardwise::testing
