#include "radio/coverage_launch.hpp"

#include <algorithm>

#include "scene/bvh8_kernel.hpp"
#include "scene/replica.hpp"
#include "shardwise/runtime/device.hpp"
#include "shardwise/runtime/error.hpp"

#if SHARDWISE_WITH_EMBREE
#include "scene/embree_tracer.hpp"
#endif

namespace shardwise {

namespace {

/// Lanes between two looks at the cancel flag.
constexpr std::int64_t grain = 2048;

/// Paths that are followed side by side. One path is a chain of dependent steps; several give the processor
/// independent work to overlap, as a loop over independent rays does. Their state stays in the first-level
/// cache.
constexpr int paths_in_flight = 64;

/// coverage_lane() for `count` lanes from `first` on, step by step together: the same steps of the same
/// lanes.
template <class Tracer, class Sink>
void run_together(const CoverageParams& params, const Tracer& tracer, Sink& sink, std::uint64_t first,
                  int count, LaneCounters& counters) {
  LaneState paths[paths_in_flight];
  float t_max[paths_in_flight];
  Hit hits[paths_in_flight];
  NoCoverageHooks hooks;
  int alive = 0;
  for (int i = 0; i < count; ++i)
    if (begin_lane(params, sink, first + static_cast<std::uint64_t>(i), paths[alive], counters)) ++alive;
  while (alive > 0) {
    int legs = 0;
    for (int i = 0; i < alive; ++i) {
      if (!prepare_leg(params, paths[i], t_max[legs])) continue;
      if (paths[i].crosses) sink.prefetch(paths[i].pass, paths[i].crossing.cell);
      if (legs != i) paths[legs] = paths[i];
      ++legs;
    }
    for (int i = 0; i < legs; ++i)
      hits[i] = tracer.closest(paths[i].origin, paths[i].direction, leg_t_min, t_max[i]);
    alive = 0;
    for (int i = 0; i < legs; ++i) {
      if (!finish_leg(params, sink, hooks, hits[i], paths[i], counters)) continue;
      if (alive != i) paths[alive] = paths[i];
      ++alive;
    }
  }
}

template <class Tracer, class Sink>
void run_lanes(LaunchContext& context, const CoverageLaunch& launch, const Tracer& tracer,
               const Sink& prototype, std::atomic<std::int64_t>* lanes_done,
               const std::atomic<bool>* cancel) {
  context.parallel_for(launch.lane_count, grain, [&](std::int64_t begin, std::int64_t end) {
    if (cancel && cancel->load(std::memory_order_relaxed))
      throw Error(ErrorClass::interrupted, "cancelled; nothing was written");
    Sink sink = prototype;
    CoverageCounters sum{};
    for (std::int64_t i = begin; i < end; i += paths_in_flight) {
      LaneCounters counters;
      run_together(launch.params, tracer, sink, launch.first_lane + static_cast<std::uint64_t>(i),
                   static_cast<int>(std::min<std::int64_t>(paths_in_flight, end - i)), counters);
      sum.segments += counters.segments;
      sum.rejected += counters.rejected;
      sum.overflow += counters.overflow;
    }
    atomic_add(&launch.counters->segments, sum.segments);
    if (sum.rejected) atomic_add(&launch.counters->rejected, sum.rejected);
    if (sum.overflow) atomic_add(&launch.counters->overflow, sum.overflow);
    if (lanes_done) lanes_done->fetch_add(end - begin, std::memory_order_relaxed);
  });
}

template <class Tracer, bool Fields>
void run_with_sink(LaunchContext& context, const CoverageLaunch& launch, const Tracer& tracer,
                   std::atomic<std::int64_t>* lanes_done, const std::atomic<bool>* cancel) {
  switch (launch.accumulation) {
    case Accumulation::exact: {
      auto* cells = static_cast<ExactCell*>(launch.cells);
      auto* fields = static_cast<ExactSum*>(launch.field_cells);
      if (context.device().info().threads == 1) {
        const ExactSink<Fields, true> sink{launch.window, cells, fields, launch.scale, launch.field_scale};
        return run_lanes(context, launch, tracer, sink, lanes_done, cancel);
      }
      const ExactSink<Fields> sink{launch.window, cells, fields, launch.scale, launch.field_scale};
      return run_lanes(context, launch, tracer, sink, lanes_done, cancel);
    }
    case Accumulation::fast: {
      const FastSink<Fields> sink{launch.window, static_cast<FastCell*>(launch.cells),
                                  static_cast<double*>(launch.field_cells)};
      return run_lanes(context, launch, tracer, sink, lanes_done, cancel);
    }
    case Accumulation::ordered: {
      const StagedSink<Fields> sink{launch.window, launch.first_lane, launch.params.bounces + 1,
                                    launch.staging.slots, launch.staging.fields};
      return run_lanes(context, launch, tracer, sink, lanes_done, cancel);
    }
  }
}

template <class Tracer>
void run_with_tracer(LaunchContext& context, const CoverageLaunch& launch, const Tracer& tracer,
                     std::atomic<std::int64_t>* lanes_done, const std::atomic<bool>* cancel) {
  if (launch.fields)
    run_with_sink<Tracer, true>(context, launch, tracer, lanes_done, cancel);
  else
    run_with_sink<Tracer, false>(context, launch, tracer, lanes_done, cancel);
}

}  // namespace

void launch_coverage_on_host(LaunchContext& context, const CoverageLaunch& launch,
                             [[maybe_unused]] const Replica& replica, std::atomic<std::int64_t>* lanes_done,
                             const std::atomic<bool>* cancel) {
#if SHARDWISE_WITH_EMBREE
  if (replica.embree())
    return run_with_tracer(context, launch, EmbreeTracer{launch.params.scene, replica.embree()}, lanes_done,
                           cancel);
#endif
  run_with_tracer(context, launch, BvhTracer{launch.params.scene}, lanes_done, cancel);
}

void add_staged_on_host(const CoverageLaunch& launch) {
  auto* cells = static_cast<FastCell*>(launch.cells);
  auto* fields = static_cast<double*>(launch.field_cells);
  const std::int64_t slots = launch.lane_count * (launch.params.bounces + 1);
  for (std::int64_t i = 0; i < slots; ++i) {
    const StagedSlot& slot = launch.staging.slots[i];
    if (slot.cell < 0) continue;
    cells[slot.cell].sum += static_cast<double>(slot.u);
    cells[slot.cell].count += 1;
    if (fields)
      for (int k = 0; k < 6; ++k)
        fields[slot.cell * 6 + k] += static_cast<double>(launch.staging.fields[i].part[k]);
  }
}

}  // namespace shardwise
