#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardwise/runtime/error.hpp"

namespace shardwise {

/// What a grid call refuses. Tests look at the code and the numbers, people at the text.
enum class GridErrorCode {
  bad_extent,           ///< lo < hi, finite
  bad_cells,            ///< at least one cell a dimension
  bad_halo,             ///< at least one layer
  bad_boundary,         ///< values that are not finite, a Robin condition that determines nothing
  periodic_unpaired,    ///< periodic on one face of a dimension only
  thin_dimension,       ///< fewer cells than ghost layers
  odd_cells,            ///< cannot be coarsened
  already_partitioned,  ///< a block cannot be cut again
  bad_part_count,       ///< below one, or a process grid that does not multiply to it
  too_many_devices,     ///< more devices than parts, or a backend that has too few
  part_too_thin,        ///< a block with fewer cells than ghost layers
  different_grids,      ///< operators, coefficients or fields that do not share a grid
  not_distributable,    ///< a node that cannot run on blocks
  no_adjoint,
  no_diagonal,
  not_linear,
  halo_too_small,  ///< a stencil that reaches further than the halo
  not_positive,    ///< a coefficient
  bad_argument,    ///< a dimension, an order, a count
  size_mismatch,   ///< an array that does not have the grid's cells
  aliasing,        ///< input and output overlap
  wrong_blocks,    ///< a field of other blocks
  unavailable,     ///< a backend that is not part of this build
  wrong_sign,      ///< CG was given an operator that is negative
  false_claim,     ///< a leaf of the user's that is not what its traits say
  singular,        ///< an inconsistent right-hand side of a singular problem
};

const char* to_string(GridErrorCode code) noexcept;

/// An Error of the grid layer: the code, the node of the operator tree (empty where there is none) and the
/// numbers that the text names.
class GridError : public Error {
 public:
  GridError(GridErrorCode code, const std::string& message, std::vector<double> numbers = {},
            std::string node_path = {})
      : Error(ErrorClass::usage, message),
        code_(code),
        numbers_(std::move(numbers)),
        node_path_(std::move(node_path)) {}
  GridErrorCode code() const noexcept { return code_; }
  const std::vector<double>& numbers() const noexcept { return numbers_; }
  const std::string& node_path() const noexcept { return node_path_; }

 private:
  GridErrorCode code_;
  std::vector<double> numbers_;
  std::string node_path_;
};

}  // namespace shardwise
