// What an apply costs: launches and allocations do not grow with the grid, and an adjoint costs what its
// forward does.

#include <gtest/gtest.h>

#include "grid/backends.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise::grid_test {
namespace {

/// What each device of a set did: launches, copies and allocations of one call.
struct Work {
  std::vector<FaultSteps> steps;
  std::int64_t launches = 0;  ///< by the operator's own count
};

template <class Call>
Work work_of(PreparedOperator<double>& a, const DeviceSet& devices, Call call) {
  const Blocks& blocks = a.blocks();
  call();  // whatever is made at the first call
  blocks.synchronize();
  devices.sim_world()->set_faults("");
  a.reset_stats();
  call();
  blocks.synchronize();
  Work work;
  for (int d = 0; d < devices.size(); ++d) work.steps.push_back(devices.sim_world()->fault_steps(d));
  work.launches = a.stats().launches;
  return work;
}

constexpr std::size_t leaf_count = 7, upwind_leaf = 2, scaling_leaf = 6;

Operator leaf_of(const CartesianGrid& g, std::size_t which) {
  const auto random = [&g](std::uint32_t what) { return random_cells<double>(g, what, 0.2, 3); };
  std::vector<double> velocity;
  for (std::uint32_t d = 0; d < 3; ++d) {
    const std::vector<double> one = random(91 + d);
    velocity.insert(velocity.end(), one.begin(), one.end());
  }
  switch (which) {
    case 0:
      return laplacian(g);
    case 1:
      return derivative(g, 2);
    case upwind_leaf:
      return derivative(g, 2, Difference::upwind_minus);
    case 3:
      return diffusion(Coefficient(g, random(90)), Mean::harmonic);
    case 4:
      return diffusion(Coefficient(g, velocity, 3));
    case 5:
      return advection(Coefficient(g, velocity, 3));
    default:
      return scaling(Coefficient(g, random(90)));
  }
}

TEST(GridLaunches, AreFewAndIndependentOfTheSize) {
  const std::vector<std::vector<std::int64_t>> sizes{{4, 3, 6}, {5, 8, 16}, {24, 17, 31}};
  for (const int parts : {1, 3, 5})
    for (const bool cut_blocks : {false, true})
      for (std::size_t leaf = 0; leaf < leaf_count; ++leaf) {
        if (cut_blocks && parts != 5) continue;
        if (on_ranks() && parts != 5) continue;  // as many as there are ranks
        std::vector<Work> first;
        for (const std::vector<std::int64_t>& size : sizes) {
          const CartesianGrid g = make_grid(size, "PPDNPP");
          const Operator op = leaf_of(g, leaf);
          SCOPED_TRACE(op.text() + " " + g.shape_text() + " parts " + std::to_string(parts));
          const DeviceSet devices = open_devices(on_ranks() || parts == 1 ? "sim:1" : "sim:2");
          const Blocks blocks(g, cut_on(devices, g, cut_blocks ? Serial{0, {2, 1, 2}} : Serial{parts}));
          const auto n = static_cast<std::int64_t>(blocks.local_parts().size());
          PrepareOptions options;
          options.overlap = Overlap::off;
          PreparedOperator<double> a(op, blocks, options);
          Field<double> x = make_field(blocks, random_cells<double>(g, 1), "x"), y(blocks, "y");
          const std::vector<Work> work{work_of(a, devices, [&] { a.apply(y, x); }),
                                       work_of(a, devices, [&] { a.apply_adjoint(y, x); }),
                                       work_of(a, devices, [&] { a.apply(y, x, 2, 0.5); })};
          const bool upwind = leaf == upwind_leaf;
          for (std::size_t i = 0; i < work.size(); ++i) {
            // Gather and blend, where an adjoint adds into its neighbours.
            EXPECT_LE(work[i].launches, (upwind && i == 1 ? 3 : 1) * n) << "call " << i;
            std::int64_t launches = 0, copies = 0;
            for (const FaultSteps& s : work[i].steps) {
              EXPECT_EQ(s.allocations, 0) << "call " << i;
              launches += s.launches;
              copies += s.copies;
            }
            EXPECT_GE(launches, n);
            const bool exchanges = parts > 1 && leaf != scaling_leaf;
            // With ranks what moves is no copy of a device, by the direct route; it waits for one empty
            // operation.
            if (!cut_blocks && !(upwind && i == 1)) {
              EXPECT_LE(launches, (on_ranks() && exchanges ? 4 : 3) * n)
                  << "call " << i << ", exchange and all";
            }
            if (!on_ranks() || !cut_blocks) {
              EXPECT_EQ(copies, exchanges && !on_ranks() ? (cut_blocks ? 4 : 2) * n : 0) << "call " << i;
            }
          }
          if (first.empty()) first = work;
          for (std::size_t i = 0; i < work.size(); ++i) {
            EXPECT_EQ(work[i].launches, first[i].launches) << "call " << i;
            for (std::size_t d = 0; d < work[i].steps.size(); ++d) {
              EXPECT_EQ(work[i].steps[d].launches, first[i].steps[d].launches) << "call " << i;
              EXPECT_EQ(work[i].steps[d].copies, first[i].steps[d].copies) << "call " << i;
            }
          }
        }
      }
}

/// Cells that the launches of one call work on: all else is free on the devices.
template <class Call>
double cells_worked_on(const DeviceSet& devices, const Blocks& blocks, Call call) {
  call();  // whatever is made at the first call
  blocks.synchronize();
  const double begin = devices.sim_world()->virtual_time();
  call();
  blocks.synchronize();
  return devices.sim_world()->virtual_time() - begin;
}

/// Without a clock; the times are rows of `shardwise bench grid`. An owner adjoint is a stencil as the
/// forward is: as many launches, each on as many cells. The reduce form gathers every cell once, and again
/// only near faces.
TEST(GridLaunches, AnAdjointWorksOnAsManyCellsAsItsForward) {
  OpenOptions free_but_for_cells;
  free_but_for_cells.sim_costs = {0, 1e9, 0, 1e30};
  const CartesianGrid g = make_grid({64, 64, 128}, "DNNNRD");
  const auto cells = static_cast<double>(g.cell_count());
  for (const int parts : {1, 2}) {
    const DeviceSet devices = open_devices("sim:1", free_but_for_cells);
    const Blocks blocks(g, LocalDevices{devices, parts});
    Field<double> x(blocks, "x"), y(blocks, "y");
    x.fill(0.5);
    y.fill(0);
    PrepareOptions reduce_form;
    reduce_form.adjoint = AdjointForm::reduce;
    for (const Operator& op :
         {laplacian(g), diffusion(Coefficient(g, random_cells<double>(g, 90, 0.2, 3)))}) {
      SCOPED_TRACE(op.text() + " parts " + std::to_string(parts));
      PreparedOperator<double> owner(op, blocks), reduce(op, blocks, reduce_form);
      const auto launches = [](PreparedOperator<double>& a, const auto& call) {
        a.reset_stats();
        call();
        return a.stats().launches;
      };
      const auto forward = [&] { owner.apply(y, x); };
      const auto back = [&] { owner.apply_adjoint(y, x); };
      const auto reduced = [&] { reduce.apply_adjoint(y, x); };
      EXPECT_EQ(launches(owner, back), launches(owner, forward));
      EXPECT_EQ(launches(reduce, reduced), launches(owner, forward))
          << "the gather; what is left is near faces";
      const double of_forward = cells_worked_on(devices, blocks, forward);
      EXPECT_GE(of_forward, cells);
      EXPECT_LE(of_forward, 1.1 * cells);
      EXPECT_LE(cells_worked_on(devices, blocks, back), 1.1 * of_forward);
      EXPECT_LE(cells_worked_on(devices, blocks, reduced), 1.6 * of_forward);
    }
  }
}

}  // namespace
}  // namespace shardwise::grid_test
