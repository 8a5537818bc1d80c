#include "grid/multigrid_levels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "shardwise/grid/grid_error.hpp"

namespace shardwise {

namespace {

/// From this many cells a level is cut; below, one part is as fast.
constexpr std::int64_t cut_from_cells = 32 * 32 * 32;

/// The streams of other blocks: those of all their parts, or of the first alone.
class BorrowedTransport final : public BlockTransport {
 public:
  BorrowedTransport(std::shared_ptr<BlocksState> owner, bool one)
      : owner_(std::move(owner)), parts_(owner_->parts) {
    if (one) std::erase_if(parts_, [](int part) { return part != 0; });
  }
  std::string name() const override { return owner_->transport->name(); }
  std::vector<int> local_parts() const override { return parts_; }
  Stream& compute(int part) override { return owner_->transport->compute(part); }
  Stream& transfer(int part) override { return owner_->transport->transfer(part); }
  void move(const std::vector<Message>& messages, OrderedQueue& queue) override {
    owner_->transport->move(messages, queue);
  }
  std::shared_ptr<void> host_memory(std::uint64_t bytes) override {
    return owner_->transport->host_memory(bytes);
  }
  std::vector<std::int64_t> gather_words(const std::vector<std::int64_t>& words) override {
    return owner_->transport->gather_words(words);
  }
  bool agree(bool yes) override { return owner_->transport->agree(yes); }
  std::vector<std::vector<std::byte>> gather_bytes(std::span<const std::byte> bytes, int root) override {
    return owner_->transport->gather_bytes(bytes, root);
  }
  int processes() const override { return owner_->transport->processes(); }
  bool move_waits() const override { return owner_->transport->move_waits(); }
  SimWorld* sim_world() const override { return owner_->transport->sim_world(); }

 private:
  std::shared_ptr<BlocksState> owner_;
  std::vector<int> parts_;
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

}  // namespace

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

std::array<bool, 3> halved_dimensions(const CartesianGrid& grid) {
  std::array<bool, 3> halved{};
  for (int d = 0; d < grid.dims(); ++d)
    halved[static_cast<std::size_t>(d)] =
        grid.cells(d) % 2 == 0 && grid.cells(d) / 2 >= grid.halo(d) && grid.cells(d) > 2;
  return halved;
}

namespace {

struct WeightedLeaf {
  double factor;
  const Coefficient* kappa;  ///< null: 1
  Mean mean;
};

void collect(const Operator& op, double factor, std::vector<WeightedLeaf>& leaves) {
  const OperatorNode& n = op.node();
  if (n.kind == NodeKind::laplacian) leaves.push_back({factor, nullptr, Mean::arithmetic});
  if (n.kind == NodeKind::diffusion) leaves.push_back({factor, n.coefficient.get(), n.mean});
  for (const Operator& child : n.children)
    collect(child, n.kind == NodeKind::scaled ? factor * n.factor : factor, leaves);
}

double face_mean(Mean mean, double a, double b) {
  if (mean == Mean::arithmetic) return (a + b) / 2;
  return mean == Mean::harmonic ? 2 * a * b / (a + b) : std::sqrt(a * b);
}

bool is_constant(const Coefficient& kappa) {
  const std::vector<double>& v = kappa.values();
  return std::all_of(v.begin(), v.end(), [&](double x) { return x == v.front(); });
}

}  // namespace

std::array<std::vector<double>, 3> interpolation_weights(const Operator& op, const CartesianGrid& grid,
                                                         const std::array<bool, 3>& halved) {
  std::vector<WeightedLeaf> leaves;
  collect(op, 1, leaves);
  std::array<std::vector<double>, 3> weights;
  if (std::all_of(leaves.begin(), leaves.end(),
                  [](const WeightedLeaf& l) { return !l.kappa || is_constant(*l.kappa); }))
    return weights;
  const std::int64_t cells = grid.cell_count();
  const std::int64_t stride[3] = {1, grid.cells(0), grid.cells(0) * grid.cells(1)};
  std::vector<double> total(static_cast<std::size_t>(cells));
  for (int d = 0; d < grid.dims(); ++d) {
    if (!halved[static_cast<std::size_t>(d)]) continue;
    // Conductances of the faces above the cells, and of the cells themselves for walls.
    std::vector<double> above(static_cast<std::size_t>(cells)), own(above.size());
    const std::int64_t n = grid.cells(d);
    const auto beyond = [&](std::int64_t cell) {  // above it; the other end of a periodic line
      return cell / stride[d] % n + 1 < n ? cell + stride[d] : cell - (n - 1) * stride[d];
    };
    for (const WeightedLeaf& leaf : leaves)
      for (std::int64_t cell = 0; cell < cells; ++cell) {
        const double* const k =
            leaf.kappa ? leaf.kappa->values().data() + (leaf.kappa->components() > 1 ? d * cells : 0)
                       : nullptr;
        const auto at = static_cast<std::size_t>(cell);
        own[at] += leaf.factor * (k ? k[cell] : 1);
        above[at] += leaf.factor * (k ? face_mean(leaf.mean, k[cell], k[beyond(cell)]) : 1);
      }
    std::vector<double>& w = weights[static_cast<std::size_t>(d)];
    w.resize(above.size());
    const bool periodic = grid.boundary(d, 0).kind == BoundaryKind::periodic;
    for (std::int64_t cell = 0; cell < cells; ++cell) {
      const std::int64_t i = cell / stride[d] % n;
      const auto at = static_cast<std::size_t>(cell);
      double high = above[at];
      if (i + 1 == n && !periodic) high = own[at];
      double low = own[at];
      if (i > 0 || periodic)
        low = above[static_cast<std::size_t>(i > 0 ? cell - stride[d] : cell + (n - 1) * stride[d])];
      const double outer = i % 2 == 0 ? low : high, inner = i % 2 == 0 ? high : low;
      const double share = outer / (2 * (outer + inner));
      w[at] = share >= 0 && share <= 0.5 ? share : 0.25;  // operators of mixed signs have no such meaning
      total[at] += w[at];
    }
  }
  for (std::vector<double>& w : weights)
    for (std::size_t at = 0; at < w.size(); ++at)
      if (total[at] > 1) w[at] /= total[at];
  return weights;
}

Blocks coarse_blocks(const CartesianGrid& grid, const Blocks& finest) {
  const std::array<int, 3>& process_grid = finest.partition().process_grid();
  bool cut = grid.cell_count() >= cut_from_cells;
  for (int d = 0; d < grid.dims(); ++d)
    cut = cut && grid.cells(d) >=
                     static_cast<std::int64_t>(grid.halo(d)) * process_grid[static_cast<std::size_t>(d)];
  PartitionRequest request;
  if (cut) request = {0, process_grid, false};
  const std::shared_ptr<BlocksState>& owner = finest.shared_state();
  return Blocks(std::make_shared<BlocksState>(Partition(grid, request), GhostLayout::planes,
                                              std::make_unique<BorrowedTransport>(owner, !cut),
                                              owner->queue_owner));
}

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
MultigridLevel<T>::MultigridLevel(const Operator& op, const Blocks& b)
    : blocks(b), a(op, blocks), r(blocks, "multigrid r"), inverse_diagonal(blocks, "multigrid 1/d") {
  a.diagonal(inverse_diagonal);
  for (const int part : blocks.local_parts()) {
    std::vector<T> d = inverse_diagonal.memory(part);
    for (T& v : d) v = T(1) / v;
    inverse_diagonal.set_memory(part, d);
  }
}

template struct MultigridLevel<float>;
template struct MultigridLevel<double>;
template std::vector<float> dense_inverse(PreparedOperator<float>&);
template std::vector<double> dense_inverse(PreparedOperator<double>&);

}  // namespace shardwise
