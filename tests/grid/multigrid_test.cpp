// Multigrid: symmetric, the same bits for every cut of its levels, few iterations.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "grid/backends.hpp"
#include "grid/window_copy.hpp"
#include "shardwise/grid/multigrid.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise::grid_test {
namespace {

TEST(GridMultigrid, IsSymmetricAndPositive) {
  for (const std::string conditions : {"DNPPRD", "DDDDDD", "PPNNDR"}) {
    const CartesianGrid g = make_grid({12, 8, 10}, conditions);
    for (const AnyBackend& p : cuts(g, {{1}, {2}})) {
      const Blocks blocks(g, p);
      const Operator op = -diffusion(Coefficient(g, random_cells<double>(g, 90, 0.2, 3)));
      Multigrid<double> m(op, blocks);
      EXPECT_GE(m.levels(), 2);
      const Field<double> x = make_field(blocks, random_cells<double>(g, 1), "x"),
                          y = make_field(blocks, random_cells<double>(g, 2), "y");
      Field<double> mx(blocks, "M x"), my(blocks, "M y");
      m.apply(mx, x);
      m.apply(my, y);
      EXPECT_NEAR(dot(mx, y), dot(x, my), 1e-12 * norm2(mx) * norm2(y)) << conditions << " " << p.text();
      EXPECT_GT(dot(mx, x), 0);
    }
  }
}

/// Windows of random boxes, out of fields cut one way onto parts cut another way.
TEST(GridMultigrid, WindowsHoldTheRightCells) {
  for (const std::string conditions : {"DNPPRD", "PPPPPP", "DDDDDD"}) {
    const CartesianGrid g = make_grid({8, 7, 11}, conditions);
    std::vector<double> numbers(static_cast<std::size_t>(g.cell_count()));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
    for (const std::string spec : {"host:1x1", "sim:3"})
      for (const AnyBackend& p :
           cuts_on(spec, g, {{0, {1, 1, 3}}, {0, {2, 1, 2}}, {0, {2, 3, 1}}, {0, {1, 1, 5}}})) {
        SCOPED_TRACE(conditions + " " + p.text());
        const Blocks blocks(g, p);
        std::vector<Window> windows;  // of all parts, on every process
        for (int part = 0; part < blocks.partition().parts(); ++part) {
          Window w;
          w.part = part;
          for (int d = 0; d < 3; ++d) {
            const bool wraps = g.boundary(d, 0).kind == BoundaryKind::periodic;
            const auto draw = [&](std::uint32_t what, std::int64_t from, std::int64_t to) {
              const double r =
                  random_value(static_cast<std::uint64_t>(part), what + static_cast<std::uint32_t>(d));
              return from + static_cast<std::int64_t>(0.5 * (r + 1) * static_cast<double>(to - from));
            };
            w.box.lo[d] = draw(30, wraps ? -2 : 0, g.cells(d) - 1);
            w.box.hi[d] = draw(40, w.box.lo[d] + 1, wraps ? w.box.lo[d] + g.cells(d) : g.cells(d));
          }
          windows.push_back(w);
        }
        WindowCopy<double> copy(blocks, blocks, windows);
        const Field<double> field = make_field(blocks, numbers, "numbers");
        for (int again = 0; again < 3; ++again) copy.run(field.storage());
        blocks.synchronize();
        for (std::size_t i = 0; i < blocks.local_parts().size(); ++i) {
          const CellBox& box = windows[static_cast<std::size_t>(blocks.local_parts()[i])].box;
          const CellPointer<const double> cells = copy.pointer(i);
          for (std::int64_t z = box.lo[2]; z < box.hi[2]; ++z)
            for (std::int64_t y = box.lo[1]; y < box.hi[1]; ++y)
              for (std::int64_t x = box.lo[0]; x < box.hi[0]; ++x) {
                const std::array<std::int64_t, 3> at{(x + g.cells(0)) % g.cells(0),
                                                     (y + g.cells(1)) % g.cells(1),
                                                     (z + g.cells(2)) % g.cells(2)};
                ASSERT_EQ(*cells.at(x - box.lo[0], y - box.lo[1], z - box.lo[2]),
                          static_cast<double>(join_index(g, at)));
              }
        }
        if (blocks.sim_world())
          for (const RaceReport& race : blocks.sim_world()->races()) ADD_FAILURE() << race.text;
      }
  }
}

struct Solved {
  std::vector<double> history, u;
  std::vector<int> parts;  ///< of every level
};

template <class Backend>
Solved solve(const CartesianGrid& g, const Operator& op, const Backend& backend) {
  const Blocks blocks(g, backend);
  PreparedOperator<double> a(op, blocks);
  Multigrid<double> m(op, blocks);
  Solved solved;
  for (int l = 0; l < m.levels(); ++l) solved.parts.push_back(m.parts(l));
  Field<double> u(blocks, "u");
  u.fill(0);
  SolverOptions<double> options;
  options.preconditioner = m.preconditioner();
  const SolverResult result =
      conjugate_gradient(a, u, make_field(blocks, random_cells<double>(g, 5), "f"), options);
  EXPECT_TRUE(result.converged) << result.reason();
  solved.history = result.history;
  solved.u = u.gather();
  if (blocks.sim_world())
    for (const RaceReport& race : blocks.sim_world()->races()) ADD_FAILURE() << race.text;
  return solved;
}

/// Iterations of a solve: the history has the residual before the first, too.
int iterations(const Solved& s) {
  return static_cast<int>(s.history.size()) - 1;
}

TEST(GridMultigrid, NeedsFewIterationsOnAnySizeAndPartition) {
  struct Case {
    std::vector<std::int64_t> cells;
    std::string conditions;
    bool always = false;  ///< also where there is little time
  };
  for (const Case& c :
       {Case{{16, 16, 16}, "DNPPRD", true}, Case{{32, 32, 32}, "DDDDDD", true}, Case{{64, 64, 64}, "DDDDDD"},
        Case{{64, 64, 64}, "DNPPRD", processes() == 2}, Case{{64, 64, 64}, "NNPPNN"},
        Case{{64, 64, 64}, "PPDNPP"}, Case{{80, 48, 72}, "DNDDRD"}, Case{{512, 256}, "PPDN", true},
        Case{{65536}, "DN", true}}) {
    if (!c.always && !thorough()) continue;
    const CartesianGrid g = make_grid(c.cells, c.conditions);
    const Operator op = -laplacian(g);
    const Solved one = solve(g, op, Serial{1});
    SCOPED_TRACE(c.conditions + " " + g.shape_text());
    EXPECT_LE(iterations(one), 15);
    std::vector<Serial> wanted{{2}, {3}, {5}};
    if (g.dims() == 2) wanted = {{3}, {0, {2, 2, 1}}};
    if (g.dims() == 3) wanted.push_back({0, {2, 1, 2}}), wanted.push_back({0, {3, 2, 1}});
    if (c.cells[0] == 64 && c.conditions != "DDDDDD") wanted = {{3}, {0, {3, 2, 1}}};
    for (const AnyBackend& p : cuts(g, wanted)) {
      const Solved got = solve(g, op, p);
      EXPECT_TRUE(same_bits(got.history, one.history)) << "parts " << got.parts[0];
      EXPECT_TRUE(same_bits(got.u, one.u)) << "parts " << got.parts[0];
      // 64^3 has a second level of 32^3: that one is cut too, and none below.
      if (c.cells[0] == 64) {
        EXPECT_EQ(got.parts[1], got.parts[0]);
        EXPECT_EQ(got.parts[2], 1);
      }
    }
    if (process() == 0)
      std::printf("%-14s %-6s %2d iterations\n", g.shape_text().c_str(), c.conditions.c_str(),
                  iterations(one));
  }
}

/// Dimensions with an odd number of cells stay: semi-coarsening. Anisotropic operators are what point
/// smoothing is bad at, so the counts are larger there; the bits are not another matter.
TEST(GridMultigrid, SemiCoarsensOddExtents) {
  for (const std::vector<std::int64_t>& cells :
       {std::vector<std::int64_t>{25, 16, 5}, {64, 7, 96}, {9, 64, 64}}) {
    if (cells[0] == 9 && !thorough()) continue;
    const CartesianGrid g = make_grid(cells, "DNPPRD");
    const Operator op = -diffusion(Coefficient(g, random_cells<double>(g, 90, 0.2, 3)), Mean::harmonic);
    const Solved one = solve(g, op, Serial{1});
    EXPECT_GE(one.parts.size(), 3u);
    for (const AnyBackend& p : cuts(g, {Serial{2}, Serial{3}, Serial{0, {2, 2, 2}}})) {
      const Solved got = solve(g, op, p);
      EXPECT_TRUE(same_bits(got.history, one.history)) << g.shape_text();
    }
    if (process() == 0) std::printf("%-14s %2d iterations\n", g.shape_text().c_str(), iterations(one));
  }
}

/// Boxes of an eighth of the length, every third one with the contrast. Interpolation that ignored the
/// coefficient would need hundreds of iterations, or never end.
TEST(GridMultigrid, JumpsOfTheCoefficientDoLittleHarm) {
  for (const Mean mean : {Mean::harmonic, Mean::arithmetic})
    for (const double contrast : {1e4, 1.0, 1e7}) {
      if (!thorough() && (mean == Mean::arithmetic || contrast != 1e4)) continue;
      const CartesianGrid g = make_grid({32, 32, 32}, "DDDDDD");
      std::vector<double> kappa;
      for (std::int64_t c = 0; c < g.cell_count(); ++c) {
        const std::int64_t box = c % 32 / 4 + 2 * (c / 32 % 32 / 4) + 4 * (c / 1024 / 4);
        kappa.push_back(box % 3 == 0 ? contrast : 1);
      }
      const Operator op = -diffusion(Coefficient(g, kappa), mean);
      const Solved one = solve(g, op, Serial{1});
      // An arithmetic face between two boxes conducts half as well as the better one: the harder problem.
      EXPECT_LE(iterations(one), mean == Mean::harmonic ? 24 : 250) << contrast;
      for (const AnyBackend& p : cuts(g, {{3}, {0, {2, 1, 2}}}))
        EXPECT_TRUE(same_bits(solve(g, op, p).history, one.history)) << p.text();
      if (process() == 0)
        std::printf("contrast %g, %s means: %d iterations\n", contrast,
                    mean == Mean::harmonic ? "harmonic" : "arithmetic", iterations(one));
    }
}

/// At a contrast of 1e7 the residual stops falling: what is left is A times the rounding of u to a double, so
/// no method that returns u in double gets below. The floor is measured: half a unit in the last place of
/// every cell, with random signs, through A.
TEST(GridMultigrid, StopsWhereTheRoundingOfTheSolutionIs) {
  const CartesianGrid g = make_grid({64, 64, 64}, "DDDDDD");
  std::vector<double> kappa(static_cast<std::size_t>(g.cell_count()));
  for (std::int64_t i = 0; i < g.cell_count(); ++i) {
    const std::int64_t x = i % 64, y = i / 64 % 64, z = i / 4096;
    kappa[static_cast<std::size_t>(i)] = (x / 8 + 2 * (y / 8) + 4 * (z / 8)) % 3 == 0 ? 1e7 : 1;
  }
  const Operator op = -diffusion(Coefficient(g, kappa), Mean::harmonic);
  const Blocks blocks(g, Serial{1});
  PreparedOperator<double> a(op, blocks);
  Multigrid<double> m(op, blocks);
  SolverOptions<double> options;
  options.rtol = 1e-12;
  options.preconditioner = m.preconditioner();
  Field<double> u(blocks, "u"), f = make_field(blocks, random_cells<double>(g, 1), "f");
  u.fill(0);
  const SolverResult result = conjugate_gradient(a, u, f, options);
  EXPECT_TRUE(result.stagnated) << result.reason();
  EXPECT_LT(result.iterations, 100);
  std::vector<double> rounding = u.gather();
  for (std::size_t i = 0; i < rounding.size(); ++i) {
    const double size = std::abs(rounding[i]);
    rounding[i] = random_value(i, 7) * (std::nextafter(size, 1e300) - size) / 2;
  }
  Field<double> e = make_field(blocks, rounding, "rounding"), ae(blocks, "A rounding");
  a.apply(ae, e);
  const double floor = norm2(ae);
  std::printf("contrast 1e7: |f - A u| %.1e of |f| after %d iterations; rounding u alone: %.1e of |f|\n",
              result.true_residual / norm2(f), static_cast<int>(result.iterations), floor / norm2(f));
  EXPECT_LT(result.true_residual, 8 * floor);
  EXPECT_GT(result.true_residual, floor / 8);
}

TEST(GridMultigrid, CutLevelsRunOnDevicesWithoutARace) {
  for (const std::string conditions : {"PPDN", "RDPP"}) {
    const CartesianGrid g = make_grid({384, 352}, conditions);  // two levels of at least 32^3 cells
    const Operator op = -diffusion(Coefficient(g, random_cells<double>(g, 90, 0.2, 3))) + 2.0 * identity();
    const Solved one = solve(g, op, Serial{1});
    for (const std::string spec : {"host:2x1", "sim:3"}) {
      for (const AnyBackend& backend : cuts_on(spec, g, {{3}, {0, {2, 2, 1}}})) {
        const Solved got = solve(g, op, backend);
        EXPECT_EQ(got.parts[1], got.parts[0]);
        EXPECT_TRUE(same_bits(got.history, one.history)) << spec;
        EXPECT_TRUE(same_bits(got.u, one.u)) << spec;
      }
    }
  }
}

TEST(GridMultigrid, RefusesWhatItCannotHalve) {
  const auto code = [](auto&& f) {
    try {
      f();
    } catch (const GridError& error) {
      return error.code();
    }
    return GridErrorCode::singular;
  };
  const CartesianGrid odd = make_grid({45, 45}, "DDDD"), even = make_grid({32, 32}, "DDDD");
  const Blocks odd_blocks(odd, cut(odd, {2})), blocks(even, cut(even, {2}));
  EXPECT_EQ(code([&] { Multigrid<double>(-laplacian(odd), odd_blocks); }), GridErrorCode::bad_argument);
  EXPECT_EQ(code([&] { Multigrid<double>(derivative(even, 0), blocks); }), GridErrorCode::bad_argument);
}

TEST(GridMultigrid, RunsOnDevicesWithoutARace) {
  const CartesianGrid g = make_grid({8, 12, 10}, "DNPPRD");
  const Operator op =
      -diffusion(Coefficient(g, random_cells<double>(g, 90, 0.2, 3)), Mean::harmonic) + 2.0 * identity();
  const auto solve = [&](const Blocks& blocks) {
    PreparedOperator<double> a(op, blocks);
    Multigrid<double> m(op, blocks);
    Field<double> u(blocks, "u");
    u.fill(0);
    SolverOptions<double> options;
    options.preconditioner = m.preconditioner();
    EXPECT_TRUE(
        conjugate_gradient(a, u, make_field(blocks, random_cells<double>(g, 5), "f"), options).converged);
    return u.gather();
  };
  const std::vector<double> expected = solve(Blocks(g, Serial{1}));
  for (const std::string spec : {"host:2x1", "sim:3"}) {
    for (const AnyBackend& backend : cuts_on(spec, g, {{3}, {5}, {0, {2, 1, 2}}})) {
      const Blocks blocks(g, backend);
      EXPECT_TRUE(same_bits(solve(blocks), expected)) << spec;
      blocks.synchronize();
      if (!blocks.sim_world()) continue;
      for (const RaceReport& race : blocks.sim_world()->races()) ADD_FAILURE() << race.text;
    }
  }
}

}  // namespace
}  // namespace shardwise::grid_test
