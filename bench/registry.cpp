// The benchmarks that `shardwise bench` offers. A new one is a function in a file of its own and a line in
// the list.

#include "bench/accumulate.hpp"
#include "bench/budget.hpp"
#include "bench/calibrate.hpp"
#include "bench/dispatch.hpp"
#include "bench/grid.hpp"
#include "bench/jobs.hpp"
#include "bench/predict.hpp"
#include "bench/scaling.hpp"
#include "bench/trace.hpp"

namespace shardwise::bench {

const std::vector<Benchmark>& benchmarks() {
  static const std::vector<Benchmark> list{
      {"accumulate", "coverage maps: against Embree alone, one device, and the other accumulations",
       accumulate_cases, true},
      {"budget", "50 M rays within 64 MiB: time, and peaks as counted and as the system reports them",
       budget_cases},
      {"calibrate",
       "--repeat calibrations of each call, and the run at their weights against the better of others",
       calibrate_cases, true},
      {"dispatch", "calls on rows: all devices against the first, by operation, source and sink",
       dispatch_cases},
      {"grid", "grid operators and solvers: against the copy rate, and all devices against the first",
       grid_cases},
      {"jobs", "independent jobs: placement, cost of a job, makespan over the bound, caches", jobs_cases},
      {"predict", "calls on several devices, predicted from one device and a fit on another scene",
       predict_cases, true},
      {"scaling",
       "the same work on 1 to 64 simulated devices, in predicted times; --devices sim:h200-pcie for others",
       scaling_cases},
      {"trace", "each operation on rows: ns a row; on several devices directly against pipelined",
       trace_cases, true},
  };
  return list;
}

}  // namespace shardwise::bench
