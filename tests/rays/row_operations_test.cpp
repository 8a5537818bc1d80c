// Whole operations: columns go where they belong, every split gives the bits of one device, bad calls are
// refused by name. What the bodies compute is tested beside this file.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

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

namespace shardwise {
namespace {

Mesh box(const char* name, Vec3f low, Vec3f high, bool flat) {
  Mesh mesh;
  mesh.name = name;
  for (int k = 0; k < 8; ++k)
    mesh.vertices.push_back({k & 1 ? high.x : low.x, k & 2 ? high.y : low.y, k & 4 ? high.z : low.z});
  mesh.faces = {{0, 2, 3}, {0, 3, 1}, {4, 5, 7}, {4, 7, 6}, {0, 1, 5}, {0, 5, 4},
                {2, 6, 7}, {2, 7, 3}, {0, 4, 6}, {0, 6, 2}, {1, 3, 7}, {1, 7, 5}};
  mesh.use_face_normals = flat;
  return mesh;
}

/// A room with blocks in it.
SceneModel model() {
  SceneModel m;
  m.add_mesh(box("room", {-10, -10, -1}, {10, 10, 9}, true));
  const std::int32_t block = m.add_mesh(box("block", {0, 0, -1}, {2, 3, 4}, false));
  for (int k = 0; k < 5; ++k)
    m.add_instance(block, Transform::translation({-8.0 + 3.5 * k, -7 + 2.5 * k, 0.1 * k}));
  return m;
}

struct Inputs {
  std::vector<Vec3f> origins, directions, targets, others;
  std::vector<float> tmax, zero, one;
  std::vector<std::uint8_t> active;
  std::vector<std::int32_t> ignore, chain_length;
  std::vector<Vec3f> chains;
  static constexpr int ignored = 2, points = 4;

  explicit Inputs(int rows) {
    std::mt19937 random(9);
    const auto number = [&](float low, float high) {
      return std::uniform_real_distribution<float>(low, high)(random);
    };
    const auto place = [&] { return Vec3f{number(-9, 9), number(-9, 9), number(-0.5f, 8)}; };
    for (int i = 0; i < rows; ++i) {
      origins.push_back(place());
      targets.push_back(place());
      others.push_back(place());
      directions.push_back({number(-1, 1), number(-1, 1), number(-1, 1)});
      tmax.push_back(i % 4 == 0 ? number(1, 20) : INFINITY);
      zero.push_back(0);
      one.push_back(1);
      active.push_back(i % 13 != 0);
      for (int k = 0; k < ignored; ++k) ignore.push_back(static_cast<std::int32_t>(random() % 90) - 1);
      chain_length.push_back(static_cast<std::int32_t>(random() % 5) - 1);
      for (int k = 0; k < points; ++k) chains.push_back(place());
      if (i % 17 == 0) origins.back().x = NAN;
    }
  }
  Rays rays() const { return {origins, directions, tmax, active}; }
};

/// The bytes of all columns of an answer.
std::vector<std::byte> bytes_of(const RowAnswer& answer) {
  std::vector<std::byte> all;
  for (std::size_t c = 0; c < answer.table->names.size(); ++c) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(answer.table->rows) * answer.table->row_bytes[c]);
    answer.table->read(static_cast<int>(c), bytes);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

/// Every operation with all its columns.
struct Answers {
  std::vector<std::byte> bytes[7];
  std::int64_t rejected[7] = {}, flagged[7] = {};
  friend bool operator==(const Answers&, const Answers&) = default;
};

Answers run_all(Scene& scene, const Inputs& in, const std::function<void(RowOptions&)>& change = {}) {
  Answers answers;
  int index = 0;
  const auto keep = [&](const RowAnswer& answer) {
    answers.bytes[index] = bytes_of(answer);
    answers.rejected[index] = answer.rejected;
    answers.flagged[index] = answer.flagged;
    ++index;
  };
  const auto apply = [&](RowOptions& options) {
    options.min_rows_per_device = 0;
    if (change) change(options);
  };
  IntersectOptions full;
  apply(full);
  keep(intersect(scene, in.rays(), full).get());
  VisibleOptions first;
  apply(first);
  first.first_blocker = true;
  keep(visible(scene, Segments{in.origins, in.targets, in.ignore, in.active}, first).get());
  VisiblePairOptions pair;
  apply(pair);
  keep(
      visible_pair(scene, SegmentPairs{in.origins, in.targets, in.others, in.ignore, in.active}, pair).get());
  VisibleEdgeOptions edge;
  apply(edge);
  keep(visible_edge(
           scene, EdgeSegments{in.origins, in.targets, in.directions, in.zero, in.one, in.ignore, in.active},
           edge)
           .get());
  VisibleChainOptions chain;
  apply(chain);
  chain.points_per_chain = Inputs::points;
  keep(visible_chain(scene, Chains{in.chains, in.chain_length, {}, in.active}, chain).get());
  ReflectionOptions reflections;
  apply(reflections);
  reflections.max_bounces = 3;
  reflections.fields = ReflectionFields::all;
  keep(trace_reflections(scene, in.rays(), reflections).get());
  PenetrationOptions penetration;
  apply(penetration);
  penetration.hit_capacity = 2;
  keep(segment_penetration(scene, PenetrationSegments{in.origins, in.targets, in.active}, penetration).get());
  return answers;
}

Scene make_scene(const std::string& devices, TracerChoice tracer = TracerChoice::bvh) {
  Scene scene(open_devices(devices), model(), {tracer});
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
    const Answers want = run_all(one, in);
    if (rows == 700) {
      EXPECT_GT(want.rejected[0], 20);
      EXPECT_GT(want.flagged[6], 10);
    }
    for (const char* devices : {"host:3x1", "sim:4"}) {
      Scene scene = make_scene(devices);
      EXPECT_EQ(want, run_all(scene, in)) << devices << ' ' << rows;
      EXPECT_EQ(want, run_all(scene, in,
                              [&](RowOptions& o) {
                                o.weights.assign(static_cast<std::size_t>(scene.devices().size()), 1);
                                o.weights[0] = 0.3;
                                o.weights[1] = 5;
                                o.chunk_rows = 37;
                              }))
          << devices << ' ' << rows << " in chunks";
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
  const Answers a = run_all(embree, in), b = run_all(bvh, in);
  // Visibility and penetration are the BVH's in either case.
  for (const int index : {1, 2, 3, 4, 6}) EXPECT_EQ(a.bytes[index], b.bytes[index]) << index;
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
  Scene scene(open_devices("host:1"), model());
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
}  // namespace shardwise
