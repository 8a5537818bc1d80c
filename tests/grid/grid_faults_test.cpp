// Grids do not outlive devices: whatever fails, a solve ends with one error of the cause, never with a
// number.

#include <gtest/gtest.h>

#include <cstdio>

#include "grid/backends.hpp"
#include "grid/few_iterations.hpp"
#include "shardwise/grid/solvers.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise::grid_test {
namespace {

std::vector<double> solve(const CartesianGrid& g, const DeviceSet& devices) {
  const Blocks blocks(g, cut_on(devices, g, {3}));
  PreparedOperator<double> a(-laplacian(g) + 2.0 * identity(), blocks);
  return few_iterations(a, blocks, g);
}

TEST(GridFaults, EveryFaultEndsTheSolveWithItsCause) {
  const CartesianGrid g = make_grid({6, 5, 4}, "DDNNDD");
  // Three devices, or one a rank, each in a world of its own.
  const std::string spec = on_ranks() ? "sim:1" : "sim:3";
  const int count = on_ranks() ? processes() : 3;
  const auto is_here = [](int device) { return !on_ranks() || device == process(); };
  const auto name_of = [](int device) { return std::to_string(on_ranks() ? 0 : device); };
  std::vector<FaultSteps> steps;
  std::vector<double> expected;
  {
    const DeviceSet devices = open_devices(spec);
    devices.sim_world()->set_faults("");
    expected = solve(g, devices);
    for (int d = 0; d < count; ++d) {
      FaultSteps s;
      if (is_here(d)) s = devices.sim_world()->fault_steps(on_ranks() ? 0 : d);
      if (on_ranks()) {
        s.allocations = sum_of_processes(std::int64_t{s.allocations});
        s.launches = sum_of_processes(std::int64_t{s.launches});
        s.copies = sum_of_processes(std::int64_t{s.copies});
      }
      steps.push_back(s);
    }
  }
  int cases = 0;
  const auto try_all = [&](int device, const char* step, std::int64_t count,
                           std::initializer_list<const char*> kinds) {
    for (std::int64_t n = 1; n <= count; n += 1 + count / (thorough() ? 25 : 2))
      for (const char* kind : kinds) {
        OpenOptions options;
        options.sim_seed = static_cast<std::uint64_t>(++cases);
        const std::string fault =
            "device " + name_of(device) + " " + step + " " + std::to_string(n) + " " + kind;
        if (is_here(device)) options.sim_faults = fault;
        SCOPED_TRACE(fault + (on_ranks() ? " on rank " + std::to_string(device) : ""));
        const DeviceSet devices = open_devices(spec, options);
        const Failure failure = failure_of([&] { (void)solve(g, devices); });
        const ErrorClass c = failure.error_class;
        EXPECT_TRUE(c == ErrorClass::device || c == ErrorClass::memory || c == ErrorClass::lost)
            << failure.text;
        EXPECT_FALSE(failure.consequence) << failure.text;
        EXPECT_NE(failure.text.find("sim:" + name_of(device)), std::string::npos) << failure.text;
        if (processes() > 1) {
          EXPECT_TRUE(failure.text.starts_with("rank " + std::to_string(device) + ": ")) << failure.text;
        }
        devices.sim_world()->set_faults("");
        EXPECT_TRUE(same_bits(solve(g, devices), expected));
      }
  };
  for (int d = 0; d < count; ++d) {
    const FaultSteps& s = steps[static_cast<std::size_t>(d)];
    try_all(d, "allocation", s.allocations, {"fails", "lost"});
    try_all(d, "launch", s.launches, {"fails", "lost", "hangs"});
    try_all(d, "copy", s.copies, {"fails", "lost", "hangs"});
  }
  if (process() == 0) std::printf("%d cases of a solve\n", cases);
  EXPECT_GT(cases, thorough() ? 100 : 10);
}

}  // namespace
}  // namespace shardwise::grid_test
