#include "shardwise/grid/grid_error.hpp"

namespace shardwise {

const char* to_string(GridErrorCode code) noexcept {
  switch (code) {
    case GridErrorCode::bad_extent:
      return "bad_extent";
    case GridErrorCode::bad_cells:
      return "bad_cells";
    case GridErrorCode::bad_halo:
      return "bad_halo";
    case GridErrorCode::bad_boundary:
      return "bad_boundary";
    case GridErrorCode::periodic_unpaired:
      return "periodic_unpaired";
    case GridErrorCode::thin_dimension:
      return "thin_dimension";
    case GridErrorCode::odd_cells:
      return "odd_cells";
    case GridErrorCode::already_partitioned:
      return "already_partitioned";
    case GridErrorCode::bad_part_count:
      return "bad_part_count";
    case GridErrorCode::too_many_devices:
      return "too_many_devices";
    case GridErrorCode::part_too_thin:
      return "part_too_thin";
    case GridErrorCode::different_grids:
      return "different_grids";
    case GridErrorCode::not_distributable:
      return "not_distributable";
    case GridErrorCode::no_adjoint:
      return "no_adjoint";
    case GridErrorCode::no_diagonal:
      return "no_diagonal";
    case GridErrorCode::not_linear:
      return "not_linear";
    case GridErrorCode::halo_too_small:
      return "halo_too_small";
    case GridErrorCode::not_positive:
      return "not_positive";
    case GridErrorCode::bad_argument:
      return "bad_argument";
    case GridErrorCode::size_mismatch:
      return "size_mismatch";
    case GridErrorCode::aliasing:
      return "aliasing";
    case GridErrorCode::wrong_blocks:
      return "wrong_blocks";
    case GridErrorCode::unavailable:
      return "unavailable";
    case GridErrorCode::wrong_sign:
      return "wrong_sign";
    case GridErrorCode::false_claim:
      return "false_claim";
    case GridErrorCode::singular:
      return "singular";
  }
  return "unknown";
}

}  // namespace shardwise
