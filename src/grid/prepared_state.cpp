// The walk: terms onto streams.

#include "grid/prepared_state.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "grid/pointwise.hpp"
#include "shardwise/grid/grid_error.hpp"

namespace shardwise {

namespace {

/// From this many cells a block overlaps its exchange with the cells that do not need it.
constexpr std::int64_t overlap_from_cells = std::int64_t{1} << 24;

/// The cells that read no interface ghost, and what is left as disjoint boxes.
struct Split {
  CellBox interior;
  std::vector<CellBox> shell;
};

Split split(const CartesianGrid& grid) {
  Split result;
  CellBox inner{{0, 0, 0}, {grid.cells(0), grid.cells(1), grid.cells(2)}};
  // From the slowest dimension on: its low and high planes over what is left of the others.
  for (int d = grid.dims() - 1; d >= 0; --d)
    for (int side = 0; side < 2; ++side) {
      if (grid.boundary(d, side).kind != BoundaryKind::interface || inner.size(d) == 0) continue;
      CellBox slab = inner;
      if (side == 0) {
        slab.hi[d] = slab.lo[d] + 1;
        inner.lo[d] += 1;
      } else {
        slab.lo[d] = slab.hi[d] - 1;
        inner.hi[d] -= 1;
      }
      if (slab.count() > 0) result.shell.push_back(slab);
    }
  result.interior = inner;
  return result;
}

}  // namespace

template <class T>
void PreparedState<T>::enqueue_call(const Term<T>& term, std::size_t b, const LeafCall<T>& call,
                                    const char* name, std::initializer_list<Access> accesses,
                                    const FieldSums* sums) {
  if (call.box.count() == 0) return;
  Operation operation;
  operation.name = fmt::format("{} {}", name, to_string(term.kind));
  operation.items = call.box.count();
  for (const Access& access : accesses) operation.accesses.add(access);
  if (term.coefficient >= 0)
    for (const Field<T>& field : coefficients[static_cast<std::size_t>(term.coefficient)].components)
      operation.accesses.add(field.storage().local[b].access(AccessMode::read));
  if (!term.given.empty()) operation.accesses.add(term.given[b].buffer.reads());
  if (call.sum) operation.accesses.add(sums->cell_access(b));
  operation.body = [call](LaunchContext& context) { launch_leaf(context, call); };
  ++stats.launches;
  BlocksState& shared = blocks.state();
  shared.queue.enqueue(shared.transport->compute(shared.parts[b]), std::move(operation));
}

template <class T>
void PreparedState<T>::exchange(FieldStorage<T>& x, Segment& segment) {
  if (segment.exchanged || !halo.is_needed()) return;
  halo.scatter(x);
  ++stats.exchanges;
  segment.exchanged = true;
}

template <class T>
bool PreparedState<T>::run_stencil(Term<T>& term, FieldStorage<T>& y, FieldStorage<T>& x, T alpha, T beta,
                                   Segment& segment, FieldSums* sums) {
  const bool fresh = halo.is_needed() && !segment.exchanged;
  std::int64_t largest = 0;
  for (const LeafCall<T>& call : term.calls) largest = std::max(largest, call.box.count());
  const bool overlap = fresh && (options.overlap == Overlap::on ||
                                 (options.overlap == Overlap::automatic && largest >= overlap_from_cells));
  struct Launch {
    std::size_t b;
    const char* name;
    bool reads_ghosts;
    LeafCall<T> call;
  };
  std::vector<Launch> launches;
  const auto add = [&](std::size_t b, const char* name, bool reads_ghosts, const CellBox& box) {
    LeafCall<T> call = term.calls[b];
    call.x = x.local[b].cell();
    call.y = y.local[b].cell();
    call.alpha = alpha;
    call.beta = beta;
    call.box = box;
    launches.push_back({b, name, reads_ghosts, call});
  };
  if (!overlap) {
    for (std::size_t b = 0; b < term.calls.size(); ++b) add(b, "apply", true, term.calls[b].box);
  } else {
    std::vector<Split> splits;
    for (std::size_t b = 0; b < term.calls.size(); ++b) {
      splits.push_back(split(blocks.local_grid(x.local[b].part)));
      add(b, "inner", false, splits[b].interior);
    }
    for (std::size_t b = 0; b < term.calls.size(); ++b)
      for (const CellBox& box : splits[b].shell) add(b, "shell", true, box);
  }
  bool summing = false;
#if SHARDWISE_WITH_CUDA
  if (sums && sums->takes_fused_sums()) {
    summing = true;
    for (Launch& launch : launches) {
      const Stream& stream = blocks.state().transport->compute(blocks.state().parts[launch.b]);
      launch.call.sum = sums->cell(launch.b);
      summing = summing && sum_fits(stream.device(), launch.call);
    }
  }
#endif
  // Where an exchange holds this thread up, what needs no ghosts is under way first.
  const bool inner_first = overlap && blocks.state().transport->move_waits();
  if (!inner_first) exchange(x, segment);
  for (Launch& launch : launches) {
    if (launch.reads_ghosts) exchange(x, segment);
    if (!summing) launch.call.sum = nullptr;
    const FieldBlock<T>& from = x.local[launch.b];
    enqueue_call(term, launch.b, launch.call, launch.name,
                 {launch.reads_ghosts ? from.access(AccessMode::read) : from.owned(AccessMode::read),
                  y.local[launch.b].owned(AccessMode::write)},
                 sums);
  }
  return summing;
}

template <class T>
bool PreparedState<T>::run_with_dot(FieldStorage<T>& y, FieldStorage<T>& x, FieldSums& sums) {
  T alpha = 1;
  Term<T>* term = forward.get();
  for (; term->kind == NodeKind::scaled && !term->transposed; term = term->a.get())
    alpha = alpha * term->factor;
  Segment segment;
  if (term->is_stencil() && !term->transposed) return run_stencil(*term, y, x, alpha, T(0), segment, &sums);
  run(*forward, y, x, T(1), T(0), segment);
  return false;
}

template <class T>
void PreparedState<T>::run_transposed(Term<T>& term, FieldStorage<T>& y, FieldStorage<T>& x, T alpha,
                                      T beta) {
  for (std::size_t b = 0; b < term.calls.size(); ++b) {
    const CartesianGrid& grid = blocks.local_grid(y.local[b].part);
    LeafCall<T> call = term.calls[b];
    call.action = LeafAction::transpose;
    call.x = x.local[b].cell();
    call.deep_y = y.local[b].cell();
    call.alpha = alpha;
    call.beta = beta;
    for (int d = 0; d < grid.dims(); ++d) {
      call.fold.wraps[d] = grid.boundary(d, 0).kind == BoundaryKind::periodic;
      for (int side = 0; side < 2; ++side)
        call.fold.multiplier[d][side] = static_cast<T>(grid.boundary(d, side).multiplier(1, grid.spacing(d)));
    }
    if (!term.scratch) {
      call.fold.whole = true;
      enqueue_call(term, b, call, "gather",
                   {x.local[b].owned(AccessMode::read), y.local[b].owned(AccessMode::write)});
      continue;
    }
    const FieldBlock<T>& to = term.scratch->storage().local[b];
    call.y = to.cell();
    call.y_stride[0] = to.layout.stride[1];
    call.y_stride[1] = to.layout.stride[2];
    for (std::size_t d = 0; d < 3; ++d) {
      call.box.lo[d] = -to.layout.halo[d];
      call.box.hi[d] = to.layout.cells[d] + to.layout.halo[d];
    }
    const DeepCells deep = deep_cells(grid, to.layout);
    for (int d = 0; d < 3; ++d) call.deep_margin[d] = deep.margin[d];
    call.fold.rows = folds_rows(grid);
    enqueue_call(term, b, call, "gather",
                 {x.local[b].owned(AccessMode::read), to.access(AccessMode::write),
                  y.local[b].owned(AccessMode::write)});
  }
  if (!term.scratch) return;
  FieldStorage<T>& z = term.scratch->storage();
  fold_shell(blocks, z);
  if (padded_halo->is_needed()) {
    padded_halo->reduce(z);
    ++stats.reduces;
  }
  enqueue_blend_shell(blocks, y, z, alpha, beta);
}

template <class T>
void PreparedState<T>::run_user_on_scratch(Term<T>& term, FieldStorage<T>& y, T alpha, T beta) {
  BlocksState& shared = blocks.state();
  const auto& user = *term.node.user;
  for (std::size_t b = 0; b < y.local.size(); ++b) {
    FieldBlock<T>& in = term.scratch->storage().local[b];
    FieldBlock<T>& out = y.local[b];
    Stream& stream = shared.transport->compute(out.part);
    const CartesianGrid& grid = blocks.local_grid(out.part);
    UserLeafCall<T> call{&grid,
                         {in.cell(), in.layout, &stream, in.part, in.buffer.reads()},
                         {out.cell(), out.layout, &stream, out.part, out.buffer.writes()},
                         alpha,
                         beta};
    Operation operation;
    operation.name = user.name;
    operation.items = grid.cell_count();
    operation.accesses = {in.access(AccessMode::read), out.owned(AccessMode::write)};
    // The leaf and the blocks are kept alive by what is captured.
    operation.body = [call, leaf = term.node.user, keep = blocks.shared_state()](LaunchContext& context) {
      if constexpr (std::is_same_v<T, float>)
        leaf->run_float(context, call);
      else
        leaf->run_double(context, call);
    };
    ++stats.launches;
    shared.queue.enqueue(stream, std::move(operation));
  }
}

template <class T>
void PreparedState<T>::run_user(Term<T>& term, FieldStorage<T>& y, FieldStorage<T>& x, T alpha, T beta) {
  FieldStorage<T>& padded = term.scratch->storage();
  enqueue_axpby(blocks, padded, x, T(1), T(0));
  if (padded_halo->is_needed()) {
    padded_halo->scatter(padded);
    ++stats.exchanges;
  }
  fill_walls(blocks, padded, false);
  run_user_on_scratch(term, y, alpha, beta);
}

template <class T>
void PreparedState<T>::run_scaling(Term<T>& term, FieldStorage<T>& y, const FieldStorage<T>& x, T alpha,
                                   T beta) {
  BlocksState& shared = blocks.state();
  for (std::size_t b = 0; b < y.local.size(); ++b) {
    const FieldBlock<T>& from = x.local[b];
    const FieldBlock<T>& to = y.local[b];
    const T* field = nullptr;
    Operation operation;
    operation.name = to_string(term.kind);
    operation.accesses = {from.owned(AccessMode::read), to.owned(AccessMode::write)};
    if (term.coefficient >= 0) {
      const FieldBlock<T>& c =
          coefficients[static_cast<std::size_t>(term.coefficient)].components[0].storage().local[b];
      field = c.cell();
      operation.accesses.add(c.access(AccessMode::read));
    }
    operation.items = owned_box(from.layout).count();
    operation.body = [from = from.ref(), to = to.ref(), field, alpha, beta](LaunchContext& context) {
      launch_scale<T>(context, to, from, field, alpha, beta);
    };
    ++stats.launches;
    shared.queue.enqueue(shared.transport->compute(to.part), std::move(operation));
  }
}

template <class T>
void PreparedState<T>::scale_only(FieldStorage<T>& y, T beta) {
  if (beta == T(1)) return;
  BlocksState& shared = blocks.state();
  for (const FieldBlock<T>& block : y.local) {
    if (beta == T(0)) {
      enqueue_set_all(shared.queue, shared.transport->compute(block.part), block.buffer, T(0));
      continue;
    }
    Operation operation;
    operation.name = "scale";
    operation.accesses = {block.owned(AccessMode::write)};
    operation.body = [block = block.ref(), beta](LaunchContext& context) {
      launch_scale<T>(context, block, block, nullptr, beta, T(0));
    };
    shared.queue.enqueue(shared.transport->compute(block.part), std::move(operation));
  }
}

template <class T>
void PreparedState<T>::run(Term<T>& term, FieldStorage<T>& y, FieldStorage<T>& x, T alpha, T beta,
                           Segment& segment) {
  if (term.transposed) return run_transposed(term, y, x, alpha, beta);
  switch (term.kind) {
    case NodeKind::scaled:
      return run(*term.a, y, x, alpha * term.factor, beta, segment);
    case NodeKind::added:
      run(*term.a, y, x, alpha, beta, segment);
      return run(*term.b, y, x, alpha, T(1), segment);
    case NodeKind::composed: {
      FieldStorage<T>& between = term.intermediate->storage();
      run(*term.b, between, x, T(1), T(0), segment);
      Segment next;
      return run(*term.a, y, between, alpha, beta, next);
    }
    case NodeKind::scaling:
      return run_scaling(term, y, x, alpha * term.factor, beta);
    case NodeKind::identity:
      return run_scaling(term, y, x, alpha, beta);
    case NodeKind::user:
      return run_user(term, y, x, alpha, beta);
    default:
      run_stencil(term, y, x, alpha, beta, segment);
  }
}

template <class T>
void PreparedState<T>::run_lift(Term<T>& term, FieldStorage<T>& y, T alpha, T beta) {
  if (term.transposed || term.node.linear_only) return scale_only(y, beta);
  switch (term.kind) {
    case NodeKind::scaled:
      return run_lift(*term.a, y, alpha * term.factor, beta);
    case NodeKind::added:
      run_lift(*term.a, y, alpha, beta);
      return run_lift(*term.b, y, alpha, T(1));
    case NodeKind::composed: {  // A b_B + b_A
      FieldStorage<T>& between = term.intermediate->storage();
      run_lift(*term.b, between, T(1), T(0));
      Segment segment;
      run(*term.a, y, between, alpha, beta, segment);
      return run_lift(*term.a, y, alpha, T(1));
    }
    case NodeKind::scaling:
    case NodeKind::identity:
      return scale_only(y, beta);
    default:
      break;
  }
  const bool takes_flux = term.kind == NodeKind::laplacian || term.kind == NodeKind::diffusion;
  const CartesianGrid& grid = blocks.grid();
  for (int d = 0; d < grid.dims() && !takes_flux; ++d)
    for (int side = 0; side < 2; ++side)
      if (grid.boundary(d, side).kind == BoundaryKind::conormal_flux &&
          (grid.boundary(d, side).value != 0 || grid.boundary(d, side).values))
        throw GridError(GridErrorCode::bad_boundary,
                        fmt::format("boundary_rhs: a conormal flux (dimension {}) says what a Diffusion or a "
                                    "Laplacian does at the wall, nothing for {} ({}); use Neumann",
                                    d, to_string(term.kind), term.path),
                        {static_cast<double>(d)}, term.path);
  if (term.kind == NodeKind::user) {
    FieldStorage<T>& padded = term.scratch->storage();
    for (const FieldBlock<T>& block : padded.local)
      enqueue_set_all(blocks.state().queue, blocks.state().transport->compute(block.part), block.buffer,
                      T(0));
    fill_walls(blocks, padded, true);
    return run_user_on_scratch(term, y, alpha, beta);
  }
  if (shifts.empty()) return scale_only(y, beta);
  for (std::size_t b = 0; b < term.calls.size(); ++b) {
    LeafCall<T> call = term.calls[b];
    call.action = LeafAction::lift;
    for (int d = 0; d < 3; ++d)
      for (int side = 0; side < 2; ++side) {
        call.faces.shift[d][side] = shifts[b].pointer[d][side];
        call.faces.flux[d][side] = fluxes[b].pointer[d][side];
      }
    call.y = y.local[b].cell();
    call.alpha = alpha;
    call.beta = beta;
    enqueue_call(term, b, call, "lift",
                 {shifts[b].buffer.reads(), fluxes[b].buffer.reads(), y.local[b].owned(AccessMode::write)});
  }
}

template <class T>
void PreparedState<T>::run_diagonal(Term<T>& term, FieldStorage<T>& y, T alpha, T beta) {
  const auto refuse = [&] {
    throw GridError(
        GridErrorCode::no_diagonal,
        fmt::format("diagonal: {} ({}) has none that can be computed; products have one where both "
                    "factors are diagonal",
                    term.kind == NodeKind::user ? term.node.user->name : to_string(term.kind), term.path),
        {}, term.path);
  };
  switch (term.kind) {
    case NodeKind::scaled:
      return run_diagonal(*term.a, y, alpha * term.factor, beta);
    case NodeKind::added:
      run_diagonal(*term.a, y, alpha, beta);
      return run_diagonal(*term.b, y, alpha, T(1));
    case NodeKind::composed: {
      // Both diagonal: A applied to the diagonal of B.
      const auto diagonal = [](auto&& self, const Term<T>& t) -> bool {
        if (t.kind == NodeKind::scaling || t.kind == NodeKind::identity) return true;
        if (t.kind == NodeKind::scaled) return self(self, *t.a);
        if (t.kind == NodeKind::added || t.kind == NodeKind::composed)
          return self(self, *t.a) && self(self, *t.b);
        return false;
      };
      if (!diagonal(diagonal, *term.a) || !diagonal(diagonal, *term.b)) refuse();
      FieldStorage<T>& between = term.intermediate->storage();
      run_diagonal(*term.b, between, T(1), T(0));
      Segment segment;
      return run(*term.a, y, between, alpha, beta, segment);
    }
    case NodeKind::scaling:
    case NodeKind::identity: {
      if (term.coefficient >= 0)
        return enqueue_axpby(blocks, y,
                             coefficients[static_cast<std::size_t>(term.coefficient)].components[0].storage(),
                             alpha * term.factor, beta);
      Field<T> ones(blocks, "ones");
      ones.fill(T(1));
      return enqueue_axpby(blocks, y, ones.storage(),
                           term.kind == NodeKind::scaling ? alpha * term.factor : alpha, beta);
    }
    case NodeKind::user:
      return refuse();
    default:
      break;
  }
  for (std::size_t b = 0; b < term.calls.size(); ++b) {
    LeafCall<T> call = term.calls[b];
    call.action = LeafAction::diagonal;
    call.y = y.local[b].cell();
    call.alpha = alpha;
    call.beta = beta;
    enqueue_call(term, b, call, "diagonal", {y.local[b].owned(AccessMode::write)});
  }
}

template <class T>
Term<T>& PreparedState<T>::single_diffusion(T& factor, const char* call) {
  Term<T>* term = forward.get();
  factor = 1;
  while (term->kind == NodeKind::scaled) {
    factor *= term->factor;
    term = term->a.get();
  }
  if (term->kind != NodeKind::diffusion || term->transposed)
    throw GridError(GridErrorCode::bad_argument,
                    fmt::format("{}: the operator is {}; it has to be a Diffusion or a multiple of one", call,
                                op.text()));
  return *term;
}

template <class T>
void PreparedState<T>::run_kappa(LeafAction action, FieldStorage<T>& g, FieldStorage<T>& w,
                                 FieldStorage<T>& u, int component) {
  T factor = 1;
  Term<T>& term = single_diffusion(factor, "coefficient_gradient");
  const int components = term.node.coefficient->components();
  if (component < 0 || component >= components)
    throw GridError(GridErrorCode::bad_argument,
                    fmt::format("coefficient_gradient: component {} of {}", component, components),
                    {static_cast<double>(component), static_cast<double>(components)});
  Segment of_u, of_w;
  exchange(u, of_u);
  if (action == LeafAction::kappa_gradient) exchange(w, of_w);
  for (std::size_t b = 0; b < term.calls.size(); ++b) {
    LeafCall<T> call = term.calls[b];
    call.action = action;
    call.x = w.local[b].cell();
    call.u = u.local[b].cell();
    call.y = g.local[b].cell();
    call.y_stride[0] = g.local[b].layout.stride[1];
    call.y_stride[1] = g.local[b].layout.stride[2];
    call.alpha = factor;
    if (components > 1) {
      call.component_begin = component;
      call.component_end = component + 1;
    }
    if (action == LeafAction::kappa_scatter)
      for (std::size_t d = 0; d < 3; ++d) {
        call.box.lo[d] = -g.local[b].layout.halo[d];
        call.box.hi[d] = g.local[b].layout.cells[d] + g.local[b].layout.halo[d];
      }
    enqueue_call(term, b, call, "kappa derivative of",
                 {w.local[b].access(AccessMode::read), u.local[b].access(AccessMode::read),
                  g.local[b].access(AccessMode::write)});
  }
}

template struct PreparedState<float>;
template struct PreparedState<double>;

}  // namespace shardwise
