#include "coverage_plan.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "coverage_ranks.hpp"
#include "coverage_run.hpp"
#include "estimate.hpp"
#include "fault_options.hpp"
#include "progress.hpp"
#include "ranks.hpp"
#include "report_file.hpp"
#include "shardwise/radio/coverage.hpp"
#include "shardwise/radio/coverage_ranks.hpp"
#include "shardwise/runtime/parse.hpp"
#include "table.hpp"

namespace shardwise::program {
namespace {

/// Who computes what in how many launches, in words.
std::string split_text(const DispatchReport& plan) {
  const auto busy = std::ranges::count_if(plan.devices, [](const auto& d) { return d.lanes > 0; });
  std::string text;
  if (plan.devices.size() == 1)
    text = "one device computes everything";
  else if (plan.mode == "master")
    text = fmt::format("{} computes everything ({}; --min-rows N sets another floor)",
                       plan.devices.front().name, plan.reason);
  else
    text = fmt::format("the rays are shared out over {} devices", busy);
  if (plan.chunk_count <= busy) return text + (busy > 1 ? ", one launch on each" : ", in one launch");
  const char* const why = plan.source == "cap"        ? ", so that progress shows and a cancel is heard"
                          : plan.source == "budget"   ? ", which is what fits into the memory"
                          : plan.source == "explicit" ? ", as --chunk says"
                                                      : "";
  return fmt::format("{}, in {} launches of about {} rays{}", text, plan.chunk_count,
                     count_text(plan.chunk_rows), why);
}

std::string plan_text(const std::string& scene, const CoverageOptions& options, std::int64_t lanes,
                      const DispatchReport& plan, const std::string& devices, const std::string& of_ranks,
                      const Estimate& estimate) {
  const std::size_t transmitters = options.transmitters.size();
  std::string text = fmt::format(
      "plan of a coverage map, nothing was run: {} in {}\n"
      "{} x {} cells, {} transmitter{} with {} rays each, in {} pass{}: {} rays (\"lanes\") in all, each "
      "followed for at most {} straight segment{}\n\n{}\n{}\n",
      mechanisms_text(options), scene, options.grid.resolution0, options.grid.resolution1, transmitters,
      transmitters == 1 ? "" : "s", count_text(options.samples), options.passes,
      options.passes == 1 ? "" : "es", count_text(lanes), options.bounces + 1,
      options.bounces == 0 ? "" : "s", devices, split_text(plan));
  if (!of_ranks.empty()) text += "this is rank 0's part; all ranks:\n" + of_ranks;
  text += fmt::format("\nestimated time: {}, if\n", short_time(estimate.seconds));
  for (const std::string& assumption : estimate.assumptions) text += "  " + assumption + "\n";
  return text +
         "To compute the map, run 'shardwise coverage' with the same options; to change what it takes, try "
         "others for --devices, --samples or --cell here.\n";
}

}  // namespace

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
  const Estimate estimate =
      estimate_coverage(devices, model, planned, faults_of_plan(fault_script(text.devices)));
  Json list = Json::array();
  std::vector<std::vector<std::string>> rows{{"device", "free memory", "uses at most", "rays", "computes",
                                              "copies", "idles", "receives", "sends", "most time goes to"}};
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
    rows.push_back({device.name, human_bytes(devices[i].free_memory()), human_bytes(device.peak_bytes),
                    count_text(device.lanes), short_time(guess.time.busy_s),
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
  write_stdout(plan_text(text.scene, options, lanes, plan, table_text(rows),
                         has_ranks() ? rank_table(of_ranks, "lanes") : "", estimate));
  return 0;
}

}  // namespace shardwise::program
