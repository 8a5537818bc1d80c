#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shardwise/grid/field.hpp"
#include "shardwise/grid/operator.hpp"

namespace shardwise {

/// How the adjoint of a leaf that reads ghosts runs. `owner`: as a forward stencil of the exchanged input,
/// with the same bits for every partition; a leaf without such a form uses `reduce`: gather over the padded
/// block, fold the walls, add what belongs to neighbours (equal to rounding, reproducible).
enum class AdjointForm { owner, reduce };

/// Whether cells away from cuts are computed while ghosts travel. automatic: for large blocks.
enum class Overlap { automatic, off, on };

/// Whether preparing tries out what leaves of your own claim (linear, self_adjoint) on random fields.
/// automatic: in debug builds of the library.
enum class Claims { automatic, trust, check };

struct PrepareOptions {
  AdjointForm adjoint = AdjointForm::owner;
  Overlap overlap = Overlap::automatic;
  bool need_adjoint = false;   ///< refuse an operator without one now, not at apply_adjoint()
  bool plain_kernels = false;  ///< one thread a cell in place of the tuned schedules; same bits
  Claims claims = Claims::automatic;
};

/// Counted since the preparation.
struct OperatorStats {
  std::int64_t applies = 0;
  std::int64_t exchanges = 0;  ///< halo exchanges; see the table in docs/grid.md for how many an apply needs
  std::int64_t reduces = 0;    ///< transposed exchanges, of reduce-form adjoints
  std::int64_t launches = 0;   ///< kernels, all parts together, exchanges apart
};

template <class T>
struct PreparedState;
struct OperatorInternals;

/// An operator that is ready to run on blocks: checked, cut, with every intermediate and buffer allocated.
/// apply() allocates no device memory. Calls enqueue and return; results are ready once something waits
/// (Field::gather(), Blocks::synchronize()). One thread at a time.
template <class T>
class PreparedOperator {
 public:
  /// Throws GridError: different_grids, not_distributable, no_adjoint and not_linear (need_adjoint), naming
  /// the node, before anything is allocated; false_claim where one was tried and does not hold.
  PreparedOperator(const Operator& op, const Blocks& blocks, const PrepareOptions& options = {});
  PreparedOperator(PreparedOperator&&) noexcept;
  PreparedOperator& operator=(PreparedOperator&&) noexcept;
  ~PreparedOperator();

  /// y <- alpha L(x) + beta y on owned cells, L the linear part. y is not read where beta is 0. Ghosts of x
  /// are overwritten. Throws wrong_blocks, aliasing.
  void apply(Field<T>& y, const Field<T>& x, T alpha = 1, T beta = 0);
  /// x <- alpha L^T(y) + beta x. Throws no_adjoint, not_linear too.
  void apply_adjoint(Field<T>& x, const Field<T>& y, T alpha = 1, T beta = 0);
  /// b <- L_full(0), the lift of the boundary values.
  void boundary_rhs(Field<T>& b);
  /// out <- f - b: the right-hand side of L u = f - b.
  void assemble_rhs(Field<T>& out, const Field<T>& f);
  /// The diagonal of L. Throws no_diagonal, naming the node.
  void diagonal(Field<T>& d);

  /// Coefficients in the order in which the tree names them: how many, and one of them.
  int coefficients() const;
  /// New values of coefficient `which`, component `component`; exchanged once, nothing is prepared again.
  void update_coefficient(const Field<T>& values, int which = 0, int component = 0);
  /// g <- d<ybar, L u>/d kappa for the diffusion coefficient `which`, of an operator that is that Diffusion
  /// or a multiple of it. Owner-computes: the same bits for every partition. The branch of extrapolated wall
  /// coefficients is frozen.
  void coefficient_gradient(Field<T>& g, const Field<T>& ybar, const Field<T>& u, int component = 0);
  /// The same by scattering each face's halves over the padded block and adding ghosts to their owners.
  void coefficient_gradient_scatter(Field<T>& g, const Field<T>& ybar, const Field<T>& u, int component = 0);

  const Operator& op() const;
  const Blocks& blocks() const;
  const OperatorStats& stats() const;
  void reset_stats();

 private:
  friend struct OperatorInternals;
  std::unique_ptr<PreparedState<T>> state_;
};

extern template class PreparedOperator<float>;
extern template class PreparedOperator<double>;

}  // namespace shardwise
