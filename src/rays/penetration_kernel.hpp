#pragma once
// One row of segment_penetration: all surfaces that a segment crosses, in order.

#include "rays/row_kernel.hpp"
#include "rays/segment_kernel.hpp"
#include "rays/surface_kernel.hpp"

namespace shardwise {

struct PenetrationInputs {
  const Vec3f* origin = nullptr;
  const Vec3f* target = nullptr;
  const std::uint8_t* active = nullptr;
};

/// Columns of [rows], then of [rows, capacity]; any may be null.
struct PenetrationOutputs {
  std::int32_t* num_hits = nullptr;
  std::uint8_t* reached_target = nullptr;
  std::uint8_t* overflow = nullptr;  ///< there are more crossings than slots; the first ones are kept
  float* distance = nullptr;         ///< from origin to target
  Vec3f* direction = nullptr;        ///< unit
  std::uint8_t* valid = nullptr;
  float* t = nullptr;  ///< metres from the origin
  Vec3f* position = nullptr;
  Vec3f* shading_normal = nullptr;
  Vec3f* geometric_normal = nullptr;  ///< by winding
  std::int32_t* global_prim_id = nullptr;
};

/// Tells hits that are one crossing: a segment through a border of two triangles hits both.
///
/// Two hits are one crossing where the triangles have one or two corners in common (equal positions), the
/// hits lie on that corner or edge in both, and t differs by at most 4 ulp at the scale of the coordinates,
/// which is what t can be trusted to. Three common corners are two faces on top of each other: two crossings.
///
/// "On that corner or edge" can be asked exactly. The shared test takes the signs of edge functions of
/// rounded, projected corners, and takes them right (triangle_kernel.hpp); triangles side by side do not
/// overlap in the projection, so both are hit only where the functions of what they share are 0. Where they
/// do overlap, as at an outline, a hit of each near the border is two crossings. Only the weight 1 - u - v is
/// rounded.
class CrossingMerger {
 public:
  SW_HD explicit CrossingMerger(const SceneView& scene, const Segment& segment)
      : scene_(scene), scale_(greater(scene.max_coordinate, max_abs(segment.start))) {}

  /// Whether `hit`, which comes after all that were added, belongs to one of the last of those.
  SW_HD bool is_known(const Hit& hit) const {
    const float tolerance = 4.76837158e-7f * greater(scale_, hit.t);  // 2^-21: 4 ulp
    for (int k = 0; k < kept_; ++k)
      if (hit.t - last_[k].t <= tolerance && is_same_crossing(last_[k], hit)) return true;
    return false;
  }
  SW_HD void add(const Hit& hit) {
    last_[next_] = hit;
    next_ = (next_ + 1) % capacity;
    if (kept_ < capacity) ++kept_;
  }

 private:
  static constexpr int capacity = 8;  // crossings within the tolerance of each other

  SW_HD bool is_same_crossing(const Hit& a, const Hit& b) const {
    const BvhTriangle& ta = scene_.triangles[a.record];
    const BvhTriangle& tb = scene_.triangles[b.record];
    const Vec3f corners_a[3] = {ta.v0, ta.v1, ta.v2}, corners_b[3] = {tb.v0, tb.v1, tb.v2};
    const float weights_a[3] = {1.0f - a.u - a.v, a.u, a.v}, weights_b[3] = {1.0f - b.u - b.v, b.u, b.v};
    int common = 0;
    for (int i = 0; i < 3; ++i) {
      bool shared_a = false, shared_b = false;
      for (int j = 0; j < 3; ++j) {
        shared_a = shared_a || corners_a[i] == corners_b[j];
        shared_b = shared_b || corners_b[i] == corners_a[j];
      }
      common += shared_a ? 1 : 0;
      const float rounding = i == 0 ? 2.38418579e-7f : 0.0f;  // 2^-22
      if (!shared_a && absolute(weights_a[i]) > rounding) return false;
      if (!shared_b && absolute(weights_b[i]) > rounding) return false;
    }
    return common > 0 && common < 3;
  }

  SceneView scene_;
  float scale_;
  Hit last_[capacity];
  int kept_ = 0, next_ = 0;
};

template <class Queries>
struct PenetrationRows {
  Queries queries;
  FaceView faces;  ///< read for shading_normal only
  PenetrationInputs in;
  PenetrationOutputs out;
  int capacity = 0;
  RowCounters* counters = nullptr;

  SW_HD void operator()(std::int64_t row) const {
    const std::int64_t first = row * capacity;
    std::int32_t count = 0;
    bool overflow = false;
    Segment segment;
    const bool usable = begin(row, segment);
    if (usable && !segment.is_empty()) count = cross_all(segment, first, overflow);
    store(out.num_hits, row, count);
    store(out.reached_target, row, static_cast<std::uint8_t>(usable && !overflow));
    store(out.overflow, row, static_cast<std::uint8_t>(overflow));
    store(out.distance, row, usable ? segment.length : no_distance());
    store(out.direction, row, usable ? segment.direction : Vec3f{});
    for (int k = count; k < capacity; ++k) store_unused(first + k);
    if (overflow) count_flagged(counters);
  }

 private:
  SW_HD bool begin(std::int64_t row, Segment& segment) const {
    if (is_masked(in.active, row)) return false;
    if (segment.prepare(queries.scene, in.origin[row], in.target[row])) return true;
    count_rejected(counters);
    return false;
  }

  SW_HD std::int32_t cross_all(const Segment& segment, std::int64_t first, bool& overflow) const {
    CrossingMerger merger(queries.scene, segment);
    std::int32_t count = 0;
    Hit hit = first_blocker(queries, segment, {});
    while (hit.valid()) {
      if (!merger.is_known(hit)) {
        if (count == capacity) {
          overflow = true;
          break;
        }
        merger.add(hit);
        store_hit(first + count, hit);
        ++count;
      }
      hit = queries.next_after(segment.start, segment.direction, hit, segment.high);
    }
    return count;
  }

  SW_HD void store_hit(std::int64_t slot, const Hit& hit) const {
    const BvhTriangle& triangle = queries.scene.triangles[hit.record];
    store(out.valid, slot, 1);
    store(out.t, slot, hit.t);
    if (out.position) out.position[slot] = surface_point(triangle, hit.u, hit.v);
    if (out.geometric_normal || out.shading_normal) {
      const Vec3f normal = to_float(exact_normal(triangle));
      store(out.geometric_normal, slot, normal);
      if (out.shading_normal)
        out.shading_normal[slot] = shading_normal(faces, hit.prim, hit.u, hit.v, normal);
    }
    store(out.global_prim_id, slot, static_cast<std::int32_t>(hit.prim));
  }

  SW_HD void store_unused(std::int64_t slot) const {
    store(out.valid, slot, 0);
    store(out.t, slot, no_distance());
    store(out.position, slot, Vec3f{});
    store(out.shading_normal, slot, Vec3f{});
    store(out.geometric_normal, slot, Vec3f{});
    store(out.global_prim_id, slot, -1);
  }
};

}  // namespace shardwise
