#pragma once
// All surfaces that each segment crosses, in order.

#include "shardwise/rays/intersect.hpp"

namespace shardwise {

struct PenetrationSegments {
  std::span<const Vec3f> origins, targets;  ///< [N] metres
  std::span<const std::uint8_t> active;     ///< [N] optional
  std::vector<RowInput> columns() const { return {origins, targets, active}; }
};

/// Columns of segment_penetration, in order.
struct PenetrationColumns {
  enum Input { origin, target, active };
  enum Output {
    num_hits,          ///< i32
    reached_target,    ///< bool: all crossings are in the slots
    overflow,          ///< bool
    distance,          ///< f32, metres from origin to target; +inf for an inactive row
    direction,         ///< f32 x 3, unit; 0 for a segment without length
    valid,             ///< bool x hit_capacity
    t,                 ///< f32 x hit_capacity, metres from the origin
    position,          ///< f32 x 3 x hit_capacity, with PenetrationFields::position
    shading_normal,    ///< f32 x 3 x hit_capacity, with PenetrationFields::shading_normal
    geometric_normal,  ///< f32 x 3 x hit_capacity, with PenetrationFields::geometric_normal
    global_prim_id,    ///< i32 x hit_capacity
  };
};

struct PenetrationOptions : RowCallOptions {
  int hit_capacity = 8;  ///< D, slots a row, at least 0
  PenetrationFields fields = PenetrationFields::all;
};

/// `flagged` counts the rows with more crossings than slots; they keep the first ones.
struct Penetrations : RowAnswer {
  Penetrations() = default;
  Penetrations(RowResult result, int hit_capacity);
  Column<std::int32_t> num_hits;
  Column<std::uint8_t> reached_target, overflow;
  Column<float> distance;
  Column<Vec3f> direction;
  Column<std::uint8_t> valid;  ///< [N, D], as all below
  Column<float> t;
  Column<Vec3f> position, shading_normal, geometric_normal;
  Column<std::int32_t> global_prim_id;
};

/// A crossing on an edge that two faces share counts once; coincident faces of different shapes count apart.
Pending<Penetrations> segment_penetration(Scene& scene, const RowSource& segments,
                                          const PenetrationOptions& options = {});

}  // namespace shardwise
