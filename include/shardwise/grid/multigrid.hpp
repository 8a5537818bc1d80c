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
/// twice before and after, factor 2N/(2N + 1) in N dimensions. A fine cell takes its correction from the
/// coarse cell it lies in and from those it is close to, one in each dimension: a quarter each where the
/// coefficient is constant (exact for linear functions), else as continuity of the flux asks for, so that
/// counts depend little on jumps of the coefficient; with homogeneous ghosts. Restriction is the transpose
/// times 2^-(halved dimensions). The coarsest level is solved by an inverse that is computed once.
///
/// Every level with at least 32^3 cells is cut again, evenly, by the process grid of the blocks; smaller
/// ones, and those too thin for it, are one block on the first part. A cell sees the same operations on the
/// same values whatever the cuts are: the cycle is the same, bit for bit, for every partition.
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
  /// Parts of a level, 0 the finest. Throws std::out_of_range.
  int parts(int level) const;

 private:
  std::unique_ptr<MultigridState<T>> state_;
};

extern template class Multigrid<float>;
extern template class Multigrid<double>;

}  // namespace shardwise
