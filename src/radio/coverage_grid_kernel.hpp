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
  SW_HD int axis0() const { return axis == 0 ? 1 : 0; }
  SW_HD int axis1() const { return axis == 2 ? 1 : 2; }
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

/// Where a leg meets the plane, and whether that is a crossing: at t > `after`, inside the window. A leg
/// within 1e-6 of parallel never crosses.
struct PlaneMeeting {
  float t;
  float cosine;  ///< |direction . normal|
  float c0, c1;
  bool crosses;
};

/// `o` and `d` are given in the plane's axes: its normal, 0, 1.
SW_HD inline PlaneMeeting meet_plane(const GridView& grid, Vec3f o, Vec3f d, float after) {
  const float cosine = absolute(d.x);
  const float t = (grid.position - o.x) / d.x;
  const float c0 = o.y + t * d.y, c1 = o.z + t * d.z;
  const bool crosses = (cosine > 1e-6f) & (t > after) & (c0 >= grid.min0) & (c0 < grid.max0) &
                       (c1 >= grid.min1) & (c1 < grid.max1);
  return {t, cosine, c0, c1, crosses};
}

/// The cell of a crossing at (c0, c1).
SW_HD inline std::int64_t cell_at(const GridView& grid, float c0, float c1) {
  return static_cast<std::int64_t>(detail::cell_index(c1, grid.min1, grid.max1, grid.resolution1)) *
             grid.resolution0 +
         detail::cell_index(c0, grid.min0, grid.max0, grid.resolution0);
}

/// Crosses at t > `after` inside the window?
SW_HD inline bool cross_plane(const GridView& grid, Vec3f origin, Vec3f direction, float after,
                              PlaneCrossing& crossing) {
  const int axis0 = grid.axis0(), axis1 = grid.axis1();
  const PlaneMeeting meeting = meet_plane(grid, {origin[grid.axis], origin[axis0], origin[axis1]},
                                          {direction[grid.axis], direction[axis0], direction[axis1]}, after);
  if (!meeting.crosses) return false;
  crossing.t = meeting.t;
  crossing.cosine = meeting.cosine;
  crossing.cell = cell_at(grid, meeting.c0, meeting.c1);
  return true;
}

}  // namespace shardwise
