#include <algorithm>
#include <tuple>

#include "radio/coverage_call.hpp"

namespace shardwise {

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
  allocate_tables(stream, state.tables);
  const auto lanes = static_cast<std::uint64_t>(state.chunks.chunk_rows);
  if (r.rows)
    for (std::int64_t i = 0; i < std::min<std::int64_t>(2, state.chunks.chunk_count); ++i)
      allocate_rows(stream, lanes, state.rows.emplace_back());
  if (r.accumulation == Accumulation::ordered)
    allocate_staging(stream, lanes * static_cast<std::uint64_t>(r.bounces + 1), state.staging);
  if (chunk_bytes == 0) {
    chunk_bytes = state.staging.memory.bytes();
    for (const CoverageRows& rows : state.rows) chunk_bytes += rows.memory.bytes();
  }
}

void CoverageCall::allocate_tables(Stream& stream, CoverageTables& tables) const {
  const CoverageRequest& r = plan.request;
  tables.materials = tables.memory.add<SurfaceMaterial>(plan.materials.size());
  tables.transmitters = tables.memory.add<LaunchTransmitter>(r.transmitters.size());
  tables.rotations = tables.memory.add<LaunchRotation>(r.rotations.size());
  if (r.rows) {
    tables.source = tables.memory.add<Vec3f>(r.rows->transmitters.size() == 1 ? 1 : 0);
    tables.polarization = tables.memory.add<Vec3f>(r.rows->polarizations.size() == 1 ? 1 : 0);
  }
  tables.memory.allocate(stream, "tables");
}

void CoverageCall::allocate_rows(Stream& stream, std::uint64_t lanes, CoverageRows& rows) const {
  const RayRows& source = *plan.request.rows;
  rows.origins = rows.memory.add<Vec3f>(lanes);
  rows.directions = rows.memory.add<Vec3f>(lanes);
  rows.tmax = rows.memory.add<float>(source.tmax.empty() ? 0 : lanes);
  rows.active = rows.memory.add<std::uint8_t>(source.active.empty() ? 0 : lanes);
  rows.sources = rows.memory.add<Vec3f>(source.transmitters.size() > 1 ? lanes : 0);
  rows.polarizations = rows.memory.add<Vec3f>(source.polarizations.size() > 1 ? lanes : 0);
  rows.memory.allocate(stream, "rays");
}

void CoverageCall::allocate_staging(Stream& stream, std::uint64_t slots, CoverageStaging& set) const {
  set.slots = set.memory.add<StagedSlot>(slots);
  set.fields = set.memory.add<FieldSample>(plan.request.field ? slots : 0);
#if SHARDWISE_WITH_CUDA
  if (stream.device().kind() == PlatformKind::cuda) {
    set.keys = set.memory.add<std::uint32_t>(2 * slots);
    set.order = set.memory.add<std::uint32_t>(2 * slots);
    set.scratch = set.memory.add<char>(staging_scratch_bytes(static_cast<std::int64_t>(slots)));
  }
#endif
  set.memory.allocate(stream, "staged contributions");
}

}  // namespace shardwise
