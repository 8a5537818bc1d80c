// What apply() promises besides its numbers: what it leaves alone, what it does not remember, and that claims
// of user leaves are tried.

#include <gtest/gtest.h>

#include <cmath>

#include "grid/backends.hpp"
#include "shardwise/grid/grid_error.hpp"

namespace shardwise::grid_test {
namespace {

std::vector<Operator> trees(const CartesianGrid& g) {
  const Operator l = laplacian(g), d = diffusion(Coefficient(g, random_cells<double>(g, 90, 0.2, 3)));
  const Operator c = derivative(g, 0), up = derivative(g, 1, Difference::upwind_plus);
  return {2.0 * l + d - identity(), compose(c, l) + 0.5 * d,
          compose(scaling(3), d) - compose(l, scaling(0.5)), adjoint(compose(c, l)) + adjoint(up),
          adjoint(up) + adjoint(c) + l};
}

TEST(GridContract, TreesAndTheirAdjointsBlend) {
  const CartesianGrid g = make_grid({7, 6, 5}, "DNPPRD");
  const std::vector<double> x = random_cells<double>(g, 1), y = random_cells<double>(g, 2);
  for (const AnyBackend& p : cuts(g, {Serial{1}, Serial{3}, Serial{0, {2, 2, 1}}})) {
    const Blocks blocks(g, p);
    for (const Operator& op : trees(g))
      for (const bool back : {false, true}) {
        SCOPED_TRACE(op.text());
        PreparedOperator<double> a(op, blocks);
        const auto run = [&](double alpha, double beta) {
          Field<double> fx = make_field(blocks, x, "x"), out(blocks, "out");  // NaN
          if (beta != 0) out.scatter_global(y);
          back ? a.apply_adjoint(out, fx, alpha, beta) : a.apply(out, fx, alpha, beta);
          EXPECT_TRUE(same_bits(fx.gather(), x)) << "the input is left alone";
          return out.gather();
        };
        const std::vector<double> value = run(1, 0);
        const double size = max_abs(value) + 1;
        for (const auto& [alpha, beta] : {std::pair{0.0, 1.0}, std::pair{0.0, 0.0}, std::pair{2.0, -0.5}}) {
          std::vector<double> expected = value;
          for (std::size_t i = 0; i < expected.size(); ++i)
            expected[i] = alpha * value[i] + (beta == 0 ? 0 : beta * y[i]);
          EXPECT_LE(max_difference(run(alpha, beta), expected), 1e-13 * size) << alpha << " " << beta;
        }
      }
  }
}

TEST(GridContract, GhostsOfTheOutputAreLeftAlone) {
  const CartesianGrid g = make_grid({7, 6, 9}, "DNPPRD");
  for (const GhostLayout layout : {GhostLayout::planes, GhostLayout::padded, GhostLayout::pitched})
    for (const AnyBackend& p : cuts(g, {Serial{1}, Serial{3}, Serial{0, {2, 2, 1}}})) {
      const Blocks blocks(g, p, layout);
      for (const Operator& op : trees(g)) {
        PreparedOperator<double> a(op, blocks);
        const Field<double> x = make_field(blocks, random_cells<double>(g, 1), "x");
        Field<double> out(blocks, "out");
        for (const int part : blocks.local_parts())
          out.set_memory(part, std::vector<double>(static_cast<std::size_t>(out.layout(part).size), 7.25));
        a.apply(out, x);
        blocks.synchronize();
        std::int64_t ghosts = 0;
        for (const int part : blocks.local_parts()) {
          const BlockLayout& l = out.layout(part);
          std::vector<bool> owned(static_cast<std::size_t>(l.size));
          for (std::int64_t k = 0; k < l.cells[2]; ++k)
            for (std::int64_t j = 0; j < l.cells[1]; ++j)
              for (std::int64_t i = 0; i < l.cells[0]; ++i)
                owned[static_cast<std::size_t>(l.origin + i + j * l.stride[1] + k * l.stride[2])] = true;
          const std::vector<double> memory = out.memory(part);
          for (std::size_t i = 0; i < memory.size(); ++i) {
            if (owned[i]) continue;
            ++ghosts;
            ASSERT_EQ(memory[i], 7.25) << op.text();
          }
        }
        EXPECT_TRUE(ghosts > 0 || layout == GhostLayout::planes);
      }
    }
}

TEST(GridContract, OrderOfTermsAndEarlierCallsDoNotMatter) {
  const CartesianGrid g = make_grid({7, 6, 10}, "DNPPRD");
  const Operator l = laplacian(g), up = adjoint(derivative(g, 0, Difference::upwind_minus)),
                 c = adjoint(compose(derivative(g, 2), derivative(g, 1)));
  const std::vector<double> x = random_cells<double>(g, 1), other = random_cells<double>(g, 2);
  for (const AnyBackend& p : cuts(g, {Serial{1}, Serial{3}, Serial{0, {2, 2, 2}}})) {
    const Blocks blocks(g, p);
    std::vector<double> first;
    for (const Operator& op : {l + up + c, up + l + c, c + up + l, up + (c + l)}) {
      PreparedOperator<double> a(op, blocks);
      Field<double> fx = make_field(blocks, x, "x"), fo = make_field(blocks, other, "other"),
                    out(blocks, "out");
      a.apply(out, fx);
      const std::vector<double> once = out.gather();
      if (first.empty()) first = once;
      EXPECT_LE(max_difference(once, first), 1e-13 * max_abs(first));
      // 20 runs with other work in between: the same bits.
      for (int again = 0; again < 20; ++again) {
        a.apply_adjoint(out, fo);
        a.apply(out, fo, 2, 0);
        a.apply(out, fx);
        EXPECT_TRUE(same_bits(out.gather(), once));
      }
    }
  }
}

TEST(GridContract, ScatterAndGatherAreInverse) {
  const CartesianGrid g = make_grid({7, 11, 13}, "DNPPRD", 2);
  for (const GhostLayout layout : {GhostLayout::planes, GhostLayout::padded, GhostLayout::pitched})
    for (const AnyBackend& p : cuts(g, {{1}, {5}, {0, {3, 2, 1}}, {0, {2, 2, 2}}, {0, {3, 1, 2}}})) {
      const Blocks blocks(g, p, layout);
      const std::vector<double> x = random_cells<double>(g, 1);
      EXPECT_TRUE(same_bits(make_field(blocks, x, "x").gather(), x));
      // set() sees the global coordinates.
      Field<double> set(blocks, "set");
      const auto f = [](double a, double b, double c) { return std::sin(a) + 2 * b * c; };
      set.set(f);
      Field<double> whole(Blocks(g, Serial{1}), "whole");
      whole.set(f);
      EXPECT_TRUE(same_bits(set.gather(), whole.gather()));
    }
}

TEST(GridContract, OnePartIsTheGridItself) {
  const CartesianGrid g = make_grid({7, 6}, "DNPP");
  const Blocks blocks(g, Serial{1});
  EXPECT_EQ(blocks.local_grid(0).difference(g), "");
  EXPECT_FALSE(blocks.local_grid(0).part());
}

TEST(GridContract, DiagonalsOfSumsAndScalings) {
  for (const std::string conditions : {"DNPP", "RDNR"}) {
    const CartesianGrid g = make_grid({7, 1}, conditions);
    const std::vector<double> kappa = random_cells<double>(g, 90, 0.2, 3);
    const Coefficient k(g, kappa);
    const Operator op =
        2.0 * laplacian(g) - 0.5 * diffusion(k) + scaling(k) + compose(scaling(2), scaling(k));
    for (const int parts : {1, 2}) {
      const Blocks blocks(g, parts == 1 ? cut(g, {1}) : cut(g, {0, {parts, 1, 1}}));
      PreparedOperator<double> a(op, blocks);
      Field<double> d(blocks, "d"), out(blocks, "out");
      a.diagonal(d);
      const std::vector<double> diagonal = d.gather();
      for (std::size_t i = 0; i < diagonal.size(); ++i) {
        std::vector<double> unit(diagonal.size());
        unit[i] = 1;
        a.apply(out, make_field(blocks, unit, "unit"));
        EXPECT_NEAR(out.gather()[i], diagonal[i], 1e-13 * 1000) << conditions << " " << i;
      }
    }
  }
}

/// u_{i+1} - u_i and u^2: one linear but not symmetric, one neither.
UserLeaf leaf_of(const std::string& name, bool square, Traits traits) {
  UserLeaf leaf;
  leaf.name = name;
  leaf.traits = traits;
  leaf.run_double = [square](LaunchContext& context, const UserLeafCall<double>& call) {
    context.parallel_for(1, 1, [&](std::int64_t, std::int64_t) {
      for (std::int64_t j = 0; j < call.x.layout.cells[1]; ++j)
        for (std::int64_t i = 0; i < call.x.layout.cells[0]; ++i) {
          const double* const u = call.x.cell + i + j * call.x.layout.stride[1];
          const double value = square ? u[0] * u[0] : u[1] - u[0];
          double& y = call.y.cell[i + j * call.y.layout.stride[1]];
          y = call.beta == 0 ? call.alpha * value : call.alpha * value + call.beta * y;
        }
    });
  };
  return leaf;
}

TEST(GridContract, ClaimsOfUserLeavesAreTried) {
  const CartesianGrid g = make_grid({8, 6}, "PPDN");
  Traits linear, symmetric;
  linear.linear = true;
  symmetric.linear = symmetric.self_adjoint = true;
  const auto prepare = [&](const UserLeaf& leaf, Claims claims) {
    PrepareOptions options;
    options.claims = claims;
    PreparedOperator<double>(identity() + 2.0 * user_leaf(g, leaf), Blocks(g, cut(g, {2})), options);
  };
  const auto refused = [&](const UserLeaf& leaf, const std::string& text) {
    try {
      prepare(leaf, Claims::check);
      ADD_FAILURE() << "not refused: " << leaf.name;
    } catch (const GridError& error) {
      EXPECT_EQ(error.code(), GridErrorCode::false_claim);
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
      EXPECT_NE(error.node_path().find("Scaled"), std::string::npos) << error.node_path();
    }
  };
  prepare(leaf_of("difference", false, linear), Claims::check);
  prepare(leaf_of("square", true, {}), Claims::check);
  refused(leaf_of("difference", false, symmetric), "self-adjoint");
  refused(leaf_of("square", true, linear), "linear");
  prepare(leaf_of("square", true, linear), Claims::trust);
}

}  // namespace
}  // namespace shardwise::grid_test
