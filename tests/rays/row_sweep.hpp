#pragma once
// Runs every operation on rows in many ways and compares all columns with those of one host device.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "row_batch.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise::test {

/// Where the columns of a batch lie: in host memory, or copied to the scene's first device.
struct Place {
  SourceKind kind = SourceKind::on_master;
  Scene* scene = nullptr;  ///< set where the first device is a GPU
  std::vector<Memory>* memory = nullptr;
  std::function<RowSource(RowSource)> part{};  ///< of the batch, where not all of it is meant

  template <class Batch>
  RowSource operator()(const Batch& batch) const {
    RowSource source = on_master(batch);
    source.kind = kind;
    if (part) source = part(source);
    if (kind != SourceKind::on_master || !scene) return source;
    Stream& stream = *scene->executor().default_context().streams.front();
    for (RowInput& column : source.columns) {
      if (!column.given) continue;
      const auto bytes = static_cast<std::uint64_t>(column.rows) * column.row_bytes;
      Memory& copy = memory->emplace_back(stream, bytes, "column");
      stream.enqueue(
          copy_operation("upload", copy.data(), column.data, bytes, {copy.access(AccessMode::write)}));
      column.data = copy.data();
    }
    stream.synchronize();
    return source;
  }
};

/// Runs an operation and gives all its columns, whatever its type.
struct Op {
  std::string name;
  std::function<RowResult(Scene&, const Batches&, const Place&, const RowOptions&, const RowSink&)> run;
};

template <class Options>
Options with(const RowOptions& options, const RowSink& sink) {
  Options result;
  static_cast<RowOptions&>(result) = options;
  result.sink = sink;
  return result;
}

inline std::vector<Op> all_operations() {
  std::vector<Op> ops;
  for (const IntersectFields fields :
       {IntersectFields::none, IntersectFields::geometric, IntersectFields::all})
    ops.push_back(
        {"intersect " + std::to_string(static_cast<int>(fields)),
         [fields](Scene& s, const Batches& b, const Place& k, const RowOptions& o, const RowSink& sink) {
           auto options = with<IntersectOptions>(o, sink);
           options.fields = fields;
           return RowResult(intersect(s, k(b.rays()), options).get());
         }});
  for (const ReflectionFields fields : {ReflectionFields::none, ReflectionFields::all})
    ops.push_back(
        {"trace_reflections " + std::to_string(static_cast<int>(fields)),
         [fields](Scene& s, const Batches& b, const Place& k, const RowOptions& o, const RowSink& sink) {
           auto options = with<ReflectionOptions>(o, sink);
           options.max_bounces = 3;
           options.fields = fields;
           return RowResult(trace_reflections(s, k(b.rays()), options).get());
         }});
  ops.push_back(
      {"visible", [](Scene& s, const Batches& b, const Place& k, const RowOptions& o, const RowSink& sink) {
         auto options = with<VisibleOptions>(o, sink);
         options.first_blocker = true;
         return RowResult(visible(s, k(b.segments()), options).get());
       }});
  ops.push_back({"visible_pair",
                 [](Scene& s, const Batches& b, const Place& k, const RowOptions& o, const RowSink& sink) {
                   return RowResult(visible_pair(s, k(b.pairs()), with<VisiblePairOptions>(o, sink)).get());
                 }});
  ops.push_back({"visible_edge",
                 [](Scene& s, const Batches& b, const Place& k, const RowOptions& o, const RowSink& sink) {
                   return RowResult(visible_edge(s, k(b.edges()), with<VisibleEdgeOptions>(o, sink)).get());
                 }});
  ops.push_back({"visible_chain",
                 [](Scene& s, const Batches& b, const Place& k, const RowOptions& o, const RowSink& sink) {
                   auto options = with<VisibleChainOptions>(o, sink);
                   options.points_per_chain = Batches::chain_points;
                   return RowResult(visible_chain(s, k(b.chains()), options).get());
                 }});
  ops.push_back({"segment_penetration",
                 [](Scene& s, const Batches& b, const Place& k, const RowOptions& o, const RowSink& sink) {
                   auto options = with<PenetrationOptions>(o, sink);
                   options.hit_capacity = 2;
                   return RowResult(segment_penetration(s, k(b.crossings()), options).get());
                 }});
  ops.push_back({"nearest_edge of points",
                 [](Scene& s, const Batches& b, const Place& k, const RowOptions& o, const RowSink& sink) {
                   auto options = with<NearestEdgeOptions>(o, sink);
                   options.echo = true;
                   return RowResult(nearest_edge_of_points(s, k(b.points()), options).get());
                 }});
  ops.push_back({"nearest_edge of rays",
                 [](Scene& s, const Batches& b, const Place& k, const RowOptions& o, const RowSink& sink) {
                   return RowResult(
                       nearest_edge_of_rays(s, k(b.rays()), with<RowCallOptions>(o, sink)).get());
                 }});
  ops.push_back({"nearest_edges",
                 [](Scene& s, const Batches& b, const Place& k, const RowOptions& o, const RowSink& sink) {
                   auto options = with<NearestEdgesOptions>(o, sink);
                   options.k = 5;
                   return RowResult(nearest_edges(s, k(b.points()), options).get());
                 }});
  ops.push_back({"sample_ray",
                 [](Scene& s, const Batches& b, const Place& k, const RowOptions& o, const RowSink& sink) {
                   return RowResult(
                       sample_ray(s, Camera{}, k(b.samples()), with<RowCallOptions>(o, sink)).get());
                 }});
  return ops;
}

/// All columns, one after the other.
inline std::vector<std::byte> bytes_of(const RowTable& table) {
  std::vector<std::byte> all;
  for (std::size_t c = 0; c < table.names.size(); ++c) {
    std::vector<std::byte> column(static_cast<std::size_t>(table.rows) * table.row_bytes[c]);
    table.read(static_cast<int>(c), column);
    all.insert(all.end(), column.begin(), column.end());
  }
  return all;
}

/// Offloads into one table-like byte string, by column.
struct Collected {
  std::vector<std::vector<std::byte>> columns;
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> all;
    for (const auto& column : columns) all.insert(all.end(), column.begin(), column.end());
    return all;
  }
};
inline RowSink collect(Collected& collected, const RowTable& shape, bool on_host_memory, Stream& reader) {
  collected.columns.clear();
  for (const std::uint32_t bytes : shape.row_bytes)
    collected.columns.emplace_back(static_cast<std::size_t>(shape.rows) * bytes);
  return offload(
      [&collected, &shape, &reader](const RowChunk& chunk) {
        for (std::size_t c = 0; c < collected.columns.size(); ++c) {
          const std::size_t bytes = shape.row_bytes[c];
          if (bytes == 0) continue;
          reader.enqueue(copy_operation(
              "collect", collected.columns[c].data() + static_cast<std::size_t>(chunk.first_row) * bytes,
              chunk.columns[c], static_cast<std::uint64_t>(chunk.count) * bytes, {}));
        }
        reader.synchronize();
      },
      on_host_memory);
}

/// Every device set in turn; `cases` batches through every operation on each.
inline void sweep(const std::vector<std::string>& sets, int cases, unsigned seed, TracerChoice tracer) {
  std::mt19937 random(seed);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Scene single(open_devices("host:1x1"), test_model(), {tracer});
  single.build();
  const std::vector<Op> ops = all_operations();
  for (const std::string& spec : sets) {
    Scene scene(open_devices(spec), test_model(), {tracer});
    scene.build();
    const int devices = scene.devices().size();
    const bool gpu = scene.devices().master().kind() == PlatformKind::cuda;
    const auto reader = scene.devices().master().create_stream("reader");
    for (int i = 0; i < cases; ++i) {
      constexpr std::array sizes{0, 1, 2, 33, 300, 1000};
      const Batches batch(sizes[static_cast<std::size_t>(pick(6))], random());
      for (const Op& op : ops) {
        const RowResult expected = op.run(single, batch, Place{}, {}, {});
        RowOptions options;
        options.min_rows_per_device = 0;
        if (pick(3) > 0) {
          for (int d = 0; d < devices; ++d)
            options.weights.push_back(pick(4) == 0 ? 0 : 0.1 + pick(50) / 10.0);
          if (std::ranges::all_of(options.weights, [](double w) { return w == 0; }))
            options.weights.back() = 1;
        }
        constexpr std::array modes{DispatchMode::automatic, DispatchMode::pipelined, DispatchMode::sharded,
                                   DispatchMode::direct};
        options.mode = modes[static_cast<std::size_t>(pick(4))];
        constexpr std::array chunks{0, 0, 1, 50, 100000};
        options.chunk_rows = chunks[static_cast<std::size_t>(pick(5))];
        const SourceKind source = pick(2) ? SourceKind::on_master : SourceKind::on_host;
        const auto sink_kind = static_cast<SinkKind>(pick(4));
        if (source == SourceKind::on_host || sink_kind == SinkKind::to_host || sink_kind == SinkKind::offload)
          if (options.mode == DispatchMode::direct) options.mode = DispatchMode::pipelined;
        SCOPED_TRACE(op.name + " on " + spec + ", rows " + std::to_string(batch.rows()) + ", mode " +
                     to_string(options.mode) + ", chunk " + std::to_string(options.chunk_rows) + ", " +
                     to_string(source) + " " + to_string(sink_kind));
        Collected collected;
        RowSink sink;
        sink.kind = sink_kind;
        if (sink_kind == SinkKind::offload) sink = collect(collected, *expected.table, pick(2) == 0, *reader);
        std::vector<Memory> uploaded;
        const RowResult result =
            op.run(scene, batch, Place{source, gpu ? &scene : nullptr, &uploaded}, options, sink);
        EXPECT_EQ(result.rejected, expected.rejected);
        EXPECT_EQ(result.flagged, expected.flagged);
        EXPECT_TRUE((sink_kind == SinkKind::offload ? collected.bytes() : bytes_of(*result.table)) ==
                    bytes_of(*expected.table));
        if (SimWorld* world = scene.devices().sim_world()) {
          for (const RaceReport& race : world->races()) ADD_FAILURE() << race.text;
          world->clear_races();
        }
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

}  // namespace shardwise::test
