// The memory of a call on rows: allocated before anything runs, given back where its streams end.

#include <algorithm>
#include <cstring>
#include <utility>

#include "dispatch/row_call.hpp"
#include "dispatch/row_memory.hpp"
#include "runtime/pinned_memory.hpp"

namespace shardwise {

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
  for (const RowColumn& column : operation_.outputs)
    slot.outputs.push_back(slot.memory.add<std::byte>(rows * column.row_bytes));
  if (sink_.offload_host) {
    slot.host = allocate_pinned(executor_.devices(), slot.memory.size(), operation_.name.c_str());
    slot.host_resource = next_resource_id();
  } else {
    slot.memory.allocate(caller(0), "offloaded chunk");
  }
  auto* const base = static_cast<std::byte*>(sink_.offload_host ? slot.host.get() : slot.memory.base());
  for (std::size_t c = 0; c < operation_.outputs.size(); ++c)
    slot.columns.push_back(keeps(operation_.outputs[c]) ? base + slot.outputs[c].offset : nullptr);
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

}  // namespace shardwise
