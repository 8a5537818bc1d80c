// Leaves on one block against dense matrices: forward, adjoint in both forms, lift, diagonal.

#include <gtest/gtest.h>

#include "grid/backends.hpp"

namespace shardwise::grid_test {
namespace {

const std::vector<std::string> pairs{"PP", "DD", "DN", "ND", "NN", "RD", "NR", "CD"};

struct Shape {
  std::vector<std::int64_t> cells;
  std::string conditions;
};

std::vector<Shape> setups() {
  std::vector<Shape> all;
  for (const std::string& a : pairs) {
    all.push_back({{11}, a});
    for (const std::string& b : pairs) all.push_back({{7, 5}, a + b});
  }
  const char* some[] = {"PP", "DN", "RD"};
  for (const char* a : some)
    for (const char* b : some)
      for (const char* c : some) all.push_back({{5, 3, 4}, std::string(a) + b + c});
  all.push_back({{1}, "DN"});
  all.push_back({{1, 4}, "PPDD"});
  all.push_back({{2, 1, 3}, "RDNRDD"});
  return all;
}

bool has_conormal(const CartesianGrid& g) {
  for (int d = 0; d < g.dims(); ++d)
    for (int side = 0; side < 2; ++side)
      if (g.boundary(d, side).kind == BoundaryKind::conormal_flux) return true;
  return false;
}

TEST(GridLeaves, MatchDenseMatrices) {
  for (const Shape& setup : setups())
    for (const int halo : {1, 2}) {
      bool thin = false;
      for (const std::int64_t n : setup.cells) thin = thin || n < halo;
      if (thin) continue;
      const CartesianGrid g = make_grid(setup.cells, setup.conditions, halo);
      const Blocks blocks(g, Serial{1});
      const std::vector<double> x = random_cells<double>(g, 1), y = random_cells<double>(g, 2);
      for (const LeafCase& c : leaf_cases(g)) {
        SCOPED_TRACE(setup.conditions + " " + g.shape_text() + " halo " + std::to_string(halo) + " " +
                     c.name);
        const double size = max_abs(c.dense.a);
        Field<double> fx = make_field(blocks, x, "x"), fy = make_field(blocks, y, "y");
        Field<double> out(blocks, "out");
        for (const AdjointForm form : {AdjointForm::owner, AdjointForm::reduce}) {
          PreparedOperator<double> a(c.op, blocks, {form, Overlap::automatic, true, false});
          a.apply(out, fx);
          const std::vector<double> forward = out.gather();
          EXPECT_LE(max_difference(forward, multiply(c.dense, x)), 1e-13 * size);
          a.apply_adjoint(out, fy);
          const std::vector<double> back = out.gather();
          EXPECT_LE(max_difference(back, multiply(c.dense, y, true)), 1e-13 * size);
          EXPECT_LE(std::abs(inner(forward, y) - inner(x, back)), 1e-12 * norm(forward) * norm(y));
          if (form == AdjointForm::reduce) continue;
          std::vector<double> diagonal;
          for (std::int64_t i = 0; i < c.dense.n; ++i) diagonal.push_back(c.dense.at(i, i));
          a.diagonal(out);
          EXPECT_LE(max_difference(out.gather(), diagonal), 1e-13 * size);
          const bool takes_flux = c.name == "laplacian" || c.name.starts_with("diffusion");
          if (has_conormal(g) && !takes_flux && c.name != "scaling field") {
            EXPECT_THROW(a.boundary_rhs(out), GridError);
          } else {
            a.boundary_rhs(out);
            EXPECT_LE(max_difference(out.gather(), c.dense.lift), 1e-13 * (1 + max_abs(c.dense.lift)));
          }
        }
      }
    }
}

TEST(GridLeaves, BlendWithoutReadingWhereBetaIsZero) {
  const CartesianGrid g = make_grid({7, 5, 4}, "DNPPRD");
  const Blocks blocks(g, Serial{1});
  const std::vector<double> x = random_cells<double>(g, 1), y = random_cells<double>(g, 2);
  for (const LeafCase& c : leaf_cases(g))
    for (const bool back : {false, true}) {
      SCOPED_TRACE(c.name + (back ? " adjoint" : ""));
      PreparedOperator<double> a(c.op, blocks);
      const std::vector<double> value = multiply(c.dense, x, back);
      for (const auto& [alpha, beta] : {std::pair{1.0, 0.0}, std::pair{0.0, 1.0}, std::pair{0.0, 0.0},
                                        std::pair{2.0, -0.5}, std::pair{-1.5, 0.0}}) {
        Field<double> fx = make_field(blocks, x, "x");
        Field<double> out(blocks, "out");  // NaN
        if (beta != 0) out.scatter_global(y);
        back ? a.apply_adjoint(out, fx, alpha, beta) : a.apply(out, fx, alpha, beta);
        std::vector<double> expected = value;
        for (std::size_t i = 0; i < expected.size(); ++i)
          expected[i] = alpha * expected[i] + (beta == 0 ? 0 : beta * y[i]);
        EXPECT_LE(max_difference(out.gather(), expected), 1e-13 * max_abs(c.dense.a));
        EXPECT_TRUE(same_bits(fx.gather(), x));
      }
    }
}

TEST(GridLeaves, BoundaryValuesCellByCell) {
  GridSpec spec{{0, 0, 0}, {1, 1.1, 0.7}, {4, 3, 5}, {}, {}};
  const auto values = [](std::int64_t count, std::uint32_t what) {
    std::vector<double> v;
    for (std::int64_t i = 0; i < count; ++i) v.push_back(random_value(static_cast<std::uint64_t>(i), what));
    return v;
  };
  spec.boundaries = {
      {Boundary::dirichlet().with_values(values(15, 3)), Boundary::neumann().with_values(values(15, 4))},
      {Boundary::robin(1, 2, 0).with_values(values(20, 5)), Boundary::dirichlet(2)},
      {Boundary::conormal_flux().with_values(values(12, 6)),
       Boundary::dirichlet().with_values(values(12, 7))}};
  const CartesianGrid g(spec);
  const std::vector<double> kappa = random_cells<double>(g, 9, 0.5, 2);
  const Dense dense = dense_diffusion(g, kappa, 1, Mean::harmonic, WallCoefficient::Kind::extrapolate);
  std::vector<double> one_block;
  for (const AnyBackend& p : cuts(g, {{1}, {0, {1, 1, 3}}, {0, {2, 1, 2}}, {0, {1, 3, 1}}})) {
    SCOPED_TRACE(p.text());
    const Blocks blocks(g, p);
    PreparedOperator<double> a(diffusion(Coefficient(g, kappa), Mean::harmonic), blocks);
    Field<double> b(blocks, "b");
    a.boundary_rhs(b);
    EXPECT_LE(max_difference(b.gather(), dense.lift), 1e-12 * max_abs(dense.lift));
    if (one_block.empty()) one_block = b.gather();
    EXPECT_TRUE(same_bits(b.gather(), one_block));
  }
}

TEST(GridLeaves, RobinWithOneCoefficientIsDirichletOrNeumann) {
  EXPECT_EQ(Boundary::robin(1, 0, 3).difference(Boundary::dirichlet(3)), "");
  EXPECT_EQ(Boundary::robin(0, 1, 3).difference(Boundary::neumann(3)), "");
  EXPECT_EQ(Boundary::robin(2, 0, 3).difference(Boundary::dirichlet(1.5)), "");
}

}  // namespace
}  // namespace shardwise::grid_test
