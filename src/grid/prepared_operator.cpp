#include "shardwise/grid/prepared_operator.hpp"

#include <fmt/format.h>

#include "grid/leaf_claims.hpp"
#include "grid/operator_tree.hpp"
#include "grid/pointwise.hpp"
#include "grid/prepared_state.hpp"
#include "shardwise/grid/grid_error.hpp"

namespace shardwise {

namespace {

template <class T>
void check_fields(const PreparedState<T>& state, const Field<T>& out, const Field<T>& in, const char* call) {
  check_blocks(state.blocks, out, call);
  check_blocks(state.blocks, in, call);
  for (std::size_t b = 0; b < out.storage().local.size(); ++b) {
    const FieldBlock<T>& y = out.storage().local[b];
    const FieldBlock<T>& x = in.storage().local[b];
    if (y.buffer.data() == x.buffer.data())
      throw GridError(GridErrorCode::aliasing,
                      fmt::format("{}: input and output are the same field, {}; use another for the output",
                                  call, out.name()));
    const BlockLayout expected =
        block_layout(state.blocks.local_grid(y.part), state.blocks.layout(), sizeof(T));
    for (const auto* field : {&y, &x})
      if (field->layout.stride != expected.stride || field->layout.origin != expected.origin)
        throw GridError(
            GridErrorCode::wrong_blocks,
            fmt::format("{}: {} has another layout than its blocks ({}); make it without a layout of "
                        "its own",
                        call, field == &y ? out.name() : in.name(), to_string(state.blocks.layout())));
  }
}

}  // namespace

template <class T>
PreparedOperator<T>::PreparedOperator(const Operator& op, const Blocks& blocks,
                                      const PrepareOptions& options) {
  check_tree(op, blocks);
  const Operator forward = normalized(op, options.adjoint);
  std::exception_ptr no_adjoint;
  std::optional<Operator> transposed;
  try {
    transposed = normalized(adjoint(op), options.adjoint);
  } catch (const GridError&) {
    if (options.need_adjoint) throw;
    no_adjoint = std::current_exception();
  }
  const auto check_type = [](auto&& self, const Operator& node) -> void {
    if (node.node().kind == NodeKind::user) {
      const UserLeaf& leaf = *node.node().user;
      if (std::is_same_v<T, float> ? !leaf.run_float : !leaf.run_double)
        throw GridError(GridErrorCode::bad_argument,
                        fmt::format("prepare: user leaf {} has no code for {}", leaf.name,
                                    std::is_same_v<T, float> ? "float" : "double"));
    }
    for (const Operator& child : node.node().children) self(self, child);
  };
  check_type(check_type, op);
  state_ = std::make_unique<PreparedState<T>>(op, blocks, options);
  build_wall_arrays(*state_);
  state_->forward = build_term(*state_, forward, "root");
  if (transposed) state_->transposed = build_term(*state_, *transposed, "root");
  state_->no_adjoint = no_adjoint;
  blocks.synchronize();
#ifdef NDEBUG
  const bool check = options.claims == Claims::check;
#else
  const bool check = options.claims != Claims::trust;
#endif
  if (check) check_claims<T>(op, blocks, "root");
}

template <class T>
PreparedOperator<T>::PreparedOperator(PreparedOperator&&) noexcept = default;
template <class T>
PreparedOperator<T>& PreparedOperator<T>::operator=(PreparedOperator&&) noexcept = default;
template <class T>
PreparedOperator<T>::~PreparedOperator() = default;

template <class T>
void PreparedOperator<T>::apply(Field<T>& y, const Field<T>& x, T alpha, T beta) {
  check_fields(*state_, y, x, "apply");
  ++state_->stats.applies;
  typename PreparedState<T>::Segment segment;
  state_->run(*state_->forward, y.storage(), x.storage(), alpha, beta, segment);
}

template <class T>
void PreparedOperator<T>::apply_adjoint(Field<T>& x, const Field<T>& y, T alpha, T beta) {
  if (!state_->transposed) std::rethrow_exception(state_->no_adjoint);
  check_fields(*state_, x, y, "apply_adjoint");
  ++state_->stats.applies;
  typename PreparedState<T>::Segment segment;
  state_->run(*state_->transposed, x.storage(), y.storage(), alpha, beta, segment);
}

template <class T>
void PreparedOperator<T>::boundary_rhs(Field<T>& b) {
  check_blocks(state_->blocks, b, "boundary_rhs");
  state_->run_lift(*state_->forward, b.storage(), T(1), T(0));
}

template <class T>
void PreparedOperator<T>::assemble_rhs(Field<T>& out, const Field<T>& f) {
  check_fields(*state_, out, f, "assemble_rhs");
  boundary_rhs(out);
  enqueue_axpby(state_->blocks, out.storage(), f.storage(), T(1), T(-1));
}

template <class T>
void PreparedOperator<T>::diagonal(Field<T>& d) {
  check_blocks(state_->blocks, d, "diagonal");
  state_->run_diagonal(*state_->forward, d.storage(), T(1), T(0));
}

template <class T>
int PreparedOperator<T>::coefficients() const {
  return static_cast<int>(state_->coefficients.size());
}

template <class T>
void PreparedOperator<T>::update_coefficient(const Field<T>& values, int which, int component) {
  check_blocks(state_->blocks, values, "update_coefficient");
  const int count = coefficients();
  if (which < 0 || which >= count)
    throw GridError(GridErrorCode::bad_argument,
                    fmt::format("update_coefficient: coefficient {} of {}", which, count),
                    {static_cast<double>(which), static_cast<double>(count)});
  auto& components = state_->coefficients[static_cast<std::size_t>(which)].components;
  if (component < 0 || component >= static_cast<int>(components.size()))
    throw GridError(GridErrorCode::bad_argument,
                    fmt::format("update_coefficient: component {} of {}", component, components.size()),
                    {static_cast<double>(component), static_cast<double>(components.size())});
  Field<T>& field = components[static_cast<std::size_t>(component)];
  field.copy_from(values);
  exchange_coefficient(*state_, field);
}

template <class T>
void PreparedOperator<T>::coefficient_gradient(Field<T>& g, const Field<T>& ybar, const Field<T>& u,
                                               int component) {
  check_fields(*state_, g, u, "coefficient_gradient");
  check_fields(*state_, g, ybar, "coefficient_gradient");
  state_->run_kappa(LeafAction::kappa_gradient, g.storage(), ybar.storage(), u.storage(), component);
}

template <class T>
void PreparedOperator<T>::coefficient_gradient_scatter(Field<T>& g, const Field<T>& ybar, const Field<T>& u,
                                                       int component) {
  check_fields(*state_, g, u, "coefficient_gradient_scatter");
  check_fields(*state_, g, ybar, "coefficient_gradient_scatter");
  T factor = 1;
  state_->single_diffusion(factor, "coefficient_gradient_scatter");
  if (!state_->padded_halo) state_->padded_halo.emplace(state_->blocks, GhostLayout::pitched);
  Field<T> z(state_->blocks, "kappa scatter", GhostLayout::pitched);
  state_->run_kappa(LeafAction::kappa_scatter, z.storage(), ybar.storage(), u.storage(), component);
  if (state_->padded_halo->is_needed()) {
    state_->padded_halo->reduce(z.storage());
    ++state_->stats.reduces;
  }
  enqueue_axpby(state_->blocks, g.storage(), z.storage(), factor, T(0));
}

template <class T>
const Operator& PreparedOperator<T>::op() const {
  return state_->op;
}
template <class T>
const Blocks& PreparedOperator<T>::blocks() const {
  return state_->blocks;
}
template <class T>
const OperatorStats& PreparedOperator<T>::stats() const {
  return state_->stats;
}
template <class T>
void PreparedOperator<T>::reset_stats() {
  state_->stats = {};
}

template <class T>
double apply_with_dot(PreparedOperator<T>& a, Field<T>& y, const Field<T>& x, FieldSums& sums) {
  PreparedState<T>& state = OperatorInternals::state(a);
  check_fields(state, y, x, "apply");
  ++state.stats.applies;
  return state.run_with_dot(y.storage(), x.storage(), sums) ? sums.fused() : sums.dot(x, y);
}
template double apply_with_dot(PreparedOperator<float>&, Field<float>&, const Field<float>&, FieldSums&);
template double apply_with_dot(PreparedOperator<double>&, Field<double>&, const Field<double>&, FieldSums&);

template class PreparedOperator<float>;
template class PreparedOperator<double>;

}  // namespace shardwise
