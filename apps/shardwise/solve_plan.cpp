#include "solve_plan.hpp"

#include <fmt/core.h>

#include <functional>
#include <optional>

#include "command.hpp"
#include "estimate.hpp"
#include "fault_options.hpp"
#include "progress.hpp"
#include "shardwise/grid/solvers.hpp"
#include "shardwise/runtime/parse.hpp"
#include "shardwise/runtime/sim.hpp"
#include "shardwise/runtime/sim_topology.hpp"
#include "solve_outputs.hpp"
#include "table.hpp"

namespace shardwise::program {
namespace {

/// What is timed: so many after the first, which makes buffers.
constexpr int repeats = 8;

template <class T>
void time_pieces(const SolveRequest& r, const DeviceSet& devices, Estimate& estimate) {
  LocalDevices local{devices, r.partition.parts, r.partition.process_grid, r.partition.blocks};
  const Blocks blocks(*r.grid, local);
  const Operator l = r.kappa ? diffusion(*r.kappa, r.mean) : laplacian(*r.grid);
  PreparedOperator<T> prepared(l, blocks);
  Field<T> u(blocks, "u"), v(blocks, "v");
  std::optional<TimeStepper<T>> stepper;
  if (r.problem == "heat") {
    std::function<void(double, Field<T>&)> source;
    if (r.source.given()) source = [&v](double, Field<T>& s) { s.copy_from(v); };
    stepper.emplace(prepared, r.scheme, source);
  }
  const auto one_piece = [&] {
    if (stepper)
      stepper->step(u, 0, r.dt);
    else
      prepared.apply(v, u);
  };
  one_piece();
  blocks.synchronize();
  Timeline& timeline = devices.timeline();
  timeline.start();
  for (int i = 0; i < repeats; ++i) one_piece();
  blocks.synchronize();
  read_timeline(timeline, estimate, repeats);
}

std::string speeds_text(const DeviceSet& devices, const SimTopology& machine) {
  const double ns = machine.ns_of_item("apply Laplacian");
  if (devices.sim_world())
    return fmt::format(
        "a Laplacian takes {:.3g} ns a cell on a simulated device of speed 1 ([ns_per_item] of a machine "
        "file changes it)",
        ns);
  return fmt::format("a Laplacian takes {} {:.3g} ns a cell, as on other machines; links as measured there",
                     devices[0].name(), ns / machine.devices.front().speed);
}

Estimate estimate_solve(const SolveRequest& r, const DeviceSet& devices, const std::string& faults) {
  Estimate estimate;
  std::vector<std::string> of_rays;
  SimTopology machine = topology_like(devices, of_rays);
  // Costs are of cells in double. A simulated machine means them as they are.
  if (r.single && !devices.sim_world())
    for (auto& [name, ns] : machine.ns_per_item) ns /= 2;
  estimate.assumptions.push_back(speeds_text(devices, machine));
  if (r.source.formula && r.source.formula->uses_time())
    estimate.assumptions.push_back("the host takes no time to evaluate --source at each step");
  const DeviceSet dry = open_dry(machine, faults);
  r.single ? time_pieces<float>(r, dry, estimate) : time_pieces<double>(r, dry, estimate);
  return estimate;
}

int index_of(const DeviceSet& devices, const std::string& name) {
  int index = 0;
  while (index < devices.size() && devices[index].name() != name) ++index;
  return index;
}

std::string time_text(const SolveRequest& r, const Estimate& estimate) {
  std::string text = r.problem == "heat"
                         ? fmt::format("estimated time: {}, {} a step, if\n",
                                       short_time(estimate.seconds * static_cast<double>(r.steps)),
                                       short_time(estimate.seconds))
                         : fmt::format(
                               "estimated time: {} for the operator alone, once in each iteration of the "
                               "solver, beside its sums and "
                               "updates, if\n",
                               short_time(estimate.seconds));
  for (const std::string& assumption : estimate.assumptions) text += "  " + assumption + "\n";
  return text;
}

}  // namespace

void solve_dry_run(const SolveRequest& r, const SolveOptions& o, const Blocks& blocks,
                   const DeviceSet& devices, const SolveNeed& need) {
  std::optional<Estimate> estimate;
  if (!r.mpi)
    estimate = estimate_solve(r, devices.size() == 0 ? open_devices("host:1x1") : devices,
                              faults_of_plan(fault_script(o.devices)));
  Json list = Json::array();
  std::vector<std::vector<std::string>> rows{{"device", "memory free", "needs at least", "cells"}};
  if (estimate)
    for (const char* title : {"computes", "copies", "idles", "sends", "most time goes to"})
      rows.front().emplace_back(title);
  for (const SolveDeviceNeed& device : need.devices) {
    list.push_back({{"name", device.name},
                    {"cells", device.cells},
                    {"bytes", device.bytes},
                    {"free_bytes", device.free_bytes}});
    rows.push_back({device.name, human_bytes(device.free_bytes), human_bytes(device.bytes),
                    count_text(static_cast<std::int64_t>(device.cells))});
    if (!estimate) continue;
    const auto at = static_cast<std::size_t>(devices.size() == 0 ? 0 : index_of(devices, device.name));
    const auto& [time, bottleneck] = estimate->devices.at(at);
    list.back().update({{"busy_s", time.busy_s},
                        {"transferring_s", time.transferring_s},
                        {"idle_s", time.idle_s},
                        {"bytes_in", time.bytes_in},
                        {"bytes_out", time.bytes_out},
                        {"bottleneck", bottleneck}});
    for (const std::string& text : {short_time(time.busy_s), short_time(time.transferring_s),
                                    short_time(time.idle_s), human_bytes(time.bytes_out), bottleneck})
      rows.back().push_back(text);
  }
  rows.push_back({"host, in all", human_bytes(need.host_free_bytes), human_bytes(need.host_bytes)});
  rows.back().resize(rows.front().size());
  const Partition& partition = blocks.partition();
  const auto& p = partition.process_grid();
  const bool heat = r.problem == "heat";
  Json times;
  if (estimate)
    times = {{"of", heat ? "a step" : "an application of the operator"},
             {"seconds", estimate->seconds},
             {"assumptions", estimate->assumptions}};
  const Json report = {{"schema", 1},
                       {"command", "solve --dry-run"},
                       {"problem", r.problem},
                       {"grid", grid_json(*r.grid)},
                       {"precision", r.single ? "float" : "double"},
                       {"parts", partition.parts()},
                       {"process_grid", p},
                       {"transport", blocks.transport()},
                       {"steps", heat ? Json(r.steps) : Json(nullptr)},
                       {"dt", heat ? Json(r.dt) : Json(nullptr)},
                       {"devices", list},
                       {"host", {{"bytes", need.host_bytes}, {"free_bytes", need.host_free_bytes}}},
                       {"estimate", times},
                       {"warnings", r.warnings}};
  OutputSet outputs;
  stage_json(outputs, o.json, report);
  if (!o.trace.empty()) {
    if (!estimate) throw_usage("--trace: a plan of ranks has no times; leave it out");
    outputs.stage(o.trace, estimate->trace);
  }
  outputs.commit();
  write_stdout(
      o.json == "-"
          ? json_text(report)
          : fmt::format("plan of {}, nothing was run: {} cells in {} block{} ({} x {} x {}) on {}{}\n\n"
                        "{}\n{}To solve it, run 'shardwise solve' with the same options.\n",
                        r.problem, r.grid->shape_text(), partition.parts(), partition.parts() == 1 ? "" : "s",
                        p[0], p[1], p[2], blocks.transport(),
                        heat ? fmt::format("; {} steps of {:.6g} in time", r.steps, r.dt) : "",
                        table_text(rows), estimate ? time_text(r, *estimate) : ""));
}

}  // namespace shardwise::program
