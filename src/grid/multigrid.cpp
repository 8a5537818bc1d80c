#include "shardwise/grid/multigrid.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

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

/// One block of a whole grid, on the streams of the first local part of other blocks.
class FirstPartTransport final : public BlockTransport {
 public:
  explicit FirstPartTransport(std::shared_ptr<BlocksState> owner)
      : owner_(std::move(owner)), part_(owner_->parts.front()) {}
  std::string name() const override { return owner_->transport->name() + ", first part"; }
  std::vector<int> local_parts() const override { return {0}; }
  Stream& compute(int) override { return owner_->transport->compute(part_); }
  Stream& transfer(int) override { return owner_->transport->compute(part_); }
  void move(const std::vector<Message>&, OrderedQueue&) override {}  // one part has no messages
  std::shared_ptr<void> host_memory(std::uint64_t bytes) override {
    return owner_->transport->host_memory(bytes);
  }
  std::vector<std::int64_t> gather_words(const std::vector<std::int64_t>& words) override { return words; }
  bool agree(bool yes) override { return yes; }

 private:
  std::shared_ptr<BlocksState> owner_;
  int part_;
};

struct FirstPart {
  std::shared_ptr<BlocksState> owner;
  PartitionRequest request() const { return {}; }
  std::unique_ptr<BlockTransport> connect(const Partition&) const {
    return std::make_unique<FirstPartTransport>(owner);
  }
};

/// The mean over the fine cells of every coarse one, for each component.
Coefficient coarsened(const Coefficient& fine, const CartesianGrid& coarse) {
  const CartesianGrid& g = fine.grid();
  std::vector<double> values(static_cast<std::size_t>(coarse.cell_count() * fine.components()));
  const double share = static_cast<double>(coarse.cell_count()) / static_cast<double>(g.cell_count());
  std::array<std::int64_t, 3> ratio{};
  for (int d = 0; d < 3; ++d) ratio[static_cast<std::size_t>(d)] = g.cells(d) / coarse.cells(d);
  std::size_t at = 0;
  for (int c = 0; c < fine.components(); ++c)
    for (std::int64_t k = 0; k < g.cells(2); ++k)
      for (std::int64_t j = 0; j < g.cells(1); ++j)
        for (std::int64_t i = 0; i < g.cells(0); ++i, ++at) {
          const std::int64_t to =
              i / ratio[0] + coarse.cells(0) * (j / ratio[1] + coarse.cells(1) * (k / ratio[2]));
          values[static_cast<std::size_t>(to + c * coarse.cell_count())] += share * fine.values()[at];
        }
  return Coefficient(coarse, std::move(values), fine.components());
}

Operator coarsened(const Operator& op, const CartesianGrid& grid) {
  const OperatorNode& n = op.node();
  switch (n.kind) {
    case NodeKind::laplacian:
      return laplacian(grid);
    case NodeKind::identity:
      return identity();
    case NodeKind::scaling:
      return n.coefficient ? scaling(coarsened(*n.coefficient, grid)) : scaling(n.factor);
    case NodeKind::diffusion: {
      WallCoefficient wall = n.wall;
      if (wall.kind == WallCoefficient::Kind::given) wall = {WallCoefficient::Kind::mirror, {}};
      return diffusion(coarsened(*n.coefficient, grid), n.mean, wall, true);
    }
    case NodeKind::scaled:
      return n.factor * coarsened(n.children[0], grid);
    case NodeKind::added:
      return coarsened(n.children[0], grid) + coarsened(n.children[1], grid);
    default:
      throw GridError(
          GridErrorCode::bad_argument,
          fmt::format("multigrid: {} has no coarse counterpart; Laplacian, Diffusion, Scaling, Identity, "
                      "their sums and multiples have",
                      op.text()));
  }
}

std::array<bool, 3> halves(const CartesianGrid& grid) {
  std::array<bool, 3> halved{};
  for (int d = 0; d < grid.dims(); ++d)
    halved[static_cast<std::size_t>(d)] =
        grid.cells(d) % 2 == 0 && grid.cells(d) / 2 >= grid.halo(d) && grid.cells(d) > 2;
  return halved;
}

/// The inverse of an operator on few cells, column by column; the constant is projected out where it maps to
/// 0.
template <class T>
std::vector<T> dense_inverse(PreparedOperator<T>& a) {
  const Blocks& blocks = a.blocks();
  const std::int64_t n = blocks.grid().cell_count();
  const auto index = [n](std::int64_t r, std::int64_t c) { return static_cast<std::size_t>(r + c * n); };
  std::vector<double> m(static_cast<std::size_t>(n * n)), inverse(m.size());
  Field<T> unit(blocks, "unit"), column(blocks, "column");
  double largest = 0;
  for (std::int64_t c = 0; c < n; ++c) {
    std::vector<T> e(static_cast<std::size_t>(n));
    e[static_cast<std::size_t>(c)] = 1;
    unit.scatter_global(e);
    a.apply(column, unit);
    const std::vector<T> values = column.gather();
    for (std::int64_t r = 0; r < n; ++r) {
      m[index(r, c)] = static_cast<double>(values[static_cast<std::size_t>(r)]);
      largest = std::max(largest, std::abs(m[index(r, c)]));
    }
    inverse[index(c, c)] = 1;
  }
  double row_sums = 0;
  for (std::int64_t r = 0; r < n; ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < n; ++c) sum += m[index(r, c)];
    row_sums = std::max(row_sums, std::abs(sum));
  }
  const bool singular = row_sums <= 1e3 * static_cast<double>(std::numeric_limits<T>::epsilon()) * largest;
  // A rank-one term makes it regular without touching what is orthogonal to constants.
  if (singular)
    for (double& v : m) v += largest / static_cast<double>(n);
  for (std::int64_t c = 0; c < n; ++c) {
    std::int64_t pivot = c;
    for (std::int64_t r = c + 1; r < n; ++r)
      if (std::abs(m[index(r, c)]) > std::abs(m[index(pivot, c)])) pivot = r;
    for (std::int64_t k = 0; k < n; ++k) {
      std::swap(m[index(c, k)], m[index(pivot, k)]);
      std::swap(inverse[index(c, k)], inverse[index(pivot, k)]);
    }
    const double scale = 1 / m[index(c, c)];
    for (std::int64_t k = 0; k < n; ++k) m[index(c, k)] *= scale, inverse[index(c, k)] *= scale;
    for (std::int64_t r = 0; r < n; ++r) {
      const double factor = m[index(r, c)];
      if (r == c || factor == 0) continue;
      for (std::int64_t k = 0; k < n; ++k) {
        m[index(r, k)] -= factor * m[index(c, k)];
        inverse[index(r, k)] -= factor * inverse[index(c, k)];
      }
    }
  }
  // Symmetric in bits too, as the preconditioner has to be.
  std::vector<T> result(m.size());
  for (std::int64_t c = 0; c < n; ++c)
    for (std::int64_t r = 0; r < n; ++r)
      result[index(r, c)] = static_cast<T>(0.5 * (inverse[index(r, c)] + inverse[index(c, r)]));
  return result;
}

template <class T>
struct Level {
  Level(const Operator& op, const CartesianGrid& grid, const std::shared_ptr<BlocksState>& owner)
      : blocks(grid, FirstPart{owner}),
        a(op, blocks),
        x(blocks, "multigrid x"),
        b(blocks, "multigrid b"),
        r(blocks, "multigrid r"),
        inverse_diagonal(blocks, "multigrid 1/d") {
    a.diagonal(inverse_diagonal);
    std::vector<T> d = inverse_diagonal.gather();
    for (T& v : d) v = T(1) / v;
    inverse_diagonal.scatter_global(d);
  }
  Blocks blocks;
  PreparedOperator<T> a;
  Field<T> x, b, r, inverse_diagonal;
};

}  // namespace

template <class T>
struct MultigridState {
  explicit MultigridState(const Blocks& b) : blocks(b) {}
  Blocks blocks;
  std::vector<std::unique_ptr<Level<T>>> levels;
  QueuedBuffer<T> inverse;
  T omega = 1;

  Stream& stream() const { return blocks.state().transport->compute(blocks.state().parts.front()); }

  void enqueue(OperationQueue& queue, const char* name, AccessList accesses, std::int64_t items,
               std::function<void(LaunchContext&)> body) {
    Operation operation;
    operation.name = name;
    operation.accesses = accesses;
    operation.items = items;
    operation.body = std::move(body);
    queue.enqueue(stream(), std::move(operation));
  }
  /// x <- omega / diagonal r + beta x
  void relax(Level<T>& level, const Field<T>& r, T beta) {
    const FieldBlock<T>&from = r.storage().local[0], &to = level.x.storage().local[0],
          &d = level.inverse_diagonal.storage().local[0];
    enqueue(level.blocks.state().queue, "relax",
            {from.owned(AccessMode::read), d.owned(AccessMode::read), to.owned(AccessMode::write)},
            owned_box(from.layout).count(),
            [from = from.ref(), to = to.ref(), d = d.cell(), w = omega, beta](LaunchContext& context) {
              launch_scale<T>(context, to, from, d, w, beta);
            });
  }
  void residual(Level<T>& level) {
    level.r.copy_from(level.b);
    level.a.apply(level.r, level.x, T(-1), T(1));
  }
  std::array<TransferLine<T>, 3> lines(const CartesianGrid& fine, const CartesianGrid& coarse) const {
    std::array<TransferLine<T>, 3> result;
    for (int d = 0; d < 3; ++d) {
      TransferLine<T>& line = result[static_cast<std::size_t>(d)];
      line.fine = fine.cells(d);
      line.coarse = coarse.cells(d);
      line.halved = line.fine != line.coarse;
      line.periodic = coarse.boundary(d, 0).kind == BoundaryKind::periodic;
      line.low = static_cast<T>(coarse.boundary(d, 0).multiplier(1, coarse.spacing(d)));
      line.high = static_cast<T>(coarse.boundary(d, 1).multiplier(1, coarse.spacing(d)));
    }
    return result;
  }
  template <class C>
  static CellPointer<C> pointer(const FieldBlock<T>& block) {
    return {block.cell(), block.layout.stride[1], block.layout.stride[2]};
  }
  void restrict_residual(Level<T>& fine, Level<T>& coarse) {
    const auto l = lines(fine.blocks.grid(), coarse.blocks.grid());
    const FieldBlock<T>&from = fine.r.storage().local[0], &to = coarse.b.storage().local[0];
    T scale = 1;
    for (const TransferLine<T>& line : l)
      if (line.halved) scale = scale * T(0.5);
    const RestrictBody<T> body{{l[0], l[1], l[2]}, pointer<const T>(from), pointer<T>(to), scale};
    const CellBox box = owned_box(to.layout);
    enqueue(coarse.blocks.state().queue, "restrict",
            {from.owned(AccessMode::read), to.owned(AccessMode::write)}, box.count(),
            [body, box](LaunchContext& context) { for_each_cell(context, box, body); });
  }
  void prolong(Level<T>& coarse, Level<T>& fine) {
    const auto l = lines(fine.blocks.grid(), coarse.blocks.grid());
    const FieldBlock<T>&from = coarse.x.storage().local[0], &to = fine.x.storage().local[0];
    const ProlongBody<T> body{{l[0], l[1], l[2]}, pointer<const T>(from), pointer<T>(to)};
    const CellBox box = owned_box(to.layout);
    enqueue(fine.blocks.state().queue, "prolong", {from.owned(AccessMode::read), to.owned(AccessMode::write)},
            box.count(), [body, box](LaunchContext& context) { for_each_cell(context, box, body); });
  }
  void cycle(std::size_t at) {
    Level<T>& level = *levels[at];
    if (at + 1 == levels.size()) {
      const FieldBlock<T>&b = level.b.storage().local[0], &x = level.x.storage().local[0];
      const DenseBody<T> body{inverse.data(), b.cell(), x.cell(), level.blocks.grid().cell_count()};
      return enqueue(level.blocks.state().queue, "coarsest",
                     {b.owned(AccessMode::read), inverse.reads(), x.owned(AccessMode::write)}, body.n,
                     [body](LaunchContext& context) { for_each(context, body.n, body, 64); });
    }
    relax(level, level.b, T(0));
    for (int s = 1; s < sweeps; ++s) residual(level), relax(level, level.r, T(1));
    residual(level);
    restrict_residual(level, *levels[at + 1]);
    cycle(at + 1);
    prolong(*levels[at + 1], level);
    for (int s = 0; s < sweeps; ++s) residual(level), relax(level, level.r, T(1));
  }

  /// Copies between the blocks' fields and the one block, each part on its own stream. The order with the
  /// cycle, whose queues know only the first part's stream, is kept in the blocks' queue.
  void exchange(const Field<T>& parts, const Field<T>& whole, bool gather) {
    BlocksState& state = blocks.state();
    const FieldBlock<T>& one = whole.storage().local[0];
    for (const FieldBlock<T>& block : parts.storage().local) {
      const CartesianGrid& grid = blocks.local_grid(block.part);
      const BlockLayout &l = block.layout, &w = one.layout;
      std::vector<CopyPiece> pieces;
      const auto piece = [&](std::int64_t j, std::int64_t k, std::int64_t count) {
        T* const here = block.cell() + j * l.stride[1] + k * l.stride[2];
        T* const there = one.cell() + grid.first(0) + (grid.first(1) + j) * w.stride[1] +
                         (grid.first(2) + k) * w.stride[2];
        pieces.push_back(
            {gather ? there : here, gather ? here : there, static_cast<std::uint64_t>(count) * sizeof(T)});
      };
      const auto flat = [](const BlockLayout& a) {
        return a.stride[1] == a.cells[0] && a.stride[2] == a.cells[0] * a.cells[1];
      };
      if (flat(l) && flat(w) && l.stride[2] == w.stride[2] && l.stride[1] == w.stride[1]) {
        piece(0, 0, l.cells[0] * l.cells[1] * l.cells[2]);  // a slab
      } else {
        for (std::int64_t k = 0; k < l.cells[2]; ++k)
          for (std::int64_t j = 0; j < l.cells[1]; ++j) piece(j, k, l.cells[0]);
      }
      const std::array<std::int64_t, 3> lo{grid.first(0), grid.first(1), grid.first(2)};
      const std::array<std::int64_t, 3> hi{lo[0] + l.cells[0], lo[1] + l.cells[1], lo[2] + l.cells[2]};
      state.queue.enqueue(state.transport->compute(block.part),
                          copy_operation(gather ? "gather residual" : "send correction", std::move(pieces),
                                         {block.owned(gather ? AccessMode::read : AccessMode::write),
                                          box_access(one.buffer.memory(), w, sizeof(T), lo, hi,
                                                     gather ? AccessMode::write : AccessMode::read)}));
    }
  }
};

template <class T>
Multigrid<T>::Multigrid(const Operator& op, const Blocks& blocks)
    : state_(std::make_unique<MultigridState<T>>(blocks)) {
  if (blocks.local_parts().size() != static_cast<std::size_t>(blocks.partition().parts()))
    throw GridError(GridErrorCode::not_distributable,
                    "multigrid: all parts have to belong to this process in this version");
  CartesianGrid grid = blocks.grid();
  Operator level_op = coarsened(op, grid);
  const int dims = grid.dims();
  state_->omega = static_cast<T>(2.0 * dims / (2.0 * dims + 1));
  std::vector<Operator> ops{op};
  std::vector<CartesianGrid> grids{grid};
  while (grid.cell_count() > coarsest_cells) {
    const std::array<bool, 3> halved = halves(grid);
    if (!halved[0] && !halved[1] && !halved[2]) break;
    grid = grid.coarsened(halved);
    level_op = coarsened(ops.back(), grid);
    ops.push_back(level_op);
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
  for (std::size_t l = 0; l < grids.size(); ++l)
    state_->levels.push_back(std::make_unique<Level<T>>(ops[l], grids[l], blocks.shared_state()));
  Level<T>& last = *state_->levels.back();
  const std::vector<T> inverse = dense_inverse(last.a);
  OperationQueue& queue = last.blocks.state().queue;
  state_->inverse =
      QueuedBuffer<T>(queue, state_->stream(), static_cast<std::int64_t>(inverse.size()), "coarsest inverse");
  queue.enqueue(state_->stream(), copy_operation("coarsest inverse", state_->inverse.data(), inverse.data(),
                                                 inverse.size() * sizeof(T), {state_->inverse.writes()}));
  state_->stream().synchronize();
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
void Multigrid<T>::apply(Field<T>& z, const Field<T>& r) {
  check_blocks(state_->blocks, z, "multigrid");
  check_blocks(state_->blocks, r, "multigrid");
  Level<T>& top = *state_->levels.front();
  OperationQueue& queue = state_->blocks.state().queue;
  const Memory& b = top.b.storage().local[0].buffer.memory();
  const Memory& x = top.x.storage().local[0].buffer.memory();
  // The last cycle read b, and parts read x: both on streams that this queue knows.
  queue.note_write(state_->stream(), b.resource(), b.bytes());
  state_->exchange(r, top.b, true);
  queue.wait_for_uses(state_->stream(), b.resource());
  queue.wait_for_uses(state_->stream(), x.resource());
  state_->cycle(0);
  queue.note_write(state_->stream(), x.resource(), x.bytes());
  state_->exchange(z, top.x, false);
}

template class Multigrid<float>;
template class Multigrid<double>;

}  // namespace shardwise
