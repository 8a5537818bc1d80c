#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "shardwise/grid/cartesian_grid.hpp"

namespace shardwise {

/// Into how many blocks, and along which dimensions.
struct PartitionRequest {
  int parts = 1;  ///< in total; 0: the product of process_grid
  /// Parts along each dimension, 0: choose. All 0: slabs of the slowest dimension, unless `blocks`.
  std::array<int, 3> process_grid{0, 0, 0};
  bool blocks = false;
};

/// The even split: part c of P owns [begin(c), begin(c + 1)), begin(c) = c q + min(c, m) for n = q P + m.
std::int64_t even_split_begin(std::int64_t cells, int parts, int part);

/// A grid cut into blocks. Parts are numbered with the first dimension of the process grid fastest.
class Partition {
 public:
  /// Throws GridError: already_partitioned, bad_part_count, part_too_thin (with the sizes of all parts, the
  /// least size and the largest count that fits).
  Partition(const CartesianGrid& grid, const PartitionRequest& request);

  const CartesianGrid& grid() const { return grid_; }
  int parts() const { return static_cast<int>(blocks_.size()); }
  const std::array<int, 3>& process_grid() const { return process_grid_; }
  /// The block of a part. One part in all: the grid itself.
  const CartesianGrid& block(int part) const { return blocks_[static_cast<std::size_t>(part)]; }
  std::array<int, 3> coordinates(int part) const;
  /// The part on the other side of a face, -1 where there is none (a wall, or a dimension that is not cut).
  int neighbour(int part, int dimension, int side) const;

 private:
  CartesianGrid grid_;
  std::array<int, 3> process_grid_{1, 1, 1};
  std::vector<CartesianGrid> blocks_;
};

}  // namespace shardwise
