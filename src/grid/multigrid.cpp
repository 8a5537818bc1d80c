#include "shardwise/grid/multigrid.hpp"

#include <fmt/format.h>

#include "grid/multigrid_levels.hpp"
#include "grid/pointwise.hpp"
#include "grid/transfer_kernel.hpp"
#include "runtime/for_each.hpp"
#include "shardwise/grid/grid_error.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise {

namespace {

constexpr std::int64_t coarsest_cells = 64;
constexpr std::int64_t most_coarsest_cells = 1000;
constexpr int sweeps = 2;

template <class T>
CellPointer<T> pointer(const FieldBlock<T>& block) {
  return {block.cell(), block.layout.stride[1], block.layout.stride[2]};
}
template <class T>
CellPointer<const T> readable(const FieldBlock<T>& block) {
  return {block.cell(), block.layout.stride[1], block.layout.stride[2]};
}

/// The fine cells that a block of coarse ones takes from, or the coarse ones that a block of fine ones does;
/// cut at walls, going on beyond the ends of periodic dimensions.
Window window_of(const CartesianGrid& block, const CartesianGrid& read, int part) {
  Window window;
  window.part = part;
  for (int d = 0; d < 3; ++d) {
    const std::int64_t lo = block.first(d), hi = lo + block.cells(d);
    std::int64_t &first = window.box.lo[d], &end = window.box.hi[d];
    if (read.cells(d) == block.global_cells(d)) {
      first = lo;
      end = hi;
    } else if (read.cells(d) > block.global_cells(d)) {
      first = 2 * lo - 1;
      end = 2 * hi + 1;
    } else {
      first = (lo + 1) / 2 - 1;
      end = hi / 2 + 1;
    }
    if (read.boundary(d, 0).kind == BoundaryKind::periodic && read.cells(d) != block.global_cells(d))
      continue;
    first = std::max<std::int64_t>(first, 0);
    end = std::min(end, read.cells(d));
  }
  return window;
}

}  // namespace

template <class T>
struct MultigridState {
  explicit MultigridState(const Blocks& b) : blocks(b) {}
  using Level = MultigridLevel<T>;
  Blocks blocks;
  std::vector<std::unique_ptr<Level>> levels;
  QueuedBuffer<T> inverse;
  T omega = 1;

  OperationQueue& queue() const { return blocks.state().queue; }
  void enqueue(Stream& stream, const char* name, AccessList accesses, std::int64_t items,
               std::function<void(LaunchContext&)> body) {
    Operation operation;
    operation.name = name;
    operation.accesses = accesses;
    operation.items = items;
    operation.body = std::move(body);
    queue().enqueue(stream, std::move(operation));
  }
  static Stream& stream_of(const Level& level, int part) {
    return level.blocks.state().transport->compute(part);
  }

  /// x <- omega / diagonal r + beta x
  void relax(Level& level, Field<T>& x, const Field<T>& r, T beta) {
    for (std::size_t p = 0; p < x.storage().local.size(); ++p) {
      const FieldBlock<T>&from = r.storage().local[p], &to = x.storage().local[p],
            &d = level.inverse_diagonal.storage().local[p];
      enqueue(stream_of(level, to.part), "relax",
              {from.owned(AccessMode::read), d.owned(AccessMode::read), to.owned(AccessMode::write)},
              owned_box(from.layout).count(),
              [from = from.ref(), to = to.ref(), d = d.cell(), w = omega, beta](LaunchContext& context) {
                launch_scale<T>(context, to, from, d, w, beta);
              });
    }
  }
  void residual(Level& level, Field<T>& x, const Field<T>& b) {
    level.r.copy_from(b);
    level.a.apply(level.r, x, T(-1), T(1));
  }
  /// `block` is written, `origin` is the first cell of what is read.
  std::array<TransferLine<T>, 3> lines(const CartesianGrid& fine, const CartesianGrid& coarse,
                                       const CartesianGrid& block, const Window* window) const {
    std::array<TransferLine<T>, 3> result;
    for (int d = 0; d < 3; ++d) {
      TransferLine<T>& line = result[static_cast<std::size_t>(d)];
      line.fine = fine.cells(d);
      line.coarse = coarse.cells(d);
      line.halved = line.fine != line.coarse;
      line.periodic = coarse.boundary(d, 0).kind == BoundaryKind::periodic;
      line.wraps = !window;
      line.origin = window ? window->box.lo[d] : 0;
      line.first = block.first(d);
      line.low = static_cast<T>(coarse.boundary(d, 0).multiplier(1, coarse.spacing(d)));
      line.high = static_cast<T>(coarse.boundary(d, 1).multiplier(1, coarse.spacing(d)));
    }
    return result;
  }
  void restrict_residual(Level& fine, Level& coarse) {
    if (coarse.fine_residual) coarse.fine_residual->run(fine.r.storage());
    for (std::size_t p = 0; p < coarse.b->storage().local.size(); ++p) {
      const FieldBlock<T>& to = coarse.b->storage().local[p];
      const bool direct = !coarse.fine_residual;
      const auto l = lines(fine.blocks.grid(), coarse.blocks.grid(), coarse.blocks.local_grid(to.part),
                           direct ? nullptr : &coarse.residual_windows[static_cast<std::size_t>(to.part)]);
      T scale = 1;
      for (const TransferLine<T>& line : l)
        if (line.halved) scale = scale * T(0.5);
      const FieldBlock<T>& from = fine.r.storage().local[0];
      AccessList accesses{direct ? from.owned(AccessMode::read) : coarse.fine_residual->reads(p),
                          to.owned(AccessMode::write)};
      TransferWeights<T> weights;
      for (std::size_t d = 0; d < 3; ++d) {
        if (!coarse.weights[d]) continue;
        const FieldBlock<T>& values = coarse.weights[d]->storage().local[0];
        weights.weight[d] = direct ? readable(values) : coarse.weight_windows[d]->pointer(p);
        accesses.add(direct ? values.owned(AccessMode::read) : coarse.weight_windows[d]->reads(p));
      }
      const RestrictBody<T> body{{l[0], l[1], l[2]},
                                 weights,
                                 direct ? readable(from) : coarse.fine_residual->pointer(p),
                                 pointer(to),
                                 scale};
      const CellBox box = owned_box(to.layout);
      enqueue(stream_of(coarse, to.part), "restrict", accesses, box.count(),
              [body, box](LaunchContext& context) { for_each_cell(context, box, body); });
    }
  }
  void prolong(Level& coarse, Level& fine, Field<T>& x) {
    if (coarse.coarse_correction) coarse.coarse_correction->run(coarse.x->storage());
    for (std::size_t p = 0; p < x.storage().local.size(); ++p) {
      const FieldBlock<T>& to = x.storage().local[p];
      const bool direct = !coarse.coarse_correction;
      const auto l = lines(fine.blocks.grid(), coarse.blocks.grid(), fine.blocks.local_grid(to.part),
                           direct ? nullptr : &coarse.correction_windows[static_cast<std::size_t>(to.part)]);
      AccessList accesses{
          direct ? coarse.x->storage().local[0].owned(AccessMode::read) : coarse.coarse_correction->reads(p),
          to.owned(AccessMode::write)};
      TransferWeights<T> weights;
      for (std::size_t d = 0; d < 3; ++d) {
        if (!coarse.weights[d]) continue;
        const FieldBlock<T>& values = coarse.weights[d]->storage().local[p];
        weights.weight[d] = readable(values);
        accesses.add(values.owned(AccessMode::read));
      }
      const ProlongBody<T> body{
          {l[0], l[1], l[2]},
          weights,
          direct ? readable(coarse.x->storage().local[0]) : coarse.coarse_correction->pointer(p),
          pointer(to)};
      const CellBox box = owned_box(to.layout);
      enqueue(stream_of(fine, to.part), "prolong", accesses, box.count(),
              [body, box](LaunchContext& context) { for_each_cell(context, box, body); });
    }
  }
  void cycle(std::size_t at, Field<T>& x, const Field<T>& b) {
    Level& level = *levels[at];
    if (at + 1 == levels.size()) return solve_coarsest(level, x, b);
    relax(level, x, b, T(0));
    for (int s = 1; s < sweeps; ++s) residual(level, x, b), relax(level, x, level.r, T(1));
    residual(level, x, b);
    Level& coarse = *levels[at + 1];
    restrict_residual(level, coarse);
    cycle(at + 1, *coarse.x, *coarse.b);
    prolong(coarse, level, x);
    for (int s = 0; s < sweeps; ++s) residual(level, x, b), relax(level, x, level.r, T(1));
  }
  void solve_coarsest(Level& level, Field<T>& x, const Field<T>& b) {
    if (x.storage().local.empty()) return;  // another rank's
    const FieldBlock<T>&from = b.storage().local[0], &to = x.storage().local[0];
    const DenseBody<T> body{inverse.data(), from.cell(), to.cell(), level.blocks.grid().cell_count()};
    enqueue(stream_of(level, to.part), "coarsest",
            {from.owned(AccessMode::read), inverse.reads(), to.owned(AccessMode::write)}, body.n,
            [body](LaunchContext& context) { for_each(context, body.n, body, 64); });
  }

  /// Connects level `at` with the one above it.
  void connect(std::size_t at) {
    Level &fine = *levels[at - 1], &coarse = *levels[at];
    coarse.x.emplace(coarse.blocks, "multigrid x");
    coarse.b.emplace(coarse.blocks, "multigrid b");
    set_weights(at);
    if (fine.blocks.partition().parts() == 1 && coarse.blocks.partition().parts() == 1) return;
    for (int part = 0; part < coarse.blocks.partition().parts(); ++part)
      coarse.residual_windows.push_back(window_of(coarse.blocks.local_grid(part), fine.blocks.grid(), part));
    for (int part = 0; part < fine.blocks.partition().parts(); ++part)
      coarse.correction_windows.push_back(
          window_of(fine.blocks.local_grid(part), coarse.blocks.grid(), part));
    coarse.fine_residual.emplace(fine.blocks, coarse.blocks, coarse.residual_windows);
    coarse.coarse_correction.emplace(coarse.blocks, fine.blocks, coarse.correction_windows);
    for (std::size_t d = 0; d < 3; ++d) {
      if (!coarse.weights[d]) continue;
      coarse.weight_windows[d].emplace(fine.blocks, coarse.blocks, coarse.residual_windows);
      coarse.weight_windows[d]->run(coarse.weights[d]->storage());
    }
  }
  void set_weights(std::size_t at) {
    Level &fine = *levels[at - 1], &coarse = *levels[at];
    const CartesianGrid& grid = fine.blocks.grid();
    std::array<bool, 3> halved{};
    for (int d = 0; d < 3; ++d)
      halved[static_cast<std::size_t>(d)] = grid.cells(d) != coarse.blocks.grid().cells(d);
    const auto weights = interpolation_weights(fine.a.op(), grid, halved);
    for (std::size_t d = 0; d < 3; ++d) {
      if (weights[d].empty()) continue;
      const std::vector<T> values(weights[d].begin(), weights[d].end());
      coarse.weights[d].emplace(fine.blocks, "multigrid weights");
      coarse.weights[d]->scatter_global(values);
    }
  }
};

template <class T>
Multigrid<T>::Multigrid(const Operator& op, const Blocks& blocks)
    : state_(std::make_unique<MultigridState<T>>(blocks)) {
  CartesianGrid grid = blocks.grid();
  (void)coarsened(op, grid);  // refuses what has no coarse counterpart before anything is allocated
  const int dims = grid.dims();
  state_->omega = static_cast<T>(2.0 * dims / (2.0 * dims + 1));
  std::vector<Operator> ops{op};
  std::vector<CartesianGrid> grids{grid};
  while (grid.cell_count() > coarsest_cells) {
    const std::array<bool, 3> halved = halved_dimensions(grid);
    if (!halved[0] && !halved[1] && !halved[2]) break;
    grid = grid.coarsened(halved);
    ops.push_back(coarsened(ops.back(), grid));
    grids.push_back(grid);
  }
  if (grid.cell_count() > most_coarsest_cells)
    throw GridError(
        GridErrorCode::bad_argument,
        fmt::format(
            "multigrid: {} ends at {}, which cannot be halved and is above {} cells; use cells with more "
            "factors of 2, or Jacobi",
            blocks.grid().shape_text(), grid.shape_text(), most_coarsest_cells),
        {static_cast<double>(grid.cell_count())});
  if (grids.size() == 1) {  // nothing to halve: the dense solve of one block, behind a copy
    ops.push_back(op);
    grids.push_back(grid);
  }
  for (std::size_t l = 0; l < grids.size(); ++l) {
    state_->levels.push_back(
        std::make_unique<MultigridLevel<T>>(ops[l], l == 0 ? blocks : coarse_blocks(grids[l], blocks)));
    if (l > 0) state_->connect(l);
  }
  MultigridLevel<T>& last = *state_->levels.back();
  const std::vector<T> inverse = dense_inverse(last.a);
  OperationQueue& queue = state_->queue();
  if (last.blocks.local_parts().empty()) return;
  Stream& stream = last.blocks.state().transport->compute(last.blocks.local_parts().front());
  state_->inverse =
      QueuedBuffer<T>(queue, stream, static_cast<std::int64_t>(inverse.size()), "coarsest inverse");
  queue.enqueue(stream, copy_operation("coarsest inverse", state_->inverse.data(), inverse.data(),
                                       inverse.size() * sizeof(T), {state_->inverse.writes()}));
  stream.synchronize();
}

template <class T>
Multigrid<T>::Multigrid(Multigrid&&) noexcept = default;
template <class T>
Multigrid<T>::~Multigrid() = default;

template <class T>
int Multigrid<T>::levels() const {
  return static_cast<int>(state_->levels.size());
}

template <class T>
int Multigrid<T>::parts(int level) const {
  return state_->levels.at(static_cast<std::size_t>(level))->blocks.partition().parts();
}

template <class T>
void Multigrid<T>::apply(Field<T>& z, const Field<T>& r) {
  check_blocks(state_->blocks, z, "multigrid");
  check_blocks(state_->blocks, r, "multigrid");
  state_->cycle(0, z, r);
}

template class Multigrid<float>;
template class Multigrid<double>;

}  // namespace shardwise
