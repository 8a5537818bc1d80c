#pragma once

#include <memory>

#include "shardwise/grid/solvers.hpp"

namespace shardwise {

template <class T>
struct MultigridState;

/// A V-cycle as a preconditioner for CG: symmetric and positive where the operator is.
///
/// Levels halve every dimension that has an even number of cells (the others stay: semi-coarsening), with the
/// same conditions and coefficients averaged over the cells that become one. Smoothing is damped Jacobi,
/// twice before and after, factor 2N/(2N + 1) in N dimensions. Prolongation is linear, 3/4 and 1/4 in each
/// dimension, with homogeneous ghosts; restriction its transpose times 2^-(halved dimensions). The coarsest
/// level is solved by an inverse that is computed once.
///
/// All levels live on the first part's device; residuals are gathered there and corrections sent back, so the
/// cycle is the same, bit for bit, for every partition, but it does not get faster with devices.
template <class T>
class Multigrid {
 public:
  /// For trees of Laplacian, Diffusion, Scaling, Identity, sums and multiples. Throws bad_argument for
  /// others, naming the node, and where more than 1,000 cells are left that cannot be halved.
  Multigrid(const Operator& op, const Blocks& blocks);
  Multigrid(Multigrid&&) noexcept;
  ~Multigrid();

  /// z <- one V-cycle for A z = r, from 0.
  void apply(Field<T>& z, const Field<T>& r);
  /// For SolverOptions; refers to this object.
  Preconditioner<T> preconditioner() {
    return [this](Field<T>& z, const Field<T>& r) { apply(z, r); };
  }
  int levels() const;

 private:
  std::unique_ptr<MultigridState<T>> state_;
};

extern template class Multigrid<float>;
extern template class Multigrid<double>;

}  // namespace shardwise
