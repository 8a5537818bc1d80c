#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "radio/coverage_call.hpp"
#include "runtime/for_each.hpp"
#include "scene/replica.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise {

std::atomic<int> corrupt_coverage_on_device{-1};

namespace {

Access touch(const Memory& memory, AccessMode mode) {
  return memory.access(mode);
}

}  // namespace

template <class T>
void CoverageCall::upload(Graph& graph, int device, const PackedMemory& memory, const PackedArray<T>& array,
                          const T* source, std::uint64_t count, const char* name) {
  if (array.count == 0 || count == 0) return;
  graph.add(device, StreamRole::copy_in,
            copy_operation(name, memory.data(array), source, count * sizeof(T),
                           {memory.access(AccessMode::write, array)}));
}

LaunchRows CoverageCall::upload_rows(Graph& graph, const CoverageDevice& state, const CoverageRows& set,
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

  const CoverageTables& tables = state.tables;
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

CoverageLaunch CoverageCall::launch_of(const CoverageDevice& state) const {
  const CoverageRequest& r = plan.request;
  const CoverageTables& tables = state.tables;
  CoverageLaunch launch;
  launch.accumulation = r.accumulation;
  launch.fields = r.field;
  launch.window = {static_cast<std::uint64_t>(plan.cell_count()),
                   static_cast<std::uint32_t>(state.first_grid)};
  launch.cells = state.cells.data();
  launch.field_cells = state.fields.data();
  launch.scale = plan.scale;
  launch.field_scale = plan.field_scale;
  const CoverageStaging& staged = state.staging;
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

void CoverageCall::add_lanes(Graph& graph, CoverageDevice& state) {
  const CoverageRequest& r = plan.request;
  const Replica& replica = scene.replica(state.device);
  if (!r.held_given || state.device != 0)
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

  const CoverageTables& tables = state.tables;
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
      const CoverageRows& rows = state.rows[set++ % state.rows.size()];
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

void CoverageCall::add_merge(Graph& graph, CoverageDevice& state) {
  CoverageDevice& master = states.front();
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
  const CoverageDevice& master = states.front();
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
  CoverageDevice& master = states.front();
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
  const CoverageDevice& master = states.front();
  CoverageSums& sums = result.sums;
  sums.cell_count = plan.cell_count();
  sums.grids_per_pass = plan.grids_per_pass();
  sums.first_grid = master.first_grid;
  sums.scale = plan.scale;
  if (!plan.window.empty()) sums.windows = {plan.window};
  if (plan.request.held) return;
  sums.cells.resize(static_cast<std::size_t>(master.grid_count * plan.cell_count()));
  graph.add(0, StreamRole::copy_out,
            copy_operation("sums to host", sums.cells.data(), master.cells.data(), master.cells.bytes(),
                           {touch(master.cells, AccessMode::read)}));
}

Graph CoverageCall::build() {
  Graph graph;
  for (CoverageDevice& state : states) add_lanes(graph, state);
  for (std::size_t i = 1; i < states.size(); ++i) add_merge(graph, states[i]);
  if (plan.request.sums)
    add_sums(graph);
  else
    add_finish(graph);
  for (CoverageDevice& state : states)
    graph.add(state.device, StreamRole::copy_out,
              copy_operation("counters to host", &state.counted, state.counters.data(), sizeof state.counted,
                             {state.counters.reads()}));
  return graph;
}

}  // namespace shardwise
