#include "coverage_plan.hpp"

#include <fmt/core.h>

#include "coverage_ranks.hpp"
#include "coverage_run.hpp"
#include "estimate.hpp"
#include "progress.hpp"
#include "ranks.hpp"
#include "report_file.hpp"
#include "shardwise/radio/coverage.hpp"
#include "shardwise/radio/coverage_ranks.hpp"
#include "shardwise/runtime/parse.hpp"
#include "table.hpp"

namespace shardwise::program {

int dry_run(const CoverageText& text, const CoverageRequest& request, const DeviceSet& devices,
            const SceneModel& model) {
  const CoverageOptions& options = request.options;
  CoverageOptions planned = options;
  planned.sums = request.pieces.wanted() || has_ranks();
  const std::int64_t lanes = coverage_lanes(options);
  if (has_ranks()) {
    // Every rank plans its own share: a budget that is too small is found wherever it is.
    const Window mine = rank_lanes(ranks(), devices, {0, lanes}, options.split);
    planned.lane_offset = mine.begin;
    planned.lane_count = mine.count;
  }
  const DispatchReport plan = CoverageRunner(devices, model, request.tracer).plan(planned);
  const Json of_ranks = has_ranks() ? gather_coverage_reports(plan, {}) : Json();
  if (!is_first_rank()) return 0;
  // Every lane traces its ray and one more for each reflection, unless it leaves the scene.
  const double most_segments = static_cast<double>(lanes) * (options.bounces + 1);

  // As the program runs it: a call that can be cancelled is cut into more launches.
  planned.progress = [](std::int64_t, std::int64_t) {};
  const Estimate estimate = estimate_coverage(devices, model, planned);
  Json list = Json::array();
  std::vector<std::vector<std::string>> rows{
      {"device", "memory free", "lanes", "peak", "busy", "copying", "idle", "in", "out", "most with"}};
  for (int i = 0; i < devices.size(); ++i) {
    const DeviceReport& device = plan.devices.at(static_cast<std::size_t>(i));
    const DeviceEstimate& guess = estimate.devices.at(static_cast<std::size_t>(i));
    list.push_back({{"name", device.name},
                    {"kind", device.kind},
                    {"lanes", device.lanes},
                    {"peak_bytes", device.peak_bytes},
                    {"busy_s", guess.time.busy_s},
                    {"transferring_s", guess.time.transferring_s},
                    {"idle_s", guess.time.idle_s},
                    {"bytes_in", guess.time.bytes_in},
                    {"bytes_out", guess.time.bytes_out},
                    {"bottleneck", guess.bottleneck}});
    rows.push_back({device.name, human_bytes(devices[i].free_memory()), count_text(device.lanes),
                    human_bytes(device.peak_bytes), short_time(guess.time.busy_s),
                    short_time(guess.time.transferring_s), short_time(guess.time.idle_s),
                    human_bytes(guess.time.bytes_in), human_bytes(guess.time.bytes_out), guess.bottleneck});
  }
  Json report = {{"schema", 1},
                 {"command", "coverage --dry-run"},
                 {"scene", {{"triangles", model.geometry().faces.size()}, {"shapes", model.num_meshes()}}},
                 {"devices", list},
                 {"dispatch",
                  {{"mode", plan.mode},
                   {"reason", plan.reason},
                   {"weights", plan.weights},
                   {"source", plan.source},
                   {"row_bytes", plan.row_bytes},
                   {"budget_bytes", plan.budget_bytes},
                   {"fixed_bytes", plan.fixed_bytes},
                   {"resident_chunks", plan.resident_chunks},
                   {"chunk_rows", plan.chunk_rows},
                   {"chunk_count", plan.chunk_count}}},
                 {"estimate", {{"seconds", estimate.seconds}, {"assumptions", estimate.assumptions}}},
                 {"lanes", lanes},
                 {"samples", options.samples},
                 {"most_segments", most_segments},
                 {"grid", {{"width", options.grid.resolution0}, {"height", options.grid.resolution1}}}};
  if (has_ranks()) report["ranks"] = of_ranks;
  OutputSet outputs;
  stage_json(outputs, text.json, report);
  if (!text.trace.empty()) outputs.stage(text.trace, estimate.trace);
  outputs.commit();
  if (text.json == "-") {
    write_stdout(json_text(report));
    return 0;
  }
  write_stdout(
      fmt::format("plan of {} for {}, nothing was run\n{} x {} cells, {} rays per transmitter in {} passes: "
                  "{} lanes, at most {} "
                  "segments\n\n{}\n{} ({}); {} launches of {} lanes at most, {} a lane and {} fixed ({})\n",
                  mechanisms_text(options), text.scene, options.grid.resolution0, options.grid.resolution1,
                  count_text(options.samples), options.passes, count_text(lanes), short_count(most_segments),
                  table_text(rows), plan.mode, plan.reason, plan.chunk_count, count_text(plan.chunk_rows),
                  human_bytes(plan.row_bytes), human_bytes(plan.fixed_bytes), plan.source));
  if (has_ranks()) write_stdout("of rank 0; all ranks:\n" + rank_table(of_ranks, "lanes"));
  std::string basis = fmt::format("estimated time {}", short_time(estimate.seconds));
  for (const std::string& assumption : estimate.assumptions) basis += "\n  if " + assumption;
  write_stdout(basis + "\n");
  return 0;
}

}  // namespace shardwise::program
