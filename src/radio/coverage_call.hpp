#pragma once

#include <atomic>
#include <deque>
#include <vector>

#include "radio/coverage_plan.hpp"
#include "runtime/packed_memory.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

/// What all launches of a device read.
struct CoverageTables {
  PackedMemory memory;
  PackedArray<SurfaceMaterial> materials;
  PackedArray<LaunchTransmitter> transmitters;
  PackedArray<LaunchRotation> rotations;
  PackedArray<Vec3f> source, polarization;  ///< of all of the caller's rays, where they share one
};

/// Device memory for one chunk of the caller's rays.
struct CoverageRows {
  PackedMemory memory;
  PackedArray<Vec3f> origins, directions, sources, polarizations;
  PackedArray<float> tmax;
  PackedArray<std::uint8_t> active;
};

/// Device memory for the contributions of one chunk, Accumulation::ordered.
struct CoverageStaging {
  PackedMemory memory;
  PackedArray<StagedSlot> slots;
  PackedArray<FieldSample> fields;
  PackedArray<std::uint32_t> keys, order;
  PackedArray<char> scratch;
};

/// What a device holds of each, laid out and not yet allocated: what allocate() takes and what a plan
/// promises are the same numbers.
void lay_out(const CoveragePlan& plan, CoverageTables& tables);
void lay_out(const CoveragePlan& plan, std::int64_t lanes, CoverageRows& rows);
void lay_out(const CoveragePlan& plan, std::int64_t lanes, PlatformKind kind, CoverageStaging& staging);

/// What one device holds during a call.
struct CoverageDevice {
  int device = 0;
  Window window;
  ChunkPlan chunks;
  std::int64_t first_grid = 0, grid_count = 0;
  Memory cells, fields;
  Buffer<CoverageCounters> counters;
  CoverageTables tables;
  std::deque<CoverageRows> rows;
  CoverageStaging staging;
  CoverageCounters counted{};
};

/// Everything a call owns between its launch and wait(). Device memory lies in stream order on the callers'
/// streams: the call enters behind the allocations, and the releases are enqueued behind its exit.
struct CoverageCall {
  CoverageCall(Scene& s, CoveragePlan p)
      : scene(s), plan(std::move(p)), recording(scene.devices().timeline()) {}

  Scene& scene;
  CoveragePlan plan;
  std::deque<CoverageDevice> states;  ///< the master first, also without lanes
  Memory staging, staging_fields;     ///< on the master: one grid of another device
  Buffer<double> gain, standard_error, field;
  Buffer<std::int64_t> crossings;
  CoverageResult result;
  std::atomic<std::int64_t> lanes_done{0};
  std::uint64_t chunk_bytes = 0;  ///< of the first shard's chunks
  TimelineHold recording;
  double begin_s = 0;  ///< on the timeline
  Run run;
  std::vector<Event> released;  ///< behind the releases, one a device

  std::vector<RunFailure> failures;  ///< what launch() or finish() has thrown, where a device is to blame

  void allocate();
  Graph build();
  void launch();
  CoverageResult finish();
  /// What finish() waits for.
  std::vector<PendingPoint> points() const;

 private:
  void release();
  void allocate_on(CoverageDevice& state);
  template <class T>
  void upload(Graph& graph, int device, const PackedMemory& memory, const PackedArray<T>& array,
              const T* source, std::uint64_t count, const char* name);
  CoverageLaunch launch_of(const CoverageDevice& state) const;
  void fill_report();
  void add_lanes(Graph& graph, CoverageDevice& state);
  void add_merge(Graph& graph, CoverageDevice& state);
  void add_finish(Graph& graph);
  void add_sums(Graph& graph);
  FinishTarget target_of_map(std::size_t map) const;
  template <class Finish, class Merge>
  Operation finish_operation() const;
  LaunchRows upload_rows(Graph& graph, const CoverageDevice& state, const CoverageRows& rows, Window chunk);
  Stream& caller_stream(int device) const {
    return *scene.executor().default_context().streams[static_cast<std::size_t>(device)];
  }
  std::uint64_t grid_cell_bytes() const { return plan.grid_cell_bytes(); }
  std::uint64_t grid_field_bytes() const { return plan.grid_field_bytes(); }
  bool is_exact() const { return plan.request.accumulation == Accumulation::exact; }
};

}  // namespace shardwise
