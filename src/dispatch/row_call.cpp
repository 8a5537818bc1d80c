#include "dispatch/row_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "dispatch/row_memory.hpp"
#include "runtime/pinned_memory.hpp"
#include "shardwise/runtime/copy.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

namespace {

template <class T>
T* at_row(T* base, std::int64_t row, std::uint32_t row_bytes) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return static_cast<Byte*>(base) + static_cast<std::uint64_t>(row) * row_bytes;
}

}  // namespace

RowCall::RowCall(Executor& executor, LearnedCosts& learned, CounterStore& kept, RowOperation operation,
                 RowSource source, RowSink sink, const RowOptions& options, RowPlan plan)
    : executor_(executor),
      learned_(learned),
      kept_(kept),
      operation_(std::move(operation)),
      body_(std::make_shared<const std::function<void(LaunchContext&, const RowLaunch&)>>(
          std::move(operation_.launch))),
      source_(std::move(source)),
      sink_(std::move(sink)),
      options_(options),
      context_(options.context ? *options.context : executor.default_context()),
      plan_(std::move(plan)),
      key_(cost_key(operation_, source_, sink_)),
      rows_(plan_.rows),
      failover_(options.on_device_failure == OnDeviceFailure::failover && executor.devices().size() > 1),
      pieces_{{0, plan_.rows}},
      device_rows_(static_cast<std::size_t>(executor.devices().size()), 0) {}

// ---- memory

void RowCall::allocate() {
  const DeviceSet& devices = executor_.devices();
  for (const RowShard& shard : plan_.shards) devices[shard.device].memory(MemoryUse::work).reset_peak();
  if (!table_) allocate_table();
  for (const RowShard& shard : plan_.shards) {
    OnDevice& on = states_.emplace_back();
    on.device = shard.device;
    on.shard = shard;
    if (!allocate_on(shard.device, [&] { allocate_device(on); })) {
      states_.pop_back();
      continue;
    }
    // These lie on the master, or on the host.
    for (std::size_t s = 0; sink_.kind == SinkKind::offload && on.shard.sends_out && s < on.slots.size(); ++s)
      fill_hook_slot(on, on.hook_slots.emplace_back());
  }
  if (sink_.kind == SinkKind::reduce) {
    if (states_.empty() || states_.front().device != 0)
      master_partial_ = Memory(caller(0), sink_.reducer.partial_bytes, "reduced");
    for (const OnDevice& on : states_)
      incoming_.push_back(
          on.device == 0 ? Memory() : Memory(caller(0), sink_.reducer.partial_bytes, "incoming partial"));
  }
  landing_ = allocate_pinned(devices, states_.size() * sizeof(RowCounters) + sink_.reducer.partial_bytes,
                             operation_.name.c_str());
  if (states_.empty()) return;
  // A single device of a shared plan that never gets a chunk leaves its counters alone.
  std::memset(landing_.get(), 0, states_.size() * sizeof(RowCounters));
}

void RowCall::allocate_table() {
  if (sink_.kind == SinkKind::offload || sink_.kind == SinkKind::reduce) return;
  table_ = make_row_table(operation_, plan_.rows, executor_);
  const auto add_block = [&](int device, Window window) {
    add_row_block(*table_, operation_, sink_, executor_.devices(), device, window,
                  caller(std::max(device, 0)));
  };
  switch (sink_.kind) {
    case SinkKind::to_master:
      add_block(0, {0, plan_.rows});
      break;
    case SinkKind::to_host:
      add_block(RowBlock::on_host, {0, plan_.rows});
      break;
    default:
      break;  // with their devices
  }
  callers_output_ = next_resource_id();
}

/// Whether `function`, which allocates on a device, came to its end. Where it does not, a call with failover
/// goes on without the device; others, and the master's, throw.
bool RowCall::allocate_on(int device, const std::function<void()>& function) {
  if (!failover_ || device == 0) {
    function();
    return true;
  }
  try {
    function();
    return true;
  } catch (...) {
    const RunFailure failure = failure_of(device, std::current_exception());
    if (survivable({failure}, executor_).empty()) throw;
    allocation_failures_.push_back(failure);
    return false;
  }
}

void RowCall::fill_slot(OnDevice& on, Slot& slot) const {
  const auto rows = static_cast<std::uint64_t>(on.shard.chunks.chunk_rows);
  const bool keeps_in = on.shard.sends_in || source_.kind == SourceKind::generated;
  const bool keeps_out =
      on.shard.sends_out || sink_.kind == SinkKind::offload || sink_.kind == SinkKind::reduce;
  for (const RowColumn& column : operation_.inputs)
    slot.inputs.push_back(slot.memory.add<std::byte>(keeps_in ? rows * column.row_bytes : 0));
  for (const RowColumn& column : operation_.outputs)
    slot.outputs.push_back(slot.memory.add<std::byte>(keeps_out ? rows * column.row_bytes : 0));
  slot.memory.allocate(caller(on.device), "chunk");
}

void RowCall::fill_hook_slot(OnDevice& on, HookSlot& slot) const {
  const auto rows = static_cast<std::uint64_t>(on.shard.chunks.chunk_rows);
  std::uint64_t size = 0;
  std::vector<std::uint64_t> offsets;
  for (const RowColumn& column : operation_.outputs) {
    slot.outputs.push_back(slot.memory.add<std::byte>(rows * column.row_bytes));
    offsets.push_back(size);
    size += (rows * column.row_bytes + 255) / 256 * 256;
  }
  if (sink_.offload_host) {
    slot.host = allocate_pinned(executor_.devices(), size, operation_.name.c_str());
    slot.host_resource = next_resource_id();
  } else {
    slot.memory.allocate(caller(0), "offloaded chunk");
  }
  for (std::size_t c = 0; c < operation_.outputs.size(); ++c)
    slot.columns.push_back(!keeps(operation_.outputs[c]) ? nullptr
                           : sink_.offload_host ? static_cast<std::byte*>(slot.host.get()) + offsets[c]
                                                : slot.memory.data(slot.outputs[c]));
}

void RowCall::allocate_device(OnDevice& on) {
  Stream& stream = caller(on.device);
  // Attempts of a call with failover may end anywhere, and a device with several shards counts each.
  if (!failover_ && (states_.size() == 1 || states_[states_.size() - 2].device != on.device))
    on.kept = &kept_.of(executor_.stream(on.device, StreamRole::compute));
  else
    on.counters = on.sums.add<RowCounters>(1);
  on.partial = on.sums.add<std::byte>(sink_.kind == SinkKind::reduce ? sink_.reducer.partial_bytes : 0);
  on.sums.allocate(stream, "counters and partial");
  if (source_.kind == SourceKind::resident)
    for (const RowBlock& block : source_.table->blocks)
      if (block.window == on.shard.window && block.device == on.device) on.resident_in = &block;
  if (sink_.kind == SinkKind::resident)
    for (std::int64_t done = 0; done < on.shard.window.count || (done == 0 && plan_.rows == 0);) {
      const Window window = real_window({on.shard.window.begin + done, on.shard.window.count - done});
      add_row_block(*table_, operation_, sink_, executor_.devices(), on.device, window, stream);
      done += window.count;
      if (window.count == 0) break;
    }
  const bool needs_slots = on.shard.sends_in || on.shard.sends_out || source_.kind == SourceKind::generated ||
                           sink_.kind == SinkKind::offload || sink_.kind == SinkKind::reduce;
  const int count = std::max(1, plan_.shared ? 3 : on.shard.chunks.resident_chunks);
  for (int s = 0; needs_slots && s < count; ++s) fill_slot(on, on.slots.emplace_back());
}

// ---- one chunk

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

// ---- the end of a call

void RowCall::add_reduction() {
  if (sink_.kind != SinkKind::reduce) return;
  const std::uint64_t bytes = sink_.reducer.partial_bytes;
  if (states_.empty()) return;
  OnDevice& first = states_.front();
  const bool works = first.device == 0;
  void* total = works ? static_cast<void*>(first.sums.data(first.partial)) : master_partial_.data();
  const auto touch_total = [&](AccessMode mode) {
    return works ? first.sums.access(mode, first.partial) : master_partial_.access(mode);
  };
  if (!works)
    graph_.add(0, StreamRole::compute,
               zero_operation("clear partial", total, bytes, {touch_total(AccessMode::write)}));
  for (std::size_t i = 0; i < states_.size(); ++i) {
    OnDevice& on = states_[i];
    if (on.device == 0) continue;
    Memory& incoming = incoming_[i];
    graph_.add(
        on.device, StreamRole::copy_out,
        copy_operation("send partial", incoming.data(), on.sums.data(on.partial), bytes,
                       {incoming.access(AccessMode::write), on.sums.access(AccessMode::read, on.partial)}));
    Operation merge;
    merge.name = "merge partial";
    merge.accesses = {incoming.access(AccessMode::read), touch_total(AccessMode::write)};
    merge.body = [merge_rows = sink_.reducer.merge, into = total,
                  from = incoming.data()](LaunchContext& context) { merge_rows(context, into, from); };
    graph_.add(0, StreamRole::compute, std::move(merge));
  }
  std::byte* host = static_cast<std::byte*>(landing_.get()) + states_.size() * sizeof(RowCounters);
  graph_.add(0, StreamRole::compute,
             copy_operation("reduced to host", host, total, bytes, {touch_total(AccessMode::read)}));
}

void RowCall::add_counters() {
  if (failover_) return;  // each chunk has a snapshot
  auto* host = static_cast<RowCounters*>(landing_.get());
  for (OnDevice& on : states_) {
    graph_.add(on.device, StreamRole::compute,
               copy_operation("row counters to host", host++, counters_of(on), sizeof(RowCounters),
                              {counters_access(on, AccessMode::read)}));
    if (on.kept) graph_.add(on.device, StreamRole::compute, on.kept->clear_behind());
  }
}

bool RowCall::is_one_round() const {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].shard.chunks.chunk_count > 1) return false;
    if (i > 0 && states_[i].device == states_[i - 1].device) return false;
  }
  return true;
}

void RowCall::hand_over() {
  stamps_.graph_s += clock_.lap();
  session_->enqueue(graph_);
  stamps_.launch_s += clock_.lap();
}

void RowCall::run_all() {
  // Round by round, so that no device waits for another's chunks to be enqueued, and within a round step by
  // step, so that all devices are at work early; the master last, whose rows need no way. Where there is one
  // round, each device's part is handed over before the next is put together.
  const bool one_round = is_one_round();
  for (bool first = true;; first = false) {
    std::vector<Chunk> chunks;
    for (std::size_t i = states_.size(); i-- > 0;)
      if (const std::optional<Window> window = next_window(states_[i]))
        chunks.push_back(take_chunk(states_[i], *window));
    for (Chunk& chunk : chunks) add_inputs(chunk);
    if (first)
      for (OnDevice& on : states_) begin(on);
    if (chunks.empty()) return;
    for (Chunk& chunk : chunks) {
      add_rest(chunk);
      if (one_round) hand_over();
    }
  }
}

void RowCall::run_stepwise() {
  for (OnDevice& on : states_) begin(on);
  std::vector<std::deque<InFlight>> flights(states_.size());
  const auto feed = [&](std::size_t i) {
    if (const std::optional<Window> window = next_window(states_[i])) {
      Chunk chunk = take_chunk(states_[i], *window);
      add_inputs(chunk);
      flights[i].push_back(add_rest(chunk));
      session_->enqueue(graph_);
    }
  };
  for (int round = 0; round < 3; ++round)
    for (std::size_t i = 0; i < states_.size(); ++i)
      if (states_[i].slots.empty() || round < static_cast<int>(states_[i].slots.size())) feed(i);

  const bool real = executor_.devices().master().kind() != PlatformKind::sim;
  std::size_t turn = 0;
  for (;;) {
    // The next device in turn whose oldest chunk is there; on sim, where nothing runs before someone waits,
    // the next that has one.
    std::size_t chosen = states_.size();
    bool any = false;
    for (std::size_t k = 0; k < states_.size() && chosen == states_.size(); ++k) {
      const std::size_t i = (turn + k) % states_.size();
      if (flights[i].empty()) continue;
      any = true;
      if (!real || session_->event(flights[i].front().node).is_signalled()) chosen = i;
    }
    if (!any) return;
    if (chosen == states_.size() && states_.size() == 1)
      chosen = 0;  // nobody else to look after: wait for it
    if (chosen == states_.size()) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      continue;
    }
    turn = chosen + 1;
    const InFlight flight = std::move(flights[chosen].front());
    flights[chosen].pop_front();
    const Event there = session_->event(flight.node);
    there.wait_on_host();
    if (there.failed()) return;  // finish() says why
    if (failover_) {
      // A chunk whose counters do not arrive runs again: its hook must not have seen it.
      const Event counted = session_->event(taken_[static_cast<std::size_t>(flight.taken)].counted);
      counted.wait_on_host();
      if (counted.failed()) return;
    }
    if (sink_.hook) sink_.hook(flight.chunk);
    if (failover_) taken_[static_cast<std::size_t>(flight.taken)].hooked = true;
    feed(chosen);
  }
}

bool RowCall::is_sampled() const {
  return executor_.devices().size() == 1 || learned_.wants_sample(key_, plan_.mode);
}

void RowCall::launch() {
  if (!failover_) return attempt();
  take_callers_streams();
  run_with_failover();
}

void RowCall::attempt() {
  clock_ = LapClock();
  try {
    allocate();
  } catch (...) {
    error_ = std::current_exception();  // nothing ran
    is_final_ = true;
    return;
  }
  stamps_.allocate_s += clock_.lap();
  if (states_.empty()) return;
  speed_ = plan_.report.weights;
  const double fastest = *std::max_element(speed_.begin(), speed_.end());
  for (double& speed : speed_) speed = fastest > 0 ? std::max(speed / fastest, 0.01) : 1.0;
  const bool several = executor_.devices().size() > 1;
  sampled_ = is_sampled();
  if (several && sampled_) entered_ = caller(0).record_timed();
  session_ = std::make_unique<Session>(executor_, context_);
  try {
    if (is_stepwise())
      run_stepwise();
    else
      run_all();
    hand_over();
    add_reduction();
    add_counters();
    session_->enqueue(graph_);
    plan_.complete();
  } catch (...) {
    error_ = std::current_exception();
    is_final_ = true;
  }
  run_ = session_->finish();
  if (several && sampled_ && !run_.exit_edge_lost()) left_ = caller(0).record_timed();
  if (!run_.exit_edge_lost()) release();
  stamps_.tail_s += clock_.lap();
  // These hand results out as they come: the call is over when it returns.
  if (is_stepwise() || sink_.kind == SinkKind::to_host || failover_) {
    try {
      run_.wait();
    } catch (...) {
      if (!error_) error_ = std::current_exception();
    }
  }
  // Pinned memory knows no streams: after a hook that threw, other chunks may have been on their way into it
  // until now. Only stepwise calls have some.
  if (!run_.exit_edge_lost())
    for (OnDevice& on : states_) on.hook_slots.clear();
}

std::vector<Event> RowCall::ends() const {
  std::vector<Event> ends;
  for (const PendingPoint& point : run_.points()) ends.push_back(point.event);
  return ends;
}

void RowCall::release() {
  for (OnDevice& on : states_) {
    on.slots.clear();
    on.sums = {};
  }
  incoming_.clear();
  master_partial_ = {};
  for (const OnDevice& on : states_)
    if (executor_.devices()[on.device].kind() != PlatformKind::cuda)
      freed_.push_back(caller(on.device).record());
}

RowResult RowCall::finish() {
  LapClock clock;
  try {
    run_.wait();
  } catch (...) {
    if (!error_) error_ = std::current_exception();
  }
  if (error_) std::rethrow_exception(error_);
  left_.wait_on_host();
  // A caller who has the result has the memory back, too.
  for (const Event& freed : freed_) freed.wait_on_host();
  stamps_.wait_s += clock.lap();
  RowResult result;
  result.table = std::move(table_);
  result.rows = rows_;
  const auto* counters = static_cast<const RowCounters*>(landing_.get());
  for (std::size_t i = 0; i < states_.size() && !failover_; ++i) {
    result.rejected += static_cast<std::int64_t>(counters[i].rejected);
    result.flagged += static_cast<std::int64_t>(counters[i].flagged);
  }
  if (sink_.kind == SinkKind::reduce) {
    const auto* reduced = reinterpret_cast<const std::byte*>(counters + states_.size());
    result.reduced.assign(reduced, reduced + sink_.reducer.partial_bytes);
  }
  plan_.complete();
  result.dispatch = plan_.report;
  if (failover_) sum_delivered(result);
  if (survived_.empty()) learn_from(result);
  stamps_.finish_s = clock.lap();
  return result;
}

/// The first call of a kind meets GPUs that were idle and memory that is new, each to its own degree: for the
/// next split, GPUs of one model are as fast as the fastest launch of theirs says. Host and sim devices are
/// what they were measured to be.
void RowCall::level_first(std::vector<DeviceSample>& samples) const {
  const DeviceSet& devices = executor_.devices();
  std::vector<double> least(samples.size(), 0);  // seconds a row
  for (const OnDevice& on : states_) {
    if (devices[on.device].kind() != PlatformKind::cuda || on.chunks == 0) continue;
    // Chunk by chunk: what makes rows, computes them and folds them.
    const std::size_t per_chunk = on.launches.size() / static_cast<std::size_t>(on.chunks);
    double& mine = least[static_cast<std::size_t>(on.device)];
    for (std::size_t chunk = 0; chunk < static_cast<std::size_t>(on.chunks); ++chunk) {
      double seconds = 0;
      std::int64_t rows = 0;
      for (std::size_t i = chunk * per_chunk; i < (chunk + 1) * per_chunk; ++i) {
        const auto [begin, end] = session_->times(on.launches[i]);
        if (begin.state() && end.state()) seconds += seconds_between(begin, end);
        rows = graph_.nodes()[static_cast<std::size_t>(on.launches[i])].operation.items;
      }
      if (seconds > 0 && rows > 0 && (mine == 0 || seconds / static_cast<double>(rows) < mine))
        mine = seconds / static_cast<double>(rows);
    }
  }
  for (std::size_t d = 0; d < samples.size(); ++d)
    for (std::size_t other = 0; other < samples.size(); ++other)
      if (least[d] > 0 && least[other] > 0 &&
          devices[static_cast<int>(d)].info().model == devices[static_cast<int>(other)].info().model) {
        const double seconds = least[other] * static_cast<double>(samples[d].rows);
        if (!samples[d].direct && !samples[other].direct)
          samples[d].compute_s = std::min(samples[d].compute_s, seconds);
      }
}

void RowCall::learn_from(RowResult& result) {
  const DeviceSet& devices = executor_.devices();
  std::vector<DeviceSample> samples(static_cast<std::size_t>(devices.size()));
  result.dispatch.chunk_count = 0;
  for (const OnDevice& on : states_) {
    DeviceSample& sample = samples[static_cast<std::size_t>(on.device)];
    const auto sum = [&](const std::vector<int>& nodes) {
      double seconds = 0;
      for (const int node : nodes) {
        const auto [begin, end] = session_->times(node);
        if (begin.state() && end.state()) seconds += seconds_between(begin, end);
      }
      return seconds;
    };
    sample.rows += on.rows;
    sample.direct = plan_.mode == DispatchMode::direct && on.device != 0;
    sample.compute_s += sum(on.launches);
    sample.in_s += sum(on.copies_in);
    sample.out_s += sum(on.copies_out);
    DeviceReport& entry = result.dispatch.devices[static_cast<std::size_t>(on.device)];
    entry.lanes = sample.rows;
    entry.compute_s = entry.busy_s = sample.compute_s;
    entry.copy_in_s = sample.in_s;
    entry.copy_out_s = sample.out_s;
    entry.peak_bytes = devices[on.device].memory(MemoryUse::work).peak();
    const auto bytes_of = [&](const std::vector<int>& nodes) {
      std::uint64_t bytes = 0;
      for (const int node : nodes) bytes += graph_.nodes()[static_cast<std::size_t>(node)].operation.bytes;
      return bytes;
    };
    entry.bytes_in += bytes_of(on.copies_in);
    entry.bytes_out += bytes_of(on.copies_out);
    result.dispatch.chunk_count += on.chunks;
  }
  if (!learned_.find(key_)) level_first(samples);
  const double total = entered_.state() && left_.state() ? seconds_between(entered_, left_) : 0;
  result.dispatch.measured_s = total;
  for (const DeviceSample& sample : samples) {
    DeviceReport& entry = result.dispatch.devices[static_cast<std::size_t>(&sample - samples.data())];
    entry.idle_s = std::max(0.0, total - entry.busy_s);
  }
  if (devices.size() > 1) {
    if (sampled_)
      learned_.learn(key_, plan_.mode, samples, total);
    else
      learned_.count(key_);
  }
}

}  // namespace shardwise
