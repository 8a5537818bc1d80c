// nearest_edge and nearest_edges on device sets: columns, misses, masks, moving scenes.

#include "rays/nearest_edge_operation.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "dispatch/row_dispatcher.hpp"
#include "rays/nearest_edge_kernel.hpp"
#include "scene/edge_bvh.hpp"
#include "scene/edge_meshes.hpp"
#include "scene/replica.hpp"
#include "scene/scene_test_util.hpp"
#include "scene/trace_fixtures.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise {
namespace {

using namespace test;
using testing::Random;

struct Shapes {
  SceneModel model;
  std::int32_t boxes, moving, copy;
};

Shapes make_shapes() {
  Shapes s;
  const auto from = testing::boxes(60, 4);
  Mesh mesh;
  mesh.name = "boxes";
  mesh.vertices = from.vertices;
  mesh.faces.assign(from.faces.begin(), from.faces.end());
  s.boxes = s.model.add_mesh(mesh);
  s.moving = s.model.add_mesh(split_cube({2, 0, 0}, 0.5f), true);
  s.copy = s.model.add_instance(s.boxes, Transform::translation({0, 0, 3}));
  return s;
}

constexpr std::size_t rows = 300;

struct Queries {
  std::vector<Vec3f> point, direction;
  std::vector<float> tmax;
  std::vector<std::uint8_t> active;
  std::int64_t points_rejected = 0, rays_rejected = 0;

  Queries() {
    Random random(6);
    for (std::size_t i = 0; i < rows; ++i) {
      point.push_back(random.in_box(-3, 5));
      direction.push_back(random.uniform(0.1f, 9) * random.direction());
      tmax.push_back(i % 3 ? infinity_f : random.uniform(0, 4));
      active.push_back(i % 11 != 5);
      if (i % 50 == 7) point.back().y = NAN;
      if (i % 50 == 8) direction.back() = {0, 0, 0};
      if (i % 50 == 9) tmax.back() = -1;
      if (!active.back()) continue;
      points_rejected += i % 50 == 7;
      rays_rejected += i % 50 >= 7 && i % 50 <= 9;
    }
  }
  RowSource points() const {
    RowSource source;
    source.columns = {RowInput(std::span(point)), RowInput(std::span(active))};
    return source;
  }
  RowSource rays() const {
    RowSource source;
    source.columns = {RowInput(std::span(point)), RowInput(std::span(direction)), RowInput(std::span(tmax)),
                      RowInput(std::span(active))};
    return source;
  }
};

RowOptions options() {
  RowOptions o;
  o.min_rows_per_device = 0;
  o.mode = DispatchMode::sharded;
  return o;
}

struct Result {
  RowResult rows;
  template <class T>
  std::vector<T> column(int index, int slots = 1) const {
    return Column<T>(rows.table, index, slots).to_host();
  }
};

Result run(Scene& scene, RowOperation operation, RowSource source) {
  return {scene.rows().run(std::move(operation), std::move(source), to_master(), options()).get()};
}

/// What the edges of a scene are now, with the mask in force, outside of any Scene.
EdgeBvh plain_tree(const SceneModel& model) {
  return build_edge_bvh(model.edges(), model.geometry(), model.edge_mask());
}

void expect_points(const Result& result, const EdgeView& edges, const Queries& queries) {
  using C = NearestEdgeOfPointColumns;
  const auto distance = result.column<float>(C::distance), edge_t = result.column<float>(C::edge_t);
  const auto edge_point = result.column<Vec3f>(C::edge_point), echo = result.column<Vec3f>(C::echo);
  const auto shape = result.column<std::int32_t>(C::shape_id),
             local = result.column<std::int32_t>(C::local_edge_id);
  const auto global = result.column<std::int32_t>(C::global_edge_id);
  const auto boundary = result.column<std::uint8_t>(C::is_boundary);
  ASSERT_EQ(distance.size(), rows);
  for (std::size_t i = 0; i < rows; ++i) {
    const bool asks = queries.active[i] && is_finite(queries.point[i]);
    const NearestEdge want = asks ? nearest_edge(edges, queries.point[i]) : NearestEdge{};
    ASSERT_EQ(global[i], want.global_edge_id) << i;
    EXPECT_EQ(distance[i], want.distance);
    EXPECT_EQ(edge_t[i], want.edge_t);
    EXPECT_EQ(edge_point[i], want.edge_point);
    EXPECT_EQ(echo[i], want.point);
    EXPECT_EQ(shape[i], want.shape_id);
    EXPECT_EQ(local[i], want.local_edge_id);
    EXPECT_EQ(boundary[i], want.is_boundary ? 1 : 0);
    if (asks) continue;
    EXPECT_EQ(distance[i], INFINITY);
    EXPECT_EQ(shape[i], -1);
    EXPECT_TRUE(same_bits(std::vector<Vec3f>{edge_point[i], echo[i]}, std::vector<Vec3f>(2)));
  }
  EXPECT_EQ(result.rows.rejected, queries.points_rejected);
}

class NearestEdgeOn : public ::testing::TestWithParam<const char*> {
 protected:
  Scene make() const {
    Scene scene(open_devices(GetParam()), make_shapes().model);
    scene.build();
    return scene;
  }
  static void expect_no_races(const Scene& scene) {
    if (scene.devices().sim_world()) {
      EXPECT_TRUE(scene.devices().sim_world()->races().empty());
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Sets, NearestEdgeOn, ::testing::Values("host:1", "host:3x1", "sim:3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

TEST_P(NearestEdgeOn, PointsAndRaysAreTheBodies) {
  Scene scene = make();
  const Queries queries;
  const EdgeBvh tree = plain_tree(scene.model());
  expect_points(run(scene, nearest_edge_of_point_operation(scene, true, true), queries.points()),
                view_of(tree), queries);

  using C = NearestEdgeOfRayColumns;
  const Result rays = run(scene, nearest_edge_of_ray_operation(scene, true, true), queries.rays());
  const auto distance = rays.column<float>(C::distance), ray_t = rays.column<float>(C::ray_t);
  const auto point = rays.column<Vec3f>(C::point), edge_point = rays.column<Vec3f>(C::edge_point);
  const auto edge_t = rays.column<float>(C::edge_t);
  const auto shape = rays.column<std::int32_t>(C::shape_id),
             local = rays.column<std::int32_t>(C::local_edge_id);
  const auto global = rays.column<std::int32_t>(C::global_edge_id);
  const auto boundary = rays.column<std::uint8_t>(C::is_boundary);
  for (std::size_t i = 0; i < rows; ++i) {
    EdgeRay ray;
    NearestEdge want;
    if (queries.active[i] && ray.prepare(queries.point[i], queries.direction[i], queries.tmax[i]))
      want = nearest_edge(view_of(tree), ray, queries.direction[i]);
    ASSERT_EQ(global[i], want.global_edge_id) << i;
    EXPECT_EQ(distance[i], want.distance);
    EXPECT_EQ(ray_t[i], want.ray_t);
    EXPECT_EQ(point[i], want.point);
    EXPECT_EQ(edge_t[i], want.edge_t);
    EXPECT_EQ(edge_point[i], want.edge_point);
    EXPECT_EQ(shape[i], want.shape_id);
    EXPECT_EQ(local[i], want.local_edge_id);
    EXPECT_EQ(boundary[i], want.is_boundary ? 1 : 0);
  }
  EXPECT_EQ(rays.rows.rejected, queries.rays_rejected);
  expect_no_races(scene);
}

TEST_P(NearestEdgeOn, FirstOfSeveralIsTheNearest) {
  Scene scene = make();
  const Queries queries;
  const Result one = run(scene, nearest_edge_of_point_operation(scene, true), queries.points());
  using One = NearestEdgeOfPointColumns;
  using C = NearestEdgesColumns;
  for (const int k : {1, 5, 16}) {
    const Result several = run(scene, nearest_edges_operation(scene, {k, false}, true), queries.points());
    const auto valid = several.column<std::uint8_t>(C::is_valid, k),
               boundary = several.column<std::uint8_t>(C::is_boundary, k);
    const auto distance = several.column<float>(C::distance, k), edge_t = several.column<float>(C::edge_t, k);
    const auto edge_point = several.column<Vec3f>(C::edge_point, k), echo = several.column<Vec3f>(C::echo, k);
    const auto global = several.column<std::int32_t>(C::global_edge_id, k);
    const auto first_of = [&](const auto& column) {
      std::decay_t<decltype(column)> first;
      for (std::size_t i = 0; i < rows; ++i) first.push_back(column[i * static_cast<std::size_t>(k)]);
      return first;
    };
    EXPECT_TRUE(same_bits(first_of(distance), one.column<float>(One::distance)));
    EXPECT_TRUE(same_bits(first_of(edge_t), one.column<float>(One::edge_t)));
    EXPECT_TRUE(same_bits(first_of(edge_point), one.column<Vec3f>(One::edge_point)));
    EXPECT_TRUE(same_bits(first_of(boundary), one.column<std::uint8_t>(One::is_boundary)));
    EXPECT_EQ(first_of(global), one.column<std::int32_t>(One::global_edge_id));
    EXPECT_EQ(first_of(several.column<std::int32_t>(C::shape_id, k)),
              one.column<std::int32_t>(One::shape_id));
    EXPECT_EQ(first_of(several.column<std::int32_t>(C::local_edge_id, k)),
              one.column<std::int32_t>(One::local_edge_id));
    for (std::size_t i = 0; i < valid.size(); ++i) {
      const std::size_t row = i / static_cast<std::size_t>(k);
      EXPECT_EQ(valid[i] != 0, queries.active[row] && is_finite(queries.point[row]))
          << "there are edges enough";
      EXPECT_EQ(valid[i] != 0, global[i] >= 0);
      if (valid[i]) {
        EXPECT_EQ(echo[i], queries.point[row]);
      } else {
        EXPECT_EQ(distance[i], INFINITY);
        EXPECT_EQ(echo[i], Vec3f{});
      }
      if (valid[i] && i % static_cast<std::size_t>(k) != 0) {
        EXPECT_GE(distance[i], distance[i - 1]);
      }
    }
  }
  for (const int k : {0, -3, 17})
    expect_error(ErrorClass::usage, {"nearest_edges", "k must be in [1, 16]", std::to_string(k)}, [&] {
      nearest_edges_operation(scene, {k, false}, false);
    });
  expect_no_races(scene);
}

TEST_P(NearestEdgeOn, MasksAndMovesReachEveryReplica) {
  Scene scene = make();
  const Queries queries;
  const auto check = [&] {
    const EdgeBvh tree = plain_tree(scene.model());
    expect_points(run(scene, nearest_edge_of_point_operation(scene, true, true), queries.points()),
                  view_of(tree), queries);
    for (int d = 0; d < scene.devices().size(); ++d) EXPECT_EQ(scene.replica(d).version(), scene.version());
  };
  // A mask before anyone asked, and after.
  const std::size_t count = scene.model().edges().edges.size();
  std::vector<std::uint8_t> mask(count, 1);
  for (std::size_t e = 0; e < count; e += 2) mask[e] = 0;
  EXPECT_TRUE(scene.set_edge_mask(mask));
  EXPECT_FALSE(scene.set_edge_mask(mask));
  check();
  for (std::size_t e = 0; e < count; e += 3) mask[e] ^= 1;
  EXPECT_TRUE(scene.set_edge_mask(mask));
  check();
  // The mask survives a sync.
  scene.model().update_mesh_vertices(1, split_cube({-2, 1, 1}, 0.7f).vertices);
  scene.model().set_instance_transform(2, Transform::translation({1, -1, 2}));
  expect_error(ErrorClass::state, {"nearest_edge", "pending", "sync()"},
               [&] { nearest_edge_of_point_operation(scene, false); });
  EXPECT_TRUE(scene.sync());
  EXPECT_EQ(scene.model().edge_mask(), mask);
  check();
  // The model's own mask waits for sync(); with moves, too.
  mask[1] ^= 1;
  EXPECT_TRUE(scene.model().set_edge_mask(mask));
  expect_error(ErrorClass::state, {"nearest_edge", "version"},
               [&] { nearest_edge_of_point_operation(scene, false); });
  EXPECT_TRUE(scene.sync());
  check();
  // A mask while vertices wait.
  scene.model().update_mesh_vertices(1, split_cube({2, 1, 1}, 0.7f).vertices);
  mask[4] ^= 1;
  EXPECT_TRUE(scene.set_edge_mask(mask));
  EXPECT_TRUE(scene.sync());
  check();
  scene.build();
  check();
  EXPECT_TRUE(scene.model().edge_mask().empty());
  std::fill(mask.begin(), mask.end(), 0);
  EXPECT_TRUE(scene.set_edge_mask(mask));
  check();  // everything misses
  expect_no_races(scene);
}

TEST_P(NearestEdgeOn, EdgesAreThereOnceAskedFor) {
  Scene scene = make();
  const auto edge_bytes = [&](int device) {
    std::uint64_t bytes = 0, all = 0;
    for (const auto& [name, size] : scene.scene_bytes(device)) {
      if (name == "edges") bytes = size;
      all += size;
    }
    EXPECT_EQ(all, scene.devices()[device].memory(MemoryUse::scene).current());
    return bytes;
  };
  for (int d = 0; d < scene.devices().size(); ++d) EXPECT_EQ(edge_bytes(d), 0u);
  nearest_edge_of_point_operation(scene, false);
  for (int d = 0; d < scene.devices().size(); ++d) EXPECT_GT(edge_bytes(d), 0u);
  scene.build();
  for (int d = 0; d < scene.devices().size(); ++d) EXPECT_EQ(edge_bytes(d), 0u);
}

TEST_P(NearestEdgeOn, ReplicaThatFailsPoisons) {
  Scene scene = make();
  const int last = scene.devices().size() - 1;
  scene.fail_next_broadcast_on(last);
  expect_error(ErrorClass::device, {"failed by a test"},
               [&] { nearest_edge_of_point_operation(scene, false); });
  EXPECT_TRUE(scene.is_poisoned());
  expect_error(ErrorClass::poisoned, {"nearest_edges", "edges", "build()"},
               [&] { nearest_edges_operation(scene, {}, false); });
  scene.build();
  nearest_edge_of_point_operation(scene, false);
  std::vector<std::uint8_t> mask(scene.model().edges().edges.size(), 1);
  mask[0] = 0;
  scene.fail_next_broadcast_on(last);
  expect_error(ErrorClass::device, {"failed by a test"}, [&] { scene.set_edge_mask(mask); });
  expect_error(ErrorClass::poisoned, {"set_edge_mask", "build()"}, [&] { scene.set_edge_mask(mask); });
  scene.build();
  EXPECT_TRUE(scene.model().edge_mask().empty());
  const Queries queries;
  const EdgeBvh tree = plain_tree(scene.model());
  expect_points(run(scene, nearest_edge_of_point_operation(scene, true, true), queries.points()),
                view_of(tree), queries);
}

TEST(NearestEdge, SceneWithoutFacesMisses) {
  SceneModel model;
  Mesh empty;
  empty.name = "empty";
  model.add_mesh(empty);
  Scene scene(open_devices("host:2x1"), std::move(model));
  expect_error(ErrorClass::state, {"nearest_edge", "build()"},
               [&] { nearest_edge_of_point_operation(scene, false); });
  expect_error(ErrorClass::state, {"set_edge_mask", "build()"}, [&] { scene.set_edge_mask({}); });
  scene.build();
  const Queries queries;
  const Result result = run(scene, nearest_edge_of_ray_operation(scene, true, true), queries.rays());
  for (const auto id : result.column<std::int32_t>(NearestEdgeOfRayColumns::global_edge_id))
    EXPECT_EQ(id, -1);
  EXPECT_FALSE(scene.set_edge_mask({}));
}

}  // namespace
}  // namespace shardwise
