#include "shardwise/radio/coverage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <tuple>
#include <type_traits>

#include "radio/coverage_plan.hpp"
#include "runtime/for_each.hpp"
#include "runtime/packed_memory.hpp"
#include "scene/replica.hpp"
#include "shardwise/runtime/copy.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

std::atomic<int> corrupt_coverage_on_device{-1};

namespace {

/// What all launches of a device read.
struct Tables {
  PackedMemory memory;
  PackedArray<SurfaceMaterial> materials;
  PackedArray<LaunchTransmitter> transmitters;
  PackedArray<LaunchRotation> rotations;
  PackedArray<Vec3f> source, polarization;  ///< of all of the caller's rays, where they share one
};

/// Device memory for one chunk of the caller's rays.
struct RowSet {
  PackedMemory memory;
  PackedArray<Vec3f> origins, directions, sources, polarizations;
  PackedArray<float> tmax;
  PackedArray<std::uint8_t> active;
};

/// Device memory for the contributions of one chunk, Accumulation::ordered.
struct StagingSet {
  PackedMemory memory;
  PackedArray<StagedSlot> slots;
  PackedArray<FieldSample> fields;
  PackedArray<std::uint32_t> keys, order;
  PackedArray<char> scratch;
};

/// What one device holds during a call.
struct DeviceState {
  int device = 0;
  Window window;
  ChunkPlan chunks;
  std::int64_t first_grid = 0, grid_count = 0;
  Memory cells, fields;
  Buffer<CoverageCounters> counters;
  Tables tables;
  std::deque<RowSet> rows;
  StagingSet staging;
  CoverageCounters counted{};
};

/// Everything a call owns between its launch and wait(). Device memory lies in stream order on the callers'
/// streams: the call enters behind the allocations, and the releases are enqueued behind its exit.
struct CoverageCall {
  CoverageCall(Scene& s, CoveragePlan p)
      : scene(s), plan(std::move(p)), recording(scene.devices().timeline()) {}

  Scene& scene;
  CoveragePlan plan;
  std::deque<DeviceState> states;  ///< the master first, also without lanes
  Memory staging, staging_fields;  ///< on the master: one grid of another device
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
  void allocate_on(DeviceState& state);
  void allocate_tables(Stream& stream, Tables& tables) const;
  void allocate_rows(Stream& stream, std::uint64_t lanes, RowSet& rows) const;
  void allocate_staging(Stream& stream, std::uint64_t slots, StagingSet& set) const;
  template <class T>
  void upload(Graph& graph, int device, const PackedMemory& memory, const PackedArray<T>& array,
              const T* source, std::uint64_t count, const char* name);
  CoverageLaunch launch_of(const DeviceState& state) const;
  void fill_report();
  void add_lanes(Graph& graph, DeviceState& state);
  void add_merge(Graph& graph, DeviceState& state);
  void add_finish(Graph& graph);
  void add_sums(Graph& graph);
  FinishTarget target_of_map(std::size_t map) const;
  template <class Finish, class Merge>
  Operation finish_operation() const;
  LaunchRows upload_rows(Graph& graph, const DeviceState& state, const RowSet& rows, Window chunk);
  Stream& caller_stream(int device) const {
    return *scene.executor().default_context().streams[static_cast<std::size_t>(device)];
  }
  std::uint64_t grid_cell_bytes() const {
    return static_cast<std::uint64_t>(plan.cell_count()) * plan.cell_bytes();
  }
  std::uint64_t grid_field_bytes() const {
    return static_cast<std::uint64_t>(plan.cell_count()) * plan.field_bytes();
  }
  bool is_exact() const { return plan.request.accumulation == Accumulation::exact; }
};

Access touch(const Memory& memory, AccessMode mode) {
  return memory.access(mode);
}

// ---- memory
// ------------------------------------------------------------------------------------------------------

void CoverageCall::allocate() {
  const CoverageRequest& r = plan.request;
  states.emplace_back();
  for (const LaneShard& shard : plan.lanes.shards) {
    if (shard.device != 0) states.emplace_back();
    DeviceState& state = states.back();
    state.device = shard.device;
    state.window = shard.window;
    state.chunks = shard.plan;
  }
  for (DeviceState& state : states) {
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

void CoverageCall::allocate_on(DeviceState& state) {
  const CoverageRequest& r = plan.request;
  scene.devices()[state.device].memory(MemoryUse::work).reset_peak();
  Stream& stream = caller_stream(state.device);
  std::tie(state.first_grid, state.grid_count) =
      state.device == 0 ? plan.master_grids() : plan.grids_of(state.window);
  const auto grids = static_cast<std::uint64_t>(state.grid_count);
  state.cells = Memory(stream, grids * grid_cell_bytes(), "map");
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
    for (const RowSet& rows : state.rows) chunk_bytes += rows.memory.bytes();
  }
}

void CoverageCall::allocate_tables(Stream& stream, Tables& tables) const {
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

void CoverageCall::allocate_rows(Stream& stream, std::uint64_t lanes, RowSet& rows) const {
  const RayRows& source = *plan.request.rows;
  rows.origins = rows.memory.add<Vec3f>(lanes);
  rows.directions = rows.memory.add<Vec3f>(lanes);
  rows.tmax = rows.memory.add<float>(source.tmax.empty() ? 0 : lanes);
  rows.active = rows.memory.add<std::uint8_t>(source.active.empty() ? 0 : lanes);
  rows.sources = rows.memory.add<Vec3f>(source.transmitters.size() > 1 ? lanes : 0);
  rows.polarizations = rows.memory.add<Vec3f>(source.polarizations.size() > 1 ? lanes : 0);
  rows.memory.allocate(stream, "rays");
}

void CoverageCall::allocate_staging(Stream& stream, std::uint64_t slots, StagingSet& set) const {
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

// ---- graph
// -------------------------------------------------------------------------------------------------------

template <class T>
void CoverageCall::upload(Graph& graph, int device, const PackedMemory& memory, const PackedArray<T>& array,
                          const T* source, std::uint64_t count, const char* name) {
  if (array.count == 0 || count == 0) return;
  graph.add(device, StreamRole::copy_in,
            copy_operation(name, memory.data(array), source, count * sizeof(T),
                           {memory.access(AccessMode::write, array)}));
}

LaunchRows CoverageCall::upload_rows(Graph& graph, const DeviceState& state, const RowSet& set,
                                     Window chunk) {
  const RayRows& source = *plan.request.rows;
  const auto begin = static_cast<std::size_t>(chunk.begin);
  const auto count = static_cast<std::uint64_t>(chunk.count);
  const auto send = [&](const auto& array, const auto& rows, const char* name) {
    if (array.count > 0) upload(graph, state.device, set.memory, array, rows.data() + begin, count, name);
  };
  send(set.origins, source.origins, "origins");
  send(set.directions, source.directions, "directions");
  send(set.tmax, source.tmax, "tmax");
  send(set.active, source.active, "active");
  send(set.sources, source.transmitters, "transmitters");
  send(set.polarizations, source.polarizations, "polarizations");

  const Tables& tables = state.tables;
  LaunchRows view;
  view.first_row = static_cast<std::uint64_t>(chunk.begin);
  view.origin = set.memory.data(set.origins);
  view.direction = set.memory.data(set.directions);
  view.tmax = set.memory.data(set.tmax);
  view.active = set.memory.data(set.active);
  view.source_stride = set.sources.count > 0;
  view.source = set.sources.count > 0 ? set.memory.data(set.sources) : tables.memory.data(tables.source);
  view.polarization_stride = set.polarizations.count > 0;
  view.polarization = set.polarizations.count > 0 ? set.memory.data(set.polarizations)
                                                  : tables.memory.data(tables.polarization);
  return view;
}

CoverageLaunch CoverageCall::launch_of(const DeviceState& state) const {
  const CoverageRequest& r = plan.request;
  const Tables& tables = state.tables;
  CoverageLaunch launch;
  launch.accumulation = r.accumulation;
  launch.fields = r.field;
  launch.window = {static_cast<std::uint64_t>(plan.cell_count()),
                   static_cast<std::uint32_t>(state.first_grid)};
  launch.cells = state.cells.data();
  launch.field_cells = state.fields.data();
  launch.scale = plan.scale;
  launch.field_scale = plan.field_scale;
  const StagingSet& staged = state.staging;
  launch.staging = {staged.memory.data(staged.slots),   staged.memory.data(staged.fields),
                    staged.memory.data(staged.keys),    staged.memory.data(staged.order),
                    staged.memory.data(staged.scratch), staged.scratch.bytes()};
  launch.counters = state.counters.data();
  CoverageParams& params = launch.params;
  // As it is now: what changes the scene later waits until this call is through.
  params.scene = scene.replica(state.device).view();
  params.grid = plan.grid;
  params.materials = tables.memory.data(tables.materials);
  params.material_count = static_cast<std::int32_t>(plan.materials.size());
  params.bounces = r.bounces;
  params.line_of_sight = r.line_of_sight;
  params.slab_walls = r.slab_walls;
  params.inverse_wavelength = r.frequency_hz / speed_of_light;
  params.inverse_diagonal = 1.0 / plan.diagonal;
  params.launch.from_rows = r.rows.has_value();
  params.launch.rays_per_pass = static_cast<std::uint64_t>(r.rays_per_pass);
  params.launch.transmitter_count = std::max<std::uint64_t>(1, r.transmitters.size());
  params.launch.grid_per_transmitter = r.per_transmitter;
  params.launch.transmitters = tables.memory.data(tables.transmitters);
  params.launch.rotations = tables.memory.data(tables.rotations);
  params.launch.polarization = r.polarization;
  // A corrupted device counts every crossing some cells too far along.
  if (corrupt_coverage_on_device.load() == state.device)
    params.grid.min0 -= (plan.grid.max0 - plan.grid.min0) * 0.25f;
  return launch;
}

void CoverageCall::add_lanes(Graph& graph, DeviceState& state) {
  const CoverageRequest& r = plan.request;
  const Replica& replica = scene.replica(state.device);
  graph.add(state.device, StreamRole::compute,
            zero_operation("clear map", state.cells.data(), state.cells.bytes(),
                           {touch(state.cells, AccessMode::write)}));
  if (r.field)
    graph.add(state.device, StreamRole::compute,
              zero_operation("clear field map", state.fields.data(), state.fields.bytes(),
                             {touch(state.fields, AccessMode::write)}));
  graph.add(state.device, StreamRole::compute,
            zero_operation("clear counters", state.counters.data(), state.counters.bytes(),
                           {state.counters.writes()}));
  if (state.window.empty()) return;

  const Tables& tables = state.tables;
  const auto send = [&](const auto& array, const auto* source, const char* name) {
    upload(graph, state.device, tables.memory, array, source, array.count, name);
  };
  send(tables.materials, plan.materials.data(), "materials");
  send(tables.transmitters, r.transmitters.data(), "transmitters");
  send(tables.rotations, r.rotations.data(), "rotations");
  if (r.rows) {
    send(tables.source, r.rows->transmitters.data(), "transmitter");
    send(tables.polarization, r.rows->polarizations.data(), "polarization");
  }

  const bool ordered = r.accumulation == Accumulation::ordered;
  const AccessMode adding = ordered ? AccessMode::write : AccessMode::accumulate;
  CoverageLaunch launch = launch_of(state);
  std::size_t set = 0;
  for (const Window chunk : sub_windows(state.window, state.chunks.chunk_rows)) {
    launch.first_lane = static_cast<std::uint64_t>(chunk.begin);
    launch.lane_count = chunk.count;
    AccessList accesses{replica.reads(), tables.memory.access(AccessMode::read), state.counters.accumulates(),
                        ordered ? state.staging.memory.access(adding) : touch(state.cells, adding)};
    if (!ordered && r.field) accesses.add(touch(state.fields, adding));
    if (r.rows) {
      const RowSet& rows = state.rows[set++ % state.rows.size()];
      launch.params.launch.rows = upload_rows(graph, state, rows, chunk);
      accesses.add(rows.memory.access(AccessMode::read));
    }

    Operation trace;
    trace.name = fmt::format("trace lanes {}..{}", chunk.begin, chunk.end());
    trace.accesses = accesses;
    trace.items = chunk.count;
    trace.body = [this, launch, &replica](LaunchContext& context) mutable {
      std::atomic<std::int64_t>* done = plan.request.progress ? &lanes_done : nullptr;
#if SHARDWISE_WITH_CUDA
      if (context.native_stream()) return launch_coverage_on_cuda(context, launch, done);
#endif
      launch_coverage_on_host(context, launch, replica, done, plan.request.cancel);
    };
    graph.add(state.device, StreamRole::compute, std::move(trace));

    if (ordered) {
      Operation add;
      add.name = "add staged contributions";
      // The sort works in the staging memory, too.
      add.accesses = {state.staging.memory.access(AccessMode::write), touch(state.cells, AccessMode::write)};
      if (r.field) add.accesses.add(touch(state.fields, AccessMode::write));
      add.body = [launch](LaunchContext& context) {
#if SHARDWISE_WITH_CUDA
        if (context.native_stream()) return add_staged_on_cuda(context, launch);
#endif
        (void)context;
        add_staged_on_host(launch);
      };
      graph.add(state.device, StreamRole::compute, std::move(add));
    } else if (is_exact()) {
      Operation normalise;
      normalise.name = "normalise map";
      normalise.accesses = {touch(state.cells, AccessMode::write)};
      if (r.field) normalise.accesses.add(touch(state.fields, AccessMode::write));
      const NormalizeCells step{static_cast<ExactCell*>(state.cells.data()),
                                static_cast<ExactSum*>(state.fields.data())};
      normalise.body = [step, slots = state.grid_count * plan.cell_count()](LaunchContext& context) {
        for_each(context, slots, step);
      };
      graph.add(state.device, StreamRole::compute, std::move(normalise));
    }
  }
}

void CoverageCall::add_merge(Graph& graph, DeviceState& state) {
  DeviceState& master = states.front();
  const auto cells = plan.cell_count();
  for (std::int64_t k = 0; k < state.grid_count; ++k) {
    const auto local = static_cast<std::uint64_t>(k),
               global = static_cast<std::uint64_t>(state.first_grid + k - master.first_grid);
    const auto from = [&](const Memory& memory, std::uint64_t bytes) {
      return static_cast<const char*>(memory.data()) + local * bytes;
    };
    graph.add(
        state.device, StreamRole::copy_out,
        copy_operation("send map", staging.data(), from(state.cells, grid_cell_bytes()), grid_cell_bytes(),
                       {touch(staging, AccessMode::write),
                        state.cells.access(AccessMode::read, local * grid_cell_bytes(), grid_cell_bytes())}));
    if (plan.request.field)
      graph.add(state.device, StreamRole::copy_out,
                copy_operation(
                    "send field map", staging_fields.data(), from(state.fields, grid_field_bytes()),
                    grid_field_bytes(),
                    {touch(staging_fields, AccessMode::write),
                     state.fields.access(AccessMode::read, local * grid_field_bytes(), grid_field_bytes())}));
    Operation merge_maps;
    merge_maps.name = "merge map of " + scene.devices()[state.device].name();
    merge_maps.accesses = {
        touch(staging, AccessMode::read),
        master.cells.access(AccessMode::write, global * grid_cell_bytes(), grid_cell_bytes())};
    if (plan.request.field) {
      merge_maps.accesses.add(touch(staging_fields, AccessMode::read));
      merge_maps.accesses.add(
          master.fields.access(AccessMode::write, global * grid_field_bytes(), grid_field_bytes()));
    }
    void* target = static_cast<char*>(master.cells.data()) + global * grid_cell_bytes();
    void* target_fields =
        plan.request.field ? static_cast<char*>(master.fields.data()) + global * grid_field_bytes() : nullptr;
    const void* partial = staging.data();
    const void* partial_fields = staging_fields.data();
    merge_maps.body = [exact = is_exact(), cells, target, target_fields, partial,
                       partial_fields](LaunchContext& context) {
      if (exact)
        for_each(
            context, cells,
            MergeExact{static_cast<ExactCell*>(target), static_cast<const ExactCell*>(partial),
                       static_cast<ExactSum*>(target_fields), static_cast<const ExactSum*>(partial_fields)});
      else
        for_each(context, cells,
                 MergeFast{static_cast<FastCell*>(target), static_cast<const FastCell*>(partial),
                           static_cast<double*>(target_fields), static_cast<const double*>(partial_fields)});
    };
    graph.add(0, StreamRole::compute, std::move(merge_maps));
  }
}

/// Where a finished map goes: map 0 is the sum over transmitters, map 1 + t that of transmitter t.
FinishTarget CoverageCall::target_of_map(std::size_t map) const {
  FinishTarget target = plan.constants;
  const auto cells = static_cast<std::size_t>(plan.cell_count());
  // The stride from one pass to the next: the grids of all its transmitters.
  target.cell_count = plan.cell_count() * plan.grids_per_pass();
  target.passes = static_cast<int>(states.front().grid_count / plan.grids_per_pass());
  target.gain = gain.data() + map * cells;
  target.crossings = crossings.data() + map * cells;
  target.standard_error = standard_error.size() > 0 ? standard_error.data() + map * cells : nullptr;
  target.field = map == 0 ? field.data() : nullptr;
  return target;
}

template <class Finish, class Merge>
Operation CoverageCall::finish_operation() const {
  using Cell = std::remove_const_t<std::remove_pointer_t<decltype(Finish::cells)>>;
  using Field = std::remove_const_t<std::remove_pointer_t<decltype(Finish::fields)>>;
  const DeviceState& master = states.front();
  const std::size_t groups = plan.request.per_transmitter ? plan.request.transmitters.size() : 0;
  std::vector<FinishTarget> targets;
  for (std::size_t map = 0; map <= groups; ++map) targets.push_back(target_of_map(map));
  Operation finish;
  finish.name = "finish map";
  finish.body = [targets, groups, cell_count = plan.cell_count(),
                 cells = static_cast<Cell*>(master.cells.data()),
                 fields = static_cast<Field*>(master.fields.data())](LaunchContext& context) {
    for (std::size_t t = 0; t < groups; ++t)
      for_each(context, cell_count,
               Finish{targets[1 + t], cells + static_cast<std::int64_t>(t) * cell_count, nullptr});
    // Every map is written: the first transmitter's grids become those of the sum.
    for (int pass = 0; pass < targets[0].passes; ++pass)
      for (std::size_t t = 1; t < groups; ++t) {
        const std::int64_t to = pass * targets[0].cell_count,
                           from = to + static_cast<std::int64_t>(t) * cell_count;
        for_each(context, cell_count,
                 Merge{cells + to, cells + from, fields ? fields + 6 * to : nullptr,
                       fields ? fields + 6 * from : nullptr});
      }
    for_each(context, cell_count, Finish{targets[0], cells, fields});
  };
  return finish;
}

void CoverageCall::add_finish(Graph& graph) {
  const CoverageRequest& r = plan.request;
  DeviceState& master = states.front();
  Operation finish_map =
      is_exact() ? finish_operation<FinishExact, MergeExact>() : finish_operation<FinishFast, MergeFast>();
  const AccessMode mode = r.per_transmitter ? AccessMode::write : AccessMode::read;
  finish_map.accesses = {touch(master.cells, mode), gain.writes(), crossings.writes()};
  if (standard_error.size() > 0) finish_map.accesses.add(standard_error.writes());
  if (field.size() > 0) {
    finish_map.accesses.add(touch(master.fields, mode));
    finish_map.accesses.add(field.writes());
  }
  graph.add(0, StreamRole::compute, std::move(finish_map));

  const auto cells = static_cast<std::size_t>(plan.cell_count());
  const std::size_t per_transmitter = r.per_transmitter ? r.transmitters.size() * cells : 0;
  // The first map of `source` to `sum`, the others to `each`.
  const auto download = [&](const char* name, auto& sum, auto& each, const auto& source, std::size_t items) {
    if (source.size() == 0) return;
    sum.resize(items);
    each.resize(per_transmitter);
    std::vector<CopyPiece> pieces{{sum.data(), source.data(), items * sizeof(sum[0])}};
    if (!each.empty()) pieces.push_back({each.data(), source.data() + items, each.size() * sizeof(each[0])});
    graph.add(0, StreamRole::copy_out, copy_operation(name, std::move(pieces), {source.reads()}));
  };
  download("gain to host", result.gain, result.transmitter_gain, gain, cells);
  download("crossings to host", result.crossings, result.transmitter_crossings, crossings, cells);
  download("standard error to host", result.standard_error, result.transmitter_standard_error, standard_error,
           cells);
  if (field.size() > 0) {
    result.field.resize(cells * 3);
    graph.add(0, StreamRole::copy_out,
              copy_operation("field to host", result.field.data(), field.data(), field.memory().bytes(),
                             {field.reads()}));
  }
}

/// The master's grids as they are, in place of a finished map.
void CoverageCall::add_sums(Graph& graph) {
  const DeviceState& master = states.front();
  CoverageSums& sums = result.sums;
  sums.cell_count = plan.cell_count();
  sums.grids_per_pass = plan.grids_per_pass();
  sums.first_grid = master.first_grid;
  sums.scale = plan.scale;
  if (!plan.window.empty()) sums.windows = {plan.window};
  sums.cells.resize(static_cast<std::size_t>(master.grid_count * plan.cell_count()));
  graph.add(0, StreamRole::copy_out,
            copy_operation("sums to host", sums.cells.data(), master.cells.data(), master.cells.bytes(),
                           {touch(master.cells, AccessMode::read)}));
}

Graph CoverageCall::build() {
  Graph graph;
  for (DeviceState& state : states) add_lanes(graph, state);
  for (std::size_t i = 1; i < states.size(); ++i) add_merge(graph, states[i]);
  if (plan.request.sums)
    add_sums(graph);
  else
    add_finish(graph);
  for (DeviceState& state : states)
    graph.add(state.device, StreamRole::copy_out,
              copy_operation("counters to host", &state.counted, state.counters.data(), sizeof state.counted,
                             {state.counters.reads()}));
  return graph;
}

void CoverageCall::launch() {
  begin_s = scene.devices().timeline().latest();
  allocate();
  run = scene.executor().run(build());
  // A stream that could not be made to wait for the run must not release what the run still uses, and what is
  // on it may run too early.
  if (run.exit_edge_lost())
    scene.poison("the way out of " + plan.request.operation, run.exit_edge_error());
  else
    release();
}

void CoverageCall::release() {
  for (DeviceState& state : states) {
    state.cells = {};
    state.fields = {};
    state.counters = {};
    state.tables = {};
    state.rows.clear();
    state.staging = {};
  }
  staging = {};
  staging_fields = {};
  gain = {};
  standard_error = {};
  crossings = {};
  field = {};
  for (const DeviceState& state : states) released.push_back(caller_stream(state.device).record());
}

std::vector<PendingPoint> CoverageCall::points() const {
  std::vector<PendingPoint> points = run.points();
  for (std::size_t i = 0; i < released.size(); ++i)
    points.push_back({caller_stream(states[i].device).device().name() + "/caller", released[i]});
  return points;
}

// ---- result
// ------------------------------------------------------------------------------------------------------

CoverageResult CoverageCall::finish() {
  const CoverageRequest& r = plan.request;
  std::function<void()> poll;
  if (r.progress) poll = [&] { r.progress(lanes_done.load(std::memory_order_relaxed), plan.window.count); };
  try {
    run.wait(poll);
  } catch (...) {
    failures = run.failures();
    throw;
  }
  for (const Event& event : released) event.wait_on_host();
  if (r.progress) r.progress(plan.window.count, plan.window.count);
  if (r.cancel && r.cancel->load())
    throw Error(ErrorClass::interrupted, r.operation + ": cancelled; nothing was written");

  std::uint64_t overflow = 0;
  for (const DeviceState& state : states) {
    result.segments += static_cast<std::int64_t>(state.counted.segments);
    result.rejected += static_cast<std::int64_t>(state.counted.rejected);
    overflow += state.counted.overflow;
  }
  if (overflow > 0)
    throw Error(ErrorClass::data,
                fmt::format("{}: {} contributions were not finite or more than 2^20 times the largest "
                            "expected value; check material gains and transmitter gains",
                            r.operation, overflow));
  result.lanes = plan.window.count;
  result.rays_per_pass = r.rays_per_pass;
  if (r.sums) result.sums.segments = result.segments, result.sums.rejected = result.rejected;
  result.warnings = plan.warnings;
  fill_report();
  return std::move(result);
}

void CoverageCall::fill_report() {
  result.dispatch = plan.lanes.report;
  const DeviceSet& devices = scene.devices();
  for (int d = 0; d < devices.size(); ++d) {
    DeviceReport& entry = result.dispatch.devices[static_cast<std::size_t>(d)];
    for (const auto& [name, size] : scene.scene_bytes(d)) entry.scene_bytes += size;
    entry.peak_bytes = devices[d].memory(MemoryUse::work).peak();
    const TimelineSummary summary = devices.timeline().summary_of(devices[d].name(), begin_s);
    entry.busy_s = summary.busy_s;
    entry.idle_s = summary.idle_s;
    entry.bytes_in = summary.bytes_in;
    entry.bytes_out = summary.bytes_out;
  }
  if (plan.lanes.shards.empty()) return;
  const LaneShard& first = plan.lanes.shards.front();
  result.dispatch.measured_row_bytes = static_cast<double>(chunk_bytes) /
                                       static_cast<double>(std::max<std::int64_t>(1, first.plan.chunk_rows)) /
                                       static_cast<double>(std::max(1, first.plan.resident_chunks));
}

}  // namespace

namespace {

/// Runs a call to its end, and again on the devices that are left where some fail. The sums are exact, so
/// that the result has the same bits.
CoverageResult run_with_failover(Scene& scene, CoveragePlan plan) {
  const CoverageRequest request = plan.request;
  std::vector<DeviceFailure> survived;
  for (;;) {
    const auto call = std::make_shared<CoverageCall>(scene, std::move(plan));
    try {
      call->launch();
      CoverageResult result = call->finish();
      result.dispatch.failures = std::move(survived);
      return result;
    } catch (...) {
      const std::vector<RunFailure> failed = survivable(call->failures, scene.executor());
      if (failed.empty() || call->run.exit_edge_lost()) throw;
      for (const RunFailure& failure : failed) {
        scene.executor().retire(failure.device);
        survived.push_back({scene.devices()[failure.device].name(), failure.text, call->plan.window.count});
      }
    }
    plan = plan_coverage(scene, request);
  }
}

}  // namespace

Pending<CoverageResult> run_coverage(Scene& scene, CoveragePlan plan) {
  const CoverageRequest& request = plan.request;
  if (request.split.on_device_failure == OnDeviceFailure::failover && scene.devices().size() > 1 &&
      request.accumulation == Accumulation::exact) {
    // Both are told by wait(), although the call is over when it returns.
    auto result = std::make_shared<CoverageResult>();
    std::exception_ptr error;
    try {
      *result = run_with_failover(scene, std::move(plan));
    } catch (...) {
      error = std::current_exception();
    }
    return Pending<CoverageResult>([result, error] {
      if (error) std::rethrow_exception(error);
      return std::move(*result);
    });
  }
  auto call = std::make_shared<CoverageCall>(scene, std::move(plan));
  call->launch();
  return Pending<CoverageResult>([call] { return call->finish(); }, call->plan.request.operation,
                                 call->points());
}

Pending<CoverageResult> coverage(Scene& scene, const CoverageOptions& options) {
  return run_coverage(scene, plan_coverage(scene, request_of(options)));
}

Pending<CoverageResult> accumulate_reflections(Scene& scene, const RayRows& rays,
                                               const AccumulateOptions& options) {
  return run_coverage(scene, plan_coverage(scene, request_of(rays, options)));
}

}  // namespace shardwise
