#pragma once
// A segment between two points, shortened at both ends by the self-intersection offset.

#include "rays/ray_queries_kernel.hpp"

namespace shardwise {

/// What may block lies strictly inside (low, high) along the unit direction, in metres from the start.
struct Segment {
  Vec3f start, direction;
  float length = 0, low = 0, high = 0;

  /// False where an end is not finite, or the length is not.
  SW_HD bool prepare(const SceneView& scene, const Vec3f& from, const Vec3f& to) {
    const Vec3d along = to_double(to) - to_double(from);
    const double exact = shardwise::length(along);  // squares of floats stay finite in double
    length = static_cast<float>(exact);
    if (!is_finite(from) || !is_finite(to) || !is_finite(length)) return false;
    start = from;
    direction = exact > 0 ? to_float((1.0 / exact) * along) : Vec3f{};
    low = scene.offset_at(from);
    high = length - scene.offset_at(to);
    return true;
  }
  /// Nothing fits in between.
  SW_HD bool is_empty() const { return !(low < high); }
};

/// The first blocker, lexicographic in (t, prim).
template <class Queries>
SW_HD inline Hit first_blocker(const Queries& queries, const Segment& segment, const IgnoreList& ignore) {
  if (segment.is_empty()) return no_hit();
  return queries.first_between(segment.start, segment.direction, segment.low, segment.high, ignore);
}

template <class Queries>
SW_HD inline bool is_blocked(const Queries& queries, const Segment& segment, const IgnoreList& ignore) {
  if (segment.is_empty()) return false;
  return queries.any_between(segment.start, segment.direction, segment.low, segment.high, ignore);
}

}  // namespace shardwise
