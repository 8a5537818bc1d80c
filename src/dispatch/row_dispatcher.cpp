#include "dispatch/row_dispatcher.hpp"

#include <fmt/format.h>

#include "dispatch/row_call.hpp"
#include "dispatch/row_memory.hpp"
#include "dispatch/row_plan.hpp"
#include "runtime/pinned_memory.hpp"
#include "shardwise/runtime/copy.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

namespace {

/// A call that the master runs as one device would: one launch on the caller's stream, no graph, no events
/// between streams.
struct AloneCall {
  RowResult result;
  Buffer<RowCounters> counters;  ///< on a stream of the caller's own, which may be gone before the next call
  std::shared_ptr<void> landing;
  std::shared_ptr<std::exception_ptr> failure = std::make_shared<std::exception_ptr>();
  Event begin, end, done;
  std::string key;
  Stream* stream = nullptr;
  bool own_stream = false;
};

}  // namespace

Pending<RowResult> RowDispatcher::run_alone(RowOperation operation, RowSource source, RowSink sink,
                                            const RowOptions& options, RowPlan plan, CallStamps stamps) {
  LapClock clock;
  const DeviceSet& devices = executor_.devices();
  const ExecutionContext& context = options.context ? *options.context : executor_.default_context();
  Stream& stream = *context.streams.front();
  MemoryCounter& memory = devices.master().memory(MemoryUse::work);
  memory.reset_peak();

  auto call = std::make_shared<AloneCall>();
  call->stream = &stream;
  call->own_stream = &stream == &*executor_.default_context().streams.front();
  const std::int64_t rows = call->result.rows = plan.rows;
  call->result.table = make_row_table(operation, rows, executor_);
  add_row_block(*call->result.table, operation, sink, devices,
                sink.kind == SinkKind::to_host ? RowBlock::on_host : 0, {0, rows}, stream);
  KeptCounters* const kept = call->own_stream ? &kept_.of(stream) : nullptr;
  if (!kept) call->counters = Buffer<RowCounters>(stream, 1, "row counters");
  RowCounters* const counters = kept ? kept->data() : call->counters.data();
  call->landing = allocate_pinned(devices, sizeof(RowCounters), operation.name.c_str());

  stamps.allocate_s = clock.lap();

  RowLaunch launch;
  launch.count = rows;
  launch.counters = counters;
  RowBlock& block = call->result.table->blocks.front();
  for (std::size_t c = 0; c < operation.inputs.size(); ++c)
    launch.inputs[c] = operation.inputs[c].row_bytes > 0 ? source.columns[c].data : nullptr;
  for (std::size_t c = 0; c < operation.outputs.size(); ++c) launch.outputs[c] = block.columns[c];

  Operation compute;
  compute.name = operation.name;
  compute.items = rows;
  compute.accesses = {operation.reads(0), kept ? kept->accumulates() : call->counters.accumulates()};
  if (block.memory.bytes() > 0) compute.accesses.add(block.memory.access(AccessMode::write));
  for (const RowInput& column : source.columns)
    add_callers_memory(compute.accesses, devices.master(), column.data, AccessMode::read);
  for (const auto& memory : sink.memory)
    add_callers_memory(compute.accesses, devices.master(), memory.data(), AccessMode::write);
  compute.body = [body = std::move(operation.launch), launch, failure = call->failure](LaunchContext& on) {
    try {
      if (launch.count > 0) body(on, launch);
    } catch (...) {
      *failure = std::current_exception();
      throw;
    }
  };
  call->key = cost_key(operation, source, sink);
  const bool several = devices.size() > 1,
             timed = several &&
                     (options.measured || learned_.wants_sample(call->key, DispatchMode::master, rows));
  stamps.graph_s = clock.lap();
  if (!kept)
    stream.enqueue(
        zero_operation("clear row counters", counters, sizeof(RowCounters), {call->counters.writes()}));
  else if (kept->take())
    stream.enqueue(kept->clear_first());
  if (timed) call->begin = stream.record_timed();
  stream.enqueue(std::move(compute));
  stamps.launch_s = clock.lap();
  if (timed) call->end = stream.record_timed();
  stream.enqueue(copy_operation("row counters to host", call->landing.get(), counters, sizeof(RowCounters),
                                {kept ? kept->reads() : call->counters.reads()}));
  if (kept) stream.enqueue(kept->clear_behind());
  call->done = stream.record();
  if (options.context) note_foreign_call(call->done);
  call->counters = {};
  plan.complete();
  call->result.dispatch = std::move(plan.report);
  stamps.tail_s = clock.lap();

  return Pending<RowResult>([this, call, rows, several, timed, stamps]() mutable {
    LapClock clock;
    call->done.wait_on_host();
    stamps.wait_s = clock.lap();
    if (call->done.failed()) {
      if (call->own_stream || *call->failure) {
        try {
          call->stream->synchronize();
        } catch (...) {
          if (!*call->failure) throw;
        }
      }
      if (*call->failure) std::rethrow_exception(*call->failure);
      throw DependencyError("not run, because an earlier operation on the caller's stream failed");
    }
    RowResult& result = call->result;
    const auto& counters = *static_cast<const RowCounters*>(call->landing.get());
    result.rejected = static_cast<std::int64_t>(counters.rejected);
    result.flagged = static_cast<std::int64_t>(counters.flagged);
    DeviceReport& entry = result.dispatch.devices.front();
    entry.peak_bytes = executor_.devices().master().memory(MemoryUse::work).peak();
    if (several && !timed) learned_.count(call->key);
    if (timed) {
      std::vector<DeviceSample> samples(result.dispatch.devices.size());
      samples.front().rows = rows;
      samples.front().compute_s = seconds_between(call->begin, call->end);
      entry.compute_s = entry.busy_s = result.dispatch.measured_s = samples.front().compute_s;
      learned_.learn(call->key, DispatchMode::master, samples, samples.front().compute_s);
    }
    stamps.finish_s = clock.lap();
    last_stamps_ = stamps;
    return std::move(result);
  });
}

void RowDispatcher::note_foreign_call(Event end) {
  // As many as are in flight, not as many as there ever were.
  if (foreign_calls_.size() >= 16)
    std::erase_if(foreign_calls_, [](const Event& call) { return call.is_signalled(); });
  foreign_calls_.push_back(std::move(end));
}

void RowDispatcher::wait_for_foreign_calls() {
  for (const Event& call : foreign_calls_) call.wait_on_host();
  foreign_calls_.clear();
}

Pending<RowResult> RowDispatcher::run(RowOperation operation, RowSource source, RowSink sink,
                                      const RowOptions& options) {
  const DeviceSet& devices = executor_.devices();
  if (options.context && static_cast<int>(options.context->streams.size()) != devices.size())
    throw_usage(fmt::format("{}: execution context: {} streams for {} devices; give one a device",
                            operation.name, options.context->streams.size(), devices.size()));
  CallStamps stamps;
  LapClock clock;
  RowPlan plan = plan_rows(devices, operation, source, sink, options,
                           devices.size() > 1 ? learned_.find(cost_key(operation, source, sink)) : nullptr,
                           {executor_.retired(), -1});
  if (options.plan_only) {
    plan.complete();
    for (const RowShard& shard : plan.shards)
      plan.report.devices[static_cast<std::size_t>(shard.device)].peak_bytes +=
          shard.chunks.estimated_peak_bytes();
    return Pending<RowResult>([report = std::move(plan.report), rows = plan.rows] {
      RowResult result;
      result.rows = rows;
      result.dispatch = report;
      return result;
    });
  }
  stamps.plan_s = clock.lap();
  if (plan.alone)
    return run_alone(std::move(operation), std::move(source), std::move(sink), options, std::move(plan),
                     stamps);
  ++spread_calls_;
  auto call = std::make_shared<RowCall>(executor_, learned_, kept_, std::move(operation), std::move(source),
                                        std::move(sink), options, std::move(plan));
  call->stamps() = stamps;
  call->launch();
  if (call->exit_edge_lost() && lost_exit_.empty()) lost_exit_ = call->exit_edge_error();
  if (options.context)
    for (const Event& end : call->ends()) note_foreign_call(end);
  return Pending<RowResult>([this, call] {
    RowResult result = call->finish();
    last_stamps_ = call->stamps();
    return result;
  });
}

}  // namespace shardwise
