#pragma once
// One launch of lanes on one device, whatever the device and the accumulation.

#include <atomic>
#include <cstdint>

#include "radio/coverage_kernel.hpp"
#include "radio/coverage_sinks.hpp"
#include "shardwise/numeric/accumulation.hpp"
#include "shardwise/runtime/operation.hpp"

namespace shardwise {

class Replica;

/// Sums over the lanes of a device, in its memory.
struct CoverageCounters {
  std::uint64_t segments, rejected, overflow, unused;
};

/// The staging memory of Accumulation::ordered, for one chunk. On CUDA the keys and their order are sorted
/// beside the slots.
struct StagingView {
  StagedSlot* slots = nullptr;
  FieldSample* fields = nullptr;
  std::uint32_t* keys = nullptr;   ///< CUDA: [2 x slots]
  std::uint32_t* order = nullptr;  ///< CUDA: [2 x slots]
  char* scratch = nullptr;         ///< CUDA: of the sort
  std::uint64_t scratch_bytes = 0;
};

struct CoverageLaunch {
  CoverageParams params;
  Accumulation accumulation = Accumulation::exact;
  bool fields = false;
  PassWindow window;
  void* cells = nullptr;        ///< ExactCell or FastCell, [passes of the window x cells]
  void* field_cells = nullptr;  ///< ExactSum or double, six a slot; null without fields
  float scale = 1, field_scale = 1;
  StagingView staging;
  std::uint64_t first_lane = 0;
  std::int64_t lane_count = 0;
  CoverageCounters* counters = nullptr;
};

/// Host and sim: runs the lanes with Embree where the replica has it. Adds to `lanes_done` as it goes; throws
/// `interrupted` once `cancel` is true.
void launch_coverage_on_host(LaunchContext& context, const CoverageLaunch& launch, const Replica& replica,
                             std::atomic<std::int64_t>* lanes_done, const std::atomic<bool>* cancel);

/// Adds the slots of a staged launch to its cells in lane order.
void add_staged_on_host(const CoverageLaunch& launch);

#if SHARDWISE_WITH_CUDA
/// Adds to `lanes_done` when the lanes are through.
void launch_coverage_on_cuda(LaunchContext& context, const CoverageLaunch& launch,
                             std::atomic<std::int64_t>* lanes_done);
void add_staged_on_cuda(LaunchContext& context, const CoverageLaunch& launch);
/// Scratch bytes that the sort of `slots` keys needs.
std::uint64_t staging_scratch_bytes(std::int64_t slots);
#endif

}  // namespace shardwise
