#pragma once
// The calls whose devices are made to fail: each gives all that it hands out as bytes, and says what has to
// be true of the scene afterwards.

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/row_operation.hpp"
#include "radio/reference/library.hpp"
#include "rays/row_batch.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise::test {

using Bytes = std::vector<std::byte>;

template <class T>
void append(Bytes& bytes, const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const std::byte*>(values.data());
  bytes.insert(bytes.end(), begin, begin + values.size() * sizeof(T));
}
inline void append(Bytes& bytes, std::int64_t value) {
  append(bytes, std::vector<std::int64_t>{value});
}

/// What a call gave, and how. Rows that were left on the devices are read when somebody asks.
struct Answer {
  std::function<Bytes()> bytes;
  DispatchReport report;
};
inline Answer answer_of(Bytes bytes, DispatchReport report) {
  return {[bytes = std::move(bytes)] { return bytes; }, std::move(report)};
}

struct FaultCall {
  std::string name;
  bool survives = true;  ///< failover applies to it
  std::function<Answer(Scene&, OnDeviceFailure)> run;
};

inline constexpr std::int64_t fault_rows = 90;

inline Bytes bytes_of(const RowResult& result) {
  Bytes bytes;
  append(bytes, result.rejected);
  append(bytes, result.rows);
  if (result.table)
    for (std::size_t c = 0; c < result.table->names.size(); ++c) {
      std::vector<std::byte> column(static_cast<std::size_t>(result.table->rows) *
                                    result.table->row_bytes[c]);
      result.table->read(static_cast<int>(c), column);
      append(bytes, column);
    }
  append(bytes, result.reduced);
  return bytes;
}

/// Adds up ids and counts rows: the order does not matter.
inline RowReducer id_sum() {
  RowReducer reducer;
  reducer.name = "sum of ids";
  reducer.partial_bytes = 2 * sizeof(std::int64_t);
  reducer.fold = [](LaunchContext&, const RowLaunch& rows, void* partial) {
    auto* sums = static_cast<std::int64_t*>(partial);
    for (std::int64_t i = 0; i < rows.count; ++i)
      sums[0] += rows.output<const std::int32_t>(IntersectColumns::global_prim_id)[i];
    sums[1] += rows.count;
  };
  reducer.merge = [](LaunchContext&, void* into, const void* from) {
    for (int i = 0; i < 2; ++i)
      static_cast<std::int64_t*>(into)[i] += static_cast<const std::int64_t*>(from)[i];
  };
  return reducer;
}

/// A call of intersect() whose options `change` completes.
inline FaultCall row_call(const std::string& name, const std::shared_ptr<Batches>& batch, SourceKind source,
                          std::function<void(IntersectOptions&)> change) {
  return {name, true, [batch, source, change = std::move(change)](Scene& scene, OnDeviceFailure policy) {
            IntersectOptions options;
            options.min_rows_per_device = 0;
            options.weights = {1, 1, 1};
            options.on_device_failure = policy;
            change(options);
            RowSource rows = on_master(batch->rays());
            rows.kind = source;
            if (source == SourceKind::generated)
              rows = generated(random_rays(fault_rows, {-2, -2, -2}, {2, 2, 2}, 5));
            // Offloaded chunks are put together here; a row that comes twice is counted.
            auto offloaded =
                std::make_shared<std::vector<std::int32_t>>(static_cast<std::size_t>(fault_rows), -7);
            int twice = 0;
            if (options.sink.kind == SinkKind::offload)
              options.sink.hook = [&](const RowChunk& chunk) {
                const auto ids = chunk.column<std::int32_t>(IntersectColumns::global_prim_id);
                for (std::size_t i = 0; i < ids.size(); ++i) {
                  auto& place = (*offloaded)[static_cast<std::size_t>(chunk.first_row) + i];
                  twice += place != -7;
                  place = ids[i];
                }
              };
            const RowResult result = intersect(scene, rows, options).get();
            Bytes others;
            append(others, *offloaded);
            append(others, static_cast<std::int64_t>(twice));
            const auto read = [result, others] {
              Bytes bytes = bytes_of(result);
              append(bytes, others);
              return bytes;
            };
            if (options.sink.kind != SinkKind::resident) return answer_of(read(), result.dispatch);
            return Answer{read, result.dispatch};
          }};
}

inline Bytes bytes_of(const CoverageResult& map) {
  Bytes bytes;
  append(bytes, map.gain);
  append(bytes, map.standard_error);
  append(bytes, map.crossings);
  append(bytes, map.transmitter_gain);
  append(bytes, map.field);
  append(bytes, map.segments);
  append(bytes, map.rejected);
  return bytes;
}

inline CoverageOptions fault_coverage(OnDeviceFailure policy) {
  CoverageOptions options;
  options.transmitters = {{{0.3, 0.4, 0.2}, 1}};
  options.grid = {2, 0.5, -2, 2, -2, 2, 4, 4};
  options.samples = 240;
  options.passes = 2;
  options.bounces = 2;
  options.split.min_rows_per_device = 0;
  options.split.weights = {1, 1, 1};
  options.split.on_device_failure = policy;
  return options;
}

/// Sharded intersect in all its forms, and coverage.
inline std::vector<FaultCall> fault_calls() {
  const auto batch = std::make_shared<Batches>(fault_rows, 3u);
  std::vector<FaultCall> calls;
  const auto rows = [&](const std::string& name, SourceKind source,
                        std::function<void(IntersectOptions&)> change) {
    calls.push_back(row_call("intersect " + name, batch, source, std::move(change)));
  };
  rows("pipelined", SourceKind::on_master, [](IntersectOptions& o) {
    o.mode = DispatchMode::pipelined;
    o.chunks_per_device = 2;
  });
  rows("sharded", SourceKind::on_host, [](IntersectOptions& o) { o.mode = DispatchMode::sharded; });
  rows("direct", SourceKind::on_master, [](IntersectOptions& o) { o.mode = DispatchMode::direct; });
  rows("chunked to host", SourceKind::on_master, [](IntersectOptions& o) {
    o.chunk_rows = 17;
    o.sink = to_host();
  });
  rows("resident", SourceKind::on_master, [](IntersectOptions& o) {
    o.chunk_rows = 17;
    o.sink = left_resident();
  });
  rows("offloaded", SourceKind::on_master, [](IntersectOptions& o) {
    o.chunk_rows = 17;
    o.sink = offload([](const RowChunk&) {}, true);
  });
  rows("offloaded, shared chunks", SourceKind::on_master, [](IntersectOptions& o) {
    o.weights.clear();
    o.chunk_rows = 17;
    o.sink = offload([](const RowChunk&) {});
  });
  rows("generated, reduced", SourceKind::generated, [](IntersectOptions& o) {
    o.mode = DispatchMode::sharded;
    o.sink = reduce(id_sum());
  });
  rows("without the master's share", SourceKind::on_master, [](IntersectOptions& o) {
    o.weights = {0, 2, 1};
    o.mode = DispatchMode::pipelined;
    o.chunks_per_device = 2;
  });
  calls.push_back({"coverage, exact", true, [](Scene& scene, OnDeviceFailure policy) {
                     CoverageResult map = coverage(scene, fault_coverage(policy)).get();
                     return answer_of(bytes_of(map), map.dispatch);
                   }});
  calls.push_back({"coverage, exact, fields in chunks", true, [](Scene& scene, OnDeviceFailure policy) {
                     CoverageOptions options = fault_coverage(policy);
                     options.split.chunk_rows = 50;
                     options.field = true;
                     CoverageResult map = coverage(scene, options).get();
                     return answer_of(bytes_of(map), map.dispatch);
                   }});
  calls.push_back({"coverage, fast", false, [](Scene& scene, OnDeviceFailure policy) {
                     CoverageOptions options = fault_coverage(policy);
                     options.accumulation = Accumulation::fast;
                     CoverageResult map = coverage(scene, options).get();
                     // Floats depend on the order; counters do not.
                     Bytes bytes;
                     append(bytes, map.crossings);
                     append(bytes, map.segments);
                     return answer_of(bytes, map.dispatch);
                   }});
  return calls;
}

inline Scene fault_scene(std::uint64_t seed = 1, const std::string& faults = "", bool guard = false) {
  OpenOptions options;
  options.sim_seed = seed;
  options.sim_faults = faults;
  options.sim_guard = guard;
  Scene scene(open_devices("sim:3", options), test_model(), SceneOptions{TracerChoice::bvh});
  scene.build();
  scene.require_face_data("test");  // else the first call updates the scene
  return scene;
}

/// Bytes at work on all devices once everything that was given back is free.
inline std::uint64_t work_bytes(Scene& scene) {
  std::uint64_t bytes = 0;
  for (int d = 0; d < scene.devices().size(); ++d) {
    try {
      scene.executor().default_context().streams[static_cast<std::size_t>(d)]->synchronize();
    } catch (const Error&) {  // of a lost device
    }
    bytes += scene.devices()[d].memory(MemoryUse::work).current();
  }
  return bytes;
}

/// Whether an error is one that a failing device may cause, and names one.
inline void expect_device_error(const Error& error) {
  const std::string text = error.what();
  EXPECT_TRUE(error.error_class() == ErrorClass::device || error.error_class() == ErrorClass::memory ||
              error.error_class() == ErrorClass::lost)
      << to_string(error.error_class()) << ": " << text;
  EXPECT_EQ(dynamic_cast<const DependencyError*>(&error), nullptr) << text;
  EXPECT_NE(text.find("sim:"), std::string::npos) << text;
  EXPECT_TRUE(text.find("njected") != std::string::npos || text.find("lost") != std::string::npos) << text;
}

}  // namespace shardwise::test
