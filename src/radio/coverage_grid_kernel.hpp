#pragma once
// The measurement plane: where a leg crosses it, and in which cell.

#include <cmath>
#include <cstdint>

#include "shardwise/numeric/vec3.hpp"

namespace shardwise {

/// An axis-aligned plane with a half-open window; the two other axes in increasing order are 0 and 1.
struct GridView {
  int axis = 2;
  float position = 0;
  float min0 = 0, max0 = 1, min1 = 0, max1 = 1;
  std::uint32_t resolution0 = 1, resolution1 = 1;
  SW_HD std::uint64_t cell_count() const { return static_cast<std::uint64_t>(resolution0) * resolution1; }
};

struct PlaneCrossing {
  float t;
  float cosine;  ///< |direction . normal|
  std::int64_t cell;
};

namespace detail {

/// floor((c - low) / (high - low) x resolution), held to resolution - 1; c lies in [low, high).
SW_HD inline std::uint32_t cell_index(float c, float low, float high, std::uint32_t resolution) {
  const float position = (c - low) / (high - low) * static_cast<float>(resolution);
  const std::uint32_t index = static_cast<std::uint32_t>(position);  // position >= 0: truncation is floor
  return index < resolution ? index : resolution - 1;
}

}  // namespace detail

/// Crosses at t > `after` inside the window? A leg within 1e-6 of parallel never does.
SW_HD inline bool cross_plane(const GridView& grid, Vec3f origin, Vec3f direction, float after,
                              PlaneCrossing& crossing) {
  const float along = direction[grid.axis];
  const float cosine = absolute(along);
  if (!(cosine > 1e-6f)) return false;
  const float t = (grid.position - origin[grid.axis]) / along;
  if (!(t > after)) return false;
  const int axis0 = grid.axis == 0 ? 1 : 0, axis1 = grid.axis == 2 ? 1 : 2;
  const float c0 = origin[axis0] + t * direction[axis0], c1 = origin[axis1] + t * direction[axis1];
  if (!(c0 >= grid.min0 && c0 < grid.max0 && c1 >= grid.min1 && c1 < grid.max1)) return false;
  crossing.t = t;
  crossing.cosine = cosine;
  crossing.cell = static_cast<std::int64_t>(detail::cell_index(c1, grid.min1, grid.max1, grid.resolution1)) *
                      grid.resolution0 +
                  detail::cell_index(c0, grid.min0, grid.max0, grid.resolution0);
  return true;
}

}  // namespace shardwise
