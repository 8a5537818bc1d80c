// Operators on ranks: the bits of one process, and transposes across ranks.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "grid/everything.hpp"
#include "grid/halo_exchange.hpp"
#include "grid/padded_fields.hpp"
#include "grid/rank_cases.hpp"
#include "shardwise/grid/solvers.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise::grid_test {
namespace {

template <class T>
void check_parity(const std::vector<std::int64_t>& cells, const std::string& conditions, int halo) {
  const CartesianGrid g = make_grid(cells, conditions, halo);
  const Blocks one(g, Serial{1});
  for (const LeafCase& c : leaf_cases(g)) {
    const bool reduce = c.name.starts_with("upwind");
    const auto expected = everything<T>(c.op, one, {}, true);
    for (const Mpi& backend : rank_backends(g.dims(), false)) {
      SCOPED_TRACE(c.name + " " + conditions + " " + text_of(backend));
      for (const Overlap overlap : {Overlap::off, Overlap::on}) {
        const Blocks blocks(g, backend);
        ASSERT_EQ(blocks.local_parts(), std::vector<int>{ranks().rank()});
        PrepareOptions options;
        options.overlap = overlap;
        const auto got = everything<T>(c.op, blocks, options, true);
        ASSERT_NO_FATAL_FAILURE(expect_everything(got, expected, reduce));
        if (blocks.sim_world())
          for (const RaceReport& race : blocks.sim_world()->races()) ADD_FAILURE() << race.text;
      }
    }
  }
}

TEST(GridRanks, HaveTheBitsOfOneProcess) {
  const std::string all = Blocks(make_grid({13}, "DN"), rank_backend()).transport();
  if (ranks().rank() == 0) std::printf("%s\n", all.c_str());
  check_parity<double>({13}, "DN", 1);
  check_parity<double>({11}, "PP", 2);
  check_parity<double>({9, 11}, "RDPP", 2);
  check_parity<float>({10, 13}, "DNRD", 1);
  check_parity<double>({7, 5, 11}, "DNPPRD", 1);
  check_parity<float>({6, 7, 10}, "PPNRPP", 1);
}

TEST(GridRanks, LayoutsAndReduceFormsAgreeWithOneProcess) {
  const CartesianGrid g = make_grid({8, 6, 11}, "DNPPRD");
  PrepareOptions reduce;
  reduce.adjoint = AdjointForm::reduce;
  for (const LeafCase& c : leaf_cases(g)) {
    const auto expected = everything<double>(c.op, Blocks(g, Serial{1}), {}, true);
    for (const GhostLayout layout : {GhostLayout::padded, GhostLayout::pitched}) {
      const auto got = everything<double>(c.op, Blocks(g, rank_backend(), layout), {}, true);
      for (std::size_t i = 0; i < got.size(); ++i)
        if (!c.name.starts_with("upwind") || i != 2) {
          EXPECT_TRUE(same_bits(got[i], expected[i])) << c.name << " " << to_string(layout) << " " << i;
        }
    }
    // dist_reduce: against one process to rounding, against itself in bits.
    for (const Mpi& backend : rank_backends(3, false)) {
      const Blocks blocks(g, backend);
      const auto first = everything<double>(c.op, blocks, reduce, false);
      EXPECT_LT(max_difference(first[2], expected[2]), 1e-11) << c.name << " " << text_of(backend);
      EXPECT_TRUE(same_bits(everything<double>(c.op, blocks, reduce, false)[2], first[2])) << c.name;
    }
  }
}

TEST(GridRanks, TreesExchangeAsTheTableSaysAndHaveTheBitsOfOneProcess) {
  const CartesianGrid g = make_grid({6, 8, 12}, "DNPPRD");
  const Operator l = laplacian(g), d = diffusion(Coefficient(g, random_cells<double>(g, 90, 0.2, 3))),
                 s = scaling(3.0);
  struct Row {
    Operator op;
    int exchanges;
  };
  const std::vector<Row> table{
      {l, 1},
      {2.0 * l + 3.0 * d + identity(), 1},
      {identity(), 0},
      {compose(l, l), 2},
      {compose(l, s), 1},
      {compose(s, l), 1},
      {l + compose(d, l), 2},
      {2.0 * l + compose(derivative(g, 2), l) - adjoint(compose(derivative(g, 0), s)), 2}};
  const Blocks one(g, Serial{1});
  for (const Row& row : table) {
    const auto expected = everything<double>(row.op, one, {}, true);
    for (const Mpi& backend : rank_backends(3, false)) {
      SCOPED_TRACE(row.op.text() + " " + text_of(backend));
      const Blocks blocks(g, backend);
      const auto got = everything<double>(row.op, blocks, {}, true);
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], expected[i])) << i;
      PreparedOperator<double> a(row.op, blocks);
      Field<double> x = make_field(blocks, random_cells<double>(g, 1), "x"), y(blocks, "y");
      a.reset_stats();
      a.apply(y, x);
      EXPECT_EQ(a.stats().exchanges, ranks().size() == 1 ? 0 : row.exchanges);
    }
  }
}

std::vector<double> contents(const Field<double>& field) {
  field.blocks().synchronize();
  return field.memory(ranks().rank());
}

TEST(GridRanks, ReduceIsTheTransposeOfScatterAcrossRanks) {
  for (const std::string conditions : {"DNDNDN", "PPPPPP", "PPDDRN"})
    for (const int h : {1, 2})
      for (const Mpi& backend : rank_backends(3)) {
        const CartesianGrid g = make_grid({8, 8, 10}, conditions, h);
        const Blocks blocks(g, backend);
        Field<double> x = random_padded(blocks, 1), y = random_padded(blocks, 2);
        const std::vector<double> x0 = contents(x), y0 = contents(y);
        HaloExchange<double> halo(blocks, GhostLayout::padded);
        halo.scatter(x.storage());
        halo.reduce(y.storage());
        const double left = rank_sum(inner(contents(x), y0)), right = rank_sum(inner(x0, contents(y)));
        const double size = std::sqrt(rank_sum(inner(x0, x0)) * rank_sum(inner(y0, y0)));
        EXPECT_NEAR(left, right, 1e-13 * size) << conditions << " halo " << h << " " << text_of(backend);
      }
}

TEST(GridRanks, EveryGhostIsTheRightCell) {
  for (const std::string conditions : {"DNDNDN", "PPPPPP"})
    for (const int h : {1, 2})
      for (const Mpi& backend : rank_backends(3, false)) {
        const CartesianGrid g = make_grid({8, 9, 10}, conditions, h);
        const Blocks blocks(g, backend);
        std::vector<double> numbers(static_cast<std::size_t>(g.cell_count()));
        for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
        Field<double> field(blocks, "numbers", GhostLayout::padded);
        field.scatter_global(numbers);
        EXPECT_TRUE(same_bits(field.gather(), numbers));
        const std::vector<double> on_root = field.gather(0);
        EXPECT_TRUE(ranks().rank() == 0 ? same_bits(on_root, numbers) : on_root.empty());
        HaloExchange<double>(blocks, GhostLayout::padded).scatter(field.storage());
        const std::vector<double> memory = contents(field);
        const CartesianGrid& b = blocks.local_grid(ranks().rank());
        const BlockLayout& l = field.layout(ranks().rank());
        for (int d = 0; d < 3; ++d)
          for (int side = 0; side < 2; ++side) {
            if (b.boundary(d, side).kind != BoundaryKind::interface) continue;
            for (std::int64_t layer = 0; layer < h; ++layer)
              for (std::int64_t q = 0; q < b.cells((d + 1) % 3); ++q)
                for (std::int64_t r = 0; r < b.cells((d + 2) % 3); ++r) {
                  std::int64_t p[3], global[3];
                  p[d] = side == 0 ? -1 - layer : b.cells(d) + layer;
                  p[(d + 1) % 3] = q;
                  p[(d + 2) % 3] = r;
                  std::int64_t at = l.origin;
                  for (int e = 0; e < 3; ++e) {
                    global[e] = (b.first(e) + p[e] + g.cells(e)) % g.cells(e);
                    at += p[e] * l.stride[static_cast<std::size_t>(e)];
                  }
                  ASSERT_EQ(
                      memory[static_cast<std::size_t>(at)],
                      static_cast<double>(global[0] + g.cells(0) * (global[1] + g.cells(1) * global[2])))
                      << text_of(backend) << " dimension " << d << " side " << side;
                }
          }
      }
}

/// <L u, w> with the operator, its adjoint, and d/dkappa: owner form in bits, scatter form to rounding, both
/// against a difference quotient.
TEST(GridRanks, TheCoefficientGradientIsOneProcess) {
  const CartesianGrid g = make_grid({8, 6, 10}, "DNPPRD");
  const std::vector<double> kappa = random_cells<double>(g, 90, 0.4, 2);
  const auto loss = [&](const Blocks& blocks, const std::vector<double>& k) {
    PreparedOperator<double> a(diffusion(Coefficient(g, k), Mean::harmonic), blocks);
    Field<double> u = make_field(blocks, random_cells<double>(g, 1), "u"), out(blocks, "out");
    a.apply(out, u);
    return dot(out, make_field(blocks, random_cells<double>(g, 2), "w"));
  };
  const auto gradients = [&](const Blocks& blocks) {
    PreparedOperator<double> a(diffusion(Coefficient(g, kappa), Mean::harmonic), blocks);
    Field<double> u = make_field(blocks, random_cells<double>(g, 1), "u"),
                  w = make_field(blocks, random_cells<double>(g, 2), "w"), out(blocks, "out");
    std::vector<std::vector<double>> result;
    a.coefficient_gradient(out, w, u);
    result.push_back(out.gather());
    a.coefficient_gradient_scatter(out, w, u);
    result.push_back(out.gather());
    // New values are exchanged once, and give what they give from the start.
    a.update_coefficient(make_field(blocks, random_cells<double>(g, 91, 0.4, 2), "kappa"));
    a.apply(out, u);
    result.push_back(out.gather());
    return result;
  };
  const auto expected = gradients(Blocks(g, Serial{1}));
  for (const Mpi& backend : rank_backends(3, false)) {
    const Blocks blocks(g, backend);
    const auto got = gradients(blocks);
    EXPECT_TRUE(same_bits(got[0], expected[0])) << text_of(backend);
    EXPECT_LT(max_difference(got[1], expected[0]), 1e-13 * max_abs(expected[0])) << text_of(backend);
    EXPECT_TRUE(same_bits(got[2], expected[2])) << text_of(backend);
  }
  const Blocks blocks(g, rank_backend());
  for (const std::size_t cell : {std::size_t{0}, std::size_t{77}, kappa.size() - 1}) {
    std::vector<double> up = kappa, down = kappa;
    const double step = 1e-4;
    up[cell] += step, down[cell] -= step;
    EXPECT_NEAR((loss(blocks, up) - loss(blocks, down)) / (2 * step), expected[0][cell],
                1e-5 * max_abs(expected[0]));
  }
}

}  // namespace
}  // namespace shardwise::grid_test
