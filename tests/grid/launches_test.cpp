// What an apply costs: launches and allocations do not grow with the grid, and an adjoint costs what its
// forward does.

#include <gtest/gtest.h>

#include <ctime>

#include <cstdio>

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

/// Processor time of this thread, which does all the work of Serial: other programs do not count.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double most_of_reduce = 4;  // what is checked at every access is another cost
#else
constexpr double most_of_reduce = 1.6;
#endif

TEST(GridLaunches, AnAdjointCostsWhatItsForwardDoes) {
  const CartesianGrid g = make_grid({128, 128, 256}, "DNNNRD");
  const Blocks blocks(g, Serial{2});
  Field<double> x(blocks, "x"), y(blocks, "y");
  x.fill(0.5);
  y.fill(0);
  PrepareOptions reduce_form;
  reduce_form.adjoint = AdjointForm::reduce;
  for (const Operator& op : {laplacian(g), diffusion(Coefficient(g, random_cells<double>(g, 90, 0.2, 3)))}) {
    PreparedOperator<double> owner(op, blocks), reduce(op, blocks, reduce_form);
    double forward = 1e30, back = 1e30, reduced = 1e30;
    const auto least = [&](double& seconds, auto&& call) {
      const double begin = thread_seconds();
      call();
      blocks.synchronize();
      seconds = std::min(seconds, thread_seconds() - begin);
    };
    // Neighbours on the machine take cache and memory from some rounds: the least of more of them is the same
    // cost.
    const auto dear = [&] { return back > 1.1 * forward || reduced > most_of_reduce * forward; };
    for (int round = 0; round < 11 || (round < 100 && dear()); ++round) {
      least(forward, [&] { owner.apply(y, x); });
      least(back, [&] { owner.apply_adjoint(y, x); });
      least(reduced, [&] { reduce.apply_adjoint(y, x); });
    }
    std::printf("%s: forward %.2f ms, owner adjoint %.2f of it, reduce form %.2f\n", op.text().c_str(),
                forward * 1e3, back / forward, reduced / forward);
    EXPECT_LE(back, 1.1 * forward);
    EXPECT_LE(reduced, most_of_reduce * forward);
  }
}

}  // namespace
}  // namespace shardwise::grid_test
