#include "grid/leaf_claims.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "shardwise/grid/grid_error.hpp"
#include "shardwise/grid/prepared_operator.hpp"
#include "shardwise/grid/solvers.hpp"
#include "shardwise/numeric/philox.hpp"

namespace shardwise {

namespace {

template <class T>
Field<T> random_field(const Blocks& blocks, std::uint32_t stream) {
  std::vector<T> values;
  const std::int64_t cells = blocks.grid().global_cell_count();
  values.reserve(static_cast<std::size_t>(cells));
  for (std::int64_t i = 0; i < cells; ++i)
    values.push_back(
        static_cast<T>(2 * philox(1, static_cast<std::uint64_t>(i), stream).uniform_double(0) - 1));
  Field<T> field(blocks, "probe");
  field.scatter_global(values);
  return field;
}

/// The leaf alone; its claims are what is being tried.
template <class T>
void check_leaf(const Operator& leaf, const Blocks& blocks, const std::string& path) {
  const UserLeaf& user = *leaf.node().user;
  if (!user.traits.linear && !user.traits.self_adjoint) return;
  PrepareOptions options;
  options.claims = Claims::trust;
  PreparedOperator<T> a(leaf, blocks, options);
  const Field<T> x = random_field<T>(blocks, 0x70010000), y = random_field<T>(blocks, 0x70020000);
  Field<T> ax(blocks, "probe"), ay(blocks, "probe"), sum(blocks, "probe"), difference(blocks, "probe");
  a.apply(ax, x);
  a.apply(ay, y);
  const double tolerance = 1e4 * static_cast<double>(std::numeric_limits<T>::epsilon());
  const auto refuse = [&](const char* claim, const char* test, double is) {
    throw GridError(
        GridErrorCode::false_claim,
        fmt::format("prepare: user leaf '{}' ({}) claims to be {}, but {} is {:.3g} of what it is "
                    "made of; mend the leaf or its traits",
                    user.name, path, claim, test, is),
        {is}, path);
  };
  if (user.traits.linear) {  // L(x - 2 y) - (L x - 2 L y)
    sum.copy_from(x);
    PreparedOperator<T> plus(identity(), blocks);
    plus.apply(sum, y, T(-2), T(1));
    a.apply(difference, sum);
    plus.apply(difference, ax, T(-1), T(1));
    plus.apply(difference, ay, T(2), T(1));
    const double size = norm2(ax) + 2 * norm2(ay), is = norm2(difference);
    if (!(is <= tolerance * size)) refuse("linear", "L(x - 2 y) - L(x) + 2 L(y)", is / size);
  }
  if (user.traits.self_adjoint) {
    const double left = dot(ax, y), right = dot(x, ay);
    const double size = norm2(ax) * norm2(y) + norm2(x) * norm2(ay), is = std::abs(left - right);
    if (!(is <= tolerance * size)) refuse("self-adjoint", "(L x) . y - x . (L y)", is / size);
  }
}

}  // namespace

template <class T>
void check_claims(const Operator& op, const Blocks& blocks, const std::string& path) {
  const std::string here = path + " / " + to_string(op.node().kind);
  if (op.node().kind == NodeKind::user) return check_leaf<T>(op, blocks, here);
  for (const Operator& child : op.node().children) check_claims<T>(child, blocks, here);
}

template void check_claims<float>(const Operator&, const Blocks&, const std::string&);
template void check_claims<double>(const Operator&, const Blocks&, const std::string&);

}  // namespace shardwise
