#pragma once
// Checks and rewrites on whole trees, before anything is cut or allocated.

#include "shardwise/grid/blocks.hpp"
#include "shardwise/grid/prepared_operator.hpp"

namespace shardwise {

/// Pushes adjoints to the leaves and replaces Adjoint(leaf) by its owner-computes form where it has one and
/// `form` allows: what is left under an Adjoint runs in reduce form. Throws no_adjoint and not_linear.
///
///     leaf                         owner-computes adjoint
///     Laplacian, second            itself
///     difference, Diffusion
///     Scaling, Identity            itself
///     Derivative (centred)         minus itself with the wall multipliers negated
///     Advection(v)                 minus div(v .), wall multipliers negated
///     upwind differences           none
///     UserLeaf                     itself where it claims to be self-adjoint, else none at all: an error
Operator normalized(const Operator& op, AdjointForm form);

/// Every node can run on these blocks, and sits on their grid. Throws not_distributable, different_grids.
void check_tree(const Operator& op, const Blocks& blocks);

}  // namespace shardwise
