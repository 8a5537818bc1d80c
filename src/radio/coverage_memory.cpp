#include <algorithm>
#include <tuple>
#include <utility>

#include "radio/coverage_call.hpp"

namespace shardwise {

namespace {

/// Chunks of the caller's rays that lie on a device at once.
std::int64_t row_sets(const ChunkPlan& chunks) {
  return std::min<std::int64_t>(2, chunks.chunk_count);
}

}  // namespace

void CoverageCall::allocate() {
  const CoverageRequest& r = plan.request;
  states.emplace_back();
  for (const LaneShard& shard : plan.lanes.shards) {
    if (shard.device != 0) states.emplace_back();
    CoverageDevice& state = states.back();
    state.device = shard.device;
    state.window = shard.window;
    state.chunks = shard.plan;
  }
  for (CoverageDevice& state : states) {
    try {
      allocate_on(state);
    } catch (...) {
      failures.push_back(failure_of(state.device, std::current_exception()));
      throw;
    }
  }
  Stream& master = caller_stream(0);
  const auto cells = static_cast<std::uint64_t>(plan.cell_count());
  if (states.size() > 1) {
    staging = Memory(master, grid_cell_bytes(), "incoming map");
    staging_fields = Memory(master, grid_field_bytes(), "incoming field map");
  }
  if (r.sums) return;
  const std::uint64_t maps = r.per_transmitter ? 1 + r.transmitters.size() : 1;
  gain = Buffer<double>(master, maps * cells, "gain");
  crossings = Buffer<std::int64_t>(master, maps * cells, "crossings");
  if (plan.with_standard_error) standard_error = Buffer<double>(master, maps * cells, "standard error");
  if (r.field) field = Buffer<double>(master, cells * 6, "field");
}

void CoverageCall::allocate_on(CoverageDevice& state) {
  const CoverageRequest& r = plan.request;
  scene.devices()[state.device].memory(MemoryUse::work).reset_peak();
  Stream& stream = caller_stream(state.device);
  std::tie(state.first_grid, state.grid_count) =
      state.device == 0 ? plan.master_grids() : plan.grids_of(state.window);
  const auto grids = static_cast<std::uint64_t>(state.grid_count);
  state.cells = r.held_given && state.device == 0 ? std::move(*r.held)
                                                  : Memory(stream, grids * grid_cell_bytes(), "map");
  state.fields = Memory(stream, grids * grid_field_bytes(), "field map");
  state.counters = Buffer<CoverageCounters>(stream, 1, "counters");
  if (state.window.empty()) return;
  lay_out(plan, state.tables);
  state.tables.memory.allocate(stream, "tables");
  if (r.rows)
    for (std::int64_t i = 0; i < row_sets(state.chunks); ++i) {
      CoverageRows& rows = state.rows.emplace_back();
      lay_out(plan, state.chunks.chunk_rows, rows);
      rows.memory.allocate(stream, "rays");
    }
  if (r.accumulation == Accumulation::ordered) {
    lay_out(plan, state.chunks.chunk_rows, stream.device().kind(), state.staging);
    state.staging.memory.allocate(stream, "staged contributions");
  }
  if (chunk_bytes == 0) {
    chunk_bytes = state.staging.memory.bytes();
    for (const CoverageRows& rows : state.rows) chunk_bytes += rows.memory.bytes();
  }
}

void lay_out(const CoveragePlan& plan, CoverageTables& tables) {
  const CoverageRequest& r = plan.request;
  tables.materials = tables.memory.add<SurfaceMaterial>(plan.materials.size());
  tables.transmitters = tables.memory.add<LaunchTransmitter>(r.transmitters.size());
  tables.rotations = tables.memory.add<LaunchRotation>(r.rotations.size());
  if (!r.rows) return;
  tables.source = tables.memory.add<Vec3f>(r.rows->transmitters.size() == 1 ? 1 : 0);
  tables.polarization = tables.memory.add<Vec3f>(r.rows->polarizations.size() == 1 ? 1 : 0);
}

void lay_out(const CoveragePlan& plan, std::int64_t chunk, CoverageRows& rows) {
  const RayRows& source = *plan.request.rows;
  const auto lanes = static_cast<std::uint64_t>(chunk);
  rows.origins = rows.memory.add<Vec3f>(lanes);
  rows.directions = rows.memory.add<Vec3f>(lanes);
  rows.tmax = rows.memory.add<float>(source.tmax.empty() ? 0 : lanes);
  rows.active = rows.memory.add<std::uint8_t>(source.active.empty() ? 0 : lanes);
  rows.sources = rows.memory.add<Vec3f>(source.transmitters.size() > 1 ? lanes : 0);
  rows.polarizations = rows.memory.add<Vec3f>(source.polarizations.size() > 1 ? lanes : 0);
}

void lay_out(const CoveragePlan& plan, std::int64_t chunk, [[maybe_unused]] PlatformKind kind,
             CoverageStaging& staging) {
  const std::uint64_t slots =
      static_cast<std::uint64_t>(chunk) * static_cast<std::uint64_t>(plan.request.bounces + 1);
  staging.slots = staging.memory.add<StagedSlot>(slots);
  staging.fields = staging.memory.add<FieldSample>(plan.request.field ? slots : 0);
#if SHARDWISE_WITH_CUDA
  if (kind == PlatformKind::cuda) {
    staging.keys = staging.memory.add<std::uint32_t>(2 * slots);
    staging.order = staging.memory.add<std::uint32_t>(2 * slots);
    staging.scratch = staging.memory.add<char>(staging_scratch_bytes(static_cast<std::int64_t>(slots)));
  }
#endif
}

std::uint64_t CoveragePlan::result_bytes() const {
  if (request.sums) return 0;
  const std::uint64_t maps = request.per_transmitter ? 1 + request.transmitters.size() : 1;
  const std::uint64_t of_cell =
      maps * (sizeof(double) + sizeof(std::int64_t) + (with_standard_error ? sizeof(double) : 0)) +
      (request.field ? 6 * sizeof(double) : 0);
  return static_cast<std::uint64_t>(cell_count()) * of_cell;
}

std::uint64_t CoveragePlan::peak_bytes(const DeviceSet& devices, int device) const {
  const auto shard = std::ranges::find(lanes.shards, device, &LaneShard::device);
  const bool has_lanes = shard != lanes.shards.end() && !shard->window.empty();
  if (device != 0 && shard == lanes.shards.end()) return 0;
  const bool is_merged_into = device == 0 && std::ranges::any_of(lanes.shards, [](const LaneShard& other) {
                                return other.device != 0;
                              });
  const auto grids =
      static_cast<std::uint64_t>((device == 0 ? master_grids() : grids_of(shard->window)).second);
  std::uint64_t bytes = (grids + (is_merged_into ? 1 : 0)) * (grid_cell_bytes() + grid_field_bytes()) +
                        sizeof(CoverageCounters);
  if (device == 0) bytes += result_bytes();
  if (!has_lanes) return bytes;
  CoverageTables tables;
  lay_out(*this, tables);
  bytes += tables.memory.size();
  if (request.rows) {
    CoverageRows rows;
    lay_out(*this, shard->plan.chunk_rows, rows);
    bytes += static_cast<std::uint64_t>(row_sets(shard->plan)) * rows.memory.size();
  }
  if (request.accumulation == Accumulation::ordered) {
    CoverageStaging staging;
    lay_out(*this, shard->plan.chunk_rows, devices[device].kind(), staging);
    bytes += staging.memory.size();
  }
  return bytes;
}

}  // namespace shardwise
