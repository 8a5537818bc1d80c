// From a checked tree to terms.

#include <fmt/format.h>

#include "grid/operator_tree.hpp"
#include "grid/prepared_state.hpp"
#include "shardwise/grid/grid_error.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise {

namespace {

/// The values of a block's own face cells out of an array over the global face; `values` empty: `constant`.
std::vector<double> face_values(const CartesianGrid& block, int d, const std::vector<double>* values,
                                double constant) {
  const int e0 = d == 0 ? 1 : 0, e1 = d == 2 ? 1 : 2;  // the dimensions of the face, ascending
  std::vector<double> result;
  for (std::int64_t j = 0; j < block.cells(e1); ++j)
    for (std::int64_t i = 0; i < block.cells(e0); ++i) {
      const std::int64_t at = (block.first(e0) + i) + block.global_cells(e0) * (block.first(e1) + j);
      result.push_back(values ? (*values)[static_cast<std::size_t>(at)] : constant);
    }
  return result;
}

/// Uploads one array a face; a face without values stays null.
template <class T>
WallArrays<T> upload_faces(const Blocks& blocks, int part,
                           const std::array<std::array<std::vector<double>, 2>, 3>& faces, const char* name) {
  BlocksState& state = blocks.state();
  std::vector<T> all;
  for (const auto& pair : faces)
    for (const auto& face : pair)
      for (const double v : face) all.push_back(static_cast<T>(v));
  WallArrays<T> result;
  Stream& stream = state.transport->compute(part);
  result.buffer = QueuedBuffer<T>(state.queue, stream, static_cast<std::int64_t>(all.size()), name);
  if (all.empty()) return result;
  state.queue.enqueue(stream, copy_operation(name, result.buffer.data(), all.data(), all.size() * sizeof(T),
                                             {result.buffer.writes()}));
  stream.synchronize();
  const T* next = result.buffer.data();
  for (std::size_t d = 0; d < 3; ++d)
    for (std::size_t side = 0; side < 2; ++side) {
      if (faces[d][side].empty()) continue;
      result.pointer[d][side] = next;
      next += faces[d][side].size();
    }
  return result;
}

template <class T>
StencilBlock<T> stencil_block(const CartesianGrid& grid, const BlockLayout& layout, bool negate_walls) {
  StencilBlock<T> block;
  for (int d = 0; d < 3; ++d) {
    const auto i = static_cast<std::size_t>(d);
    block.cells[d] = layout.cells[i];
    block.stride[d] = layout.stride[i];
    for (int side = 0; side < 2; ++side) {
      FaceRule<T>& rule = block.face[d][side];
      const Boundary& b = grid.boundary(d, side);
      const std::int64_t outward = side == 0 ? -layout.stride[i] : layout.stride[i];
      if (b.kind == BoundaryKind::interface) {
        rule = {T(1), outward, false, true};
      } else if (b.kind == BoundaryKind::periodic) {
        rule = {T(1), -outward * (layout.cells[i] - 1), false, false};
      } else {
        const T s = static_cast<T>(b.multiplier(1, grid.spacing(d)));
        rule = {negate_walls ? -s : s, 0, true, false};
      }
    }
  }
  return block;
}

MeanKind mean_kind(Mean mean) {
  return mean == Mean::arithmetic ? MeanKind::arithmetic
         : mean == Mean::harmonic ? MeanKind::harmonic
                                  : MeanKind::geometric;
}

template <class T>
int coefficient_index(PreparedState<T>& state, const std::shared_ptr<const Coefficient>& source) {
  for (std::size_t i = 0; i < state.coefficients.size(); ++i)
    if (state.coefficients[i].source == source) return static_cast<int>(i);
  PreparedCoefficient<T> prepared;
  prepared.source = source;
  const std::size_t cells = static_cast<std::size_t>(source->grid().cell_count());
  for (int c = 0; c < source->components(); ++c) {
    Field<T> field(state.blocks, fmt::format("coefficient {}.{}", state.coefficients.size(), c));
    std::vector<T> values(cells);
    for (std::size_t i = 0; i < cells; ++i)
      values[i] = static_cast<T>(source->values()[static_cast<std::size_t>(c) * cells + i]);
    field.scatter_global(values);  // ghosts are NaN until the exchange: one that is missed is loud
    exchange_coefficient(state, field);
    prepared.components.push_back(std::move(field));
  }
  state.coefficients.push_back(std::move(prepared));
  return static_cast<int>(state.coefficients.size()) - 1;
}

template <class T>
LeafCall<T> leaf_call(PreparedState<T>& state, const Term<T>& term, std::size_t b) {
  const Blocks& blocks = state.blocks;
  const int part = blocks.local_parts()[b];
  const CartesianGrid& grid = blocks.local_grid(part);
  const CartesianGrid& whole = blocks.grid();
  const BlockLayout layout = block_layout(grid, blocks.layout(), sizeof(T));
  LeafCall<T> call;
  call.kind = term.kind == NodeKind::laplacian    ? LeafKind::laplacian
              : term.kind == NodeKind::difference ? LeafKind::difference
              : term.kind == NodeKind::diffusion  ? LeafKind::diffusion
              : term.kind == NodeKind::advection  ? LeafKind::advection
                                                  : LeafKind::advection_adjoint;
  call.dims = grid.dims();
  call.plain = state.options.plain_kernels;
  call.block = stencil_block<T>(grid, layout, term.node.negate_walls);
  call.box = {{0, 0, 0}, {grid.cells(0), grid.cells(1), grid.cells(2)}};
  for (int d = 0; d < grid.dims(); ++d) {
    call.inverse_square[d] = static_cast<T>(whole.inverse_square(d));
    call.half_inverse[d] = static_cast<T>(whole.half_inverse(d));
    call.single[d] = whole.cells(d) == 1;
    call.first[d] = grid.first(d);
    call.global[d] = whole.cells(d);
    for (int side = 0; side < 2; ++side) {
      const Boundary& boundary = whole.boundary(d, side);
      call.global_wall[d][side] = boundary.is_wall();
      call.global_multiplier[d][side] = static_cast<T>(boundary.multiplier(1, whole.spacing(d)));
    }
  }
  const int d = term.node.dimension;
  call.d = d;
  switch (term.node.difference) {
    case Difference::centred:
      call.scheme = Scheme::centred, call.scale = static_cast<T>(whole.half_inverse(d));
      break;
    case Difference::second:
      call.scheme = Scheme::second, call.scale = static_cast<T>(whole.inverse_square(d));
      break;
    case Difference::upwind_minus:
      call.scheme = Scheme::backward, call.scale = static_cast<T>(1.0 / whole.spacing(d));
      break;
    case Difference::upwind_plus:
      call.scheme = Scheme::forward, call.scale = static_cast<T>(1.0 / whole.spacing(d));
      break;
  }
  call.mean = mean_kind(term.node.mean);
  call.wall = term.node.wall.kind == WallCoefficient::Kind::mirror  ? WallKind::mirror
              : term.node.wall.kind == WallCoefficient::Kind::given ? WallKind::given
                                                                    : WallKind::extrapolate;
  if (term.coefficient >= 0) {
    auto& components = state.coefficients[static_cast<std::size_t>(term.coefficient)].components;
    for (std::size_t e = 0; e < 3; ++e)
      call.k[e] = components[std::min(e, components.size() - 1)].storage().local[b].cell();
  }
  if (!term.given.empty())
    for (int e = 0; e < 3; ++e)
      for (int side = 0; side < 2; ++side) call.given[e][side] = term.given[b].pointer[e][side];
  return call;
}

/// Whether a gather can fold all ghosts at once, and nothing is left for other launches to do. On the host
/// the rows at walls are faster in steps.
template <class T>
bool gathers_whole(const PreparedState<T>& state) {
  const CartesianGrid& grid = state.blocks.grid();
  if (state.options.plain_kernels || state.blocks.partition().parts() > 1) return false;
  for (int d = 0; d < grid.dims(); ++d)
    if (grid.halo(d) != 1) return false;
  const BlocksState& blocks = state.blocks.state();
  return !blocks.parts.empty() &&
         blocks.transport->compute(blocks.parts[0]).device().kind() == PlatformKind::cuda;
}

template <class T>
void need_padded_halo(PreparedState<T>& state) {
  if (!state.padded_halo) state.padded_halo.emplace(state.blocks, GhostLayout::pitched);
}

}  // namespace

template <class T>
void exchange_coefficient(PreparedState<T>& state, Field<T>& field) {
  if (state.halo.is_needed()) state.halo.scatter(field.storage());
}

template <class T>
void build_wall_arrays(PreparedState<T>& state) {
  const CartesianGrid& whole = state.blocks.grid();
  bool any = false;
  for (int d = 0; d < whole.dims(); ++d)
    for (int side = 0; side < 2; ++side)
      any = any || whole.boundary(d, side).value != 0 || whole.boundary(d, side).values;
  if (!any) return;
  for (const int part : state.blocks.local_parts()) {
    const CartesianGrid& grid = state.blocks.local_grid(part);
    std::array<std::array<std::vector<double>, 2>, 3> shift, flux;
    for (int d = 0; d < grid.dims(); ++d)
      for (int side = 0; side < 2; ++side) {
        const Boundary& b = grid.boundary(d, side);
        if (!b.is_wall()) continue;
        std::vector<double> values = face_values(grid, d, b.values.get(), b.value);
        const bool conormal = b.kind == BoundaryKind::conormal_flux;
        for (double& v : values) v = conormal ? v / grid.spacing(d) : b.offset(1, grid.spacing(d), v);
        (conormal ? flux : shift)[static_cast<std::size_t>(d)][static_cast<std::size_t>(side)] =
            std::move(values);
      }
    state.shifts.push_back(upload_faces<T>(state.blocks, part, shift, "wall offsets"));
    state.fluxes.push_back(upload_faces<T>(state.blocks, part, flux, "wall fluxes"));
  }
}

template <class T>
std::unique_ptr<Term<T>> build_term(PreparedState<T>& state, const Operator& op, const std::string& path) {
  const OperatorNode& node = op.node();
  auto term = std::make_unique<Term<T>>();
  term->kind = node.kind;
  term->node = node;
  term->path = path + " / " + to_string(node.kind);
  term->factor = static_cast<T>(node.factor);
  if (node.kind == NodeKind::adjoint) {
    // What is left after normalizing: the transpose of one stencil, by gathering.
    term = build_term(state, node.children[0], path);
    term->transposed = true;
    if (gathers_whole(state)) return term;
    term->scratch.emplace(state.blocks, "adjoint scratch", GhostLayout::pitched);
    need_padded_halo(state);
    return term;
  }
  if (!node.children.empty()) term->a = build_term(state, node.children[0], term->path);
  if (node.children.size() > 1) term->b = build_term(state, node.children[1], term->path);
  if (node.kind == NodeKind::composed) term->intermediate.emplace(state.blocks, "intermediate");
  if (node.kind == NodeKind::user) {
    term->scratch.emplace(state.blocks, "user leaf scratch", GhostLayout::pitched);
    need_padded_halo(state);
  }
  if (node.coefficient) term->coefficient = coefficient_index(state, node.coefficient);
  if (node.kind == NodeKind::diffusion && node.wall.kind == WallCoefficient::Kind::given)
    for (const int part : state.blocks.local_parts()) {
      const CartesianGrid& grid = state.blocks.local_grid(part);
      std::array<std::array<std::vector<double>, 2>, 3> faces;
      for (int d = 0; d < grid.dims(); ++d)
        for (int side = 0; side < 2; ++side) {
          const auto i = static_cast<std::size_t>(d), s = static_cast<std::size_t>(side);
          if (grid.boundary(d, side).is_wall())
            faces[i][s] = face_values(grid, d, &node.wall.values[i][s], 0);
        }
      term->given.push_back(upload_faces<T>(state.blocks, part, faces, "wall coefficients"));
    }
  if (term->is_stencil())
    for (std::size_t b = 0; b < state.blocks.local_parts().size(); ++b)
      term->calls.push_back(leaf_call(state, *term, b));
  return term;
}

#define SW_INSTANTIATE(T)                                                                               \
  template std::unique_ptr<Term<T>> build_term(PreparedState<T>&, const Operator&, const std::string&); \
  template void build_wall_arrays(PreparedState<T>&);                                                   \
  template void exchange_coefficient(PreparedState<T>&, Field<T>&)
SW_INSTANTIATE(float);
SW_INSTANTIATE(double);

}  // namespace shardwise
