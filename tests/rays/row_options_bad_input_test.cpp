// What callers of operations on rows get wrong in options, functions, streams and memory of their own.

#include "row_bad_input.hpp"

#include <gtest/gtest.h>

namespace shardwise::test {
namespace {

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
