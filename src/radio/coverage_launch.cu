// CUDA launches of the coverage lanes. The bodies are those of the host.

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <memory>

#include "radio/coverage_launch.hpp"
#include "radio/coverage_steps_kernel.hpp"
#include "runtime/cuda/cuda_check.hpp"
#include "runtime/cuda/for_each.cuh"
#include "scene/bvh8_kernel.hpp"

namespace shardwise {

namespace {

constexpr int block_threads = 64, least_blocks = 12;
/// A warp starts lanes when no more than so many of its threads are on their way.
constexpr int refill_at = 24;

/// Sums over a warp; lane 0 has the result.
__device__ std::uint32_t warp_sum(std::uint32_t value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(~0u, value, offset);
  return value;
}

/// Threads take the next lane as soon as theirs has ended, many of a warp at once: a lane has 1 to bounces +
/// 1 legs, and a warp that waits for its longest lane traces for less than half of its threads.
template <class Sink>
__global__ void __launch_bounds__(block_threads, least_blocks)
    coverage_kernel(const __grid_constant__ CoverageParams params, Sink sink, std::uint64_t first_lane,
                    std::int64_t lane_count, CoverageCounters* counters) {
  const BvhTracer tracer{params.scene};
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  std::int64_t next = blockIdx.x * static_cast<std::int64_t>(block_threads) + threadIdx.x;
  NoCoverageHooks hooks;
  LaneCounters lane;
  LaneState state;
  bool going = false;
  for (;;) {
    if (__popc(__ballot_sync(~0u, going)) <= refill_at) {
      if (!going && next < lane_count) {
        going = begin_lane(params, sink, first_lane + static_cast<std::uint64_t>(next), state, lane);
        next += stride;
      }
      if (!__any_sync(~0u, going || next < lane_count)) break;
    }
    float t_max = 0;
    going = going && prepare_leg(params, state, t_max);
    if (going) {
      const Hit hit = tracer.closest(state.origin, state.direction, leg_t_min, t_max);
      going = finish_leg(params, sink, hooks, hit, state, lane);
    }
    __syncwarp();
  }

  __shared__ std::uint32_t sums[3];
  if (threadIdx.x < 3) sums[threadIdx.x] = 0;
  __syncthreads();
  const std::uint32_t segments = warp_sum(lane.segments), rejected = warp_sum(lane.rejected),
                      overflow = warp_sum(lane.overflow);
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&sums[0], segments);
    if (rejected) atomicAdd(&sums[1], rejected);
    if (overflow) atomicAdd(&sums[2], overflow);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    atomic_add(&counters->segments, static_cast<std::uint64_t>(sums[0]));
    if (sums[1]) atomic_add(&counters->rejected, static_cast<std::uint64_t>(sums[1]));
    if (sums[2]) atomic_add(&counters->overflow, static_cast<std::uint64_t>(sums[2]));
  }
}

template <class Sink>
void launch_with(LaunchContext& context, const CoverageLaunch& launch, const Sink& sink) {
  // As many as run at once, on the device that asks first: others of another kind get a grid that is a bit
  // off.
  static const int resident = [] {
    int device = 0, processors = 0, each = 0;
    SW_CUDA(cudaGetDevice(&device));
    SW_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    SW_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, coverage_kernel<Sink>, block_threads, 0));
    return processors * std::max(each, 1);
  }();
  const auto blocks = static_cast<unsigned>(
      std::min<std::int64_t>((launch.lane_count + block_threads - 1) / block_threads, resident));
  coverage_kernel<<<blocks, block_threads, 0, static_cast<cudaStream_t>(context.native_stream())>>>(
      launch.params, sink, launch.first_lane, launch.lane_count, launch.counters);
  SW_CUDA(cudaGetLastError());
}

template <bool Fields>
void launch_with_fields(LaunchContext& context, const CoverageLaunch& launch) {
  switch (launch.accumulation) {
    case Accumulation::exact:
      return launch_with(
          context, launch,
          ExactSink<Fields>{launch.window, static_cast<ExactCell*>(launch.cells),
                            static_cast<ExactSum*>(launch.field_cells), launch.scale, launch.field_scale});
    case Accumulation::fast:
      return launch_with(context, launch,
                         FastSink<Fields>{launch.window, static_cast<FastCell*>(launch.cells),
                                          static_cast<double*>(launch.field_cells)});
    case Accumulation::ordered:
      return launch_with(context, launch,
                         StagedSink<Fields>{launch.window, launch.first_lane, launch.params.bounces + 1,
                                            launch.staging.slots, launch.staging.fields});
  }
}

/// Keys for the sort: the cell, or the largest number for an empty slot.
struct StagedKeys {
  const StagedSlot* slots;
  std::uint32_t* keys;
  std::uint32_t* order;
  __device__ void operator()(std::int64_t i) const {
    keys[i] = slots[i].cell < 0 ? ~0u : static_cast<std::uint32_t>(slots[i].cell);
    order[i] = static_cast<std::uint32_t>(i);
  }
};

/// The first of a run of equal keys adds the run, in order, behind what the cell already holds.
struct AddRuns {
  const std::uint32_t* keys;
  const std::uint32_t* order;
  const StagedSlot* slots;
  const FieldSample* slot_fields;
  FastCell* cells;
  double* fields;
  std::int64_t count;
  __device__ void operator()(std::int64_t i) const {
    const std::uint32_t key = keys[i];
    if (key == ~0u || (i > 0 && keys[i - 1] == key)) return;
    double sum = cells[key].sum;
    std::int64_t crossings = cells[key].count;
    double parts[6] = {};
    if (fields)
      for (int k = 0; k < 6; ++k) parts[k] = fields[std::int64_t{key} * 6 + k];
    for (std::int64_t j = i; j < count && keys[j] == key; ++j) {
      sum += static_cast<double>(slots[order[j]].u);
      ++crossings;
      if (fields)
        for (int k = 0; k < 6; ++k) parts[k] += static_cast<double>(slot_fields[order[j]].part[k]);
    }
    cells[key] = {sum, crossings};
    if (fields)
      for (int k = 0; k < 6; ++k) fields[std::int64_t{key} * 6 + k] = parts[k];
  }
};

}  // namespace

void launch_coverage_on_cuda(LaunchContext& context, const CoverageLaunch& launch,
                             std::atomic<std::int64_t>* lanes_done) {
  if (launch.lane_count == 0) return;
  if (launch.fields)
    launch_with_fields<true>(context, launch);
  else
    launch_with_fields<false>(context, launch);
  if (!lanes_done) return;
  struct Done {
    std::atomic<std::int64_t>* counter;
    std::int64_t lanes;
  };
  const auto add = [](void* data) {
    const std::unique_ptr<Done> done(static_cast<Done*>(data));
    done->counter->fetch_add(done->lanes, std::memory_order_relaxed);
  };
  auto done = std::make_unique<Done>(lanes_done, launch.lane_count);
  SW_CUDA(cudaLaunchHostFunc(static_cast<cudaStream_t>(context.native_stream()), add, done.get()));
  done.release();  // `add` owns it now
}

std::uint64_t staging_scratch_bytes(std::int64_t slots) {
  std::size_t bytes = 0;
  std::uint32_t* none = nullptr;
  SW_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, bytes, none, none, none, none, slots));
  return bytes;
}

void add_staged_on_cuda(LaunchContext& context, const CoverageLaunch& launch) {
  const std::int64_t slots = launch.lane_count * (launch.params.bounces + 1);
  if (slots == 0) return;
  const StagingView& staging = launch.staging;
  std::uint32_t* sorted_keys = staging.keys + slots;
  std::uint32_t* sorted_order = staging.order + slots;
  for_each_on_cuda(context, slots, StagedKeys{staging.slots, staging.keys, staging.order});
  std::size_t bytes = staging.scratch_bytes;
  SW_CUDA(cub::DeviceRadixSort::SortPairs(staging.scratch, bytes, staging.keys, sorted_keys, staging.order,
                                          sorted_order, slots, 0, 32,
                                          static_cast<cudaStream_t>(context.native_stream())));
  for_each_on_cuda(
      context, slots,
      AddRuns{sorted_keys, sorted_order, staging.slots, staging.fields, static_cast<FastCell*>(launch.cells),
              static_cast<double*>(launch.field_cells), slots});
}

}  // namespace shardwise

SW_INSTANTIATE_FOR_EACH(shardwise::NormalizeCells);
SW_INSTANTIATE_FOR_EACH(shardwise::MergeExact);
SW_INSTANTIATE_FOR_EACH(shardwise::MergeFast);
SW_INSTANTIATE_FOR_EACH(shardwise::FinishExact);
SW_INSTANTIATE_FOR_EACH(shardwise::FinishFast);
