#include "command.hpp"
#include "solve_request.hpp"

namespace shardwise::program {

void add_solve_options(CLI::App& app, SolveOptions& o) {
  app.add_option(
         "problem", o.problem,
         "poisson: -lap u = f; diffusion: -div(kappa grad u) = f; heat: u_t = div(kappa grad u) + source")
      ->type_name("PROBLEM");
  app.add_option("--size", o.size, "Cells of each dimension: 64x64x32")->type_name("NxNxN");
  app.add_option("--extent", o.extent, "Lengths, or lo:hi, of each dimension: 1x1x0.5 (1 each)")
      ->type_name("LxLxL");
  app.add_option(
         "--bc", o.boundaries,
         "FACE:KIND=VALUE: x-:dirichlet=1, y+:neumann=0, z-:flux=sin(x), x+:robin=A,B,F, y-:periodic; "
         "a VALUE may be FILE.npy (dirichlet=0 everywhere)")
      ->type_name("BC");
  app.add_option("--rhs", o.rhs, "f: a number, a formula in x, y, z, or FILE.npy (0)")->type_name("F");
  app.add_option("--initial", o.initial, "u at t = 0, for heat (0)")->type_name("F");
  app.add_option("--source", o.source, "Source of heat, may depend on t (0)")->type_name("F");
  app.add_option("--guess", o.guess, "Where the solver begins (0)")->type_name("F");
  app.add_option("--kappa", o.kappa, "Coefficient, for diffusion and heat: one, or KX,KY,KZ (1)")
      ->type_name("F");
  app.add_option("--mean", o.mean, "arithmetic | harmonic | geometric: the coefficient of a face")
      ->type_name("MEAN");
  app.add_option("--parts", o.parts, "Slabs, spread over the devices (one a device)")->type_name("N");
  app.add_option("--process-grid", o.process_grid, "Blocks: parts along each dimension, 0 is free")
      ->type_name("PxPxP");
  app.add_option("--backend", o.backend, "auto | serial | local | mpi (auto: local; under a launcher mpi)")
      ->type_name("NAME");
  app.add_option("--route", o.route,
                 "Under a launcher: auto | nccl | device-pointers | staged, one, or one a dimension (auto)")
      ->type_name("NAME[,NAME..]");
  app.add_option("--precision", o.precision, "float | double (double)")->type_name("TYPE");
  app.add_option("--steps", o.steps, "Time steps, for heat")->type_name("N");
  app.add_option("--dt", o.dt, "Length of a time step (0.9 of the stability limit)")->type_name("S");
  app.add_option("--scheme", o.scheme, "euler | ssp-rk3 | rk4 (rk4)")->type_name("NAME");
  app.add_option("--rtol", o.rtol, "Stops at |f - A u| <= max(rtol |f|, atol) (1e-8)")->type_name("R");
  app.add_option("--atol", o.atol, "The same, absolute (0)")->type_name("R");
  app.add_option("--max-iterations", o.max_iterations, "Most iterations (10000)")->type_name("N");
  app.add_option("--preconditioner", o.preconditioner, "none | jacobi | multigrid (none)")->type_name("NAME");
  app.add_option("--accumulation", o.accumulation, "fast | ordered | exact: the sums of the solver (exact)")
      ->type_name("NAME");
  app.add_option("--field", o.field, "Write u: FILE.npy ([x, y, z]) or FILE.vti (VTK image); repeatable")
      ->type_name("FILE");
  app.add_option("--residuals", o.residuals, "Write |f - A u| by iteration: FILE.csv or FILE.png; repeatable")
      ->type_name("FILE");
  app.add_option("--png", o.png, "Draw u: a plane of it, or the curve of one dimension")->type_name("FILE");
  app.add_option("--slice", o.slice, "The plane (line) that --png shows: z=0.5 (the middle in z)")
      ->type_name("D=POS");
  app.add_option("--checkpoint", o.checkpoint, "Write the state of heat to this file as it runs")
      ->type_name("FILE");
  app.add_option("--every", o.every, "Steps between two checkpoints (a tenth of --steps)")->type_name("N");
  app.add_option("--restart", o.restart,
                 "Go on from a checkpoint; one that does not exist yet, but is --checkpoint too, begins")
      ->type_name("FILE");
  app.add_option("--json", o.json, "Write the report as JSON ('-': to standard output, alone)")
      ->type_name("FILE");
  app.add_option("--trace", o.trace, "Copies and launches as a Chrome trace; of ranks the first one's")
      ->type_name("FILE");
  app.add_flag("--verify", o.verify, "Repeat on one block on the host and compare the bits");
  app.add_flag("--dry-run", o.dry_run, "Check and print the plan, run nothing");
  add_device_options(app, o.devices);
  add_refused(app, {"--memory", "--weights"});
}

}  // namespace shardwise::program
