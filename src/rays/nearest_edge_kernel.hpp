#pragma once
// The nearest edges of a point or of a ray, one source for host and device.
//
// The winner is the least (d^2, global_edge_id) over the edges that can be found, whatever the shape of the
// tree. Distances are computed in double from the float end points, so ties are true ones (a shared vertex is
// exactly as far from each of its edges), and errors of 1e-16 are nothing against what boxes are widened by.
//
// Boxes are tested in float. A side is skipped where its bound > the limit, strictly; the limit is the best
// d^2 so far, rounded up. Proof that this loses nothing (u = 2^-24, R the largest |coordinate| of the box
// relative to the query):
//   Point. Per axis near = max(low - q, q - high, 0) has an error of at most u R; near' = max(near - pad, 0)
//   with pad = 2^-20 F + 2^-60 = 16 u F + 2^-60, F >= R (1 - u) the computed R. So near' <= (1 - 13 u) x the
//   true distance along the axis, or 0. The sum of squares errs by 4 u, less than those 26 u; 2^-60 keeps
//   products that round in the subnormal range out of the way. So bound <= d^2 of each edge in the box.
//   Ray. Say an edge in the box has d^2 <= best, reached at t on the ray. Then the point at t lies within the
//   box widened by r = sqrt(best) on every side, so t lies in the slab interval of that box. Computed: with
//   2^-18 (F + r) + 2^-60 = 64 u (F + r) + 2^-60 more on each side, against differences (2 u F), products and
//   reciprocals (3 u (F + r)), and a direction's small components, kept at 2^-32 of the largest (2^-31 (F +
//   r)). For what waits on the stack there is a second bound, by the box's ball: |middle - ray| - half
//   diagonal - 2^-17 F, whose roundings sum to less than 40 u F.

#include <cstdint>

#include "scene/edge_view.hpp"
#include "scene/triangle_kernel.hpp"
#include "scene/warp_kernel.hpp"
#include "shardwise/numeric/bits.hpp"

namespace shardwise {

/// The least float >= x, for x >= 0.
SW_HD inline float float_above(double x) {
  if (x > 3.4028234663852886e38) return infinity_f;
  const float f = static_cast<float>(x);
  return static_cast<double>(f) < x ? bit_cast<float>(bit_cast<std::uint32_t>(f) + 1u) : f;
}

SW_HD inline double clamped(double x, double high) {
  return x > 0 ? (x < high ? x : high) : 0.0;
}

/// The point of an edge at s, exact at the ends.
SW_HD inline Vec3d edge_at(Vec3d a, Vec3d b, Vec3d e, double s) {
  return s == 0.0 ? a : s == 1.0 ? b : a + s * e;
}

/// Where on an edge, and how far.
struct EdgeDistance {
  double d2;
  double s;  ///< on the edge, 0 at v0
  double t;  ///< on the ray, in units of the direction given
};

/// From a point: s = clamp((q - a) . e / |e|^2, 0, 1), d = |a + s e - q|, all relative to q. (Ericson,
/// "Real-Time Collision Detection", 2005, 5.1.2.)
SW_HD inline EdgeDistance distance_to_point(const EdgeSegment& segment, Vec3f q, double degenerate_length2) {
  const Vec3d origin = to_double(q);
  const Vec3d a = to_double(segment.a) - origin, b = to_double(segment.b) - origin;
  const Vec3d e = to_double(segment.b) - to_double(segment.a);
  const double ee = dot(e, e);
  const double s = ee <= degenerate_length2 ? 0.0 : clamped(-dot(a, e) / ee, 1.0);
  const Vec3d c = edge_at(a, b, e, s);
  return {dot(c, c), s, 0};
}

/// A ray whose direction is scaled by a power of two, largest component in [1, 2): t there is t x 2^exponent.
struct EdgeRay {
  Vec3f o;
  Vec3f d;  ///< scaled
  Vec3f inv;
  Vec3d direction;      ///< scaled, exact
  double dd;            ///< |direction|^2
  double t_max;         ///< scaled; +inf: unbounded
  float inv_dd, limit;  ///< of the float direction; t_max rounded up
  int exponent;

  /// False for a ray that has no nearest edge by contract: a non-finite component, a direction whose |d|^2 is
  /// 0, subnormal or infinite, t_max NaN or <= 0.
  SW_HD bool prepare(Vec3f origin, Vec3f given, float given_t_max) {
    if (!RayData::can_hit(origin, given) || !(given_t_max > 0.0f)) return false;
    o = origin;
    exponent = static_cast<int>(bit_cast<std::uint32_t>(max_abs(given)) >> 23 & 0xffu) - 127;
    d = power_of_two_f(-exponent) * given;
    direction = power_of_two(-exponent) * to_double(given);
    dd = dot(direction, direction);
    t_max = given_t_max < infinity_f ? static_cast<double>(given_t_max) * power_of_two(exponent)
                                     : static_cast<double>(infinity_f);
    limit = float_above(t_max);
    inv_dd = 1.0f / dot(d, d);
    const float least = 2.32830644e-10f;
    inv = {1.0f / bounded(d.x, least), 1.0f / bounded(d.y, least), 1.0f / bounded(d.z, least)};
    return true;
  }

 private:
  SW_HD static float bounded(float x, float least) {
    if (absolute(x) >= least) return x;
    return x < 0 ? -least : least;
  }
};

/// From a ray, as a set of points: the candidates are the ray's ends, the edge's ends and the common
/// perpendicular, in this order; an earlier one stays where a later is not nearer. The perpendicular is no
/// candidate where sin^2 of the angle between ray and edge is 1e-7 or less. It is written with cross products
/// (r = a - o, n = d x e: t = (r x e) . n / n^2, s = (r x d) . n / n^2), which do not cancel where the
/// determinant of Ericson, 5.1.8-9, does; d^2 e^2 - (d . e)^2 = n^2.
SW_HD inline EdgeDistance distance_to_ray(const EdgeSegment& segment, const EdgeRay& ray,
                                          double degenerate_length2) {
  const Vec3d origin = to_double(ray.o), d = ray.direction;
  const Vec3d a = to_double(segment.a) - origin, b = to_double(segment.b) - origin;
  const Vec3d e = to_double(segment.b) - to_double(segment.a);
  const double ee = dot(e, e);
  const bool is_point = ee <= degenerate_length2;

  double s = is_point ? 0.0 : clamped(-dot(a, e) / ee, 1.0);
  Vec3d c = edge_at(a, b, e, s);
  EdgeDistance best{dot(c, c), s, 0};
  const auto offer = [&best](Vec3d between, double at_s, double at_t) {
    const double d2 = dot(between, between);
    if (d2 < best.d2) best = {d2, at_s, at_t};
  };
  if (ray.t_max < static_cast<double>(infinity_f)) {
    const Vec3d end = ray.t_max * d;
    s = is_point ? 0.0 : clamped(dot(end - a, e) / ee, 1.0);
    offer(edge_at(a, b, e, s) - end, s, ray.t_max);
  }
  const double t_a = clamped(dot(a, d) / ray.dd, ray.t_max);
  offer(a - t_a * d, 0.0, t_a);
  if (is_point) return best;
  const double t_b = clamped(dot(b, d) / ray.dd, ray.t_max);
  offer(b - t_b * d, 1.0, t_b);
  const Vec3d n = cross(d, e);
  const double nn = dot(n, n);
  if (nn > 1e-7 * ray.dd * ee) {
    const double t = dot(cross(a, e), n) / nn;
    s = dot(cross(a, d), n) / nn;
    if (t > 0 && t < ray.t_max && s > 0 && s < 1) offer((a + s * e) - t * d, s, t);
  }
  return best;
}

/// A node by value: four 16-byte loads on a device. On the host a reference.
#if defined(__CUDA_ARCH__)
struct EdgeNodeCopy {
  EdgeBvhNode node;
  __device__ explicit EdgeNodeCopy(const EdgeBvhNode* from) {
    const auto* source = reinterpret_cast<const uint4*>(from);
    auto* target = reinterpret_cast<uint4*>(&node);
#pragma unroll
    for (int i = 0; i < 4; ++i) target[i] = __ldg(source + i);
  }
};
struct EdgeSegmentCopy {
  EdgeSegment segment;
  __device__ explicit EdgeSegmentCopy(const EdgeSegment* from) {
    const auto* source = reinterpret_cast<const uint4*>(from);
    auto* target = reinterpret_cast<uint4*>(&segment);
#pragma unroll
    for (int i = 0; i < 2; ++i) target[i] = __ldg(source + i);
  }
};
#else
struct EdgeNodeCopy {
  const EdgeBvhNode& node;
  SW_HD explicit EdgeNodeCopy(const EdgeBvhNode* from) : node(*from) {}
};
struct EdgeSegmentCopy {
  const EdgeSegment& segment;
  SW_HD explicit EdgeSegmentCopy(const EdgeSegment* from) : segment(*from) {}
};
#endif

SW_HD inline float farther(float low, float high) {
  return greater(absolute(low), absolute(high));
}

/// A lower bound of d^2 from a point to all edges in a box, see above.
struct PointBounds {
  Vec3f q;
  /// Whether anything in the box may matter; `bound` is then what to compare with later limits.
  SW_HD bool operator()(Vec3f low, Vec3f high, float limit, float& bound) const {
    const Vec3f to_low = low - q, to_high = high - q;
    const float extent = greater(greater(farther(to_low.x, to_high.x), farther(to_low.y, to_high.y)),
                                 farther(to_low.z, to_high.z));
    const float pad = 9.53674316e-7f * extent + 8.67361738e-19f;
    const float x = greater(greater(to_low.x, -to_high.x) - pad, 0.0f);
    const float y = greater(greater(to_low.y, -to_high.y) - pad, 0.0f);
    const float z = greater(greater(to_low.z, -to_high.z) - pad, 0.0f);
    bound = x * x + y * y + z * z;
    return bound <= limit;
  }
};

/// The same for a ray; bounds and limits are distances, not squared.
struct RayBounds {
  const EdgeRay& ray;
  SW_HD bool operator()(Vec3f low, Vec3f high, float reach, float& bound) const {
    const Vec3f to_low = low - ray.o, to_high = high - ray.o;
    const float extent = greater(greater(farther(to_low.x, to_high.x), farther(to_low.y, to_high.y)),
                                 farther(to_low.z, to_high.z));
    const float wide = reach + (3.81469727e-6f * (extent + reach) + 8.67361738e-19f);
    const float x0 = (to_low.x - wide) * ray.inv.x, x1 = (to_high.x + wide) * ray.inv.x;
    const float y0 = (to_low.y - wide) * ray.inv.y, y1 = (to_high.y + wide) * ray.inv.y;
    const float z0 = (to_low.z - wide) * ray.inv.z, z1 = (to_high.z + wide) * ray.inv.z;
    const float near = greater(greater(lesser(x0, x1), lesser(y0, y1)), greater(lesser(z0, z1), 0.0f));
    const float far = lesser(lesser(greater(x0, x1), greater(y0, y1)), lesser(greater(z0, z1), ray.limit));
    if (near > far) return false;
    const Vec3f middle = 0.5f * (to_low + to_high), half = 0.5f * (high - low);
    const float along = dot(middle, ray.d) * ray.inv_dd;
    const float t = along > 0.0f ? lesser(along, ray.limit) : 0.0f;
    const Vec3f off = middle - t * ray.d;
    bound = length(off) - length(half) - (7.62939453e-6f * extent + 8.67361738e-19f);
    if (!(bound < infinity_f)) bound = 0.0f;
    return bound <= reach;
  }
};

/// Offers every edge that may matter to `sink`, roughly near ones first. Sink: `float limit() const`, which
/// only falls, and `void offer(const EdgeSegment&, std::uint32_t index)`.
template <class Bounds, class Sink>
SW_HD inline void visit_edges(const EdgeView& edges, const Bounds& bounds, Sink& sink) {
  if (edges.node_count == 0) return;
  struct Waiting {
    std::uint32_t node;
    float bound;
  };
  Waiting stack[edge_bvh_max_depth];
  int waiting = 0;
  std::uint32_t index = 0;
  for (;;) {
    const Together together;
    const EdgeNodeCopy copy(edges.nodes + index);
    const EdgeBvhNode& node = copy.node;
    float bound[2] = {0, 0};
    bool go[2];
    for (int side = 0; side < 2; ++side)
      go[side] = node.low[side].x <= node.high[side].x &&
                 bounds(node.low[side], node.high[side], sink.limit(), bound[side]);
    const int first = go[1] && (!go[0] || bound[1] < bound[0]) ? 1 : 0;
    std::uint32_t next = 0;  // the root is nobody's child
    float next_bound = 0;
    for (int k = 0; k < 2; ++k) {
      const bool upper = (k == 0) == (first == 1);
      if (!(upper ? go[1] : go[0])) continue;
      const float side_bound = upper ? bound[1] : bound[0];
      if (side_bound > sink.limit()) continue;
      const std::uint32_t child = upper ? node.child[1] : node.child[0];
      const std::uint32_t count = upper ? node.count[1] : node.count[0];
      for (std::uint32_t s = child; s < child + count; ++s) {
        const EdgeSegmentCopy segment(edges.segments + s);
        if (segment.segment.edge >= 0) sink.offer(segment.segment, s);
      }
      if (count != 0) continue;
      if (next == 0) {
        next = child;
        next_bound = side_bound;
      } else {
        stack[waiting++] = {child, side_bound};
      }
    }
    together.meet();
    while (next == 0 || next_bound > sink.limit()) {
      if (waiting == 0) return;
      --waiting;
      next = stack[waiting].node;
      next_bound = stack[waiting].bound;
    }
    index = next;
  }
}

/// The least (d^2, edge) so far.
struct BestEdge {
  EdgeDistance at{static_cast<double>(infinity_f), 0, 0};
  std::int32_t edge = -1;
  std::uint32_t segment = 0;

  SW_HD bool take(const EdgeDistance& candidate, const EdgeSegment& from, std::uint32_t index) {
    if (candidate.d2 > at.d2 || (candidate.d2 == at.d2 && from.edge > edge)) return false;
    at = candidate;
    edge = from.edge;
    segment = index;
    return true;
  }
};

struct NearestToPoint {
  Vec3f q;
  double degenerate_length2;
  BestEdge best;
  float squared_limit = infinity_f;

  SW_HD float limit() const { return squared_limit; }
  SW_HD void offer(const EdgeSegment& segment, std::uint32_t index) {
    if (best.take(distance_to_point(segment, q, degenerate_length2), segment, index))
      squared_limit = float_above(best.at.d2);
  }
};

struct NearestToRay {
  const EdgeRay& ray;
  double degenerate_length2;
  BestEdge best;
  float reach = infinity_f;

  SW_HD float limit() const { return reach; }
  SW_HD void offer(const EdgeSegment& segment, std::uint32_t index) {
    if (best.take(distance_to_ray(segment, ray, degenerate_length2), segment, index))
      reach = float_above(std::sqrt(best.at.d2));
  }
};

inline constexpr int max_nearest_edges = 16;

/// The k least (d^2, edge), ascending. `unique`: of edges with one geometry_id only the lowest that can be
/// found (their d^2 are the same).
struct NearestEdgesToPoint {
  Vec3f q;
  double degenerate_length2;
  int k;
  bool unique;
  int found = 0;
  double d2[max_nearest_edges];
  std::int32_t edge[max_nearest_edges];
  std::int32_t geometry[max_nearest_edges];
  std::uint32_t segment[max_nearest_edges];
  float squared_limit = infinity_f;

  SW_HD NearestEdgesToPoint(Vec3f point, double degenerate, int slots, bool unique_geometry)
      : q(point), degenerate_length2(degenerate), k(slots), unique(unique_geometry) {}
  SW_HD float limit() const { return squared_limit; }
  SW_HD void offer(const EdgeSegment& from, std::uint32_t index) {
    const double candidate = distance_to_point(from, q, degenerate_length2).d2;
    const auto behind = [&](int i) {
      return candidate < d2[i] || (candidate == d2[i] && from.edge < edge[i]);
    };
    if (found == k && !behind(k - 1)) return;
    int last = found < k ? found : k - 1;  // the place that is overwritten when those behind move up
    if (unique) {
      for (int i = 0; i < found; ++i) {
        if (geometry[i] != from.geometry) continue;
        if (edge[i] < from.edge) return;
        last = i;
        break;
      }
    }
    if (last == found) ++found;
    int i = last;
    for (; i > 0 && behind(i - 1); --i) {
      d2[i] = d2[i - 1];
      edge[i] = edge[i - 1];
      geometry[i] = geometry[i - 1];
      segment[i] = segment[i - 1];
    }
    d2[i] = candidate;
    edge[i] = from.edge;
    geometry[i] = from.geometry;
    segment[i] = index;
    if (found == k) squared_limit = float_above(d2[k - 1]);
  }
};

/// One answer. A miss: distance +inf, ids -1, the rest 0.
struct NearestEdge {
  float distance = infinity_f;
  float ray_t = 0;
  Vec3f point{};  ///< on the ray, or the query point; 0 for a miss
  float edge_t = 0;
  Vec3f edge_point{};
  std::int32_t shape_id = -1, local_edge_id = -1, global_edge_id = -1;
  bool is_boundary = false;
};

SW_HD inline NearestEdge describe_edge(const EdgeView& edges, const EdgeDistance& at, std::int32_t edge,
                                       std::uint32_t segment_index) {
  NearestEdge result;
  const EdgeSegmentCopy copy(edges.segments + segment_index);
  const Vec3d a = to_double(copy.segment.a), b = to_double(copy.segment.b);
  const double distance = std::sqrt(at.d2);
  result.distance = distance <= 3.4028234663852886e38 ? static_cast<float>(distance) : infinity_f;
  result.edge_t = static_cast<float>(at.s);
  result.edge_point = to_float(edge_at(a, b, b - a, at.s));
  const EdgeInfo info = edges.info[edge];
  result.shape_id = info.shape_id;
  result.local_edge_id = info.local_edge_id;
  result.global_edge_id = edge;
  result.is_boundary = info.is_boundary != 0;
  return result;
}

/// The nearest edge of a finite point.
SW_HD inline NearestEdge nearest_edge(const EdgeView& edges, Vec3f q) {
  NearestToPoint search{q, edges.degenerate_length2, {}};
  visit_edges(edges, PointBounds{q}, search);
  if (search.best.edge < 0) return {};
  NearestEdge result = describe_edge(edges, search.best.at, search.best.edge, search.best.segment);
  result.point = q;
  return result;
}

/// The nearest edge of a ray that could be prepared. `d` as given, not scaled.
SW_HD inline NearestEdge nearest_edge(const EdgeView& edges, const EdgeRay& ray, Vec3f d) {
  NearestToRay search{ray, edges.degenerate_length2, {}};
  visit_edges(edges, RayBounds{ray}, search);
  if (search.best.edge < 0) return {};
  NearestEdge result = describe_edge(edges, search.best.at, search.best.edge, search.best.segment);
  const double t = search.best.at.t * power_of_two(-ray.exponent);
  result.ray_t = t <= 3.4028234663852886e38 ? static_cast<float>(t) : infinity_f;
  result.point = to_float(to_double(ray.o) + t * to_double(d));
  return result;
}

}  // namespace shardwise
