// How a call on rows outlives devices.

#include <algorithm>
#include <utility>

#include "dispatch/row_call.hpp"
#include "shardwise/runtime/copy.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

/// The caller's own streams must not fail with a device that the call survives: it runs on ours, behind
/// theirs, and is over when it returns.
void RowCall::take_callers_streams() {
  if (!options_.context) return;
  ExecutionContext& own = executor_.default_context();
  for (std::size_t d = 0; d < own.streams.size(); ++d)
    if (!executor_.retired()[d]) own.streams[d]->wait(options_.context->streams[d]->record());
  context_ = own;
}

/// The device's counters as they are behind a chunk's launch: running sums, so a chunk's own are what it has
/// more than the one before it.
void RowCall::add_snapshot(OnDevice& on, Taken& taken) {
  taken.counted =
      graph_.add(on.device, StreamRole::compute,
                 copy_operation("row counters to host", &taken.counters, on.sums.data(on.counters),
                                sizeof(RowCounters), {on.sums.access(AccessMode::read, on.counters)}));
  graph_.nodes().back().observed = true;
}

bool RowCall::is_delivered(const Taken& taken) const {
  if (sink_.kind == SinkKind::reduce) return false;  // partials hold what several chunks gave
  // What lies on the device is gone with it.
  if (sink_.kind == SinkKind::resident && executor_.retired()[static_cast<std::size_t>(taken.device)])
    return false;
  const auto is_through = [&](int node) {
    if (node < 0) return false;
    const Event event = session_->event(node);
    return event.state() && event.is_signalled() && !event.failed();
  };
  return is_through(taken.counted) &&
         (sink_.kind == SinkKind::offload ? taken.hooked : is_through(taken.deliver));
}

/// Takes in what this attempt has delivered.
void RowCall::note_delivered() {
  std::vector<const Taken*> through;
  for (const Taken& taken : taken_)
    if (is_delivered(taken)) through.push_back(&taken);
  // Rows that stay on their device count by whole blocks, in which the next operation finds them.
  if (sink_.kind == SinkKind::resident && table_) {
    std::erase_if(table_->blocks, [&](const RowBlock& block) {
      if (std::find(delivered_.begin(), delivered_.end(), block.window) != delivered_.end()) return false;
      const auto is_inside = [&](const Taken* taken) {
        return taken->device == block.device && taken->window.begin >= block.window.begin &&
               taken->window.end() <= block.window.end();
      };
      std::int64_t rows = 0;
      for (const Taken* taken : through) rows += is_inside(taken) ? taken->window.count : 0;
      if (rows == block.window.count) {
        delivered_.push_back(block.window);
        return false;
      }
      std::erase_if(through, is_inside);
      return true;
    });
  }
  for (const Taken* taken : through) {
    if (sink_.kind != SinkKind::resident) delivered_.push_back(taken->window);
    device_rows_[static_cast<std::size_t>(taken->device)] += taken->window.count;
    const RowCounters before =
        taken->before < 0 ? RowCounters{} : taken_[static_cast<std::size_t>(taken->before)].counters;
    delivered_counters_.rejected += taken->counters.rejected - before.rejected;
    delivered_counters_.flagged += taken->counters.flagged - before.flagged;
  }
  taken_.clear();
}

/// The windows of the call that no attempt has delivered.
std::vector<Window> RowCall::missing() const {
  std::vector<Window> done = delivered_;
  std::sort(done.begin(), done.end(), [](const Window& a, const Window& b) { return a.begin < b.begin; });
  std::vector<Window> left;
  std::int64_t begin = 0;
  for (const Window& window : done) {
    if (window.begin > begin) left.push_back({begin, window.begin - begin});
    begin = std::max(begin, window.end());
  }
  if (begin < rows_) left.push_back({begin, rows_ - begin});
  return left;
}

/// From a window of the attempt's rows, which are numbered from 0, to rows of the batch: its first part that
/// is in one piece.
Window RowCall::real_window(Window numbered) const {
  std::int64_t first = 0;
  for (const Window& piece : pieces_) {
    if (numbered.begin < first + piece.count) {
      const std::int64_t into = numbered.begin - first;
      return {piece.begin + into, std::min(numbered.count, piece.count - into)};
    }
    first += piece.count;
  }
  return {numbered.begin, 0};
}

void RowCall::run_with_failover() {
  const DeviceSet& devices = executor_.devices();
  for (;;) {
    attempt();
    if (!error_ && allocation_failures_.empty()) {
      note_delivered();
      if (table_)
        std::sort(table_->blocks.begin(), table_->blocks.end(),
                  [](const RowBlock& a, const RowBlock& b) { return a.window.begin < b.window.begin; });
      return;
    }
    std::vector<RunFailure> failures = std::exchange(allocation_failures_, {});
    failures.insert(failures.end(), run_.failures().begin(), run_.failures().end());
    // The master's memory, a hook, or an error while enqueuing: none of a device that others can replace.
    if (is_final_) return;
    std::vector<RunFailure> failed = survivable(failures, executor_);
    // Rows that were left on a device are gone with it.
    const bool can_rerun =
        source_.kind != SourceKind::resident ||
        std::none_of(failed.begin(), failed.end(), [&](const RunFailure& failure) {
          return std::any_of(source_.table->blocks.begin(), source_.table->blocks.end(),
                             [&](const RowBlock& block) { return block.device == failure.device; });
        });
    if (failed.empty() || !can_rerun || run_.exit_edge_lost()) {
      if (!error_)
        error_ = std::make_exception_ptr(Error(failures.front().error_class, failures.front().text));
      return;
    }
    const std::size_t known = survived_.size();
    for (const RunFailure& failure : failed) {
      executor_.retire(failure.device);
      survived_.push_back({devices[failure.device].name(), failure.text, 0});
    }
    note_delivered();
    pieces_ = missing();
    std::int64_t rows = 0;
    for (const Window& piece : pieces_) rows += piece.count;
    for (std::size_t i = known; i < survived_.size(); ++i) survived_[i].rerun = rows;
    states_.clear();
    graph_ = Graph();
    session_.reset();
    run_ = Run();
    error_ = nullptr;
    next_row_ = 0;
    RowPlan plan = plan_rows(devices, operation_, source_, sink_, options_, learned_.find(key_),
                             {executor_.retired(), rows});
    plan_.shards = std::move(plan.shards);
    plan_.shared = plan.shared;
    plan_.mode = plan.mode;
    plan_.rows = rows;
  }
}

void RowCall::sum_delivered(RowResult& result) const {
  result.rejected = static_cast<std::int64_t>(delivered_counters_.rejected);
  result.flagged = static_cast<std::int64_t>(delivered_counters_.flagged);
  if (survived_.empty()) return;
  result.dispatch.failures = survived_;
  for (std::size_t d = 0; d < device_rows_.size(); ++d) result.dispatch.devices[d].lanes = device_rows_[d];
}

}  // namespace shardwise
