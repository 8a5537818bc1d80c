#include "shardwise/radio/coverage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "radio/coverage_call.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

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
  if (plan.request.held && !plan.request.held_given) *plan.request.held = std::move(states.front().cells);
  for (CoverageDevice& state : states) {
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
  for (const CoverageDevice& state : states) released.push_back(caller_stream(state.device).record());
}

std::vector<PendingPoint> CoverageCall::points() const {
  std::vector<PendingPoint> points = run.points();
  for (std::size_t i = 0; i < released.size(); ++i)
    points.push_back({caller_stream(states[i].device).device().name() + "/caller", released[i]});
  return points;
}

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
  for (const CoverageDevice& state : states) {
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
