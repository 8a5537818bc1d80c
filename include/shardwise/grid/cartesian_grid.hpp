#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardwise/grid/boundary.hpp"

namespace shardwise {

/// Low and high condition of one dimension.
struct BoundaryPair {
  Boundary low, high;
};

/// What a grid is made from. One entry a dimension; `boundaries` empty: Dirichlet 0 everywhere; `halo` empty:
/// one ghost layer.
struct GridSpec {
  std::vector<double> lo, hi;
  std::vector<std::int64_t> cells;
  std::vector<BoundaryPair> boundaries;
  std::vector<int> halo;
};

/// A cell-centred Cartesian grid of one to three dimensions, or one block of it: an immutable value.
///
///     lo        cell 0     cell 1            hi
///      |----x----|----x----| ... |----x----|          x: centres, lo + (g + 1/2) spacing
///
/// Indices are 0-based, the first dimension is fastest. Dimensions that the grid does not have count one cell
/// and no ghosts. A block keeps the global extent and spacing, so that its centres are bit for bit the global
/// grid's.
class CartesianGrid {
 public:
  /// Throws GridError (bad_extent, bad_cells, bad_halo, bad_boundary, periodic_unpaired, thin_dimension)
  /// naming the dimension and the values.
  explicit CartesianGrid(const GridSpec& spec);

  int dims() const { return dims_; }
  double lo(int d) const { return lo_[at(d)]; }
  double hi(int d) const { return hi_[at(d)]; }
  double spacing(int d) const { return spacing_[at(d)]; }
  std::int64_t global_cells(int d) const { return global_[at(d)]; }
  /// Global index of the first owned cell.
  std::int64_t first(int d) const { return first_[at(d)]; }
  std::int64_t cells(int d) const { return cells_[at(d)]; }
  std::int64_t cell_count() const { return cells_[0] * cells_[1] * cells_[2]; }
  std::int64_t global_cell_count() const { return global_[0] * global_[1] * global_[2]; }
  int halo(int d) const { return halo_[at(d)]; }
  /// side 0: low, 1: high.
  const Boundary& boundary(int d, int side) const { return boundary_[at(d)][static_cast<std::size_t>(side)]; }
  /// The block's place in the process grid; empty for a whole grid.
  const std::optional<std::array<int, 3>>& part() const { return part_; }

  /// The centre of the owned cell i in dimension d: fma(first + i + 1/2, spacing, lo).
  double centre(int d, std::int64_t i) const;
  /// 1 / spacing^2 and 1 / (2 spacing), the constants of the stencils.
  double inverse_square(int d) const { return 1.0 / (spacing(d) * spacing(d)); }
  double half_inverse(int d) const { return (1.0 / spacing(d)) * 0.5; }

  /// Empty, or the first member in which the grids differ, with both values.
  std::string difference(const CartesianGrid& other) const;
  bool operator==(const CartesianGrid& other) const { return difference(other).empty(); }

  /// Twice the spacing in every dimension whose `halved` is set; their cells have to be even (odd_cells), and
  /// a block cannot be coarsened (already_partitioned).
  CartesianGrid coarsened(std::array<bool, 3> halved) const;
  /// The block of cells [first, first + cells) with the faces that the cut made. For partition().
  CartesianGrid block(const std::array<std::int64_t, 3>& first, const std::array<std::int64_t, 3>& cells,
                      const std::array<std::array<bool, 2>, 3>& interface,
                      const std::array<int, 3>& part) const;
  /// "64 x 64 x 32"
  std::string shape_text() const;

 private:
  CartesianGrid() = default;
  static std::size_t at(int d) { return static_cast<std::size_t>(d); }

  int dims_ = 0;
  std::array<double, 3> lo_{}, hi_{1, 1, 1}, spacing_{1, 1, 1};
  std::array<std::int64_t, 3> global_{1, 1, 1}, first_{}, cells_{1, 1, 1};
  std::array<int, 3> halo_{};
  std::array<std::array<Boundary, 2>, 3> boundary_;
  std::optional<std::array<int, 3>> part_;
};

}  // namespace shardwise
