#include "radio/coverage_launch.hpp"

#include <algorithm>

#include "radio/coverage_paths.hpp"
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
constexpr std::int64_t grain = lanes_in_order;

/// A tracer of one ray as a tracer of many.
template <class Tracer>
struct OneByOne {
  Tracer tracer;
  void closest(const RayBatch& rays, int count, float t_min, HitBatch& hits) const {
    closest_one_by_one(tracer, tracer.scene, rays, count, t_min, hits);
  }
};

template <class Tracer, class Sink>
void run_lanes(LaunchContext& context, const CoverageLaunch& launch, const Tracer& tracer,
               const Sink& prototype, std::atomic<std::int64_t>* lanes_done,
               const std::atomic<bool>* cancel) {
  context.parallel_for(launch.lane_count, grain, [&](std::int64_t begin, std::int64_t end) {
    if (cancel && cancel->load(std::memory_order_relaxed))
      throw Error(ErrorClass::interrupted, "cancelled; nothing was written");
    Sink sink = prototype;
    const LaneCounters sum = CoveragePaths<Tracer, Sink>(launch.params, tracer, sink)
                                 .run(launch.first_lane + static_cast<std::uint64_t>(begin), end - begin);
    atomic_add(&launch.counters->segments, std::uint64_t{sum.segments});
    if (sum.rejected) atomic_add(&launch.counters->rejected, std::uint64_t{sum.rejected});
    if (sum.overflow) atomic_add(&launch.counters->overflow, std::uint64_t{sum.overflow});
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
  run_with_tracer(context, launch, OneByOne<BvhTracer>{{launch.params.scene}}, lanes_done, cancel);
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
