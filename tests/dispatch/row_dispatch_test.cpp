// Every mode, source and sink gives the bits that one device gives.

#include <gtest/gtest.h>

#include <algorithm>

#include "dispatch/row_fixture.hpp"
#include "runtime/sim/sim_world.hpp"

namespace shardwise::test {
namespace {

std::vector<std::byte> bytes_of(const RowTable& table, int column) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(table.rows) *
                               table.row_bytes[static_cast<std::size_t>(column)]);
  table.read(column, bytes);
  return bytes;
}

/// All columns, one after the other.
std::vector<std::byte> bytes_of(const RowTable& table) {
  std::vector<std::byte> all;
  for (std::size_t c = 0; c < table.names.size(); ++c) {
    const auto bytes = bytes_of(table, static_cast<int>(c));
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

template <class T>
void append(std::vector<std::byte>& bytes, const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const std::byte*>(values.data());
  bytes.insert(bytes.end(), begin, begin + values.size() * sizeof(T));
}

struct Expected {
  std::vector<std::byte> bytes;
  std::int64_t rejected = 0, ids = 0;
};

Expected expected_of(const Batch& batch, bool with_active) {
  std::vector<std::int32_t> id;
  std::vector<Vec3f> scaled;
  std::vector<float> length;
  Expected expected;
  for (std::size_t i = 0; i < batch.x.size(); ++i) {
    const bool active = !with_active || batch.active[i];
    const Answer answer = answer_of(batch.x[i], batch.v[i], active);
    id.push_back(answer.id);
    scaled.push_back(answer.scaled);
    length.push_back(answer.length);
    expected.rejected += !active;
    expected.ids += answer.id;
  }
  append(expected.bytes, id);
  append(expected.bytes, scaled);
  append(expected.bytes, length);
  return expected;
}

struct Case {
  std::string devices;
  std::vector<double> weights;
  DispatchMode mode = DispatchMode::automatic;
  std::int64_t chunk = 0;
  SourceKind source = SourceKind::on_master;
  SinkKind sink = SinkKind::to_master;
  bool with_active = false, offload_host = false;
  std::int64_t rows = 0;
};

std::string text(const Case& c) {
  std::string weights;
  for (const double w : c.weights) weights += std::to_string(w) + " ";
  return c.devices + " weights " + weights + " mode " + to_string(c.mode) + " chunk " +
         std::to_string(c.chunk) + " " + to_string(c.source) + " " + to_string(c.sink) + " rows " +
         std::to_string(c.rows);
}

/// Runs a case and compares everything it gives back.
void check(const Case& c, Executor& executor, RowDispatcher& dispatcher) {
  SCOPED_TRACE(text(c));
  const Batch batch = Batch::random(c.rows, static_cast<unsigned>(c.rows + 7));
  const Expected expected = expected_of(batch, c.with_active);
  RowOptions options;
  options.weights = c.weights;
  options.mode = c.mode;
  options.chunk_rows = c.chunk;
  options.min_rows_per_device = 0;
  RowSource source = c.source == SourceKind::generated ? generator_of(batch, c.with_active)
                                                       : source_of(batch, c.source, c.with_active);
  if (c.source == SourceKind::resident) {
    // The columns come from a call before: the operation's own outputs have other types, so make them.
    RowOperation copy = make_operation(c.with_active);
    copy.outputs = copy.inputs;
    copy.launch = [](LaunchContext&, const RowLaunch& launch) {
      std::memcpy(launch.outputs[0], launch.inputs[0],
                  static_cast<std::size_t>(launch.count) * sizeof(float));
      std::memcpy(launch.outputs[1], launch.inputs[1],
                  static_cast<std::size_t>(launch.count) * sizeof(Vec3f));
      if (launch.inputs[2])
        std::memcpy(launch.outputs[2], launch.inputs[2], static_cast<std::size_t>(launch.count));
    };
    RowSink resident;
    resident.kind = SinkKind::resident;
    RowResult made =
        dispatcher.run(copy, source_of(batch, SourceKind::on_master, c.with_active), resident, options).get();
    source = {};
    source.kind = SourceKind::resident;
    source.table = made.table;
    source.table_columns = {0, 1, c.with_active ? 2 : -1};
  }
  RowSink sink;
  sink.kind = c.sink;
  sink.offload_host = c.offload_host;
  sink.reducer = c.sink == SinkKind::reduce ? tally_reducer() : RowReducer{};
  std::vector<std::int32_t> id(batch.x.size(), 77);
  std::vector<Vec3f> scaled(batch.x.size());
  std::vector<float> length(batch.x.size());
  std::vector<std::int64_t> last_row(static_cast<std::size_t>(executor.devices().size()), -1);
  std::int64_t seen = 0;
  sink.hook = [&](const RowChunk& chunk) {
    EXPECT_GT(chunk.first_row, last_row[static_cast<std::size_t>(chunk.device)])
        << "row order within a device";
    last_row[static_cast<std::size_t>(chunk.device)] = chunk.first_row;
    seen += chunk.count;
    const auto at = static_cast<std::ptrdiff_t>(chunk.first_row);
    std::ranges::copy(chunk.column<std::int32_t>(0), id.begin() + at);
    std::ranges::copy(chunk.column<Vec3f>(1), scaled.begin() + at);
    std::ranges::copy(chunk.column<float>(2), length.begin() + at);
  };
  RowOptions plan_only = options;
  plan_only.plan_only = true;
  const DispatchReport plan =
      dispatcher.run(make_operation(c.with_active), source, sink, plan_only).get().dispatch;
  std::vector<std::uint64_t> held;  // of calls before, whose releases may still be under way
  for (int d = 0; d < executor.devices().size(); ++d)
    held.push_back(executor.devices()[d].memory(MemoryUse::work).current());
  RowResult result = dispatcher.run(make_operation(c.with_active), source, sink, options).get();
  for (std::size_t d = 0; d < plan.devices.size(); ++d)
    EXPECT_LE(result.dispatch.devices[d].peak_bytes, plan.devices[d].peak_bytes + held[d])
        << plan.devices[d].name;
  EXPECT_EQ(result.rows, c.rows);
  EXPECT_EQ(result.rejected, expected.rejected);
  if (c.sink == SinkKind::reduce) {
    Tally tally{};
    std::memcpy(&tally, result.reduced.data(), sizeof tally);
    EXPECT_EQ(tally.rows, c.rows);
    EXPECT_EQ(tally.ids, expected.ids);
  } else if (c.sink == SinkKind::offload) {
    std::vector<std::byte> bytes;
    append(bytes, id);
    append(bytes, scaled);
    append(bytes, length);
    EXPECT_EQ(seen, c.rows);
    EXPECT_TRUE(bytes == expected.bytes);
  } else {
    EXPECT_TRUE(bytes_of(*result.table) == expected.bytes);
  }
  // Devices with weight worked, where there are rows enough.
  if (!c.weights.empty() && c.mode != DispatchMode::master && c.rows > 100 &&
      c.source != SourceKind::resident) {
    for (std::size_t d = 0; d < c.weights.size(); ++d) {
      if (c.weights[d] > 0.05) {
        EXPECT_GT(result.dispatch.devices[d].lanes, 0) << "device " << d;
      }
      if (c.weights[d] == 0) {
        EXPECT_EQ(result.dispatch.devices[d].lanes, 0) << "device " << d;
      }
    }
  }
}

void sweep(const char* platform, int most_devices, int cases, unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int devices = 1; devices <= most_devices; ++devices) {
    const std::string spec =
        std::string(platform) + ":" + std::to_string(devices) + (std::string(platform) == "host" ? "x1" : "");
    Executor executor(open_devices(spec));
    RowDispatcher dispatcher(executor);
    for (int i = 0; i < cases; ++i) {
      Case c;
      c.devices = spec;
      constexpr std::array sizes{0, 1, 2, 33, 257, 1000, 4001};
      c.rows = sizes[static_cast<std::size_t>(pick(7))];
      if (pick(3) > 0) {
        for (int d = 0; d < devices; ++d) c.weights.push_back(pick(4) == 0 ? 0 : 0.1 + pick(50) / 10.0);
        if (std::ranges::all_of(c.weights, [](double w) { return w == 0; })) c.weights.back() = 1;
      }
      c.with_active = pick(2) == 0;
      c.offload_host = pick(2) == 0;
      c.source = static_cast<SourceKind>(pick(4));
      c.sink = static_cast<SinkKind>(pick(5));
      constexpr std::array chunks{0, 0, 1, 7, 100, 100000};
      c.chunk = chunks[static_cast<std::size_t>(pick(6))];
      if (c.chunk == 1) c.rows = std::min<std::int64_t>(c.rows, 257);
      constexpr std::array modes{DispatchMode::automatic, DispatchMode::pipelined, DispatchMode::sharded,
                                 DispatchMode::master, DispatchMode::direct};
      c.mode = modes[static_cast<std::size_t>(pick(5))];
      if (c.mode == DispatchMode::direct && c.chunk == 0 &&
          (c.source == SourceKind::on_host || c.source == SourceKind::resident ||
           c.sink == SinkKind::to_host || c.sink == SinkKind::offload))
        c.mode = DispatchMode::pipelined;
      check(c, executor, dispatcher);
      if (SimWorld* world = executor.devices().sim_world()) {
        for (const RaceReport& race : world->races()) ADD_FAILURE() << text(c) << ": " << race.text;
        world->clear_races();
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(RowDispatch, EveryWayGivesTheBitsOfOneDeviceOnHost) {
  sweep("host", 5, 60, 1);
}

TEST(RowDispatch, EveryWayGivesTheBitsOfOneDeviceOnSimWithoutRaces) {
  sweep("sim", 5, 60, 2);
}

/// What does not depend on when operations run.
class RowDispatchAnywhere : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Sets, RowDispatchAnywhere, ::testing::Values("host:2x1", "sim:2"),
                         [](const auto& info) { return info.param[0] == 'h' ? "host" : "sim"; });

TEST_P(RowDispatchAnywhere, OneDeviceWithoutChunkingTakesNoneOfTheSpreadingCode) {
  Executor executor(open_devices(GetParam()).first());
  RowDispatcher dispatcher(executor);
  const Batch batch = Batch::random(500, 3);
  const RowResult result =
      dispatcher.run(make_operation(false), source_of(batch, SourceKind::on_master, false), {}, {}).get();
  EXPECT_EQ(result.dispatch.mode, "master");
  EXPECT_EQ(dispatcher.spread_calls(), 0);
  EXPECT_TRUE(executor.edges().empty());
  RowOptions chunked;
  chunked.chunk_rows = 100;
  EXPECT_EQ(dispatcher.run(make_operation(false), source_of(batch, SourceKind::on_master, false), {}, chunked)
                .get()
                .dispatch.chunk_count,
            5);
  EXPECT_EQ(dispatcher.spread_calls(), 1);
}

TEST(RowDispatch, ASlowDeviceGetsItsShareFromTheSecondCallOn) {
  OpenOptions open;
  open.sim_speeds = {1.0, 1.0 / 3.0};
  Executor executor(open_devices("sim:2", open));
  RowDispatcher dispatcher(executor);
  const Batch batch = Batch::random(400000, 4);
  const auto call = [&](SourceKind source, SinkKind sink_kind) {
    RowSink sink;
    sink.kind = sink_kind;
    if (sink_kind == SinkKind::reduce) sink.reducer = tally_reducer();
    RowOptions options;
    options.min_rows_per_device = 0;
    return dispatcher
        .run(make_operation(false),
             source == SourceKind::generated ? generator_of(batch, false) : source_of(batch, source, false),
             sink, options)
        .get();
  };
  const RowResult first = call(SourceKind::generated, SinkKind::reduce);
  EXPECT_EQ(first.dispatch.devices[1].lanes, 200000) << "the first call splits equally";
  for (int i = 0; i < 4; ++i) {
    const RowResult later = call(SourceKind::generated, SinkKind::reduce);
    EXPECT_NEAR(static_cast<double>(later.dispatch.devices[1].lanes), 100000, 5000) << later.dispatch.reason;
    if (i == 1) {  // the third call is measured
      EXPECT_NEAR(later.dispatch.devices[1].predicted_s, later.dispatch.devices[1].compute_s,
                  0.05 * later.dispatch.devices[1].compute_s);
    }
  }
  // Explicit weights are never touched.
  RowOptions explicit_weights;
  explicit_weights.weights = {1, 1};
  explicit_weights.min_rows_per_device = 0;
  RowSink reduce;
  reduce.kind = SinkKind::reduce;
  reduce.reducer = tally_reducer();
  EXPECT_EQ(dispatcher.run(make_operation(false), generator_of(batch, false), reduce, explicit_weights)
                .get()
                .dispatch.devices[1]
                .lanes,
            200000);
}

TEST(RowDispatch, ALearnedSplitDoesNotFallOffTheFloor) {
  OpenOptions open;
  open.sim_speeds = {1.0, 0.8};
  Executor executor(open_devices("sim:2", open));
  RowDispatcher dispatcher(executor);
  const Batch batch = Batch::random(20000, 4);
  RowSink reduce;
  reduce.kind = SinkKind::reduce;
  reduce.reducer = tally_reducer();
  RowOptions options;
  options.min_rows_per_device = 9000;  // the best split would leave the slow one 8,889
  for (int i = 0; i < 4; ++i) {
    const RowResult result =
        dispatcher.run(make_operation(false), generator_of(batch, false), reduce, options).get();
    EXPECT_GE(result.dispatch.devices[1].lanes, 9000) << result.dispatch.reason;
    EXPECT_LE(result.dispatch.devices[1].lanes, i == 0 ? 10000 : 9010) << result.dispatch.reason;
  }
  options.min_rows_per_device = 10001;
  EXPECT_EQ(dispatcher.run(make_operation(false), generator_of(batch, false), reduce, options)
                .get()
                .dispatch.devices[1]
                .lanes,
            10002)
      << "20,000 rows hold it beside 9,998 of the master, which is no remote shard";
}

TEST(RowDispatch, TheBudgetDecidesTheChunkAndRefusesWithTheBytesNeeded) {
  Executor executor(open_devices("sim:1"));
  RowDispatcher dispatcher(executor);
  const Batch batch = Batch::random(200000, 5);
  RowOptions options;
  options.memory_bytes = 64 << 10;
  RowSink offload;
  offload.kind = SinkKind::offload;
  std::int64_t seen = 0;
  offload.hook = [&](const RowChunk& chunk) { seen += chunk.count; };
  const RowResult result =
      dispatcher.run(make_operation(false), source_of(batch, SourceKind::on_host, false), offload, options)
          .get();
  EXPECT_EQ(seen, 200000);
  EXPECT_GT(result.dispatch.chunk_count, 10);
  EXPECT_LE(result.dispatch.devices[0].peak_bytes, options.memory_bytes);
  EXPECT_GT(result.dispatch.devices[0].peak_bytes, options.memory_bytes / 2);
  // A call that has given its result holds no memory that the next one would be charged for.
  for (const char* spec : {"sim:1", "host:1x1"}) {
    Executor another(open_devices(spec));
    RowDispatcher calls(another);
    for (int call = 0; call < 20; ++call)
      EXPECT_LE(calls.run(make_operation(false), generator_of(batch, false), offload, options)
                    .get()
                    .dispatch.devices[0]
                    .peak_bytes,
                options.memory_bytes)
          << spec << ", call " << call;
  }
  try {
    (void)dispatcher.run(make_operation(false), source_of(batch, SourceKind::on_master, false), {}, options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::budget);
    EXPECT_NE(std::string(error.what()).find("bytes"), std::string::npos) << error.what();
  }
}

TEST(RowDispatch, AHookThatThrowsEndsTheCallAndTheNextOneWorks) {
  for (const char* spec : {"host:2x1", "sim:2"}) {
    Executor executor(open_devices(spec));
    RowDispatcher dispatcher(executor);
    const Batch batch = Batch::random(5000, 6);
    RowOptions options;
    options.chunk_rows = 100;
    RowSink offload;
    offload.kind = SinkKind::offload;
    int calls = 0;
    offload.hook = [&](const RowChunk&) {
      if (++calls == 3) throw std::runtime_error("the hook's own");
    };
    Pending<RowResult> pending = dispatcher.run(
        make_operation(false), source_of(batch, SourceKind::on_master, false), offload, options);
    try {
      pending.wait();
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "the hook's own");
    }
    EXPECT_EQ(calls, 3);
    Case after;
    after.devices = spec;
    after.rows = 1000;
    check(after, executor, dispatcher);
  }
}

TEST(RowDispatch, AFailingKernelIsTheCallsErrorAndTheNextOneWorks) {
  for (const char* spec : {"host:1x1", "host:3x1", "sim:3"}) {
    Executor executor(open_devices(spec));
    RowDispatcher dispatcher(executor);
    const Batch batch = Batch::random(5000, 6);
    RowOperation failing = make_operation(false);
    failing.launch = [body = failing.launch](LaunchContext& context, const RowLaunch& launch) {
      if (launch.first_row + launch.count == 5000) throw Error(ErrorClass::device, "launch refused");
      body(context, launch);
    };
    RowOptions options;
    options.min_rows_per_device = 0;
    Pending<RowResult> pending =
        dispatcher.run(failing, source_of(batch, SourceKind::on_master, false), {}, options);
    try {
      pending.wait();
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("launch refused"), std::string::npos) << error.what();
    }
    Case after;
    after.devices = spec;
    after.rows = 1000;
    check(after, executor, dispatcher);
  }
}

TEST_P(RowDispatchAnywhere, BadBatchesAreRefusedBeforeAnythingRuns) {
  Executor executor(open_devices(GetParam()));
  RowDispatcher dispatcher(executor);
  Batch batch = Batch::random(10, 8);
  const auto message = [&](const RowSource& source, const RowSink& sink, const RowOptions& options) {
    try {
      (void)dispatcher.run(make_operation(false), source, sink, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::usage);
      return std::string(error.what());
    }
    return std::string();
  };
  const RowSource good = source_of(batch, SourceKind::on_master, false);
  RowSource wrong = good;
  batch.v.resize(9);
  wrong.columns[1] = RowInput(std::span<const Vec3f>(batch.v));
  EXPECT_NE(message(wrong, {}, {}).find("match the ray batch size"), std::string::npos)
      << message(wrong, {}, {});
  RowOptions options;
  for (const std::vector<double>& weights : {std::vector<double>{1}, {1, -1}, {1, NAN}, {0, 0}, {1, 1, 1}}) {
    options.weights = weights;
    EXPECT_NE(message(good, {}, options).find("scale:3"), std::string::npos);
  }
  options = {};
  options.chunk_rows = -1;
  EXPECT_NE(message(good, {}, options).find("-1"), std::string::npos);
  RowSink offload;
  offload.kind = SinkKind::offload;
  EXPECT_NE(message(good, offload, {}).find("offload"), std::string::npos);
  RowSink small;
  std::vector<std::byte> memory(12);
  small.memory = {memory, {}, {}};
  EXPECT_NE(message(good, small, {}).find("needs") == std::string::npos &&
                message(good, small, {}).find("need 40") == std::string::npos,
            true);
  EXPECT_EQ(dispatcher.spread_calls(), 0);
}

}  // namespace
}  // namespace shardwise::test
