#include "dispatch/row_call.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "shardwise/runtime/error.hpp"

namespace shardwise {

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
  return executor_.devices().size() == 1 || options_.measured ||
         learned_.wants_sample(key_, plan_.mode, plan_.rows);
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

}  // namespace shardwise
