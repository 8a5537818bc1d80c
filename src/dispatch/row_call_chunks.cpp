// One chunk of a call on rows as operations: rows in, the launch, results out.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dispatch/row_call.hpp"
#include "dispatch/row_memory.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise {

namespace {

template <class T>
T* at_row(T* base, std::int64_t row, std::uint32_t row_bytes) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return static_cast<Byte*>(base) + static_cast<std::uint64_t>(row) * row_bytes;
}

}  // namespace

Access RowCall::table_access(const RowBlock& block, Window window) const {
  Access access;
  access.mode = AccessMode::write;
  // In rows, not bytes: one range covers all columns.
  access.begin = static_cast<std::uint64_t>(window.begin - block.window.begin);
  access.length = static_cast<std::uint64_t>(window.count);
  access.resource =
      block.memory.resource() != 0 && block.memory.bytes() > 0 ? block.memory.resource() : callers_output_;
  return access;
}

void RowCall::begin(OnDevice& on) {
  if (on.kept && on.kept->take()) graph_.add(on.device, StreamRole::compute, on.kept->clear_first());
  if (on.sums.bytes() > 0)
    graph_.add(on.device, StreamRole::compute,
               zero_operation("clear counters and partial", on.sums.base(), on.sums.bytes(),
                              {on.sums.access(AccessMode::write)}));
}

std::optional<Window> RowCall::next_window(OnDevice& on) {
  if (!plan_.shared) {
    const std::int64_t left = on.shard.window.count - on.done;
    if (left == 0) return std::nullopt;
    const Window window = real_window({on.shard.window.begin + on.done, on.shard.chunks.next_rows(left)});
    on.done += window.count;
    return window;
  }
  const std::int64_t left = plan_.rows - next_row_;
  if (left == 0) return std::nullopt;
  // A slow device takes smaller pieces, and towards the end everybody does, so that all end together.
  const double share = speed_[static_cast<std::size_t>(on.device)];
  auto rows = static_cast<std::int64_t>(static_cast<double>(on.shard.chunks.chunk_rows) * share);
  const auto even =
      static_cast<std::int64_t>(static_cast<double>(left) * share / static_cast<double>(2 * states_.size())) +
      1;
  rows = std::clamp<std::int64_t>(std::min(rows, std::max(even, on.shard.chunks.chunk_rows / 8)), 1, left);
  const Window window = real_window({next_row_, rows});
  next_row_ += window.count;
  return window;
}

RowCall::Chunk RowCall::take_chunk(OnDevice& on, Window window) {
  Chunk chunk{
      &on, window, nullptr, {}, {operation_.reads(on.device), counters_access(on, AccessMode::accumulate)},
      -1};
  if (!on.slots.empty()) {
    chunk.slot = &on.slots[static_cast<std::size_t>(on.chunks) % on.slots.size()];
    chunk.accesses.add(chunk.slot->memory.access(AccessMode::write));
  }
  ++on.chunks;
  on.rows += window.count;
  chunk.launch.device = on.device;
  chunk.launch.first_row = window.begin;
  chunk.launch.count = window.count;
  chunk.launch.counters = counters_of(on);
  if (failover_) {
    chunk.taken = static_cast<int>(taken_.size());
    taken_.push_back({window, on.device, -1, -1, on.last_taken, {}, false});
    on.last_taken = chunk.taken;
  }
  return chunk;
}

void RowCall::add_inputs(Chunk& chunk) {
  auto& [owner, window, slot, launch, accesses, taken] = chunk;
  OnDevice& on = *owner;
  const std::size_t columns = operation_.inputs.size();
  if (source_.kind == SourceKind::generated) {
    RowLaunch made;
    made.device = on.device;
    made.first_row = window.begin;
    made.count = window.count;
    for (std::size_t c = 0; c < columns; ++c)
      launch.inputs[c] = made.outputs[c] =
          keeps(operation_.inputs[c]) ? slot->memory.data(slot->inputs[c]) : nullptr;
    Operation generate;
    generate.name = fmt::format("{} {}..{}", source_.generator.name, window.begin, window.end());
    generate.items = window.count;
    generate.accesses = {slot->memory.access(AccessMode::write)};
    generate.body = [make = source_.generator.make, made](LaunchContext& context) { make(context, made); };
    on.launches.push_back(graph_.add(on.device, StreamRole::compute, std::move(generate)));
    graph_.nodes().back().timed = sampled_;
    return;
  }
  if (source_.kind == SourceKind::resident) {
    const RowBlock& block = *on.resident_in;
    for (std::size_t c = 0; c < columns; ++c)
      if (keeps(operation_.inputs[c]))
        launch.inputs[c] = at_row(block.columns[static_cast<std::size_t>(source_.table_columns[c])],
                                  window.begin - block.window.begin, operation_.inputs[c].row_bytes);
    Access reads = table_access(block, window);
    reads.mode = AccessMode::read;
    accesses.add(reads);
    return;
  }
  std::vector<CopyPiece> pieces;
  AccessList sources{};
  for (std::size_t c = 0; c < columns; ++c) {
    if (!keeps(operation_.inputs[c])) continue;
    const std::uint32_t bytes = operation_.inputs[c].row_bytes;
    const void* from = at_row(source_.columns[c].data, window.begin, bytes);
    if (!on.shard.sends_in) {
      launch.inputs[c] = from;
      add_callers_memory(accesses, executor_.devices().master(), source_.columns[c].data, AccessMode::read);
      continue;
    }
    add_callers_memory(sources, executor_.devices().master(), source_.columns[c].data, AccessMode::read);
    void* to = slot->memory.data(slot->inputs[c]);
    pieces.push_back({to, from, static_cast<std::uint64_t>(window.count) * bytes});
    launch.inputs[c] = to;
  }
  if (pieces.empty()) return;
  Operation send = copy_operation(fmt::format("send rows {}..{}", window.begin, window.end()),
                                  std::move(pieces), {slot->memory.access(AccessMode::write)});
  for (const Access& access : sources)
    if (send.accesses.size() < AccessList::capacity) send.accesses.add(access);
  send.from.device =
      source_.kind == SourceKind::on_host ? CopyEnd::host : executor_.devices().master().info().index;
  on.copies_in.push_back(graph_.add(on.device, StreamRole::copy_in, std::move(send)));
  graph_.nodes().back().timed = sampled_;
}

void RowCall::place_outputs(Chunk& chunk) {
  auto& [owner, window, slot, launch, accesses, taken] = chunk;
  const OnDevice& on = *owner;
  const bool in_slot =
      on.shard.sends_out || sink_.kind == SinkKind::offload || sink_.kind == SinkKind::reduce;
  const RowBlock* block = in_slot ? nullptr : &table_->blocks.front();
  if (sink_.kind == SinkKind::resident)
    for (const RowBlock& other : table_->blocks)
      if (other.device == on.device && other.window.begin <= window.begin &&
          window.end() <= other.window.end())
        block = &other;
  for (std::size_t c = 0; c < operation_.outputs.size(); ++c) {
    if (!keeps(operation_.outputs[c])) continue;
    launch.outputs[c] = in_slot ? static_cast<void*>(slot->memory.data(slot->outputs[c]))
                                : at_row(block->columns[c], window.begin - block->window.begin,
                                         operation_.outputs[c].row_bytes);
  }
  if (!block) return;
  accesses.add(table_access(*block, window));
  // By whole columns, so as what commutes: each launch has its own rows.
  for (std::size_t c = 0; c < sink_.memory.size(); ++c)
    add_callers_memory(accesses, executor_.devices().master(), sink_.memory[c].data(),
                       AccessMode::accumulate);
}

/// What happens to a chunk once it is computed; returns the node behind which it is where it belongs.
int RowCall::deliver(const Chunk& chunk, int launched, RowChunk& results) {
  const auto& [owner, window, slot, launch, accesses, taken] = chunk;
  OnDevice& on = *owner;
  if (sink_.kind == SinkKind::reduce) {
    Operation fold;
    fold.name = fmt::format("{} {}..{}", sink_.reducer.name, window.begin, window.end());
    fold.items = window.count;
    fold.accesses = {slot->memory.access(AccessMode::read), on.sums.access(AccessMode::write, on.partial)};
    fold.body = [fold_rows = sink_.reducer.fold, rows = launch, partial = on.sums.data(on.partial)](
                    LaunchContext& context) { fold_rows(context, rows, partial); };
    const int node = graph_.add(on.device, StreamRole::compute, std::move(fold));
    graph_.nodes().back().timed = sampled_;
    on.launches.push_back(node);
    return node;
  }
  results.first_row = window.begin;
  results.count = window.count;
  results.device = on.device;
  if (!on.shard.sends_out) {
    results.columns.assign(launch.outputs.begin(),
                           launch.outputs.begin() + static_cast<std::ptrdiff_t>(operation_.outputs.size()));
    return launched;
  }
  HookSlot* hook_slot = nullptr;
  if (sink_.kind == SinkKind::offload) {
    hook_slot = &on.hook_slots[static_cast<std::size_t>(slot - on.slots.data())];
    results.columns = hook_slot->columns;
  }
  std::vector<CopyPiece> pieces;
  for (std::size_t c = 0; c < operation_.outputs.size(); ++c) {
    if (!keeps(operation_.outputs[c])) continue;
    const std::uint32_t bytes = operation_.outputs[c].row_bytes;
    void* to =
        hook_slot ? hook_slot->columns[c] : at_row(table_->blocks.front().columns[c], window.begin, bytes);
    pieces.push_back({to, launch.outputs[c], static_cast<std::uint64_t>(window.count) * bytes});
  }
  Access writes =
      hook_slot ? hook_slot->memory.access(AccessMode::write) : table_access(table_->blocks.front(), window);
  if (hook_slot && sink_.offload_host) {
    writes = {};
    writes.resource = hook_slot->host_resource;
    writes.length = 1;
    writes.mode = AccessMode::write;
  }
  Operation gather = copy_operation(fmt::format("gather rows {}..{}", window.begin, window.end()),
                                    std::move(pieces), {slot->memory.access(AccessMode::read), writes});
  const bool to_host =
      sink_.kind == SinkKind::to_host || (sink_.kind == SinkKind::offload && sink_.offload_host);
  gather.to.device = to_host ? CopyEnd::host : executor_.devices().master().info().index;
  for (std::size_t c = 0; c < sink_.memory.size(); ++c)
    add_callers_memory(gather.accesses, executor_.devices().master(), sink_.memory[c].data(),
                       AccessMode::accumulate);
  const int node = graph_.add(on.device, StreamRole::copy_out, std::move(gather));
  graph_.nodes().back().timed = sampled_;
  on.copies_out.push_back(node);
  return node;
}

RowCall::InFlight RowCall::add_rest(Chunk& chunk) {
  OnDevice& on = *chunk.on;
  place_outputs(chunk);
  Operation compute;
  compute.name = fmt::format("{} {}..{}", operation_.name, chunk.window.begin, chunk.window.end());
  compute.items = chunk.window.count;
  compute.accesses = chunk.accesses;
  compute.body = [body = body_, launch = chunk.launch](LaunchContext& context) { (*body)(context, launch); };
  if (plan_.mode == DispatchMode::direct && on.device != 0) {
    // Rows come and go over the link while it runs: the larger way is what it may have to wait for.
    const std::uint64_t in = source_.kind == SourceKind::on_master ? row_bytes(operation_.inputs) : 0;
    const std::uint64_t out = sink_.kind == SinkKind::to_master ? row_bytes(operation_.outputs) : 0;
    compute.bytes = static_cast<std::uint64_t>(chunk.window.count) * std::max(in, out);
    const int here = executor_.devices()[on.device].info().index,
              master = executor_.devices().master().info().index;
    compute.from.device = out >= in ? here : master;
    compute.to.device = out >= in ? master : here;
  }
  const int launched = graph_.add(on.device, StreamRole::compute, std::move(compute));
  graph_.nodes().back().timed = sampled_;
  on.launches.push_back(launched);
  InFlight flight;
  flight.node = deliver(chunk, launched, flight.chunk);
  flight.taken = chunk.taken;
  graph_.nodes()[static_cast<std::size_t>(flight.node)].observed = is_stepwise() || failover_;
  if (failover_) {
    Taken& taken = taken_[static_cast<std::size_t>(chunk.taken)];
    taken.deliver = flight.node;
    add_snapshot(on, taken);
  }
  return flight;
}

}  // namespace shardwise
