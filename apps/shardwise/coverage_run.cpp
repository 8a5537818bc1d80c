#include "coverage_run.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <set>
#include <string_view>

#include "log.hpp"
#include "progress.hpp"
#include "radio/coverage_plan.hpp"
#include "ranks.hpp"
#include "shardwise/radio/coverage_ranks.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/sim.hpp"
#include "signals.hpp"

namespace shardwise::program {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::int64_t count_open(const std::int64_t* crossings, const std::vector<std::uint8_t>& is_open) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < is_open.size(); ++i) count += crossings[i] > 0 && is_open[i];
  return count;
}

/// What could be tried where a device has failed and others are left.
std::string way_on(const Error& error, const CoverageOptions& call, const DeviceSet& devices) {
  const bool of_device = error.error_class() == ErrorClass::device || error.error_class() == ErrorClass::lost;
  if (!of_device || devices.size() == 1 || call.split.on_device_failure == OnDeviceFailure::failover ||
      call.accumulation != Accumulation::exact ||
      std::string_view(error.what()).starts_with(devices.master().name() + ":"))
    return {};
  return "; with --on-device-failure failover the other devices do its work";
}

/// Says so and ends the process, which alone stops what hangs. Ranks elsewhere are told by their launcher.
[[noreturn]] void leave_hanging(const std::string& text) {
  log_error(text);
  remove_temporaries();
  std::_Exit(exit_code(ErrorClass::lost));
}

}  // namespace

CoverageRunner::CoverageRunner(const DeviceSet& devices, const SceneModel& model, TracerChoice tracer)
    : scene_(devices, model, SceneOptions{tracer}) {
  const auto start = Clock::now();
  scene_.build();
  throw_if_stopped();
  log_debug(fmt::format("scene built on {} ({}) in {}", devices.spec(), this->tracer(),
                        short_time(seconds_since(start))));
}

std::string CoverageRunner::tracer() const {
  std::set<std::string> names;
  for (int i = 0; i < devices().size(); ++i) names.insert(scene_.tracer_name(i));
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : "+") + name;
  return text;
}

CoverageRun CoverageRunner::run(const CoverageOptions& options, const ProgressFunction& progress) {
  return finish_call(options, progress, [this](const CoverageOptions& call) {
    try {
      return coverage(scene_, call).get();
    } catch (const Error& error) {
      throw Error(error.error_class(), error.what() + way_on(error, call, devices()));
    }
  });
}

CoverageRun CoverageRunner::run_on_ranks(const CoverageOptions& options, const ProgressFunction& progress) {
  if (transport_.empty()) {
    std::string why;
    collectives_ = connect_devices(ranks(), *scene_.executor().default_context().streams.front(), &why);
    transport_ = collectives_ ? collectives_->name() : fmt::format("MPI from the host ({})", why);
    log_debug("grids of the ranks by " + transport_);
  }
  return finish_call(options, progress, [this](const CoverageOptions& call) {
    ranks().set_step("coverage");
    CoverageResult result = coverage_on_ranks(ranks(), scene_, call, collectives_.get());
    ranks().set_step("");
    return result;
  });
}

CoverageRun CoverageRunner::finish_call(
    const CoverageOptions& options, const ProgressFunction& progress,
    const std::function<CoverageResult(const CoverageOptions&)>& call_library) {
  CoverageOptions call = options;
  if (!call.cancel) call.cancel = &stop_requested();
  const auto start = Clock::now();
  call.progress = [&, most = std::int64_t{-1}, since = start](std::int64_t done, std::int64_t total) mutable {
    if (progress) progress(done, total);
    if (done != most) {
      most = done;
      since = Clock::now();
    } else if (seconds_since(since) > deadline_s_) {
      leave_hanging(
          fmt::format("{}: no device has got anything done for {:g} s (--deadline), {} of {} lanes are; one "
                      "of them hangs, or a launch "
                      "takes longer: raise the deadline or lower --chunk; nothing was written",
                      devices().spec(), deadline_s_, done, total));
    }
  };
  CoverageRun run;
  const SimWorld* world = devices().sim_world();
  const double virtual_start = world ? world->virtual_time() : 0;
  run.result = call_library(call);
  run.seconds = seconds_since(start);
  if (world) run.virtual_s = world->virtual_time() - virtual_start;
  for (const DeviceFailure& failure : run.result.dispatch.failures)
    log_warning(
        fmt::format("{}; {} lanes ran again on the devices that are left", failure.error, failure.rerun));
  if (world)
    if (const std::vector<RaceReport> races = world->races(); !races.empty())
      throw Error(ErrorClass::internal,
                  fmt::format("{} ({} in all); this is a bug in shardwise: nothing was written",
                              races.front().text, races.size()));
  return run;
}

CoverageRun CoverageRunner::run(const CoverageOptions& options, const std::string& step) {
  Progress progress(step, "lanes");
  return run(options, [&progress](std::int64_t done, std::int64_t total) { progress.update(done, total); });
}

DispatchReport CoverageRunner::plan(const CoverageOptions& options) {
  // What is planned is what runs: a call that can be cancelled is cut into more launches.
  CoverageOptions call = options;
  call.cancel = &stop_requested();
  call.progress = [](std::int64_t, std::int64_t) {};
  const CoveragePlan plan = plan_coverage(scene_, request_of(call));
  DispatchReport report = plan.lanes.report;
  for (const LaneShard& shard : plan.lanes.shards)
    report.devices.at(static_cast<std::size_t>(shard.device)).lanes = shard.window.count;
  for (int d = 0; d < devices().size(); ++d)
    report.devices[static_cast<std::size_t>(d)].peak_bytes = plan.peak_bytes(devices(), d);
  return report;
}

std::vector<std::int64_t> open_cells_reached(const CoverageResult& result, std::size_t transmitters,
                                             const std::vector<std::uint8_t>& is_open) {
  if (transmitters == 1) return {count_open(result.crossings.data(), is_open)};
  std::vector<std::int64_t> reached;
  if (result.transmitter_crossings.empty()) return reached;
  for (std::size_t t = 0; t < transmitters; ++t)
    reached.push_back(count_open(result.transmitter_crossings.data() + t * is_open.size(), is_open));
  return reached;
}

std::vector<std::int64_t> open_cells_reached(CoverageRunner& runner, const CoverageOptions& options,
                                             const CoverageResult& result, const CellCensus& census,
                                             double enough) {
  const std::size_t transmitters = options.transmitters.size();
  std::vector<std::int64_t> reached = open_cells_reached(result, transmitters, census.is_open);
  if (!reached.empty()) return reached;
  CoverageOptions own = options;
  for (std::size_t t = 0; t < transmitters; ++t) {
    reached.push_back(census.open_seen[t]);
    if (static_cast<double>(reached.back()) >= enough) continue;
    std::vector<std::int64_t> crossings(census.is_open.size());
    reached.back() = 0;
    for (int pass = 0; pass < options.passes && static_cast<double>(reached.back()) < enough; ++pass) {
      own.lane_count = result.rays_per_pass;
      own.lane_offset =
          (pass * static_cast<std::int64_t>(transmitters) + static_cast<std::int64_t>(t)) * own.lane_count;
      const CoverageRun run = runner.run(own, fmt::format("reach of transmitter {}", t));
      std::ranges::transform(crossings, run.result.crossings, crossings.begin(), std::plus<>());
      reached.back() = count_open(crossings.data(), census.is_open);
    }
  }
  return reached;
}

}  // namespace shardwise::program
