#pragma once
// Rows of visible and visible_pair: does anything block the way between two points?

#include "rays/row_kernel.hpp"
#include "rays/segment_kernel.hpp"

namespace shardwise {

/// Per-row lists of faces that do not block, `count` a row.
struct IgnoreColumn {
  const std::int32_t* ids = nullptr;
  int count = 0;
  SW_HD IgnoreList row(std::int64_t index) const {
    return ids ? IgnoreList{ids + index * count, count} : IgnoreList{};
  }
};

struct VisibleInputs {
  const Vec3f* start = nullptr;
  const Vec3f* end = nullptr;
  IgnoreColumn ignore;
  const std::uint8_t* active = nullptr;
};

template <class Queries>
struct VisibleRows {
  Queries queries;
  VisibleInputs in;
  std::uint8_t* visible = nullptr;
  std::int32_t* first_blocked_by = nullptr;  ///< -1: nothing; null: any blocker decides, which is faster
  RowCounters* counters = nullptr;

  SW_HD void operator()(std::int64_t row) const {
    std::int32_t blocker = -1;
    store(visible, row, static_cast<std::uint8_t>(sees(row, blocker)));
    store(first_blocked_by, row, blocker);
  }

 private:
  SW_HD bool sees(std::int64_t row, std::int32_t& blocker) const {
    if (is_masked(in.active, row)) return false;
    Segment segment;
    if (!segment.prepare(queries.scene, in.start[row], in.end[row])) {
      count_rejected(counters);
      return false;
    }
    if (!first_blocked_by) return !is_blocked(queries, segment, in.ignore.row(row));
    const Hit hit = first_blocker(queries, segment, in.ignore.row(row));
    blocker = static_cast<std::int32_t>(hit.prim);
    return !hit.valid();
  }
};

struct VisiblePairInputs {
  const Vec3f* start = nullptr;
  const Vec3f* end_a = nullptr;
  const Vec3f* end_b = nullptr;
  IgnoreColumn ignore;  ///< of both segments
  const std::uint8_t* active = nullptr;
};

/// Two segments from one start, each on its own: an end that is not finite leaves the other alone. The row
/// counts as rejected once where either is.
template <class Queries>
struct VisiblePairRows {
  Queries queries;
  VisiblePairInputs in;
  std::uint8_t* visible_a = nullptr;
  std::uint8_t* visible_b = nullptr;
  RowCounters* counters = nullptr;

  SW_HD void operator()(std::int64_t row) const {
    bool a = false, b = false;
    if (!is_masked(in.active, row)) {
      bool rejected = false;
      a = sees(row, in.end_a[row], rejected);
      b = sees(row, in.end_b[row], rejected);
      if (rejected) count_rejected(counters);
    }
    store(visible_a, row, static_cast<std::uint8_t>(a));
    store(visible_b, row, static_cast<std::uint8_t>(b));
  }

 private:
  SW_HD bool sees(std::int64_t row, const Vec3f& end, bool& rejected) const {
    Segment segment;
    if (segment.prepare(queries.scene, in.start[row], end))
      return !is_blocked(queries, segment, in.ignore.row(row));
    rejected = true;
    return false;
  }
};

}  // namespace shardwise
