#include "coverage_run.hpp"

#include <fmt/core.h>

#include <chrono>
#include <cstddef>

#include "log.hpp"
#include "progress.hpp"
#include "radio/coverage_plan.hpp"
#include "shardwise/runtime/sim.hpp"
#include "signals.hpp"

namespace shardwise::program {

CoverageRun run_coverage(const DeviceSet& devices, const SceneModel& model, TracerChoice tracer,
                         const CoverageOptions& options, const std::string& step, bool record) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const auto before_build = Clock::now();
  Scene scene(devices, model, SceneOptions{tracer});
  scene.build();
  throw_if_stopped();
  CoverageRun run;
  run.tracer = scene.tracer_name(0);
  log_debug(fmt::format("scene built on {} ({}) in {}", devices.spec(), run.tracer,
                        short_time(since(before_build))));

  CoverageOptions call = options;
  call.cancel = &stop_requested();
  Progress progress(step, "lanes");
  call.progress = [&progress](std::int64_t done, std::int64_t total) { progress.update(done, total); };
  if (record) devices.timeline().start();
  const auto start = Clock::now();
  run.result = coverage(scene, call).get();
  run.seconds = since(start);
  if (record) devices.timeline().stop();
  if (const SimWorld* world = devices.sim_world())
    if (const std::vector<RaceReport> races = world->races(); !races.empty())
      throw Error(ErrorClass::internal,
                  fmt::format("{} ({} in all); this is a bug in shardwise: nothing was written",
                              races.front().text, races.size()));
  return run;
}

DispatchReport plan_run(const DeviceSet& devices, const SceneModel& model, TracerChoice tracer,
                        const CoverageOptions& options) {
  Scene scene(devices, model, SceneOptions{tracer});
  scene.build();
  // What is planned is what runs: a call that can be cancelled is cut into more launches.
  CoverageOptions call = options;
  call.cancel = &stop_requested();
  call.progress = [](std::int64_t, std::int64_t) {};
  const CoveragePlan plan = plan_coverage(scene, request_of(call));
  DispatchReport report = plan.lanes.report;
  for (const LaneShard& shard : plan.lanes.shards) {
    DeviceReport& device = report.devices.at(static_cast<std::size_t>(shard.device));
    device.lanes = shard.window.count;
    device.peak_bytes = shard.plan.estimated_peak_bytes();
  }
  return report;
}

}  // namespace shardwise::program
