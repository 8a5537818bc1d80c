#pragma once
// Runs calls on rows. One a scene: it remembers what calls cost.

#include <string>
#include <vector>

#include "dispatch/call_stamps.hpp"
#include "dispatch/kept_counters.hpp"
#include "dispatch/learned_costs.hpp"
#include "dispatch/row_operation.hpp"
#include "dispatch/row_plan.hpp"
#include "shardwise/dispatch/executor.hpp"
#include "shardwise/dispatch/rows.hpp"
#include "shardwise/runtime/pending.hpp"

namespace shardwise {

class RowDispatcher {
 public:
  explicit RowDispatcher(Executor& executor) : executor_(executor) {}

  /// Enqueues a call. Usage and budget errors are thrown here, before anything ran; what goes wrong on
  /// devices and in hooks comes out of wait().
  Pending<RowResult> run(RowOperation operation, RowSource source, RowSink sink, const RowOptions& options);

  /// Calls so far that took the code for several devices or chunks.
  std::int64_t spread_calls() const { return spread_calls_; }
  /// Why the callers' streams could not be made to wait for a call; empty: they always could. Until it is
  /// cleared what they hold may be anything.
  const std::string& lost_exit() const { return lost_exit_; }
  void clear_lost_exit() { lost_exit_.clear(); }
  /// Of counters that it holds on a device between calls, as memory of the scene.
  std::uint64_t kept_bytes(int device) const { return kept_.bytes(executor_.devices()[device]); }
  /// What calls have cost so far is not known any more, as in a dispatcher that has run none.
  void forget_costs() { learned_ = {}; }
  /// Where the time of the call that was waited for last went.
  const CallStamps& last_stamps() const { return last_stamps_; }

  /// Blocks until every call that runs on streams of a caller's own is done: nothing else orders what the
  /// scene does to its replicas behind what such calls read.
  void wait_for_foreign_calls();

 private:
  Pending<RowResult> run_alone(RowOperation operation, RowSource source, RowSink sink,
                               const RowOptions& options, RowPlan plan, CallStamps stamps);

  void note_foreign_call(Event end);

  Executor& executor_;
  std::vector<Event> foreign_calls_;  ///< the ends of calls on streams that are not the executor's
  std::string lost_exit_;
  LearnedCosts learned_;
  CounterStore kept_;
  std::int64_t spread_calls_ = 0;
  CallStamps last_stamps_;
};

}  // namespace shardwise
