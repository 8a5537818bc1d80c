#pragma once
// All that an operator computes on some blocks, for comparison of bits.

#include "grid/grid_cases.hpp"

namespace shardwise::grid_test {

/// Forward, owner adjoint, lift, assembled right-hand side and kappa gradient.
template <class T>
std::vector<std::vector<T>> everything(const Operator& op, const Blocks& blocks,
                                       const PrepareOptions& options, bool lift) {
  const CartesianGrid& g = blocks.grid();
  PreparedOperator<T> a(op, blocks, options);
  Field<T> x = make_field(blocks, random_cells<T>(g, 1), "x");
  Field<T> y = make_field(blocks, random_cells<T>(g, 2), "y");
  Field<T> out(blocks, "out");
  std::vector<std::vector<T>> result;
  a.apply(out, x);
  result.push_back(out.gather());
  a.apply(out, y, T(1.5), T(-0.25));
  result.push_back(out.gather());
  a.apply_adjoint(out, y);
  result.push_back(out.gather());
  if (lift) {
    a.boundary_rhs(out);
    result.push_back(out.gather());
    a.assemble_rhs(out, y);
    result.push_back(out.gather());
  }
  if (op.node().kind == NodeKind::diffusion) {
    a.coefficient_gradient(out, y, x);
    result.push_back(out.gather());
  }
  return result;
}

/// The outputs of everything() are those of one block, bit by bit; of a reduce form the adjoint (2) is a sum
/// in another order, and near it.
template <class T>
void expect_everything(const std::vector<std::vector<T>>& got, const std::vector<std::vector<T>>& expected,
                       bool reduce) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (reduce && i == 2) {
      EXPECT_LT(max_difference(got[i], expected[i]), (sizeof(T) == 4 ? 1e-4 : 1e-12)) << i;
    } else {
      EXPECT_TRUE(same_bits(got[i], expected[i]))
          << "output " << i << " differs by " << max_difference(got[i], expected[i]);
    }
  }
}

}  // namespace shardwise::grid_test
