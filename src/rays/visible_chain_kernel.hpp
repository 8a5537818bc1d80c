#pragma once
// One row of visible_chain: are all segments of a polyline free?

#include "rays/visible_kernel.hpp"

namespace shardwise {

struct VisibleChainInputs {
  const Vec3f* points = nullptr;         ///< [rows, points_per_chain]
  const std::int32_t* length = nullptr;  ///< segments; more than there are means all; null: all
  int points_per_chain = 2;
  IgnoreColumn ignore;  ///< of each segment: [rows, points_per_chain - 1, count]
  const std::uint8_t* active = nullptr;
};

/// Any column may be null.
struct VisibleChainOutputs {
  std::uint8_t* all_visible = nullptr;
  std::int32_t* first_blocked_segment = nullptr;  ///< -1: none
  std::int32_t* first_blocked_prim = nullptr;     ///< its first blocker; -1: none
};

/// Segments are tested in order up to the first that is blocked. Only points 0 to length need be finite; a
/// negative length is rejected, length 0 is visible.
template <class Queries>
struct VisibleChainRows {
  Queries queries;
  VisibleChainInputs in;
  VisibleChainOutputs out;
  RowCounters* counters = nullptr;

  SW_HD void operator()(std::int64_t row) const {
    std::int32_t segment = -1, prim = -1;
    store(out.all_visible, row, static_cast<std::uint8_t>(sees_all(row, segment, prim)));
    store(out.first_blocked_segment, row, segment);
    store(out.first_blocked_prim, row, prim);
  }

 private:
  SW_HD bool sees_all(std::int64_t row, std::int32_t& blocked_segment, std::int32_t& blocked_prim) const {
    if (is_masked(in.active, row)) return false;
    const Vec3f* points = in.points + row * in.points_per_chain;
    const std::int32_t there = in.points_per_chain - 1;
    std::int32_t segments = in.length ? in.length[row] : there;
    if (segments > there) segments = there;
    bool usable = segments >= 0;
    for (std::int32_t k = 0; k <= segments; ++k) usable = usable && is_finite(points[k]);
    if (!usable) {
      count_rejected(counters);
      return false;
    }
    for (std::int32_t k = 0; k < segments; ++k) {
      Segment segment;
      if (!segment.prepare(queries.scene, points[k], points[k + 1])) {  // longer than a float can say
        count_rejected(counters);
        return false;
      }
      const IgnoreList ignore = in.ignore.row(row * there + k);
      if (!out.first_blocked_prim) {
        if (!is_blocked(queries, segment, ignore)) continue;
      } else {
        const Hit hit = first_blocker(queries, segment, ignore);
        if (!hit.valid()) continue;
        blocked_prim = static_cast<std::int32_t>(hit.prim);
      }
      blocked_segment = k;
      return false;
    }
    return true;
  }
};

}  // namespace shardwise
