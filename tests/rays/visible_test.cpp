#include "rays/visible_kernel.hpp"

#include "ray_fixtures.hpp"
#include "rays/visible_chain_kernel.hpp"
#include "rays/visible_edge_kernel.hpp"

namespace shardwise::testing {
namespace {

/// The definition: visible where nothing that counts is hit strictly between the offsets from both ends.
struct Seen {
  bool visible;
  std::int32_t first_blocker;
};
Seen look(const Traced& scene, Vec3f x, Vec3f y, const IgnoreList& ignore = {}) {
  if (!is_finite(x) || !is_finite(y)) return {false, -1};
  const Vec3d e = to_double(y) - to_double(x);
  const double exact = std::sqrt(e.x * e.x + e.y * e.y + e.z * e.z);
  const auto length = static_cast<float>(exact);
  const float near = scene.view.offset_at(x), far = length - scene.view.offset_at(y);
  if (!(near < far)) return {true, -1};
  const Hit hit = BruteQueries{scene.view}.first_between(x, to_float(e * (1 / exact)), near, far, ignore);
  return {!hit.valid(), static_cast<std::int32_t>(hit.prim)};
}

struct Segments {
  std::vector<Vec3f> start, end;
  std::vector<std::int32_t> ignore;
  std::vector<std::uint8_t> active;
  static constexpr int ignored = 3;
  std::size_t rows() const { return start.size(); }
  void add(Vec3f a, Vec3f b, std::vector<std::int32_t> ids = {-1, -1, -1}, bool on = true) {
    start.push_back(a);
    end.push_back(b);
    ignore.insert(ignore.end(), ids.begin(), ids.end());
    active.push_back(on);
  }
  IgnoreList list(std::size_t row) const { return {ignore.data() + row * ignored, ignored}; }
};

/// Between random points, points on faces and corners.
Segments segments_in(const Traced& scene, int count, std::uint64_t seed) {
  Random random(seed);
  Segments all;
  const auto on_face = [&](std::int32_t& prim) {
    const std::size_t f = random.below(scene.mesh.faces.size());
    prim = static_cast<std::int32_t>(f);
    const Vec3f a = scene.mesh.corner(scene.mesh.faces[f], 0), b = scene.mesh.corner(scene.mesh.faces[f], 1),
                c = scene.mesh.corner(scene.mesh.faces[f], 2);
    if (random.below(5) == 0) return a;
    const float s = random.uniform(), t = random.uniform();
    return a + s * (b - a) + t * (1 - s) * (c - a);
  };
  for (int i = 0; i < count; ++i) {
    std::int32_t from = -1, to = -1;
    const Vec3f a =
        random.below(2) ? scene.middle() + scene.size() * random.in_box(-0.7f, 0.7f) : on_face(from);
    Vec3f b = random.below(2) ? scene.middle() + scene.size() * random.in_box(-0.7f, 0.7f) : on_face(to);
    if (random.below(16) == 0) b = a;
    std::vector<std::int32_t> ids{-1, -1, -1};
    if (random.below(2)) ids = {to, -1, from};
    if (random.below(4) == 0) {
      const Seen open = look(scene, a, b);
      ids[1] = open.first_blocker;
    }
    all.add(a, b, ids, random.below(9) != 0);
  }
  return all;
}

TEST(Visible, EqualsBruteForce) {
  std::size_t blocked = 0, visible = 0;
  for (const TestMesh& mesh : oracle_meshes()) {
    const Traced scene(mesh);
    const Segments s = segments_in(scene, 900, 6);
    std::vector<std::uint8_t> first(s.rows(), 7), any(s.rows(), 7);
    std::vector<std::int32_t> blocker(s.rows(), 7);
    RowCounters counters{};
    const VisibleInputs in{
        s.start.data(), s.end.data(), {s.ignore.data(), Segments::ignored}, s.active.data()};
    const BvhQueries queries{scene.view};
    run_rows(VisibleRows<BvhQueries>{queries, in, first.data(), blocker.data(), &counters}, s.rows());
    run_rows(VisibleRows<BvhQueries>{queries, in, any.data(), nullptr, &counters}, s.rows());
    for (std::size_t i = 0; i < s.rows(); ++i) {
      const Seen want = s.active[i] ? look(scene, s.start[i], s.end[i], s.list(i)) : Seen{false, -1};
      ASSERT_EQ(first[i] != 0, want.visible) << mesh.name << " row " << i;
      ASSERT_EQ(any[i], first[i]) << mesh.name << " row " << i;
      ASSERT_EQ(blocker[i], want.first_blocker) << mesh.name << " row " << i;
      blocked += blocker[i] >= 0;
      visible += first[i];
    }
    EXPECT_EQ(counters.rejected, 0u);
  }
  EXPECT_GT(blocked, 3000u);
  EXPECT_GT(visible, 3000u);
}

/// Parallel walls at x = 1, 2, 3, two faces each: 2 k and 2 k + 1.
TestMesh walls() {
  TestMesh mesh{"walls", {}, {}};
  for (int k = 1; k <= 3; ++k) {
    const auto x = static_cast<float>(k);
    const auto n = static_cast<std::int32_t>(mesh.vertices.size());
    for (const float y : {-1.0f, 1.0f})
      for (const float z : {-1.0f, 1.0f}) mesh.vertices.push_back({x, y, z});
    mesh.faces.push_back({n, n + 1, n + 2});
    mesh.faces.push_back({n + 1, n + 3, n + 2});
  }
  return mesh;
}

struct OneVisible {
  bool visible;
  std::int32_t blocker;
};
OneVisible look_with_body(const Traced& scene, Vec3f a, Vec3f b, std::vector<std::int32_t> ignore = {}) {
  std::uint8_t visible = 7;
  std::int32_t blocker = 7;
  run_rows(VisibleRows<BvhQueries>{BvhQueries{scene.view},
                                   {&a, &b, {ignore.data(), static_cast<int>(ignore.size())}, nullptr},
                                   &visible,
                                   &blocker,
                                   nullptr},
           1);
  return {visible != 0, blocker};
}

TEST(Visible, WallsBlockInOrder) {
  const Traced scene(walls());
  const Vec3f left{0, 0.5f, 0.4f}, right{4, 0.5f, 0.4f};
  const OneVisible there = look_with_body(scene, left, right), back = look_with_body(scene, right, left);
  EXPECT_FALSE(there.visible);
  EXPECT_EQ(there.blocker, 1);
  EXPECT_EQ(back.blocker, 5);
  EXPECT_EQ(look_with_body(scene, left, right, {1}).blocker, 3);
  EXPECT_EQ(look_with_body(scene, left, right, {3, 1}).blocker, 5);
  EXPECT_TRUE(look_with_body(scene, left, right, {5, 3, 1}).visible);
  EXPECT_FALSE(look_with_body(scene, left, right, {0, 2, 4}).visible);  // the other half of each wall
  EXPECT_TRUE(look_with_body(scene, left, {0.999f, 0.5f, 0.4f}).visible);
}

TEST(Visible, EndsOnSurfacesDoNotBlock) {
  const Traced scene(walls());
  EXPECT_TRUE(look_with_body(scene, {1, 0.5f, 0.4f}, {2, 0.5f, 0.4f}).visible);
  EXPECT_FALSE(look_with_body(scene, {1, 0.5f, 0.4f}, {3, 0.5f, 0.4f}).visible);
  const float offset = scene.view.offset_at({1, 0.5f, 0.4f});
  EXPECT_TRUE(look_with_body(scene, {1 - 0.5f * offset, 0.5f, 0.4f}, {2, 0.5f, 0.4f}).visible);
  EXPECT_FALSE(look_with_body(scene, {1 - 2.5f * offset, 0.5f, 0.4f}, {2, 0.5f, 0.4f}).visible);
  // Nothing fits between points this near, whatever lies there.
  EXPECT_TRUE(
      look_with_body(scene, {1 - 0.9f * offset, 0.5f, 0.4f}, {1 + 0.9f * offset, 0.5f, 0.4f}).visible);
  EXPECT_TRUE(look_with_body(scene, {1, 0, 0}, {1, 0, 0}).visible);
}

TEST(Visible, BadRowsAreFalseAndTouchNoOther) {
  const Traced scene(walls());
  std::vector<Vec3f> a, b;
  for (int end = 0; end < 2; ++end)
    for (const float bad : bad_numbers())
      for (int axis = 0; axis < 3; ++axis) {
        a.insert(a.end(), {{0, 0, 0}, {0, 0, 0}});
        b.insert(b.end(), {{0.5f, 0, 0}, {0.5f, 0, 0}});
        (end ? a : b).back().set(axis, bad);
      }
  a.push_back({3e38f, 3e38f, 3e38f});  // farther than a float says
  b.push_back({-3e38f, -3e38f, -3e38f});
  std::vector<std::uint8_t> visible(a.size(), 7);
  std::vector<std::int32_t> blocker(a.size(), 7);
  RowCounters counters{};
  run_rows(VisibleRows<BvhQueries>{BvhQueries{scene.view},
                                   {a.data(), b.data(), {}, nullptr},
                                   visible.data(),
                                   blocker.data(),
                                   &counters},
           a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(visible[i], i % 2 == 0 && i + 1 < a.size()) << i;
    EXPECT_EQ(blocker[i], -1) << i;
  }
  EXPECT_EQ(counters.rejected, a.size() / 2 + 1);
}

TEST(VisiblePair, SegmentsAreIndependent) {
  std::size_t counts[4] = {};
  for (const TestMesh& mesh : {boxes(24, 3), cloud(300, 0.4f, 1)}) {
    const Traced scene(mesh);
    const Segments s = segments_in(scene, 700, 16), other = segments_in(scene, 700, 17);
    std::vector<Vec3f> end_a = s.end, end_b = other.end, start = s.start;
    std::size_t broken = 0;
    for (std::size_t i = 0; i < s.rows(); i += 5) {
      (i % 2 ? end_a : end_b)[i].y = NAN;
      if (i % 3 == 0) start[i].x = INFINITY;
      broken += s.active[i];
    }
    std::vector<std::uint8_t> a(s.rows(), 7), b(s.rows(), 7);
    RowCounters counters{};
    run_rows(
        VisiblePairRows<BvhQueries>{
            BvhQueries{scene.view},
            {start.data(), end_a.data(), end_b.data(), {s.ignore.data(), Segments::ignored}, s.active.data()},
            a.data(),
            b.data(),
            &counters},
        s.rows());
    for (std::size_t i = 0; i < s.rows(); ++i) {
      const bool want_a = s.active[i] && look(scene, start[i], end_a[i], s.list(i)).visible;
      const bool want_b = s.active[i] && look(scene, start[i], end_b[i], s.list(i)).visible;
      EXPECT_EQ(a[i] != 0, want_a) << i;
      EXPECT_EQ(b[i] != 0, want_b) << i;
      ++counts[want_a + 2 * want_b];
    }
    EXPECT_EQ(counters.rejected, broken);
  }
  for (const std::size_t count : counts) EXPECT_GT(count, 50u);
}

struct EdgeRow {
  Vec3f source, position, direction;
  float t_min, t_max;
};
bool sees_edge(const Traced& scene, const EdgeRow& row, std::vector<float> fractions,
               std::vector<std::int32_t> ignore = {}, RowCounters* counters = nullptr,
               const std::uint8_t* active = nullptr) {
  EdgeFractions f;
  for (const float value : fractions) f.values[f.count++] = value;
  std::uint8_t visible = 7;
  run_rows(VisibleEdgeRows<BvhQueries>{BvhQueries{scene.view},
                                       {&row.source,
                                        &row.position,
                                        &row.direction,
                                        &row.t_min,
                                        &row.t_max,
                                        {ignore.data(), static_cast<int>(ignore.size())},
                                        active},
                                       f,
                                       &visible,
                                       counters},
           1);
  EXPECT_LE(visible, 1);
  return visible != 0;
}

TEST(VisibleEdge, AnySampleWillDo) {
  const Traced scene(walls());  // |y|, |z| <= 1
  // An edge beyond the first wall, from in its shadow to out of it.
  const EdgeRow row{{0, 0, 0}, {1.5f, 0, 0}, {0, 1, 0}, 0, 4};
  EXPECT_FALSE(sees_edge(scene, row, {0}));
  EXPECT_FALSE(sees_edge(scene, row, {0, 0.25f}));
  EXPECT_TRUE(sees_edge(scene, row, {1}));
  EXPECT_TRUE(sees_edge(scene, row, {0, 0.25f, 0.5f, 0.75f, 1}));
  EXPECT_TRUE(sees_edge(scene, row, {0}, {0, 1}));   // through the wall
  EXPECT_FALSE(sees_edge(scene, row, {0.1f}, {0}));  // through its other face
  EXPECT_TRUE(sees_edge(scene, {row.source, row.position, row.direction, 4, 9}, {0}));
  EXPECT_FALSE(
      sees_edge(scene, {row.source, row.position, row.direction, 0.25f, -3}, {0, 1}));  // all at t_min
  std::uint8_t off = 0;
  RowCounters counters{};
  EXPECT_FALSE(sees_edge(scene, row, {1}, {}, &counters, &off));
  EXPECT_EQ(counters.rejected, 0u);
}

TEST(VisibleEdge, EqualsItsDefinition) {
  std::size_t seen = 0, hidden = 0;
  for (const TestMesh& mesh : {boxes(40, 3), cloud(300, 0.4f, 1), moved(boxes(24, 9), 1, {1000, 1000, 0})}) {
    const Traced scene(mesh);
    Random random(31);
    for (int i = 0; i < 500; ++i) {
      const EdgeRow row{scene.middle() + scene.size() * random.in_box(-0.7f, 0.7f),
                        scene.middle() + scene.size() * random.in_box(-0.5f, 0.5f),
                        scene.size() * random.in_box(-0.4f, 0.4f), random.uniform(-1, 0),
                        random.uniform(-0.5f, 1)};
      const std::vector<float> fractions{0, 0.3f, 1};
      bool want = false;
      for (const float f : fractions)
        want = want ||
               look(scene, row.source,
                    row.position + (row.t_min + f * std::max(row.t_max - row.t_min, 0.0f)) * row.direction)
                   .visible;
      EXPECT_EQ(sees_edge(scene, row, fractions), want);
      (want ? seen : hidden) += 1;
    }
  }
  EXPECT_GT(seen, 300u);
  EXPECT_GT(hidden, 100u);
}

TEST(VisibleEdge, BadRowsAreFalse) {
  const Traced scene(walls());
  const EdgeRow good{{0, 0, 0}, {0, 3, 0}, {0, 1, 0}, 0, 1};
  ASSERT_TRUE(sees_edge(scene, good, {0, 1}));
  RowCounters counters{};
  std::uint64_t bad_rows = 0;
  for (const float bad : bad_numbers())
    for (int field = 0; field < 5; ++field) {
      EdgeRow row = good;
      if (field == 0) row.source.x = bad;
      if (field == 1) row.position.y = bad;
      if (field == 2) row.direction.z = bad;
      if (field == 3) row.t_min = bad;
      if (field == 4) row.t_max = bad;
      EXPECT_FALSE(sees_edge(scene, row, {0, 1}, {}, &counters)) << field;
      EXPECT_EQ(counters.rejected, ++bad_rows);
    }
  // A sample beyond the floats is not seen, the other one is.
  const EdgeRow far{{0, 0, 0}, {0, 3, 0}, {0, 3e38f, 0}, 0, 10};
  EXPECT_TRUE(sees_edge(scene, far, {0, 1}, {}, &counters));
  EXPECT_FALSE(sees_edge(scene, far, {1}, {}, &counters));
}

struct Chain {
  bool visible;
  std::int32_t segment, prim;
  std::uint64_t rejected;
};
Chain look_along(const Traced& scene, const std::vector<Vec3f>& points, std::int32_t length,
                 const std::vector<std::int32_t>& ignore = {}, bool on = true, bool want_prim = true) {
  const auto there = static_cast<int>(points.size()) - 1;
  std::uint8_t visible = 7;
  const std::uint8_t active = on;
  std::int32_t segment = 7, prim = 7;
  RowCounters counters{};
  run_rows(VisibleChainRows<BvhQueries>{BvhQueries{scene.view},
                                        {points.data(),
                                         &length,
                                         there + 1,
                                         {ignore.data(), static_cast<int>(ignore.size()) / there},
                                         &active},
                                        {&visible, &segment, want_prim ? &prim : nullptr},
                                        &counters},
           1);
  EXPECT_LE(visible, 1);
  return {visible != 0, segment, prim, counters.rejected};
}
bool operator==(const Chain& a, const Chain& b) {
  return a.visible == b.visible && a.segment == b.segment && a.prim == b.prim && a.rejected == b.rejected;
}

TEST(VisibleChain, StopsAtTheFirstBlockedSegment) {
  const Traced scene(walls());
  const std::vector<Vec3f> points{
      {0, 0.5f, 0.4f}, {0.5f, 0.5f, 0.4f}, {1.5f, 0.5f, 0.4f}, {2.5f, 0.5f, 0.4f}};
  EXPECT_EQ(look_along(scene, points, 3), (Chain{false, 1, 1, 0}));
  EXPECT_EQ(look_along(scene, points, 1), (Chain{true, -1, -1, 0}));
  EXPECT_EQ(look_along(scene, points, 0), (Chain{true, -1, -1, 0}));
  EXPECT_EQ(look_along(scene, points, 99), (Chain{false, 1, 1, 0}));  // all there are
  EXPECT_EQ(look_along(scene, points, -1), (Chain{false, -1, -1, 1}));
  EXPECT_EQ(look_along(scene, points, 3, {}, false), (Chain{false, -1, -1, 0}));
  // Ignore lists are the segment's own.
  EXPECT_EQ(look_along(scene, points, 3, {1, 1, -1}), (Chain{false, 2, 3, 0}));
  EXPECT_EQ(look_along(scene, points, 3, {3, 3, 1}), (Chain{false, 1, 1, 0}));
  EXPECT_EQ(look_along(scene, points, 3, {-1, -1, -1, 1, 3, -1}), (Chain{true, -1, -1, 0}));
  EXPECT_EQ(look_along(scene, points, 3, {}, true, false).segment, 1);
}

TEST(VisibleChain, OnlyPointsThatTakePartNeedBeFinite) {
  const Traced scene(walls());
  for (const float bad : bad_numbers()) {
    std::vector<Vec3f> points{{0, 0, 0}, {0.5f, 0, 0}, {0.6f, 0, 0}, {0.7f, 0, 0}};
    points[3].z = bad;
    EXPECT_EQ(look_along(scene, points, 2), (Chain{true, -1, -1, 0}));
    EXPECT_EQ(look_along(scene, points, 3), (Chain{false, -1, -1, 1}));
    EXPECT_EQ(look_along(scene, points, 7), (Chain{false, -1, -1, 1}));
    points[0].x = bad;
    EXPECT_EQ(look_along(scene, points, 0), (Chain{false, -1, -1, 1}));
  }
}

TEST(VisibleChain, EqualsItsSegments) {
  std::size_t free = 0, blocked = 0;
  for (const TestMesh& mesh : {boxes(24, 3), cloud(200, 0.4f, 1), moved(ball(2), 1e-3f, {0, 0, 0})}) {
    const Traced scene(mesh);
    Random random(77);
    for (int i = 0; i < 400; ++i) {
      std::vector<Vec3f> points;
      for (int k = 0; k < 5; ++k)
        points.push_back(scene.middle() + scene.size() * random.in_box(-0.6f, 0.6f));
      const auto length = static_cast<std::int32_t>(random.below(6));
      Chain want{true, -1, -1, 0};
      for (int k = 0; k < std::min(length, 4) && want.visible; ++k) {
        const auto at = static_cast<std::size_t>(k);
        const Seen seen = look(scene, points[at], points[at + 1]);
        if (!seen.visible) want = {false, k, seen.first_blocker, 0};
      }
      EXPECT_EQ(look_along(scene, points, length), want);
      (want.visible ? free : blocked) += 1;
    }
  }
  EXPECT_GT(free, 200u);
  EXPECT_GT(blocked, 200u);
}

}  // namespace
}  // namespace shardwise::testing
