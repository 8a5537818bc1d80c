// Grids on GPUs have the bits of the host: leaves, adjoints, lifts, gradients, solvers, for every partition;
// the march has the bits of the kernel with one thread a cell.

#include <gtest/gtest.h>

#include <cstdio>

#include "grid/grid_cases.hpp"
#include "grid/prepared_state.hpp"
#include "shardwise/grid/multigrid.hpp"
#include "shardwise/grid/solvers.hpp"

namespace shardwise::grid_test {
namespace {

int gpu_count() {
  try {
    return open_devices("cuda").size();
  } catch (const Error&) {
    return 0;
  }
}

std::vector<DeviceSet> gpu_sets() {
  std::vector<DeviceSet> sets{open_devices("cuda:0")};
  if (gpu_count() > 1) sets.push_back(open_devices("cuda:0,1"));
  if (gpu_count() > 2) sets.push_back(open_devices("cuda"));
  return sets;
}

template <class T>
std::vector<std::vector<T>> everything(const Operator& op, const Blocks& blocks,
                                       const PrepareOptions& options) {
  const CartesianGrid& g = blocks.grid();
  PreparedOperator<T> a(op, blocks, options);
  Field<T> x = make_field(blocks, random_cells<T>(g, 1), "x"),
           y = make_field(blocks, random_cells<T>(g, 2), "y");
  Field<T> out(blocks, "out");
  std::vector<std::vector<T>> result;
  const auto keep = [&] { result.push_back(out.gather()); };
  a.apply(out, x), keep();
  a.apply(out, y, T(1.5), T(-0.25)), keep();
  a.apply_adjoint(out, y), keep();
  a.boundary_rhs(out), keep();
  a.diagonal(out), keep();
  if (op.node().kind == NodeKind::diffusion) {
    a.coefficient_gradient(out, y, x), keep();
    a.coefficient_gradient_scatter(out, y, x), keep();
  }
  return result;
}

template <class T>
void check(const CartesianGrid& g, const std::vector<LeafCase>& cases) {
  for (const LeafCase& c : cases) {
    const auto expected = everything<T>(c.op, Blocks(g, Serial{1}), {});
    for (const DeviceSet& devices : gpu_sets())
      for (const int parts : {1, 2, 3, 5}) {
        if (parts < devices.size()) continue;
        for (const bool plain : {false, true})
          for (const Overlap overlap : {Overlap::off, Overlap::on}) {
            SCOPED_TRACE(c.name + " on " + devices.spec() + " parts " + std::to_string(parts) +
                         (plain ? " plain" : ""));
            PrepareOptions options;
            options.plain_kernels = plain;
            options.overlap = overlap;
            const auto got = everything<T>(c.op, Blocks(g, LocalDevices{devices, parts}), options);
            ASSERT_EQ(got.size(), expected.size());
            for (std::size_t i = 0; i < got.size(); ++i) {
              // Sums into neighbours are in another order than one block's: reduce forms.
              if (parts > 1 && ((c.name.starts_with("upwind") && i == 2) || i == 6)) continue;
              EXPECT_TRUE(same_bits(got[i], expected[i]))
                  << "output " << i << " differs by " << max_difference(got[i], expected[i]);
            }
          }
      }
  }
}

TEST(GridGpu, LeavesHaveTheHostsBits) {
  if (gpu_count() == 0) GTEST_SKIP() << "no CUDA device answers";
  for (const std::string conditions : {"DNPPRD", "PPNDPP", "RDDDNN"}) {
    const CartesianGrid g = make_grid({12, 7, 11}, conditions);
    check<double>(g, leaf_cases(g));
    check<float>(g, leaf_cases(g));
  }
  const CartesianGrid flat = make_grid({13, 11}, "DNPP"), line = make_grid({17}, "RD");
  check<double>(flat, leaf_cases(flat));
  check<float>(line, leaf_cases(line));
}

/// Rows of several tiles, more planes than a chunk, row ends inside a tile, one cell in a dimension, ends
/// that wrap.
TEST(GridGpu, TheMarchHasTheBitsOfOneThreadACell) {
  if (gpu_count() == 0) GTEST_SKIP() << "no CUDA device answers";
  for (const std::string conditions : {"DNPPRD", "PPNDPP", "RDDDNN"})
    for (const std::vector<std::int64_t>& cells : {std::vector<std::int64_t>{264, 21, 37},
                                                   {128, 8, 16},
                                                   {4, 3, 2},
                                                   {60, 130, 5},
                                                   {516, 17, 3},
                                                   {1032, 5, 22},
                                                   {4, 1, 1},
                                                   {12, 33, 1},
                                                   {8, 1, 6}}) {
      const CartesianGrid g = make_grid(cells, conditions);
      const Coefficient kappa(g, random_cells<double>(g, 90, 0.2, 3));
      for (const Operator& op : {laplacian(g), diffusion(kappa),
                                 diffusion(kappa, Mean::harmonic, {WallCoefficient::Kind::mirror, {}})}) {
        SCOPED_TRACE(op.text() + " " + g.shape_text() + " " + conditions);
        const auto run = [&](auto type, const Blocks& blocks, bool plain) {
          PrepareOptions options;
          options.plain_kernels = plain;
          options.overlap = Overlap::on;
          using T = decltype(type);
          auto all = everything<T>(op, blocks, options);
          all.resize(3);
          return all;
        };
        for (const int parts : {1, 2}) {
          if (parts > cells[2]) continue;
          const Blocks gpu(g, LocalDevices{open_devices("cuda:0"), parts});
          const Blocks host(g, Serial{1});
          const auto f = run(0.0f, gpu, false), fp = run(0.0f, gpu, true), fh = run(0.0f, host, false);
          const auto d = run(0.0, gpu, false), dp = run(0.0, gpu, true), dh = run(0.0, host, false);
          for (std::size_t i = 0; i < 3; ++i) {
            EXPECT_TRUE(same_bits(f[i], fp[i])) << "float, march against plain, output " << i;
            EXPECT_TRUE(same_bits(f[i], fh[i])) << "float, march against host, output " << i;
            EXPECT_TRUE(same_bits(d[i], dp[i])) << "double, march against plain, output " << i;
            EXPECT_TRUE(same_bits(d[i], dh[i])) << "double, march against host, output " << i;
          }
        }
      }
    }
}

template <class T>
std::vector<T> gathered_adjoint(const Operator& op, const Blocks& blocks, bool plain) {
  PrepareOptions options;
  options.adjoint = AdjointForm::reduce;
  options.plain_kernels = plain;
  PreparedOperator<T> a(op, blocks, options);
  const Field<T> y = make_field(blocks, random_cells<T>(blocks.grid(), 2), "y");
  Field<T> out = make_field(blocks, random_cells<T>(blocks.grid(), 3), "out");
  a.apply_adjoint(out, y, T(1.5), T(-0.25));
  std::vector<T> result = out.gather();
  a.apply_adjoint(out, y);
  const std::vector<T> again = out.gather();
  result.insert(result.end(), again.begin(), again.end());
  return result;
}

template <class T>
void check_gathers(const CartesianGrid& g, const Operator& op) {
  for (const int parts : {1, 2, 3}) {
    if (parts > g.cells(g.dims() - 1)) continue;
    const auto expected = gathered_adjoint<T>(op, Blocks(g, Serial{parts}), false);
    for (const DeviceSet& devices : gpu_sets())
      for (const bool plain : {false, true}) {
        if (parts < devices.size()) continue;
        SCOPED_TRACE(op.text() + " " + g.shape_text() + " on " + devices.spec() + " parts " +
                     std::to_string(parts) + (plain ? " plain" : ""));
        const auto got = gathered_adjoint<T>(op, Blocks(g, LocalDevices{devices, parts}), plain);
        EXPECT_TRUE(same_bits(got, expected)) << "differs by " << max_difference(got, expected);
      }
  }
}
template <class T>
void check_gathers(const CartesianGrid& g) {
  for (const LeafCase& c : leaf_cases(g)) check_gathers<T>(g, c.op);
}

/// Adjoints by gathering: columns and shells, with ghosts folded at once and in steps, and cell by cell.
TEST(GridGpu, GathersHaveTheHostsBits) {
  if (gpu_count() == 0) GTEST_SKIP() << "no CUDA device answers";
  for (const std::string conditions : {"DNPPRD", "PPNDPP", "RDDDNN"}) {
    check_gathers<double>(make_grid({7, 5, 6}, conditions));
    check_gathers<float>(make_grid({4, 1, 3}, conditions));
    check_gathers<double>(make_grid({1, 5, 1}, conditions));
  }
  check_gathers<float>(make_grid({9, 8, 7}, "DNPPRD", 2));
  check_gathers<double>(make_grid({13, 7}, "DNPP"));
  check_gathers<float>(make_grid({70}, "RD"));
}

/// Several blocks of threads in every dimension, and more planes than one reads at once. (Grids that
/// leaf_cases() has a dense matrix for are small.)
TEST(GridGpu, GathersOfManyColumnsHaveTheHostsBits) {
  if (gpu_count() == 0) GTEST_SKIP() << "no CUDA device answers";
  const auto check_both = [](const CartesianGrid& g) {
    const Coefficient kappa(g, random_cells<double>(g, 90, 0.2, 3));
    for (const Operator& op : {laplacian(g), derivative(g, g.dims() - 1, Difference::upwind_minus),
                               diffusion(kappa), diffusion(kappa, Mean::harmonic)}) {
      check_gathers<float>(g, op);
      check_gathers<double>(g, op);
    }
  };
  for (const std::string conditions : {"DNPPRD", "PPNDPP"})
    for (const std::vector<std::int64_t>& cells : {std::vector<std::int64_t>{130, 21, 37}, {65, 9, 3}})
      check_both(make_grid(cells, conditions));
  check_both(make_grid({130, 70}, "DNPP"));
  check_both(make_grid({700}, "RD"));
  const CartesianGrid many = make_grid({66, 1400, 15}, "DNRDPP");
  check_gathers<float>(many, laplacian(many));
  check_gathers<double>(many, diffusion(Coefficient(many, random_cells<double>(many, 90, 0.2, 3))));
}

TEST(GridGpu, BlocksCutInEveryDimensionHaveTheHostsBits) {
  if (gpu_count() == 0) GTEST_SKIP() << "no CUDA device answers";
  const CartesianGrid g = make_grid({12, 10, 11}, "DNPPRD");
  for (const LeafCase& c : leaf_cases(g)) {
    if (c.name.starts_with("upwind")) continue;
    const auto expected = everything<double>(c.op, Blocks(g, Serial{1}), {});
    for (const std::array<int, 3> p : {std::array{2, 1, 1}, {2, 2, 2}, {3, 1, 2}})
      for (const GhostLayout layout : {GhostLayout::planes, GhostLayout::padded, GhostLayout::pitched}) {
        LocalDevices backend{open_devices("cuda:0"), 0, p};
        const auto got = everything<double>(c.op, Blocks(g, backend, layout), {});
        for (std::size_t i = 0; i < std::min<std::size_t>(got.size(), 6); ++i)
          EXPECT_TRUE(same_bits(got[i], expected[i]))
              << c.name << " output " << i << " " << to_string(layout);
      }
  }
}

/// y = A x and x . y in one pass: the bits of two, with and without an exchange that overlaps.
TEST(GridGpu, SumsOnTheWayHaveTheBitsOfSumsApart) {
  if (gpu_count() == 0) GTEST_SKIP() << "no CUDA device answers";
  const auto check = [](auto type, const CartesianGrid& g) {
    using T = decltype(type);
    const Operator op = T(-1.5) * diffusion(Coefficient(g, random_cells<double>(g, 90, 0.2, 3)));
    for (const Operator& a : {op, -laplacian(g), op + identity()}) {
      const auto run = [&](const Blocks& blocks, const PrepareOptions& options, std::vector<T>& out) {
        PreparedOperator<T> prepared(a, blocks, options);
        FieldSums sums(blocks, Accumulation::exact);
        Field<T> x = make_field(blocks, random_cells<T>(g, 1), "x"), y(blocks, "y");
        const double first = apply_with_dot(prepared, y, x, sums),
                     second = apply_with_dot(prepared, y, x, sums);
        EXPECT_EQ(first, second) << "a sum is left over";
        EXPECT_EQ(first, sums.dot(x, y));
        out = y.gather();
        return first;
      };
      std::vector<T> expected, got;
      const double sum = run(Blocks(g, Serial{1}), {}, expected);
      for (const DeviceSet& devices : gpu_sets())
        for (const int parts : {1, 2, 3})
          for (const Overlap overlap : {Overlap::off, Overlap::on}) {
            if (parts < devices.size()) continue;
            PrepareOptions options;
            options.overlap = overlap;
            SCOPED_TRACE(a.text() + " " + g.shape_text() + " on " + devices.spec() + " parts " +
                         std::to_string(parts));
            EXPECT_EQ(run(Blocks(g, LocalDevices{devices, parts}), options, got), sum);
            EXPECT_TRUE(same_bits(got, expected));
          }
    }
  };
  for (const std::vector<std::int64_t>& cells :
       {std::vector<std::int64_t>{40, 37, 21}, {520, 9, 8}, {7, 5, 6}}) {
    check(0.0, make_grid(cells, "DNPPRD"));
    check(0.0f, make_grid(cells, "PPNDPP"));
  }
}

TEST(GridGpu, CgIteratesHaveTheHostsBits) {
  if (gpu_count() == 0) GTEST_SKIP() << "no CUDA device answers";
  const CartesianGrid g = make_grid({20, 18, 25}, "DNPPRD");
  const std::vector<double> f = random_cells<double>(g, 5);
  for (const bool jacobi : {false, true}) {
    SolverOptions<double> options;
    options.jacobi = jacobi;
    const auto solve = [&](const Blocks& blocks, std::vector<double>& solution) {
      PreparedOperator<double> a(
          -diffusion(Coefficient(g, random_cells<double>(g, 90, 0.2, 3)), Mean::harmonic), blocks);
      Field<double> u(blocks, "u");
      u.fill(0);
      const SolverResult result = conjugate_gradient(a, u, make_field(blocks, f, "f"), options);
      EXPECT_TRUE(result.converged) << result.reason();
      solution = u.gather();
      return result.history;
    };
    std::vector<double> expected, got;
    const std::vector<double> history = solve(Blocks(g, Serial{1}), expected);
    for (const DeviceSet& devices : gpu_sets())
      for (const int parts : {1, 2, 3, 5}) {
        if (parts < devices.size()) continue;
        EXPECT_TRUE(same_bits(solve(Blocks(g, LocalDevices{devices, parts}), got), history))
            << devices.spec() << " " << parts;
        EXPECT_TRUE(same_bits(got, expected)) << devices.spec() << " " << parts;
      }
  }
}

void check_multigrid(const CartesianGrid& g) {
  const Operator op = -diffusion(Coefficient(g, random_cells<double>(g, 90, 0.2, 3)));
  const auto cycle = [&](const Blocks& blocks) {
    Multigrid<double> m(op, blocks);
    Field<double> z(blocks, "z");
    m.apply(z, make_field(blocks, random_cells<double>(g, 5), "r"));
    return z.gather();
  };
  const std::vector<double> expected = cycle(Blocks(g, Serial{1}));
  for (const DeviceSet& devices : gpu_sets())
    for (const int parts : {1, 3}) {
      if (parts < devices.size()) continue;
      EXPECT_TRUE(same_bits(cycle(Blocks(g, LocalDevices{devices, parts})), expected))
          << devices.spec() << " " << parts;
    }
  if (gpu_count() < 5) {
    LocalDevices blocks{open_devices("cuda:0"), 0, {2, 1, 2}};
    EXPECT_TRUE(same_bits(cycle(Blocks(g, blocks)), expected));
  }
}

TEST(GridGpu, MultigridHasTheHostsBits) {
  if (gpu_count() == 0) GTEST_SKIP() << "no CUDA device answers";
  check_multigrid(make_grid({16, 12, 20}, "DNPPRD"));
  check_multigrid(make_grid({64, 64, 72}, "PPDNRD"));  // its second level is cut too
}

TEST(GridGpu, MultigridNeedsFewIterationsUpTo256Cubed) {
  if (gpu_count() == 0) GTEST_SKIP() << "no CUDA device answers";
  for (const std::int64_t n : {64, 128, 256}) {
    const CartesianGrid g = make_grid({n, n, n}, "DNPPRD");
    const Operator op = -laplacian(g);
    const std::vector<double> f = random_cells<double>(g, 5);
    std::vector<double> first;
    for (const LocalDevices& backend :
         {LocalDevices{open_devices("cuda:0"), 1}, LocalDevices{gpu_sets().back(), std::max(3, gpu_count())},
          LocalDevices{open_devices("cuda:0"), 0, {2, 1, 2}}}) {
      const Blocks blocks(g, backend);
      PreparedOperator<double> a(op, blocks);
      Multigrid<double> m(op, blocks);
      Field<double> u(blocks, "u");
      u.fill(0);
      SolverOptions<double> options;
      options.preconditioner = m.preconditioner();
      const SolverResult result = conjugate_gradient(a, u, make_field(blocks, f, "f"), options);
      EXPECT_TRUE(result.converged) << result.reason();
      EXPECT_LE(result.iterations, 15) << n;
      if (first.empty()) first = result.history;
      EXPECT_TRUE(same_bits(result.history, first)) << n << " parts " << blocks.partition().parts();
    }
    std::printf("%d^3: %d iterations\n", static_cast<int>(n), static_cast<int>(first.size()) - 1);
  }
}

TEST(GridGpu, PlainSumsRepeatAndAreClose) {
  if (gpu_count() == 0) GTEST_SKIP() << "no CUDA device answers";
  const CartesianGrid g = make_grid({67, 50, 41}, "DNPPRD");
  const std::vector<double> a = random_cells<double>(g, 1), b = random_cells<double>(g, 2);
  const double expected = inner(a, b);
  for (const DeviceSet& devices : gpu_sets())
    for (const GhostLayout layout : {GhostLayout::planes, GhostLayout::pitched}) {
      const Blocks blocks(g, LocalDevices{devices, 5}, layout);
      const Field<double> x = make_field(blocks, a, "x"), y = make_field(blocks, b, "y");
      for (const Accumulation level : {Accumulation::fast, Accumulation::ordered}) {
        const double once = dot(x, y, level);
        EXPECT_NEAR(once, expected, 1e-13 * norm(a) * norm(b)) << devices.spec();
        for (int again = 0; again < 20; ++again) EXPECT_EQ(dot(x, y, level), once);
      }
    }
}

TEST(GridGpu, ExchangesComeInOrderTwoHundredTimes) {
  if (gpu_count() == 0) GTEST_SKIP() << "no CUDA device answers";
  const CartesianGrid g = make_grid({64, 48, 23}, "DNPPPP");
  const auto run = [&](const Blocks& blocks) {
    PreparedOperator<float> a(1e-6 * laplacian(g) + identity(), blocks, {AdjointForm::owner, Overlap::on});
    Field<float> x = make_field(blocks, random_cells<float>(g, 1), "x"), y(blocks, "y");
    for (int i = 0; i < 100; ++i) {
      a.apply(y, x);
      a.apply(x, y);
    }
    return x.gather();
  };
  const std::vector<float> expected = run(Blocks(g, Serial{1}));
  for (const DeviceSet& devices : gpu_sets())
    for (const int parts : {2, 5}) {
      if (parts < devices.size()) continue;
      EXPECT_TRUE(same_bits(run(Blocks(g, LocalDevices{devices, parts})), expected))
          << devices.spec() << " " << parts;
    }
}

}  // namespace
}  // namespace shardwise::grid_test
