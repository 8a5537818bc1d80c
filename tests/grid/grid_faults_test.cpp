// Grids do not outlive devices: whatever fails, a solve ends with one error of the cause, never with a
// number.

#include <gtest/gtest.h>

#include <cstdio>

#include "grid/grid_cases.hpp"
#include "shardwise/grid/solvers.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise::grid_test {
namespace {

std::vector<double> solve(const CartesianGrid& g, const DeviceSet& devices) {
  const Blocks blocks(g, LocalDevices{devices, 3});
  PreparedOperator<double> a(-laplacian(g) + 2.0 * identity(), blocks);
  Field<double> u(blocks, "u");
  u.fill(0);
  SolverOptions<double> options;
  options.max_iterations = 4;
  options.rtol = 1e-30;
  (void)conjugate_gradient(a, u, make_field(blocks, random_cells<double>(g, 5), "f"), options);
  return u.gather();
}

TEST(GridFaults, EveryFaultEndsTheSolveWithItsCause) {
  const CartesianGrid g = make_grid({6, 5, 4}, "DDNNDD");
  std::vector<FaultSteps> steps;
  std::vector<double> expected;
  {
    const DeviceSet devices = open_devices("sim:3");
    devices.sim_world()->set_faults("");
    expected = solve(g, devices);
    for (int d = 0; d < 3; ++d) steps.push_back(devices.sim_world()->fault_steps(d));
  }
  int cases = 0;
  const auto try_all = [&](int device, const char* step, std::int64_t count,
                           std::initializer_list<const char*> kinds) {
    for (std::int64_t n = 1; n <= count; n += 1 + count / 25)
      for (const char* kind : kinds) {
        OpenOptions options;
        options.sim_seed = static_cast<std::uint64_t>(++cases);
        options.sim_faults =
            "device " + std::to_string(device) + " " + step + " " + std::to_string(n) + " " + kind;
        SCOPED_TRACE(options.sim_faults);
        const DeviceSet devices = open_devices("sim:3", options);
        try {
          (void)solve(g, devices);
          ADD_FAILURE() << "a number";
        } catch (const Error& error) {
          const ErrorClass c = error.error_class();
          EXPECT_TRUE(c == ErrorClass::device || c == ErrorClass::memory || c == ErrorClass::lost)
              << error.what();
          EXPECT_EQ(dynamic_cast<const DependencyError*>(&error), nullptr) << error.what();
          EXPECT_NE(std::string(error.what()).find("sim:" + std::to_string(device)), std::string::npos)
              << error.what();
        }
        devices.sim_world()->set_faults("");
        EXPECT_TRUE(same_bits(solve(g, devices), expected));
      }
  };
  for (int d = 0; d < 3; ++d) {
    const FaultSteps& s = steps[static_cast<std::size_t>(d)];
    try_all(d, "allocation", s.allocations, {"fails", "lost"});
    try_all(d, "launch", s.launches, {"fails", "lost", "hangs"});
    try_all(d, "copy", s.copies, {"fails", "lost", "hangs"});
  }
  std::printf("%d cases of a solve\n", cases);
  EXPECT_GT(cases, 100);
}

}  // namespace
}  // namespace shardwise::grid_test
