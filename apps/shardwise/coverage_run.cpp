#include "coverage_run.hpp"

#include <fmt/core.h>

#include <chrono>

#include "log.hpp"
#include "progress.hpp"
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
  log_debug(fmt::format("scene built on {} ({}) in {}", devices.spec(), run.tracer, short_time(since(before_build))));

  CoverageOptions call = options;
  call.cancel = &stop_requested();
  Progress progress(step, "lanes");
  call.progress = [&progress](std::int64_t done, std::int64_t total) { progress.update(done, total); };
  if (record) devices.timeline().start();
  const auto start = Clock::now();
  run.result = coverage(scene, call).get();
  run.seconds = since(start);
  if (record) devices.timeline().stop();
  return run;
}

}  // namespace shardwise::program
