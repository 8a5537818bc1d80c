// shardwise solve: Poisson, diffusion and heat on a Cartesian grid, on any number of blocks.

#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>

#include "command.hpp"
#include "fault_options.hpp"
#include "partial_file.hpp"
#include "progress.hpp"
#include "ranks.hpp"
#include "report_file.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"
#include "shardwise/shard/hash.hpp"
#include "solve_memory.hpp"
#include "solve_outputs.hpp"
#include "solve_plan.hpp"
#include "solve_ranks.hpp"

namespace shardwise::program {
namespace {

/// The same problem on one block on the host, and whether its bits are equal.
struct Verification {
  bool ran = false, equal = true;
  double max_relative = 0;
};
Verification verify(const SolveRequest& r, const SolveOutcome& outcome, const SolveState* restart) {
  const SolveOutcome one = run_solve(r, Blocks(*r.grid, Serial{1}), {false, restart, nullptr});
  Verification result{true, false, 0};
  result.equal = std::memcmp(one.field.data(), outcome.field.data(), one.field.size() * sizeof(double)) == 0;
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < one.field.size(); ++i) {
    difference = std::max(difference, std::abs(one.field[i] - outcome.field[i]));
    size = std::max(size, std::abs(one.field[i]));
  }
  result.max_relative = size > 0 ? difference / size : 0;
  return result;
}

/// The state to go on from. A file that does not exist is a run that has not begun, if it is the checkpoint
/// too: one command line then starts and restarts.
std::optional<SolveState> restart_state(const SolveRequest& r, const SolveOptions& o) {
  if (o.restart.empty()) return {};
  std::error_code ignored;
  if (!std::filesystem::exists(o.restart, ignored)) {
    if (o.checkpoint != o.restart)
      throw_data(fmt::format(
          "--restart: '{0}' does not exist; check the name, or give --checkpoint {0} as well to begin there",
          o.restart));
    log_note(fmt::format("'{}' does not exist yet: beginning", o.restart));
    return {};
  }
  SolveState state = read_state(o.restart);
  check_same_run(r.parameters, "this run", state.parameters, "'" + o.restart + "'");
  if (static_cast<std::int64_t>(state.u.size()) != r.grid->cell_count())
    throw_data(fmt::format("--restart: '{}' holds {} cells, the grid has {}", o.restart, state.u.size(),
                           r.grid->cell_count()));
  if (state.step > r.steps)
    throw_usage(fmt::format("--steps: '{}' is at step {} already; ask for {} or more, counted from the start",
                            o.restart, state.step, state.step));
  log_note(fmt::format("'{}' is at step {}; going on from there", o.restart, state.step));
  return state;
}

void check_outputs(const SolveOptions& o) {
  for (const std::string& path : o.field) check_output(path, "--field");
  for (const std::string& path : o.residuals) check_output(path, "--residuals");
  for (const auto& [path, name] : {std::pair{o.json, "--json"}, std::pair{o.png, "--png"},
                                   std::pair{o.checkpoint, "--checkpoint"}, std::pair{o.trace, "--trace"}})
    if (!path.empty()) check_output(path, name);
}

Json report_json(const SolveRequest& r, const Blocks& blocks, const SolveOutcome& outcome,
                 const Verification& verified, std::int64_t first_step) {
  const SolverResult& s = outcome.solver;
  const bool heat = r.problem == "heat";
  Json devices = Json::array();
  for (const auto& [name, peak] : solve_peaks(blocks))
    devices.push_back({{"name", name}, {"peak_bytes", peak}});
  Json verify = {{"ran", verified.ran}};
  if (verified.ran) {
    verify["equal"] = verified.equal;
    verify["max_relative"] = verified.max_relative;
  }
  // Words a cell: 11 an iteration of CG; a stage of a time step has no such number.
  const double cells = static_cast<double>(r.grid->cell_count()), word = r.single ? 4 : 8;
  const double moved = heat ? 0 : 11 * word * cells * static_cast<double>(s.iterations);
  const auto of_solver = [&](auto value) { return heat ? Json(nullptr) : Json(value); };
  const auto of_heat = [&](auto value) { return heat ? Json(value) : Json(nullptr); };
  return {{"schema", 1},
          {"command", "solve"},
          {"problem", r.problem},
          {"grid", grid_json(*r.grid)},
          {"precision", r.single ? "float" : "double"},
          {"parts", blocks.partition().parts()},
          {"process_grid", blocks.partition().process_grid()},
          {"transport", blocks.transport()},
          {"devices", devices},
          {"applies", outcome.applies},
          {"exchanges_per_apply", static_cast<double>(outcome.exchanges) /
                                      static_cast<double>(std::max<std::int64_t>(outcome.applies, 1))},
          {"steps", of_heat(r.steps)},
          {"first_step", of_heat(first_step)},
          {"dt", of_heat(r.dt)},
          {"converged", of_solver(s.converged)},
          {"reason", of_solver(s.reason())},
          {"iterations", of_solver(s.iterations)},
          {"tolerance", heat ? Json(nullptr) : number_or_null(s.tolerance)},
          {"true_residual", heat ? Json(nullptr) : number_or_null(s.true_residual)},
          {"removed_mean", of_solver(outcome.removed_mean)},
          {"history", s.history},
          {"seconds", outcome.seconds},
          {"t_eff_gb_s", of_solver(moved / outcome.seconds * 1e-9)},
          {"digest", Blake3().update(outcome.field.data(), outcome.field.size() * sizeof(double)).hex()},
          {"verify", verify},
          {"warnings", r.warnings}};
}

std::string result_text(const SolveRequest& r, const SolveOutcome& outcome) {
  const SolverResult& s = outcome.solver;
  return r.problem == "heat"
             ? fmt::format("{} steps of {:.6g} in {}", r.steps, r.dt, short_time(outcome.seconds))
             : fmt::format("{} after {} iterations, |f - A u| = {:.3e} (asked {:.3e}), {}", s.reason(),
                           s.iterations, s.true_residual, s.tolerance, short_time(outcome.seconds));
}

void stage_outputs(OutputSet& outputs, const SolveRequest& r, const SolveOptions& o,
                   const SolveOutcome& outcome) {
  for (const std::string& path : o.field)
    outputs.stage(
        path, path.ends_with(".vti") ? field_vti(*r.grid, outcome.field) : field_npy(*r.grid, outcome.field));
  for (const std::string& path : o.residuals)
    outputs.stage(path,
                  path.ends_with(".png") ? residuals_png(r, outcome.solver) : residuals_csv(outcome.solver));
  const std::string subtitle =
      r.problem == "heat"
          ? fmt::format("t = {:.4g}, {} steps of {:.3g}", static_cast<double>(r.steps) * r.dt, r.steps, r.dt)
          : fmt::format("{}, |f \u2212 A u| = {:.1e}", outcome.solver.reason(), outcome.solver.true_residual);
  if (!o.png.empty()) outputs.stage(o.png, field_png(r, outcome.field, subtitle));
}

int run(const SolveOptions& options) {
  SolveRequest r = solve_request(options);
  const bool first = is_first_rank();
  if (first) {
    check_outputs(options);
    for (const std::string& warning : r.warnings) log_warning(warning);
  }
  const std::optional<SolveState> restart =
      share_state(first ? restart_state(r, options) : std::optional<SolveState>());
  const DeviceSet devices = r.serial ? DeviceSet() : open(options.devices);
  const Blocks blocks = solve_blocks(r, devices);
  const Partition& partition = blocks.partition();
  const bool heat = r.problem == "heat";
  const SolveNeed need = solve_need(r, blocks);
  require_memory(r, need, !plans_for_another_machine(options));
  if (options.dry_run) {
    if (first) solve_dry_run(r, options, blocks, devices, need);
    return 0;
  }
  SolveHooks hooks;
  hooks.show = first && !log_options().quiet;
  hooks.restart = restart ? &*restart : nullptr;
  if (!options.checkpoint.empty())
    hooks.checkpoint = [&](const SolveState& state) {
      OutputSet file;
      file.stage(options.checkpoint, state_bytes(state));
      file.commit(WhenStopped::commit);
    };
  const bool record = !options.trace.empty();
  if (record) devices.timeline().start();
  const SolveOutcome outcome = run_solve(r, blocks, hooks);
  if (record) devices.timeline().stop();
  if (outcome.removed_mean != 0) {
    r.warnings.push_back(fmt::format(
        "no condition fixes a constant, and the right-hand side has the mean {:.6g} (walls included): it was "
        "taken out, and u has the mean 0",
        outcome.removed_mean));
    if (first) log_warning(r.warnings.back());
  }
  for (const std::string& warning : faults_not_met(options.devices, devices)) {
    r.warnings.push_back(warning);
    if (first) log_warning(warning);
  }
  const Json of_ranks = has_ranks() ? gather_solve_reports(r, blocks, devices, outcome) : Json();
  if (!first) return 0;  // rank 0 writes, and says how it ended
  Verification verified;
  if (options.verify) verified = verify(r, outcome, hooks.restart);
  Json report = report_json(r, blocks, outcome, verified, restart ? restart->step : 0);
  if (has_ranks()) report["ranks"] = of_ranks;
  OutputSet outputs;
  stage_outputs(outputs, r, options, outcome);
  if (record) {
    std::ostringstream trace;
    devices.timeline().write_chrome_trace(trace);
    outputs.stage(options.trace, trace.str());
  }
  stage_json(outputs, options.json, report);
  outputs.commit();
  if (options.json == "-") {
    write_stdout(json_text(report));
  } else {
    std::string text =
        fmt::format("{}: {} cells, {}, {} block{} on {}\n{}\n", r.problem, r.grid->shape_text(),
                    r.single ? "float" : "double", partition.parts(), partition.parts() == 1 ? "" : "s",
                    blocks.transport(), result_text(r, outcome));
    if (options.verify)
      text += verified.equal ? "verified: the same bits as of one block on the host\n"
                             : "verified: other bits than of one block\n";
    if (has_ranks()) text += solve_rank_table(of_ranks) + "\n";
    write_stdout(text + fmt::format("digest {}\n", report["digest"].get<std::string>()));
  }
  if (!verified.equal)
    throw Error(ErrorClass::mismatch,
                fmt::format("--verify: u differs from one block on the host by {:.3e} of its largest value",
                            verified.max_relative));
  const SolverResult& s = outcome.solver;
  if (!heat && !s.converged)
    throw Error(ErrorClass::not_converged,
                fmt::format("solve: {} after {} iterations with |f - A u| = {:.3e}, asked was {:.3e}; raise "
                            "--max-iterations or --rtol, or use --preconditioner {} (outputs were written)",
                            s.reason(), s.iterations, s.true_residual, s.tolerance,
                            r.jacobi ? "multigrid" : "jacobi"));
  return 0;
}

}  // namespace

void add_solve(Commands& commands, CLI::App& root) {
  const auto options = std::make_shared<SolveOptions>();
  CLI::App* app = add_command(
      commands, root, "solve", "Solve Poisson, diffusion and heat problems on a Cartesian grid",
      "shardwise solve poisson --size 64x64x64 --rhs \"sin(3*x)*y\" --devices host:2 --field u.npy");
  add_solve_options(*app, *options);
  commands.on_all_ranks.insert(app);
  commands.actions[app] = [options] { return run(*options); };
}

}  // namespace shardwise::program
