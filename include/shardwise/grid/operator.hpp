#pragma once
// The algebra of grid operators: leaves, sums, products, multiples and adjoints as a tree of values. A tree
// holds no device memory; prepare() (prepared_operator.hpp) makes it run.
//
//     Operator a = 2.0 * laplacian(grid) + compose(derivative(grid, 0), scaling(3.0));
//
// Every operator with walls is affine, L_full(u) = L(u) + b. apply() is always the linear part L, with
// homogeneous conditions; boundary_rhs() is the lift b = L_full(0).

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shardwise/grid/cartesian_grid.hpp"
#include "shardwise/grid/field.hpp"
#include "shardwise/runtime/operation.hpp"

namespace shardwise {

/// One value a cell of a global grid (or one for each dimension): kappa, or a velocity.
class Coefficient {
 public:
  /// f(x, y, z) at the centres.
  Coefficient(const CartesianGrid& grid, const std::function<double(double, double, double)>& f);
  /// Values of all cells, the first dimension fastest; `components` arrays one after another (1, or one a
  /// dimension). Throws size_mismatch.
  Coefficient(const CartesianGrid& grid, std::vector<double> values, int components = 1);
  static Coefficient constant(const CartesianGrid& grid, double value);

  const CartesianGrid& grid() const { return data_->grid; }
  int components() const { return data_->components; }
  const std::vector<double>& values() const { return data_->values; }

 private:
  struct Data {
    CartesianGrid grid;
    std::vector<double> values;
    int components;
  };
  std::shared_ptr<const Data> data_;
};

/// How a face coefficient comes from two cells'.
enum class Mean { arithmetic, harmonic, geometric };

/// The coefficient on wall faces: (3 k0 - k1)/2 where positive and where there is a second cell, else k0;
/// always k0; or given values.
struct WallCoefficient {
  enum class Kind { extrapolate, mirror, given };
  Kind kind = Kind::extrapolate;
  /// Of `given`: [dimension][side], one value a cell of the global face (dimensions ascending, first
  /// fastest), or one value alone; empty where the face is no wall.
  std::array<std::array<std::vector<double>, 2>, 3> values;
};

/// Finite differences along one dimension: (u+ - u-)/2h, (u- - 2u + u+)/h^2, (u - u-)/h, (u+ - u)/h.
enum class Difference { centred, second, upwind_minus, upwind_plus };

struct Traits {
  bool linear = false, constant = false, self_adjoint = false, diagonal = false;
  bool reads_ghosts = true, shares_exchange = false;
};

/// What a leaf of your own gets for one block: y <- alpha L(x) + beta y on the owned cells, x with its ghosts
/// filled, homogeneous conditions. y is not to be read where beta is 0.
template <class T>
struct UserLeafCall {
  const CartesianGrid* grid;  ///< the block's
  FieldView<const T> x;
  FieldView<T> y;
  T alpha, beta;
};

/// A leaf of your own: built in your project for the platforms you want. It claims nothing but what `traits`
/// says and reads a star of `radius` cells.
struct UserLeaf {
  std::string name;
  int radius = 1;
  bool distributable = true;  ///< false: it needs the whole grid in one block
  Traits traits;
  std::function<void(LaunchContext&, const UserLeafCall<float>&)> run_float;    ///< may be empty
  std::function<void(LaunchContext&, const UserLeafCall<double>&)> run_double;  ///< may be empty
};

enum class NodeKind {
  laplacian,
  difference,
  diffusion,
  advection,
  scaling,
  identity,
  user,
  scaled,
  added,
  composed,
  adjoint,
  advection_adjoint,  ///< made by prepare()
};
const char* to_string(NodeKind kind) noexcept;

struct OperatorNode;

/// A node of the tree, shared and immutable.
class Operator {
 public:
  explicit Operator(std::shared_ptr<const OperatorNode> node) : node_(std::move(node)) {}
  const OperatorNode& node() const { return *node_; }
  Traits traits() const;
  /// "Added(Laplacian, Scaled(2, Identity))"
  std::string text() const;

 private:
  std::shared_ptr<const OperatorNode> node_;
};

struct OperatorNode {
  NodeKind kind = NodeKind::identity;
  std::shared_ptr<const CartesianGrid> grid;  ///< null: any grid
  double factor = 1;                          ///< of scaled, scaling
  int dimension = 0;                          ///< of difference
  Difference difference = Difference::centred;
  Mean mean = Mean::arithmetic;
  WallCoefficient wall;
  std::shared_ptr<const Coefficient> coefficient;  ///< of diffusion, advection, scaling by a field
  std::shared_ptr<const UserLeaf> user;
  bool linear_only = false;   ///< a part of an adjoint: its lift is 0
  bool negate_walls = false;  ///< wall multipliers with the other sign: owner-computes adjoints
  std::vector<Operator> children;
};

Operator laplacian(const CartesianGrid& grid);
/// Throws bad_argument where the grid has no such dimension.
Operator derivative(const CartesianGrid& grid, int dimension, Difference difference = Difference::centred);
/// div(kappa grad u), compact. One coefficient, or one a dimension. Harmonic and geometric means need it
/// positive everywhere (not_positive names the first cell), unless known_positive.
Operator diffusion(const Coefficient& kappa, Mean mean = Mean::arithmetic, const WallCoefficient& wall = {},
                   bool known_positive = false);
/// v . grad u, one velocity component a dimension.
Operator advection(const Coefficient& velocity);
Operator scaling(double c);
Operator scaling(const Coefficient& c);
Operator identity();
Operator user_leaf(const CartesianGrid& grid, UserLeaf leaf);

Operator operator*(double factor, const Operator& a);
Operator operator+(const Operator& a, const Operator& b);
Operator operator-(const Operator& a, const Operator& b);
Operator operator-(const Operator& a);
/// a after b.
Operator compose(const Operator& a, const Operator& b);
Operator adjoint(const Operator& a);

}  // namespace shardwise
