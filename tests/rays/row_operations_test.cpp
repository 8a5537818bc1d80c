// Whole operations: columns go where they belong, every split gives the bits of one device, bad calls are
// refused by name. What the bodies compute is tested beside this file.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "all_operations.hpp"
#include "dispatch/row_dispatcher.hpp"
#include "rays/camera_operations.hpp"
#include "rays/intersect_kernel.hpp"
#include "rays/intersect_operation.hpp"
#include "rays/penetration_kernel.hpp"
#include "rays/penetration_operation.hpp"
#include "rays/reflections_kernel.hpp"
#include "rays/reflections_operation.hpp"
#include "rays/visible_operations.hpp"
#include "scene/replica.hpp"
#include "shardwise/rays/intersect.hpp"
#include "shardwise/rays/penetration.hpp"
#include "shardwise/rays/reflections.hpp"
#include "shardwise/rays/visible.hpp"
#include "shardwise/runtime/devices.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::testing {
namespace {

Scene make_scene(const std::string& devices, TracerChoice tracer = TracerChoice::bvh) {
  Scene scene(open_devices(devices), room_with_blocks(), {tracer});
  scene.build();
  return scene;
}

TEST(RowOperations, ColumnsAreTheBodies) {
  Scene scene = make_scene("host:1");
  const Inputs in(500);
  const std::size_t n = in.origins.size();
  const Intersections hits = intersect(scene, in.rays()).get();  // uploads the face data
  const BvhQueries queries{scene.replica(0).view()};
  const FaceView faces = scene.replica(0).faces();
  {
    std::vector<float> t(n);
    std::vector<Vec3f> p(n), geo(n), bary(n), shading(n);
    std::vector<std::int32_t> shape(n), local(n), prim(n);
    std::vector<Vec2f> uv(n);
    RowCounters counters{};
    const IntersectRows<BvhQueries> body{
        queries,
        faces,
        {in.origins.data(), in.directions.data(), in.tmax.data(), in.active.data()},
        {t.data(), p.data(), geo.data(), bary.data(), shape.data(), local.data(), prim.data(), shading.data(),
         uv.data()},
        &counters};
    for (std::size_t i = 0; i < n; ++i) body(static_cast<std::int64_t>(i));
    EXPECT_EQ(hits.t.to_host(), t);
    EXPECT_EQ(hits.point.to_host(), p);
    EXPECT_EQ(hits.geometric_normal.to_host(), geo);
    EXPECT_EQ(hits.barycentric.to_host(), bary);
    EXPECT_EQ(hits.shape_id.to_host(), shape);
    EXPECT_EQ(hits.local_prim_id.to_host(), local);
    EXPECT_EQ(hits.global_prim_id.to_host(), prim);
    EXPECT_EQ(hits.shading_normal.to_host(), shading);
    EXPECT_EQ(hits.uv.to_host(), uv);
    EXPECT_EQ(hits.rejected, static_cast<std::int64_t>(counters.rejected));
    EXPECT_GT(hits.rejected, 10);
    EXPECT_NE(shading, geo);
    EXPECT_GT(std::count(shape.begin(), shape.end(), 1), 5);
    EXPECT_GT(std::count(shape.begin(), shape.end(), 0), 100);
  }
  {
    std::vector<std::uint8_t> valid(3 * n);
    std::vector<float> t(3 * n), trailing(n);
    std::vector<Vec3f> images(3 * n), points(3 * n), normals(3 * n), direction(n), origin(n);
    std::vector<std::int32_t> prims(3 * n), shapes(3 * n), locals(3 * n), count(n), next(n);
    const ReflectionRows<BvhQueries> body{
        queries,
        faces,
        {in.origins.data(), in.directions.data(), in.tmax.data(), in.active.data()},
        {valid.data(), t.data(), prims.data(), images.data(), count.data(), points.data(), normals.data(),
         shapes.data(), locals.data(), trailing.data(), next.data(), direction.data(), origin.data()},
        3,
        nullptr};
    for (std::size_t i = 0; i < n; ++i) body(static_cast<std::int64_t>(i));
    ReflectionOptions options;
    options.max_bounces = 3;
    options.fields = ReflectionFields::all;
    const Reflections got = trace_reflections(scene, in.rays(), options).get();
    EXPECT_EQ(got.valid.to_host(), valid);
    EXPECT_EQ(got.t.to_host(), t);
    EXPECT_EQ(got.prim_ids.to_host(), prims);
    EXPECT_EQ(got.image_sources.to_host(), images);
    EXPECT_EQ(got.bounce_count.to_host(), count);
    EXPECT_EQ(got.hit_points.to_host(), points);
    EXPECT_EQ(got.geo_normals.to_host(), normals);
    EXPECT_EQ(got.shape_ids.to_host(), shapes);
    EXPECT_EQ(got.local_prim_ids.to_host(), locals);
    EXPECT_EQ(got.trailing_t.to_host(), trailing);
    EXPECT_EQ(got.trailing_prim.to_host(), next);
    EXPECT_EQ(got.trailing_direction.to_host(), direction);
    EXPECT_EQ(got.trailing_origin.to_host(), origin);
    EXPECT_GT(std::count(valid.begin(), valid.end(), 1), 800);
  }
  {
    std::vector<std::int32_t> count(n), prim(4 * n);
    std::vector<std::uint8_t> reached(n), overflow(n), valid(4 * n);
    std::vector<float> distance(n), t(4 * n);
    std::vector<Vec3f> direction(n), position(4 * n), shading(4 * n), normal(4 * n);
    RowCounters counters{};
    const PenetrationRows<BvhQueries> body{
        queries,
        faces,
        {in.origins.data(), in.targets.data(), in.active.data()},
        {count.data(), reached.data(), overflow.data(), distance.data(), direction.data(), valid.data(),
         t.data(), position.data(), shading.data(), normal.data(), prim.data()},
        4,
        &counters};
    for (std::size_t i = 0; i < n; ++i) body(static_cast<std::int64_t>(i));
    PenetrationOptions options;
    options.hit_capacity = 4;
    const Penetrations got =
        segment_penetration(scene, PenetrationSegments{in.origins, in.targets, in.active}, options).get();
    EXPECT_EQ(got.num_hits.to_host(), count);
    EXPECT_EQ(got.reached_target.to_host(), reached);
    EXPECT_EQ(got.overflow.to_host(), overflow);
    EXPECT_EQ(got.distance.to_host(), distance);
    EXPECT_EQ(got.direction.to_host(), direction);
    EXPECT_EQ(got.valid.to_host(), valid);
    EXPECT_EQ(got.t.to_host(), t);
    EXPECT_EQ(got.position.to_host(), position);
    EXPECT_EQ(got.shading_normal.to_host(), shading);
    EXPECT_EQ(got.geometric_normal.to_host(), normal);
    EXPECT_EQ(got.global_prim_id.to_host(), prim);
    EXPECT_EQ(got.flagged, static_cast<std::int64_t>(counters.flagged));
    EXPECT_GT(got.flagged, 0);
  }
}

TEST(RowOperations, EverySplitGivesTheBitsOfOneDevice) {
  Scene one = make_scene("host:1");
  for (const int rows : {0, 1, 20, 33, 700}) {
    const Inputs in(rows);
    const Answers want = run_all(one, in, false);
    if (rows == 700) {
      for (const auto& [name, answer] : want) EXPECT_GT(answer.rejected, 20) << name;
      EXPECT_GT(want.at("segment_penetration").flagged, 10);
    }
    for (const char* devices : {"host:3x1", "sim:4"}) {
      Scene scene = make_scene(devices);
      const std::vector<std::string> none;
      EXPECT_EQ(none, differences(want, run_all(scene, in, false))) << devices << ' ' << rows;
      const auto in_chunks = [&](RowOptions& o) {
        o.weights.assign(static_cast<std::size_t>(scene.devices().size()), 1);
        o.weights[0] = 0.3;
        o.weights[1] = 5;
        o.chunk_rows = 37;
      };
      EXPECT_EQ(none, differences(want, run_all(scene, in, false, in_chunks))) << devices << ' ' << rows;
      EXPECT_EQ(none, differences(want, run_all(scene, in, true, in_chunks))) << devices << ' ' << rows;
    }
  }
}

TEST(RowOperations, TheFullRecordHas72Bytes) {
  Scene scene = make_scene("host:1");
  const Inputs in(3);
  std::uint32_t bytes = 0;
  const Intersections hits = intersect(scene, in.rays()).get();
  for (const std::uint32_t column : hits.table->row_bytes) bytes += column;
  EXPECT_EQ(bytes, 72u);
  IntersectOptions reduced;
  reduced.fields = IntersectFields::none;
  const Intersections few = intersect(scene, in.rays(), reduced).get();
  EXPECT_TRUE(few.t.exists());
  EXPECT_FALSE(few.point.exists());
  EXPECT_FALSE(few.uv.exists());
  EXPECT_EQ(few.t.to_host(), hits.t.to_host());
}

TEST(RowOperations, EmbreeFindsTheSameSurfaces) {
  Scene embree = make_scene("host:1", TracerChoice::automatic), bvh = make_scene("host:1");
  if (embree.tracer_name(0) != "embree") GTEST_SKIP() << "built without Embree";
  const Inputs in(3000);
  const Answers a = run_all(embree, in, false), b = run_all(bvh, in, false);
  // Only closest hits are Embree's.
  for (const std::string& name : differences(a, b))
    EXPECT_TRUE(name == "intersect" || name == "trace_reflections") << name;
  const std::vector<float> ta = intersect(embree, in.rays()).get().t.to_host(),
                           tb = intersect(bvh, in.rays()).get().t.to_host();
  std::size_t different = 0;
  for (std::size_t i = 0; i < ta.size(); ++i) different += ta[i] != tb[i];
  EXPECT_LE(different, ta.size() / 1000);
}

TEST(RowOperations, ASceneWithoutFaces) {
  SceneModel empty;
  empty.add_mesh(Mesh{});
  Scene scene(open_devices("host:2x1"), std::move(empty));
  scene.build();
  const std::vector<Vec3f> o{{0, 0, 0}, {1, 2, 3}}, d{{1, 0, 0}, {0, 1, 0}};
  const Intersections hits = intersect(scene, Rays{o, d, {}, {}}).get();
  EXPECT_EQ(hits.t.to_host(), (std::vector<float>{INFINITY, INFINITY}));
  EXPECT_EQ(hits.shape_id.to_host(), (std::vector<std::int32_t>{-1, -1}));
  EXPECT_EQ(visible(scene, Segments{o, d, {}, {}}).get().visible.to_host(),
            (std::vector<std::uint8_t>{1, 1}));
  EXPECT_EQ(hits.rejected, 0);
}

TEST(RowOperations, CamerasThroughTheDispatcher) {
  Scene scene = make_scene("sim:3");
  const std::vector<Vec2f> samples{{0.5f, 0.5f}, {0, 0}, {1, 0.25f}, {NAN, 0}, {0.3f, 0.9f}};
  Transform pose = Transform::translation({1, 2, 3});
  const Camera camera{400, 300, 80, pose};
  RowOptions options;
  options.min_rows_per_device = 0;
  options.chunk_rows = 2;
  const auto run = [&](RowOperation operation, std::vector<RowInput> columns) {
    RowSource source;
    source.kind = SourceKind::on_master;
    source.columns = std::move(columns);
    return scene.rows().run(std::move(operation), source, RowSink{}, options).get();
  };
  const RowResult rays = run(sample_ray_operation(camera), {std::span<const Vec2f>(samples)});
  EXPECT_EQ(rays.rejected, 1);
  EXPECT_EQ(Column<Vec3f>(rays.table, SampleRayColumns::origin).to_host()[0], (Vec3f{1, 2, 3}));
  const RowResult points =
      run(sample_to_world_operation(camera, 4), {std::span<const Vec2f>(samples), RowInput()});
  const std::vector<Vec3f> p = Column<Vec3f>(points.table, SampleToWorldColumns::point).to_host();
  EXPECT_EQ(p[0], (Vec3f{1, 2, 7}));
  const RowResult back = run(world_to_sample_operation(camera), {std::span<const Vec3f>(p)});
  const std::vector<Vec2f> s = Column<Vec2f>(back.table, WorldToSampleColumns::sample).to_host();
  for (const std::size_t i : {0u, 1u, 2u, 4u}) {
    EXPECT_NEAR(s[i].x, samples[i].x, 1e-5);
    EXPECT_NEAR(s[i].y, samples[i].y, 1e-5);
  }
}

void expect_usage(const std::string& fragment, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "accepted, in spite of: " << fragment;
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::usage) << error.what();
    EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos) << error.what();
  }
}

TEST(RowOperations, RefusalsNameTheArgument) {
  Scene scene = make_scene("host:1");
  expect_usage("trace_reflections: max_bounces must be at least 1 (got 0)", [&] {
    reflections_operation(scene, {0, ReflectionFields::full, false, false});
  });
  expect_usage("max_bounces must be at most", [&] {
    reflections_operation(scene, {1 << 30, ReflectionFields::full, false, false});
  });
  expect_usage("segment_penetration: hit_capacity must be at least 0 (got -1)", [&] {
    penetration_operation(scene, {-1, PenetrationFields::all, false});
  });
  expect_usage("visible_chain: points must have at least two points a chain (got 1)", [&] {
    visible_chain_operation(scene, {1, 0, true, false, true});
  });
  expect_usage("ignore", [&] { visible_operation(scene, {-2, false, false}); });
  VisibleEdgeRequest edge;
  edge.fractions = {};
  expect_usage("visible_edge: fractions must hold 1 to 16 numbers (got 0)",
               [&] { visible_edge_operation(scene, edge); });
  edge.fractions.assign(17, 0.5f);
  expect_usage("(got 17)", [&] { visible_edge_operation(scene, edge); });
  edge.fractions = {0, INFINITY};
  expect_usage("finite (got inf at index 1)", [&] { visible_edge_operation(scene, edge); });
}

TEST(RowOperations, ScenesMustBeReady) {
  Scene scene(open_devices("host:1"), room_with_blocks());
  const auto state_error = [&](const std::string& fragment, const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::state) << error.what();
      EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos) << error.what();
    }
  };
  state_error("intersect: the scene is not built", [&] { intersect_operation(scene, {}); });
  state_error("visible: the scene is not built", [&] { visible_operation(scene, {}); });
  scene.build();
  scene.model().set_instance_transform(2, Transform{});
  state_error("pending updates", [&] { intersect_operation(scene, {}); });
  scene.sync();
  intersect_operation(scene, {});
}

}  // namespace
}  // namespace shardwise::testing
