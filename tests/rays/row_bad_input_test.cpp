// What callers of operations on rows get wrong, through the public calls. Refusals come before anything runs,
// name the operation and what was found, and leave the scene as it was.
//
// Elsewhere: rows in the wrong memory and devices named twice in gpu/row_bad_input_gpu_test.cpp; unknown,
// missing and unlike devices in runtime/devices_test.cpp; arguments of factories in row_operations_test.cpp;
// updates that are refused as such in scene/scene_test.cpp; failing kernels in
// dispatch/row_dispatch_test.cpp.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <regex>

#include "dispatch/row_dispatcher.hpp"
#include "row_sweep.hpp"
#include "scene/scene_test_util.hpp"
#include "shardwise/rays/camera.hpp"

namespace shardwise::test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr int ignored = 2, chain_points = 4;

Scene built(const char* devices, SceneModel model = test_model()) {
  Scene scene(open_devices(devices), std::move(model));
  scene.build();
  return scene;
}

/// Good columns for every operation, to be spoiled.
struct Rows {
  std::vector<Vec3f> a, b, c, chain;
  std::vector<float> tmax, t_min;
  std::vector<std::uint8_t> active;
  std::vector<std::int32_t> ignore, chain_ignore, chain_length;
  std::vector<Vec2f> samples;

  explicit Rows(int rows) {
    std::mt19937 random(17);
    std::uniform_real_distribution<float> place(-2.5f, 2.5f), unit(0.1f, 1);
    const auto point = [&] { return Vec3f{place(random), place(random), place(random)}; };
    for (int i = 0; i < rows; ++i) {
      a.push_back(point());
      b.push_back(point());
      c.push_back(point());
      tmax.push_back(6 * unit(random));
      t_min.push_back(0);
      active.push_back(1);
      samples.push_back({unit(random), unit(random)});
      chain_length.push_back(chain_points - 1);
      for (int p = 0; p < chain_points; ++p) chain.push_back(point());
      for (int k = 0; k < ignored; ++k) ignore.push_back(static_cast<std::int32_t>(random() % 60));
      for (int k = 0; k < ignored * (chain_points - 1); ++k) chain_ignore.push_back(-1);
    }
  }
  Rays rays() const { return {a, c, tmax, active}; }
};

/// One operation with its columns, all of them given.
struct Call {
  std::string name;
  std::vector<std::string> columns;  ///< as messages call them
  std::function<RowSource(const Rows&)> source;
  std::function<Pending<RowResult>(Scene&, const RowSource&, const RowCallOptions&)> run;
};

template <class Options, class Function>
auto call_of(Function function, const std::function<void(Options&)>& change = {}) {
  return [function, change](Scene& scene, const RowSource& source, const RowCallOptions& common) {
    Options options;
    static_cast<RowCallOptions&>(options) = common;
    if (change) change(options);
    using Answer = decltype(function(scene, source, options).get());
    auto inner = std::make_shared<Pending<Answer>>(function(scene, source, options));
    return Pending<RowResult>([inner] { return RowResult(inner->get()); });
  };
}

std::vector<Call> all_calls() {
  const auto rays = [](const Rows& r) { return RowSource(r.rays()); };
  const auto points = [](const Rows& r) { return RowSource(Points{r.a, r.active}); };
  return {
      {"intersect", {"origin", "direction", "tmax", "active"}, rays, call_of<IntersectOptions>(intersect)},
      {"trace_reflections",
       {"origin", "direction", "tmax", "active"},
       rays,
       call_of<ReflectionOptions>(trace_reflections,
                                  [](ReflectionOptions& options) {
                                    options.max_bounces = 3;
                                    options.fields = ReflectionFields::all;
                                  })},
      {"nearest_edge",
       {"origin", "direction", "tmax", "active"},
       rays,
       call_of<RowCallOptions>(nearest_edge_of_rays)},
      {"nearest_edge", {"point", "active"}, points, call_of<NearestEdgeOptions>(nearest_edge_of_points)},
      {"nearest_edges",
       {"point", "active"},
       points,
       call_of<NearestEdgesOptions>(nearest_edges, [](NearestEdgesOptions& options) { options.k = 3; })},
      {"visible",
       {"start", "end", "ignore", "active"},
       [](const Rows& r) {
         return RowSource(Segments{r.a, r.b, r.ignore, r.active});
       },
       call_of<VisibleOptions>(visible, [](VisibleOptions& options) { options.first_blocker = true; })},
      {"visible_pair",
       {"start", "end_a", "end_b", "ignore", "active"},
       [](const Rows& r) {
         return RowSource(SegmentPairs{r.a, r.b, r.c, r.ignore, r.active});
       },
       call_of<VisiblePairOptions>(visible_pair)},
      {"visible_edge",
       {"source", "edge_position", "edge_direction", "t_min", "t_max", "ignore", "active"},
       [](const Rows& r) {
         return RowSource(EdgeSegments{r.a, r.b, r.c, r.t_min, r.tmax, r.ignore, r.active});
       },
       call_of<VisibleEdgeOptions>(visible_edge)},
      {"visible_chain",
       {"points", "chain_length", "ignore", "active"},
       [](const Rows& r) {
         return RowSource(Chains{r.chain, r.chain_length, r.chain_ignore, r.active});
       },
       call_of<VisibleChainOptions>(
           visible_chain, [](VisibleChainOptions& options) { options.points_per_chain = chain_points; })},
      {"segment_penetration",
       {"origin", "target", "active"},
       [](const Rows& r) {
         return RowSource(PenetrationSegments{r.a, r.b, r.active});
       },
       call_of<PenetrationOptions>(segment_penetration,
                                   [](PenetrationOptions& options) { options.hit_capacity = 2; })},
  };
}

RowCallOptions spread() {
  RowCallOptions options;
  options.min_rows_per_device = 0;
  return options;
}

// ---- columns

TEST(RowBadInput, ColumnsOfWrongLengthsAreRefusedByName) {
  Scene scene = built("host:2x1");
  const Rows rows(30);
  for (const Call& call : all_calls())
    for (const SourceKind kind : {SourceKind::on_master, SourceKind::on_host})
      for (std::size_t c = 0; c < call.columns.size(); ++c) {
        SCOPED_TRACE(call.name + ", column " + call.columns[c]);
        RowSource source = call.source(rows);
        source.kind = kind;
        ASSERT_EQ(source.columns.size(), call.columns.size());
        source.columns[c].rows -= 1;
        // The first column sets the number of rows, so another one is told not to fit.
        expect_error(ErrorClass::usage, {call.name, c == 0 ? "" : call.columns[c]},
                     [&] { (void)call.run(scene, source, spread()); });
      }
  EXPECT_EQ(scene.rows().spread_calls(), 0);
}

TEST(RowBadInput, BadRowsAreInactiveCountedAndTouchNoOther) {
  constexpr int count = 300;
  using Spoil = std::function<void(Rows&, std::size_t)>;
  const Spoil bad_a = [](Rows& r, std::size_t i) { r.a[i].y = nan; };
  const Spoil bad_b = [](Rows& r, std::size_t i) { r.b[i].x = infinity; };
  const Spoil zero_c = [](Rows& r, std::size_t i) { r.c[i] = {0, 0, 0}; };
  const Spoil bad_c = [](Rows& r, std::size_t i) { r.c[i].z = nan; };
  const Spoil bad_tmax = [](Rows& r, std::size_t i) { r.tmax[i] = nan; };
  const Spoil zero_tmax = [](Rows& r, std::size_t i) { r.tmax[i] = 0; };
  const Spoil negative_tmax = [](Rows& r, std::size_t i) { r.tmax[i] = -1; };
  const Spoil bad_chain = [](Rows& r, std::size_t i) { r.chain[i * chain_points].x = nan; };
  const std::vector<Spoil> of_rays{bad_a, zero_c, bad_c, bad_tmax, zero_tmax, negative_tmax};
  const std::map<std::string, std::vector<Spoil>> spoils{
      {"intersect", of_rays},     {"trace_reflections", of_rays}, {"nearest_edge", of_rays},
      {"nearest_edges", {bad_a}}, {"visible", {bad_a, bad_b}},    {"visible_pair", {bad_a}},
      {"visible_edge", {bad_a}},  {"visible_chain", {bad_chain}}, {"segment_penetration", {bad_a, bad_b}},
  };
  for (const char* devices : {"host:1x1", "host:3x1", "sim:2"}) {
    Scene scene = built(devices);
    for (const Call& call : all_calls()) {
      SCOPED_TRACE(call.name + " on " + devices);
      const bool of_points = call.columns.front() == "point";
      const std::vector<Spoil>& ways = of_points ? spoils.at("nearest_edges") : spoils.at(call.name);
      Rows spoilt(count), switched_off(count);
      std::int64_t bad = 0;
      for (std::size_t i = 0; i < count; i += 7, ++bad) {
        ways[static_cast<std::size_t>(bad) % ways.size()](spoilt, i);
        switched_off.active[i] = 0;
      }
      const RowResult found = call.run(scene, call.source(spoilt), spread()).get();
      const RowResult expected = call.run(scene, call.source(switched_off), spread()).get();
      EXPECT_EQ(found.rejected, bad);
      EXPECT_EQ(expected.rejected, 0);
      EXPECT_TRUE(bytes_of(*found.table) == bytes_of(*expected.table));
    }
  }
}

TEST(RowBadInput, EmptyBatchesGiveEmptyAnswers) {
  const Rows none(0);
  for (const char* devices : {"host:1x1", "host:3x1", "sim:3"}) {
    Scene scene = built(devices);
    for (const Call& call : all_calls())
      for (const SourceKind kind : {SourceKind::on_master, SourceKind::on_host})
        for (const std::int64_t chunk : {0, 10})
          for (int sink = 0; sink < 5; ++sink) {
            SCOPED_TRACE(call.name + " on " + devices + ", sink " + std::to_string(sink));
            RowCallOptions options = spread();
            options.chunk_rows = chunk;
            int hooks = 0;
            options.sink.kind = static_cast<SinkKind>(sink);
            options.sink.hook = [&](const RowChunk&) { ++hooks; };
            options.sink.reducer.partial_bytes = 8;
            options.sink.reducer.fold = [](LaunchContext&, const RowLaunch&, void*) {};
            options.sink.reducer.merge = [](LaunchContext&, void*, const void*) {};
            RowSource source = call.source(none);
            source.kind = kind;
            const RowResult result = call.run(scene, source, options).get();
            EXPECT_EQ(result.rows + result.rejected + result.flagged, 0);
            EXPECT_EQ(hooks, 0);
            EXPECT_EQ(result.reduced.size(), options.sink.kind == SinkKind::reduce ? 8u : 0u);
            if (result.table) {
              EXPECT_TRUE(bytes_of(*result.table).empty());
            }
          }
    IntersectOptions sum;
    sum.sink = reduce(sum_of_column(IntersectColumns::t));
    EXPECT_EQ(column_sum(intersect(scene, generated(random_rays(0, {}, {})), sum).get()).count, 0);
  }
}

TEST(RowBadInput, RowsFromElsewhereMustBeTheOperationsColumns) {
  Scene scene = built("host:2x1"), larger = built("host:3x1");
  const Rows rows(60);
  RowCallOptions stay = spread();
  stay.sink = left_resident();
  const CameraRays rays = sample_ray(scene, Camera{}, Samples{rows.samples, {}}, stay).get();
  const CameraRays other = sample_ray(scene, Camera{}, Samples{rows.samples, {}}, stay).get();
  expect_error(ErrorClass::usage, {"resident", "two results"}, [&] {
    (void)resident({rays.origin, other.direction});
  });
  expect_error(ErrorClass::usage, {"intersect", "direction is missing"},
               [&] { (void)intersect(scene, resident({rays.origin})); });
  expect_error(ErrorClass::usage, {"intersect", "origin is missing"}, [&] {
    (void)intersect(scene, resident({{}, rays.direction}));
  });
  expect_error(ErrorClass::usage, {"intersect", "tmax needs 4 bytes", "12"}, [&] {
    (void)intersect(scene, resident({rays.origin, rays.direction, rays.origin}));
  });
  expect_error(ErrorClass::usage, {"5 columns", "4 inputs"}, [&] {
    (void)intersect(scene, resident({rays.origin, rays.direction, {}, {}, rays.origin}));
  });
  expect_error(ErrorClass::usage, {"intersect", "empty"}, [&] { (void)intersect(scene, resident({})); });
  const CameraRays three = sample_ray(larger, Camera{}, Samples{rows.samples, {}}, stay).get();
  expect_error(ErrorClass::usage, {"device 2", "2 devices"}, [&] {
    (void)intersect(scene, resident({three.origin, three.direction}));
  });
  stay.sink = to_host();
  const CameraRays sent = sample_ray(scene, Camera{}, Samples{rows.samples, {}}, stay).get();
  expect_error(ErrorClass::usage, {"host memory", "on_host"}, [&] {
    (void)intersect(scene, resident({sent.origin, sent.direction}));
  });

  const RowSource made = generated(random_rays(10, {}, {1, 1, 1}));
  expect_error(ErrorClass::usage, {"visible_pair", "end_b is missing", "random rays"},
               [&] { (void)visible_pair(scene, made); });
  expect_error(ErrorClass::usage, {"nearest_edge", "active needs 1 bytes", "random rays", "12"},
               [&] { (void)nearest_edge_of_points(scene, made); });
  expect_error(ErrorClass::usage, {"world_to_sample", "2 columns", "1 inputs"},
               [&] { (void)world_to_sample(scene, Camera{}, made); });
  RowGenerator empty;
  empty.name = "nothing";
  empty.rows = 3;
  expect_error(ErrorClass::usage, {"intersect", "'nothing'"},
               [&] { (void)intersect(scene, generated(empty)); });
  expect_error(ErrorClass::usage, {"random_rays", "-1"}, [&] { (void)random_rays(-1, {}, {}); });
  expect_error(ErrorClass::usage, {"random_rays", "nan"}, [&] { (void)random_rays(1, {nan, 0, 0}, {}); });
  EXPECT_EQ(larger.rows().spread_calls(), 1);
}

// ---- options

TEST(RowBadInput, CountsOutOfRangeAreRefusedWithTheValue) {
  Scene scene = built("host:2x1");
  const Rows rows(10);
  const Points points{rows.a, {}};
  for (const int k : {0, -1, 17, std::numeric_limits<int>::max()}) {
    NearestEdgesOptions options;
    options.k = k;
    expect_error(ErrorClass::usage, {"nearest_edges: k must be in [1, 16]", std::to_string(k)},
                 [&] { (void)nearest_edges(scene, points, options); });
  }
  for (const int k : {1, 16}) {
    NearestEdgesOptions options;
    options.k = k;
    EXPECT_EQ(nearest_edges(scene, points, options).get().distance.to_host().size(),
              rows.a.size() * static_cast<std::size_t>(k));
  }
  ReflectionOptions bounces;
  bounces.max_bounces = 0;
  expect_error(ErrorClass::usage, {"trace_reflections: max_bounces", "0"},
               [&] { (void)trace_reflections(scene, rows.rays(), bounces); });
  PenetrationOptions slots;
  slots.hit_capacity = -1;
  expect_error(ErrorClass::usage, {"segment_penetration: hit_capacity", "-1"}, [&] {
    (void)segment_penetration(scene, PenetrationSegments{rows.a, rows.b, {}}, slots);
  });
  VisibleChainOptions chain;
  chain.points_per_chain = 1;
  expect_error(ErrorClass::usage, {"visible_chain", "two points", "1"}, [&] {
    (void)visible_chain(scene, Chains{rows.chain, {}, {}, {}}, chain);
  });
  VisibleOptions ignore;
  ignore.ignore_count = -2;
  expect_error(ErrorClass::usage, {"visible: ignore_count", "-2"}, [&] {
    (void)visible(scene, Segments{rows.a, rows.b, {}, {}}, ignore);
  });
  IntersectOptions chunks;
  chunks.chunks_per_device = 0;
  expect_error(ErrorClass::usage, {"intersect", "chunks_per_device", "0"},
               [&] { (void)intersect(scene, rows.rays(), chunks); });
  chunks = {};
  chunks.chunk_rows = -5;
  expect_error(ErrorClass::usage, {"intersect", "-5"}, [&] { (void)intersect(scene, rows.rays(), chunks); });
  chunks = {};
  chunks.mode = DispatchMode::chunked;
  expect_error(ErrorClass::usage, {"intersect", "chunk size or a memory budget"},
               [&] { (void)intersect(scene, rows.rays(), chunks); });
  chunks = {};
  chunks.mode = DispatchMode::direct;
  expect_error(ErrorClass::usage, {"intersect", "'direct'"},
               [&] { (void)intersect(scene, on_host(rows.rays()), chunks); });
  EXPECT_EQ(scene.rows().spread_calls(), 0);
}

TEST(RowBadInput, WeightsAreRefusedWhereverTheyStand) {
  Scene scene = built("host:3x1");
  const Rows rows(30);
  const std::vector<std::vector<double>> bad{
      {1}, {1, 1}, {1, 1, 1, 1}, {1, -1, 1}, {1, std::nan(""), 1}, {1, HUGE_VAL, 1}, {0, 0, 0}};
  for (const Call& call : all_calls())
    for (const std::vector<double>& weights : bad) {
      RowCallOptions options = spread();
      options.weights = weights;
      expect_error(ErrorClass::usage, {call.name, "weight"},
                   [&] { (void)call.run(scene, call.source(rows), options); });
      options.weights = {};
      options.operation_weights = {{call.name, weights}};
      expect_error(ErrorClass::usage, {call.name, "weight"},
                   [&] { (void)call.run(scene, call.source(rows), options); });
    }
  RowCallOptions typo = spread();
  typo.operation_weights = {{"nearest_egde", {1, 1, 1}}};
  expect_error(ErrorClass::usage, {"nearest_edge"}, [&] {
    (void)intersect(scene, rows.rays(), {{typo}, IntersectFields::all});
  });
  EXPECT_EQ(scene.rows().spread_calls(), 0);
}

TEST(RowBadInput, BudgetsTooSmallSayTheBytesNeededAndTheseSuffice) {
  const Rows rows(300);
  for (const char* devices : {"host:1x1", "sim:2"}) {
    Scene scene = built(devices);
    for (const Call& call : all_calls())
      for (const SinkKind sink :
           {SinkKind::to_master, SinkKind::to_host, SinkKind::resident, SinkKind::offload}) {
        SCOPED_TRACE(call.name + " on " + devices + ", " + to_string(sink));
        RowCallOptions options = spread();
        options.memory_bytes = 100;
        options.sink.kind = sink;
        if (sink == SinkKind::offload) options.sink.hook = [](const RowChunk&) {};
        std::string message;
        expect_error(ErrorClass::budget, {call.name, "100 bytes", "needs"}, [&] {
          try {
            (void)call.run(scene, call.source(rows), options);
          } catch (const Error& error) {
            message = error.what();
            throw;
          }
        });
        std::smatch needed;
        ASSERT_TRUE(std::regex_search(message, needed, std::regex("needs ([0-9]+) bytes"))) << message;
        options.memory_bytes = std::stoull(needed[1]);
        // What calls before this one give back is not counted.
        for (const stream_ref& stream : scene.executor().default_context().streams) stream->synchronize();
        const RowResult result = call.run(scene, call.source(rows), options).get();
        EXPECT_EQ(result.rows, 300);
        for (const DeviceReport& device : result.dispatch.devices)
          EXPECT_LE(device.peak_bytes, options.memory_bytes) << device.name;
      }
    RowCallOptions both = spread();
    both.memory_bytes = 1 << 20;
    both.chunk_rows = 1 << 20;
    both.sink = offload([](const RowChunk&) {});
    const Rows many(40000);
    expect_error(ErrorClass::budget, {"intersect", "1048576 bytes", "the largest chunk that fits has"}, [&] {
      (void)intersect(scene, on_host(many.rays()), {{both}, IntersectFields::all});
    });
  }
}

// ---- functions of the caller

TEST(RowBadInput, AHookThatThrowsEndsItsCallOnly) {
  const Rows rows(2000);
  for (const char* devices : {"host:1x1", "host:3x1", "sim:2"}) {
    Scene scene = built(devices);
    const RowResult expected = intersect(scene, rows.rays()).get();
    for (const bool host_memory : {false, true}) {
      IntersectOptions options;
      options.min_rows_per_device = 0;
      options.chunk_rows = 100;
      int calls = 0;
      options.sink = offload(
          [&](const RowChunk&) {
            if (++calls == 2) throw Error(ErrorClass::data, "the disk is full");
          },
          host_memory);
      Pending<Intersections> pending = intersect(scene, rows.rays(), options);
      expect_error(ErrorClass::data, {"the disk is full"}, [&] { pending.wait(); });
      EXPECT_EQ(calls, 2) << "no hook after the one that threw";
      options.sink = offload([](const RowChunk&) { throw 7; }, host_memory);
      Pending<Intersections> other = intersect(scene, rows.rays(), options);
      EXPECT_THROW(other.wait(), int);
      EXPECT_FALSE(scene.is_poisoned());
      EXPECT_TRUE(bytes_of(*intersect(scene, rows.rays()).get().table) == bytes_of(*expected.table));
    }
    if (SimWorld* world = scene.devices().sim_world()) {
      EXPECT_TRUE(world->races().empty());
    }
  }
}

TEST(RowBadInput, GeneratorsAndReducersThatThrowEndTheirCallOnly) {
  const Rows rows(2000);
  for (const char* devices : {"host:1x1", "host:3x1", "sim:2"}) {
    Scene scene = built(devices);
    const RowResult expected = intersect(scene, rows.rays()).get();
    IntersectOptions options;
    options.min_rows_per_device = 0;
    options.sink = reduce(sum_of_column(IntersectColumns::t));
    RowGenerator failing = random_rays(2000, {}, {1, 1, 1});
    failing.make = [make = failing.make](LaunchContext& context, const RowLaunch& launch) {
      if (launch.first_row + launch.count == 2000) throw Error(ErrorClass::data, "no such ray");
      make(context, launch);
    };
    expect_error(ErrorClass::data, {"no such ray"},
                 [&] { (void)intersect(scene, generated(failing), options).get(); });
    // A column that the call was not asked for.
    options.sink = reduce(sum_of_column(IntersectColumns::t + 1));
    options.fields = IntersectFields::none;
    expect_error(ErrorClass::usage, {"sum_of_column", "column 1"},
                 [&] { (void)intersect(scene, rows.rays(), options).get(); });
    EXPECT_FALSE(scene.is_poisoned());
    EXPECT_TRUE(bytes_of(*intersect(scene, rows.rays()).get().table) == bytes_of(*expected.table));
  }
}

// ---- scenes that are not ready

void expect_all_refused(Scene& scene, ErrorClass expected, const std::string& fragment) {
  const Rows rows(10);
  for (const Call& call : all_calls()) {
    SCOPED_TRACE(call.name);
    expect_error(expected, {call.name, fragment},
                 [&] { (void)call.run(scene, call.source(rows), spread()); });
    RowCallOptions plan = spread();
    plan.plan_only = true;
    expect_error(expected, {call.name, fragment}, [&] { (void)call.run(scene, call.source(rows), plan); });
  }
}

TEST(RowBadInput, ScenesThatAreNotReadyRefuseEveryOperation) {
  for (const char* devices : {"host:1x1", "host:2x1", "sim:2"}) {
    Scene scene(open_devices(devices), moving_model());
    expect_all_refused(scene, ErrorClass::state, "build()");
    // What needs no scene works.
    const Rows rows(10);
    EXPECT_EQ(sample_ray(scene, Camera{}, Samples{rows.samples, {}}).get().rows, 10);
    scene.build();
    move_triangle(scene.model(), 1);
    expect_all_refused(scene, ErrorClass::state, "sync()");
    scene.model().sync();  // behind the scene's back
    expect_all_refused(scene, ErrorClass::state, "sync()");
    scene.sync();
    EXPECT_EQ(intersect(scene, rows.rays()).get().rows, 10);
  }
}

TEST(RowBadInput, AnUpdateThatFailsOnTheSecondDevicePoisonsUntilBuild) {
  const std::vector<std::pair<const char*, std::function<void(Scene&)>>> updates{
      {"sync",
       [](Scene& scene) {
         move_triangle(scene.model(), 2);
         scene.sync();
       }},
      {"set_edge_mask",
       [](Scene& scene) {
         scene.set_edge_mask(std::vector<std::uint8_t>{1, 0, 1});
       }},
      {"build", [](Scene& scene) { scene.build(); }},
  };
  const Rows rows(50);
  for (const char* devices : {"host:2x1", "sim:3"})
    for (const auto& [step, update] : updates) {
      SCOPED_TRACE(std::string(step) + " on " + devices);
      Scene scene = built(devices, moving_model());
      (void)nearest_edge(scene, Points{rows.a, {}}).get();  // masks are sent where there are edges
      scene.fail_next_broadcast_on(1);
      expect_error(ErrorClass::device, {scene.devices()[1].name()}, [&] { update(scene); });
      EXPECT_TRUE(scene.is_poisoned());
      expect_all_refused(scene, ErrorClass::poisoned, step);
      expect_error(ErrorClass::poisoned, {"sample_ray", step}, [&] {
        (void)sample_ray(scene, Camera{}, Samples{rows.samples, {}});
      });
      scene.build();
      EXPECT_FALSE(scene.is_poisoned());
      Scene fresh(open_devices("host:1x1"), SceneModel(scene.model()));
      fresh.build();
      for (const Call& call : all_calls())
        EXPECT_TRUE(bytes_of(*call.run(scene, call.source(rows), spread()).get().table) ==
                    bytes_of(*call.run(fresh, call.source(rows), {}).get().table))
            << call.name;
    }
}

TEST(RowBadInput, ALostExitPoisonsUntilBuild) {
  const Rows rows(900);
  for (const char* devices : {"host:3x1", "sim:3"})
    for (int lost = 0; lost < 3; ++lost)
      for (const SinkKind sink :
           {SinkKind::to_master, SinkKind::to_host, SinkKind::resident, SinkKind::offload})
        for (const bool build_first : {false, true}) {
          SCOPED_TRACE(std::string(devices) + ", device " + std::to_string(lost) + ", " + to_string(sink));
          Scene scene = built(devices);
          const RowResult expected = intersect(scene, rows.rays()).get();
          const std::string device = scene.devices()[lost].name();
          IntersectOptions options;
          options.min_rows_per_device = 0;
          options.mode = DispatchMode::pipelined;
          options.sink.kind = sink;
          if (sink == SinkKind::offload) options.sink.hook = [](const RowChunk&) {};
          scene.executor().lose_next_exit_to(lost);
          Pending<Intersections> pending = intersect(scene, rows.rays(), options);
          EXPECT_TRUE(scene.is_poisoned());
          expect_all_refused(scene, ErrorClass::poisoned, "caller of " + device);
          expect_error(ErrorClass::poisoned, {"sample_ray", device, "build()"}, [&] {
            (void)sample_ray(scene, Camera{}, Samples{rows.samples, {}});
          });
          expect_error(ErrorClass::poisoned, {"sync", device, "build()"}, [&] { scene.sync(); });
          expect_error(ErrorClass::poisoned, {"set_edge_mask", device, "build()"},
                       [&] { scene.set_edge_mask({}); });
          if (build_first) scene.build();
          expect_error(ErrorClass::lost, {"exit edge", device}, [&] { (void)pending.get(); });
          if (!build_first) scene.build();
          EXPECT_FALSE(scene.is_poisoned());
          options.sink = to_master();
          EXPECT_TRUE(bytes_of(*intersect(scene, rows.rays(), options).get().table) ==
                      bytes_of(*expected.table));
          if (SimWorld* world = scene.devices().sim_world()) {
            EXPECT_TRUE(world->races().empty());
          }
        }
}

// ---- devices

TEST(RowBadInput, DevicesOfRowsAndStreamsMustBeTheScenes) {
  Scene scene = built("host:2x1");
  const Rows rows(40);
  ExecutionContext one;
  const auto stream = scene.devices().master().create_stream("mine");
  one.streams.emplace_back(*stream);
  RowCallOptions options = spread();
  options.context = &one;
  for (const DispatchMode mode : {DispatchMode::master, DispatchMode::pipelined}) {
    options.mode = mode;
    expect_error(ErrorClass::usage, {"1 streams for 2 devices"}, [&] {
      (void)intersect(scene, rows.rays(), {{options}, IntersectFields::all});
    });
  }
  EXPECT_FALSE(scene.is_poisoned());
  EXPECT_EQ(intersect(scene, rows.rays(), {{spread()}, IntersectFields::all}).get().rows, 40);
}

TEST(RowBadInput, MemoryOfTheCallersIsLargeEnoughAndOfColumnsThatExist) {
  Scene scene = built("host:2x1");
  const Rows rows(40);
  std::vector<float> t(39);
  IntersectOptions options;
  options.min_rows_per_device = 0;
  options.sink = to_master({std::span(t)});
  expect_error(ErrorClass::usage, {"intersect:full: output t has 156 bytes", "40 rows need 160"},
               [&] { (void)intersect(scene, rows.rays(), options); });
  options.sink = to_host({std::span(t)});
  expect_error(ErrorClass::usage, {"output t has 156 bytes"},
               [&] { (void)intersect(scene, rows.rays(), options); });
  options.sink = to_master({{}, {}, {}, {}, {}, {}, {}, {}, {}, std::span(t)});
  expect_error(ErrorClass::usage, {"memory for 10 output columns", "9"},
               [&] { (void)intersect(scene, rows.rays(), options); });
  options.sink = left_resident();
  options.sink.memory = to_master({std::span(t)}).memory;
  expect_error(ErrorClass::usage, {"'resident' takes no memory"},
               [&] { (void)intersect(scene, rows.rays(), options); });
  options.sink = offload({});
  expect_error(ErrorClass::usage, {"'offload' needs a function"},
               [&] { (void)intersect(scene, rows.rays(), options); });
  options.sink = reduce({});
  expect_error(ErrorClass::usage, {"'reduce' needs a reducer"},
               [&] { (void)intersect(scene, rows.rays(), options); });
}

}  // namespace
}  // namespace shardwise::test
