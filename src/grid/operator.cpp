#include "shardwise/grid/operator.hpp"

#include <fmt/format.h>

#include <cmath>

#include "shardwise/grid/grid_error.hpp"

namespace shardwise {

const char* to_string(NodeKind kind) noexcept {
  switch (kind) {
    case NodeKind::laplacian:
      return "Laplacian";
    case NodeKind::difference:
      return "Derivative";
    case NodeKind::diffusion:
      return "Diffusion";
    case NodeKind::advection:
      return "Advection";
    case NodeKind::scaling:
      return "Scaling";
    case NodeKind::identity:
      return "Identity";
    case NodeKind::user:
      return "UserLeaf";
    case NodeKind::scaled:
      return "Scaled";
    case NodeKind::added:
      return "Added";
    case NodeKind::composed:
      return "Composed";
    case NodeKind::adjoint:
      return "Adjoint";
    case NodeKind::advection_adjoint:
      return "AdvectionAdjoint";
  }
  return "unknown";
}

namespace {

void check_finite(const CartesianGrid& grid, const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      throw GridError(GridErrorCode::bad_argument,
                      fmt::format("coefficient: cell {} of {} is {}; values must be finite", i,
                                  grid.shape_text(), values[i]),
                      {static_cast<double>(i), values[i]});
}

std::vector<double> evaluate(const CartesianGrid& grid,
                             const std::function<double(double, double, double)>& f) {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(grid.cell_count()));
  for (std::int64_t k = 0; k < grid.cells(2); ++k)
    for (std::int64_t j = 0; j < grid.cells(1); ++j)
      for (std::int64_t i = 0; i < grid.cells(0); ++i)
        values.push_back(f(grid.centre(0, i), grid.dims() > 1 ? grid.centre(1, j) : 0,
                           grid.dims() > 2 ? grid.centre(2, k) : 0));
  return values;
}

Operator make(OperatorNode node) {
  return Operator(std::make_shared<const OperatorNode>(std::move(node)));
}

OperatorNode leaf(NodeKind kind, const CartesianGrid& grid) {
  OperatorNode node;
  node.kind = kind;
  node.grid = std::make_shared<const CartesianGrid>(grid);
  return node;
}

void check_whole(const CartesianGrid& grid, const char* what) {
  if (grid.part())
    throw GridError(GridErrorCode::already_partitioned,
                    fmt::format("{}: the grid is a block of a partition; build from the global grid and let "
                                "prepare() cut it",
                                what));
}

}  // namespace

Coefficient::Coefficient(const CartesianGrid& grid, const std::function<double(double, double, double)>& f)
    : Coefficient(grid, evaluate(grid, f)) {}

Coefficient::Coefficient(const CartesianGrid& grid, std::vector<double> values, int components) {
  if (components != 1 && components != grid.dims())
    throw GridError(
        GridErrorCode::bad_argument,
        fmt::format("coefficient: {} components on a grid with {} dimensions; 1, or one a dimension",
                    components, grid.dims()),
        {static_cast<double>(components)});
  const std::int64_t count = grid.cell_count() * components;
  if (static_cast<std::int64_t>(values.size()) != count)
    throw GridError(GridErrorCode::size_mismatch,
                    fmt::format("coefficient: {} with {} components has {} values, but {} were given",
                                grid.shape_text(), components, count, values.size()),
                    {static_cast<double>(count), static_cast<double>(values.size())});
  check_finite(grid, values);
  data_ = std::make_shared<const Data>(Data{grid, std::move(values), components});
}

Coefficient Coefficient::constant(const CartesianGrid& grid, double value) {
  return Coefficient(grid, std::vector<double>(static_cast<std::size_t>(grid.cell_count()), value));
}

Operator laplacian(const CartesianGrid& grid) {
  check_whole(grid, "laplacian");
  return make(leaf(NodeKind::laplacian, grid));
}

Operator derivative(const CartesianGrid& grid, int dimension, Difference difference) {
  check_whole(grid, "derivative");
  if (dimension < 0 || dimension >= grid.dims())
    throw GridError(GridErrorCode::bad_argument,
                    fmt::format("derivative: dimension {} of a grid with {}", dimension, grid.dims()),
                    {static_cast<double>(dimension), static_cast<double>(grid.dims())});
  OperatorNode node = leaf(NodeKind::difference, grid);
  node.dimension = dimension;
  node.difference = difference;
  return make(std::move(node));
}

Operator diffusion(const Coefficient& kappa, Mean mean, const WallCoefficient& wall, bool known_positive) {
  const CartesianGrid& grid = kappa.grid();
  check_whole(grid, "diffusion");
  if (mean != Mean::arithmetic && !known_positive) {
    const std::vector<double>& values = kappa.values();
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!(values[i] > 0)) {
        const auto cell = static_cast<std::int64_t>(i) % grid.cell_count();
        throw GridError(
            GridErrorCode::not_positive,
            fmt::format("diffusion: harmonic and geometric means need a positive coefficient, but "
                        "cell ({}, {}, {}) has {}; mend it, or use the arithmetic mean",
                        cell % grid.cells(0), cell / grid.cells(0) % grid.cells(1),
                        cell / (grid.cells(0) * grid.cells(1)), values[i]),
            {static_cast<double>(cell), values[i]});
      }
  }
  OperatorNode node = leaf(NodeKind::diffusion, grid);
  node.mean = mean;
  node.wall = wall;
  node.coefficient = std::make_shared<const Coefficient>(kappa);
  for (int d = 0; d < grid.dims() && wall.kind == WallCoefficient::Kind::given; ++d)
    for (int side = 0; side < 2; ++side) {
      auto& values = node.wall.values[static_cast<std::size_t>(d)][static_cast<std::size_t>(side)];
      const std::int64_t face = grid.cell_count() / grid.cells(d);
      if (values.size() == 1) values.assign(static_cast<std::size_t>(face), values.front());
      if (grid.boundary(d, side).is_wall() && static_cast<std::int64_t>(values.size()) != face)
        throw GridError(GridErrorCode::size_mismatch,
                        fmt::format("diffusion: the {} wall of dimension {} has {} cells, but {} given "
                                    "coefficients (one for each, or one alone)",
                                    side == 0 ? "low" : "high", d, face, values.size()),
                        {static_cast<double>(face), static_cast<double>(values.size())});
    }
  return make(std::move(node));
}

Operator advection(const Coefficient& velocity) {
  const CartesianGrid& grid = velocity.grid();
  check_whole(grid, "advection");
  if (velocity.components() != grid.dims())
    throw GridError(GridErrorCode::bad_argument,
                    fmt::format("advection: a velocity with {} components on a grid with {} dimensions",
                                velocity.components(), grid.dims()),
                    {static_cast<double>(velocity.components()), static_cast<double>(grid.dims())});
  OperatorNode node = leaf(NodeKind::advection, grid);
  node.coefficient = std::make_shared<const Coefficient>(velocity);
  return make(std::move(node));
}

Operator scaling(double c) {
  OperatorNode node;
  node.kind = NodeKind::scaling;
  node.factor = c;
  return make(std::move(node));
}

Operator scaling(const Coefficient& c) {
  if (c.components() != 1)
    throw GridError(GridErrorCode::bad_argument,
                    fmt::format("scaling: a coefficient with {} components; one is needed", c.components()));
  OperatorNode node = leaf(NodeKind::scaling, c.grid());
  node.coefficient = std::make_shared<const Coefficient>(c);
  return make(std::move(node));
}

Operator identity() {
  return make({});
}

Operator user_leaf(const CartesianGrid& grid, UserLeaf user) {
  check_whole(grid, "user_leaf");
  if (!user.run_float && !user.run_double)
    throw GridError(GridErrorCode::bad_argument,
                    fmt::format("user_leaf '{}': neither run_float nor run_double is set", user.name));
  for (int d = 0; d < grid.dims(); ++d)
    if (user.radius > grid.halo(d))
      throw GridError(
          GridErrorCode::halo_too_small,
          fmt::format("user_leaf '{}' has radius {}, but dimension {} has {} ghost layers; make the "
                      "grid with a halo of {}",
                      user.name, user.radius, d, grid.halo(d), user.radius),
          {static_cast<double>(user.radius), static_cast<double>(grid.halo(d))});
  OperatorNode node = leaf(NodeKind::user, grid);
  node.user = std::make_shared<const UserLeaf>(std::move(user));
  return make(std::move(node));
}

Operator operator*(double factor, const Operator& a) {
  OperatorNode node;
  node.kind = NodeKind::scaled;
  node.factor = factor;
  node.children = {a};
  return make(std::move(node));
}

Operator operator+(const Operator& a, const Operator& b) {
  OperatorNode node;
  node.kind = NodeKind::added;
  node.children = {a, b};
  return make(std::move(node));
}
Operator operator-(const Operator& a, const Operator& b) {
  return a + (-1.0) * b;
}
Operator operator-(const Operator& a) {
  return -1.0 * a;
}

Operator compose(const Operator& a, const Operator& b) {
  OperatorNode node;
  node.kind = NodeKind::composed;
  node.children = {a, b};
  return make(std::move(node));
}

Operator adjoint(const Operator& a) {
  OperatorNode node;
  node.kind = NodeKind::adjoint;
  node.children = {a};
  return make(std::move(node));
}

Traits Operator::traits() const {
  const OperatorNode& n = node();
  const auto child = [&](std::size_t i) { return n.children[i].traits(); };
  switch (n.kind) {
    case NodeKind::laplacian:
    case NodeKind::diffusion:
      return {true, true, true, false, true, true};
    case NodeKind::difference:
      return {true, true, n.difference == Difference::second, false, true, true};
    case NodeKind::advection:
    case NodeKind::advection_adjoint:
      return {true, true, false, false, true, true};
    case NodeKind::scaling:
    case NodeKind::identity:
      return {true, true, true, true, false, true};
    case NodeKind::user:
      return n.user->traits;
    case NodeKind::scaled:
      return child(0);
    case NodeKind::added: {
      const Traits a = child(0), b = child(1);
      return {
          a.linear && b.linear,     a.constant && b.constant,         a.self_adjoint && b.self_adjoint,
          a.diagonal && b.diagonal, a.reads_ghosts || b.reads_ghosts, a.shares_exchange && b.shares_exchange};
    }
    case NodeKind::composed: {
      const Traits a = child(0), b = child(1);
      return {a.linear && b.linear,     a.constant && b.constant, false,
              a.diagonal && b.diagonal, b.reads_ghosts,           false};
    }
    case NodeKind::adjoint: {
      Traits t = child(0);
      t.shares_exchange = false;
      return t;
    }
  }
  return {};
}

std::string Operator::text() const {
  const OperatorNode& n = node();
  switch (n.kind) {
    case NodeKind::scaled:
      return fmt::format("Scaled({}, {})", n.factor, n.children[0].text());
    case NodeKind::added:
      return fmt::format("Added({}, {})", n.children[0].text(), n.children[1].text());
    case NodeKind::composed:
      return fmt::format("Composed({}, {})", n.children[0].text(), n.children[1].text());
    case NodeKind::adjoint:
      return fmt::format("Adjoint({})", n.children[0].text());
    case NodeKind::difference:
      return fmt::format("Derivative({})", n.dimension);
    case NodeKind::scaling:
      return n.coefficient ? "Scaling(field)" : fmt::format("Scaling({})", n.factor);
    case NodeKind::user:
      return n.user->name;
    default:
      return to_string(n.kind);
  }
}

}  // namespace shardwise
