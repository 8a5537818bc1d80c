#pragma once
// A tree that is ready to run: one Term a node.

#include <optional>

#include "grid/field_sums.hpp"
#include "grid/halo_exchange.hpp"
#include "grid/leaf_launch.hpp"
#include "shardwise/grid/prepared_operator.hpp"

namespace shardwise {

/// A coefficient cut into blocks, with the ghosts of cuts filled: one field a component.
template <class T>
struct PreparedCoefficient {
  std::shared_ptr<const Coefficient> source;
  std::vector<Field<T>> components;
};

/// Small per-part arrays: offsets, fluxes and given coefficients of walls.
template <class T>
struct WallArrays {
  QueuedBuffer<T> buffer;
  const T* pointer[3][2] = {};
};

template <class T>
struct Term {
  NodeKind kind = NodeKind::identity;
  OperatorNode node;
  std::string path;
  T factor = 1;
  bool transposed = false;  ///< an adjoint in reduce form
  int coefficient = -1;     ///< index in PreparedState
  std::unique_ptr<Term> a, b;
  std::optional<Field<T>> intermediate;  ///< of composed: b's result
  std::optional<Field<T>>
      scratch;  ///< padded: of user leaves, and of reduce forms but where a gather does all
  std::vector<LeafCall<T>> calls;    ///< one a local part, of stencils
  std::vector<WallArrays<T>> given;  ///< one a local part, of diffusions with given wall coefficients

  bool is_stencil() const {
    return kind == NodeKind::laplacian || kind == NodeKind::difference || kind == NodeKind::diffusion ||
           kind == NodeKind::advection || kind == NodeKind::advection_adjoint;
  }
};

template <class T>
struct PreparedState {
  PreparedState(const Operator& o, const Blocks& b, const PrepareOptions& p)
      : op(o), blocks(b), options(p), halo(b, b.layout()) {}

  Operator op;
  Blocks blocks;
  PrepareOptions options;
  HaloExchange<T> halo;
  std::optional<HaloExchange<T>> padded_halo;
  std::vector<PreparedCoefficient<T>> coefficients;
  std::vector<WallArrays<T>> shifts, fluxes;  ///< one a local part; empty until something is not zero
  std::unique_ptr<Term<T>> forward, transposed;
  std::exception_ptr no_adjoint;  ///< why there is none
  OperatorStats stats;

  /// A field's exchange in one segment: done at most once.
  struct Segment {
    bool exchanged = false;
  };
  void run(Term<T>& term, FieldStorage<T>& y, FieldStorage<T>& x, T alpha, T beta, Segment& segment);
  void run_lift(Term<T>& term, FieldStorage<T>& y, T alpha, T beta);
  void run_diagonal(Term<T>& term, FieldStorage<T>& y, T alpha, T beta);
  /// With `sums`: the launches add x . y up on the way where they can all do that; whether they did.
  bool run_stencil(Term<T>& term, FieldStorage<T>& y, FieldStorage<T>& x, T alpha, T beta, Segment& segment,
                   FieldSums* sums = nullptr);
  /// y <- L x, and x . y is on its way in `sums`; false: y is right, but x . y is still to be summed.
  bool run_with_dot(FieldStorage<T>& y, FieldStorage<T>& x, FieldSums& sums);
  void run_transposed(Term<T>& term, FieldStorage<T>& y, FieldStorage<T>& x, T alpha, T beta);
  void run_user(Term<T>& term, FieldStorage<T>& y, FieldStorage<T>& x, T alpha, T beta);
  void run_user_on_scratch(Term<T>& term, FieldStorage<T>& y, T alpha, T beta);
  void run_scaling(Term<T>& term, FieldStorage<T>& y, const FieldStorage<T>& x, T alpha, T beta);
  /// y <- beta y, also where that is 0.
  void scale_only(FieldStorage<T>& y, T beta);
  void exchange(FieldStorage<T>& x, Segment& segment);
  void enqueue_call(const Term<T>& term, std::size_t b, const LeafCall<T>& call, const char* name,
                    std::initializer_list<Access> accesses, const FieldSums* sums = nullptr);
  Term<T>& single_diffusion(T& factor, const char* call);
  void run_kappa(LeafAction action, FieldStorage<T>& g, FieldStorage<T>& w, FieldStorage<T>& u,
                 int component);
};

/// The state of a PreparedOperator, for the solvers.
struct OperatorInternals {
  template <class T>
  static PreparedState<T>& state(PreparedOperator<T>& a) {
    return *a.state_;
  }
};

/// a.apply(y, x) and x . y, in one pass where the operator is one leaf that the device can sum over.
template <class T>
double apply_with_dot(PreparedOperator<T>& a, Field<T>& y, const Field<T>& x, FieldSums& sums);

/// Builds the terms of a normalized tree: allocates, cuts coefficients, exchanges their ghosts.
template <class T>
std::unique_ptr<Term<T>> build_term(PreparedState<T>& state, const Operator& op, const std::string& path);
/// Offsets and fluxes of the walls of every part; leaves them empty where all conditions are homogeneous.
template <class T>
void build_wall_arrays(PreparedState<T>& state);
/// Puts the owned values of a coefficient into a field and exchanges its ghosts.
template <class T>
void exchange_coefficient(PreparedState<T>& state, Field<T>& field);

}  // namespace shardwise
