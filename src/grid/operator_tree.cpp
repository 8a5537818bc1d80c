#include "grid/operator_tree.hpp"

#include <fmt/format.h>

#include "shardwise/grid/grid_error.hpp"

namespace shardwise {

namespace {

Operator make(OperatorNode node) {
  return Operator(std::make_shared<const OperatorNode>(std::move(node)));
}

std::string child_path(const std::string& path, const OperatorNode& node, std::size_t child) {
  switch (node.kind) {
    case NodeKind::composed:
      return path + " / " + (child == 0 ? "Composed.outer" : "Composed.inner");
    case NodeKind::added:
      return fmt::format("{} / Added[{}]", path, child);
    default:
      return fmt::format("{} / {}", path, to_string(node.kind));
  }
}

Operator adjoint_of_leaf(const Operator& op, AdjointForm form, const std::string& path) {
  OperatorNode node = op.node();
  node.linear_only = true;
  switch (node.kind) {
    case NodeKind::scaling:
    case NodeKind::identity:
      return make(std::move(node));
    case NodeKind::user:
      if (node.user->traits.self_adjoint) return make(std::move(node));
      if (!node.user->traits.linear)
        throw GridError(GridErrorCode::not_linear,
                        fmt::format("adjoint: {} ({}) does not claim to be linear; linearise it first, for "
                                    "example (L(u0 + e v) - L(u0)) / e with e = sqrt(eps) (1 + |u0|) / |v|",
                                    node.user->name, path),
                        {}, path);
      throw GridError(GridErrorCode::no_adjoint,
                      fmt::format("adjoint: {} ({}) has none; only leaves that claim to be self-adjoint and "
                                  "the leaves of the library have one",
                                  node.user->name, path),
                      {}, path);
    default:
      break;
  }
  if (form == AdjointForm::owner) {
    if (op.traits().self_adjoint) return make(std::move(node));
    if (node.kind == NodeKind::difference && node.difference == Difference::centred) {
      node.negate_walls = !node.negate_walls;
      return -1.0 * make(std::move(node));
    }
    if (node.kind == NodeKind::advection) {
      node.kind = NodeKind::advection_adjoint;
      node.negate_walls = true;
      return make(std::move(node));
    }
  }
  return adjoint(op);
}

Operator push(const Operator& op, bool transposed, AdjointForm form, const std::string& path) {
  const OperatorNode& n = op.node();
  switch (n.kind) {
    case NodeKind::adjoint:
      return push(n.children[0], !transposed, form, child_path(path, n, 0));
    case NodeKind::scaled:
      return n.factor * push(n.children[0], transposed, form, child_path(path, n, 0));
    case NodeKind::added:
      return push(n.children[0], transposed, form, child_path(path, n, 0)) +
             push(n.children[1], transposed, form, child_path(path, n, 1));
    case NodeKind::composed: {
      const Operator a = push(n.children[0], transposed, form, child_path(path, n, 0));
      const Operator b = push(n.children[1], transposed, form, child_path(path, n, 1));
      return transposed ? compose(b, a) : compose(a, b);
    }
    default:
      return transposed ? adjoint_of_leaf(op, form, path) : op;
  }
}

void check(const Operator& op, const Blocks& blocks, const std::string& path) {
  const OperatorNode& n = op.node();
  if (n.kind == NodeKind::user && !n.user->distributable && blocks.partition().parts() > 1)
    throw GridError(
        GridErrorCode::not_distributable,
        fmt::format("prepare: {} ({}) cannot run on {} blocks: it says that it needs the whole grid. "
                    "What can: Laplacian, Derivative, Diffusion, Advection, Scaling, Identity, user "
                    "leaves that are distributable, and their sums, multiples, products, adjoints",
                    n.user->name, path, blocks.partition().parts()),
        {static_cast<double>(blocks.partition().parts())}, path);
  const auto same = [&](const CartesianGrid& grid, const char* what) {
    const std::string difference = grid.difference(blocks.grid());
    if (!difference.empty())
      throw GridError(GridErrorCode::different_grids,
                      fmt::format("prepare: the {} of {} ({}) is another grid than the blocks': {}", what,
                                  op.text(), path, difference),
                      {}, path);
  };
  if (n.grid) same(*n.grid, "grid");
  if (n.coefficient) same(n.coefficient->grid(), "coefficient");
  for (std::size_t i = 0; i < n.children.size(); ++i) check(n.children[i], blocks, child_path(path, n, i));
}

}  // namespace

Operator normalized(const Operator& op, AdjointForm form) {
  return push(op, false, form, "root");
}

void check_tree(const Operator& op, const Blocks& blocks) {
  check(op, blocks, "root");
}

}  // namespace shardwise
