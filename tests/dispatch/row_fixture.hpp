#pragma once
// A small operation on rows for the dispatcher's tests: three inputs (one optional), three outputs of unlike
// widths.

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "dispatch/row_dispatcher.hpp"
#include "shardwise/numeric/atomic_add.hpp"
#include "shardwise/numeric/vec3.hpp"

namespace shardwise::test {

struct Batch {
  std::vector<float> x;
  std::vector<Vec3f> v;
  std::vector<std::uint8_t> active;
  std::int64_t rows() const { return static_cast<std::int64_t>(x.size()); }

  static Batch random(std::int64_t rows, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> number(-4, 4);
    Batch batch;
    for (std::int64_t i = 0; i < rows; ++i) {
      batch.x.push_back(number(random));
      batch.v.push_back({number(random), number(random), number(random)});
      batch.active.push_back(random() % 8 != 0);
    }
    return batch;
  }
};

/// The reference, and what every device computes.
struct Answer {
  std::int32_t id;
  Vec3f scaled;
  float length;
};
inline Answer answer_of(float x, Vec3f v, bool active) {
  if (!active) return {-1, {0, 0, 0}, 0};
  return {
      static_cast<std::int32_t>(std::floor(x * 1000)), {v.x * x, v.y * x, v.z * x}, std::sqrt(dot(v, v)) + x};
}

inline RowOperation make_operation(bool with_active, ResourceId scene = 0) {
  RowOperation operation;
  operation.name = "scale:3";
  operation.family = "scale";
  operation.inputs = {{"x", sizeof(float)}, {"v", sizeof(Vec3f)}, {"active", with_active ? 1u : 0u}};
  operation.outputs = {{"id", 4}, {"scaled", sizeof(Vec3f)}, {"length", 4}};
  operation.reads = [scene](int) {
    Access access;
    access.resource = scene;
    access.length = scene != 0;
    return access;
  };
  operation.launch = [](LaunchContext& context, const RowLaunch& launch) {
    context.parallel_for(launch.count, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::uint8_t* active = launch.input<std::uint8_t>(2);
        const bool on = !active || active[i];
        const Answer answer = answer_of(launch.input<float>(0)[i], launch.input<Vec3f>(1)[i], on);
        launch.output<std::int32_t>(0)[i] = answer.id;
        launch.output<Vec3f>(1)[i] = answer.scaled;
        launch.output<float>(2)[i] = answer.length;
        if (!on) atomic_add(&launch.counters->rejected, std::uint64_t{1});
      }
    });
  };
  return operation;
}

inline RowSource source_of(const Batch& batch, SourceKind kind, bool with_active) {
  RowSource source;
  source.kind = kind;
  source.columns = {RowInput(std::span(batch.x)), RowInput(std::span(batch.v)), RowInput()};
  if (with_active) source.columns[2] = RowInput(std::span(batch.active));
  return source;
}

/// The batch, made on the devices.
inline RowSource generator_of(const Batch& batch, bool with_active) {
  RowSource source;
  source.kind = SourceKind::generated;
  source.generator.name = "make rows";
  source.generator.rows = batch.rows();
  source.generator.columns = {sizeof(float), sizeof(Vec3f), with_active ? 1u : 0u};
  source.generator.make = [&batch, with_active](LaunchContext& context, const RowLaunch& rows) {
    context.parallel_for(rows.count, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto row = static_cast<std::size_t>(rows.first_row + i);
        rows.output<float>(0)[i] = batch.x[row];
        rows.output<Vec3f>(1)[i] = batch.v[row];
        if (with_active) rows.output<std::uint8_t>(2)[i] = batch.active[row];
      }
    });
  };
  return source;
}

/// Counts rows and adds their ids: the order does not matter.
struct Tally {
  std::int64_t rows, ids;
};
inline RowReducer tally_reducer() {
  RowReducer reducer;
  reducer.name = "tally";
  reducer.partial_bytes = sizeof(Tally);
  reducer.fold = [](LaunchContext&, const RowLaunch& rows, void* partial) {
    auto& tally = *static_cast<Tally*>(partial);
    for (std::int64_t i = 0; i < rows.count; ++i) tally.ids += rows.output<const std::int32_t>(0)[i];
    tally.rows += rows.count;
  };
  reducer.merge = [](LaunchContext&, void* into, const void* from) {
    auto& total = *static_cast<Tally*>(into);
    const auto& part = *static_cast<const Tally*>(from);
    total.rows += part.rows;
    total.ids += part.ids;
  };
  return reducer;
}

}  // namespace shardwise::test
