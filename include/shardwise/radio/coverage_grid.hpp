#pragma once

#include <cstdint>

namespace shardwise {

/// An axis-aligned measurement plane cut into cells. The two in-plane axes in increasing order are 0 and 1
/// (normal z: x and y). Cell (i0, i1) is `i1 * resolution0 + i0`; a map has shape [resolution1, resolution0].
struct CoverageGrid {
  int axis = 2;                                   ///< of the plane's normal
  double position = 1.5;                          ///< of the plane along that axis, metres
  double min0 = 0, max0 = 0, min1 = 0, max1 = 0;  ///< the window, half open, metres
  std::int64_t resolution0 = 0, resolution1 = 0;

  std::int64_t cell_count() const { return resolution0 * resolution1; }
  double cell_area() const {
    return (max0 - min0) / static_cast<double>(resolution0) *
           ((max1 - min1) / static_cast<double>(resolution1));
  }
};

}  // namespace shardwise
