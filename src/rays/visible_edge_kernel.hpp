#pragma once
// One row of visible_edge: does a source see any of some points on an edge?

#include "rays/visible_kernel.hpp"

namespace shardwise {

inline constexpr int max_edge_fractions = 16;

/// Where along an edge to look: samples lie at position + (t_min + f max(t_max - t_min, 0)) direction.
struct EdgeFractions {
  float values[max_edge_fractions] = {};
  int count = 0;
};

struct VisibleEdgeInputs {
  const Vec3f* source = nullptr;
  const Vec3f* edge_position = nullptr;
  const Vec3f* edge_direction = nullptr;
  const float* t_min = nullptr;
  const float* t_max = nullptr;
  IgnoreColumn ignore;  ///< the faces of the edge, where samples would not clear them by the offset alone
  const std::uint8_t* active = nullptr;
};

template <class Queries>
struct VisibleEdgeRows {
  Queries queries;
  VisibleEdgeInputs in;
  EdgeFractions fractions;
  std::uint8_t* visible = nullptr;
  RowCounters* counters = nullptr;

  SW_HD void operator()(std::int64_t row) const {
    store(visible, row, static_cast<std::uint8_t>(sees_any(row)));
  }

 private:
  SW_HD bool sees_any(std::int64_t row) const {
    if (is_masked(in.active, row)) return false;
    const Vec3f source = in.source[row], position = in.edge_position[row], along = in.edge_direction[row];
    const float from = in.t_min[row], to = in.t_max[row];
    if (!is_finite(source) || !is_finite(position) || !is_finite(along) || !is_finite(from) ||
        !is_finite(to)) {
      count_rejected(counters);
      return false;
    }
    const float span = greater(to - from, 0.0f);
    const IgnoreList ignore = in.ignore.row(row);
    for (int k = 0; k < fractions.count; ++k) {
      Segment segment;  // a sample beyond the floats is not seen
      if (segment.prepare(queries.scene, source, position + (from + fractions.values[k] * span) * along) &&
          !is_blocked(queries, segment, ignore))
        return true;
    }
    return false;
  }
};

}  // namespace shardwise
