#pragma once
// Rows of nearest_edge and nearest_edges: what one item of a launch reads and writes.

#include "rays/nearest_edge_kernel.hpp"
#include "rays/row_kernel.hpp"

namespace shardwise {

/// Columns of one launch; null where a column is not there. [rows], or [rows x k].
struct NearestEdgeOutputs {
  std::uint8_t* is_valid = nullptr;
  float* distance = nullptr;
  float* ray_t = nullptr;
  Vec3f* point = nullptr;
  float* edge_t = nullptr;
  Vec3f* edge_point = nullptr;
  std::int32_t* shape_id = nullptr;
  std::int32_t* local_edge_id = nullptr;
  std::int32_t* global_edge_id = nullptr;
  std::uint8_t* is_boundary = nullptr;

  SW_HD void put(std::int64_t at, const NearestEdge& edge) const {
    store(is_valid, at, static_cast<std::uint8_t>(edge.global_edge_id >= 0));
    store(distance, at, edge.distance);
    store(ray_t, at, edge.ray_t);
    store(point, at, edge.point);
    store(edge_t, at, edge.edge_t);
    store(edge_point, at, edge.edge_point);
    store(shape_id, at, edge.shape_id);
    store(local_edge_id, at, edge.local_edge_id);
    store(global_edge_id, at, edge.global_edge_id);
    store(is_boundary, at, static_cast<std::uint8_t>(edge.is_boundary));
  }
};

/// Points; the k nearest, slot 0 as of k = 1 bit for bit.
struct NearestEdgesOfPointRows {
  EdgeView edges;
  const Vec3f* points;
  const std::uint8_t* active;
  int k;
  bool unique_geometry;
  NearestEdgeOutputs out;
  RowCounters* counters;

  SW_HD void operator()(std::int64_t row) const {
    const std::int64_t first = row * k;
    int found = 0;
    if (!is_masked(active, row)) {
      const Vec3f q = points[row];
      if (is_finite(q)) {
        NearestEdgesToPoint search(q, edges.degenerate_length2, k, unique_geometry);
        visit_edges(edges, PointBounds{q}, search);
        found = search.found;
        for (int i = 0; i < found; ++i) {
          const EdgeSegmentCopy copy(edges.segments + search.segment[i]);
          NearestEdge edge =
              describe_edge(edges, distance_to_point(copy.segment, q, edges.degenerate_length2),
                            search.edge[i], search.segment[i]);
          edge.point = q;
          out.put(first + i, edge);
        }
      } else {
        count_rejected(counters);
      }
    }
    for (int i = found; i < k; ++i) out.put(first + i, NearestEdge{});
  }
};

/// Points; the nearest alone.
struct NearestEdgeOfPointRows {
  EdgeView edges;
  const Vec3f* points;
  const std::uint8_t* active;
  NearestEdgeOutputs out;
  RowCounters* counters;

  SW_HD void operator()(std::int64_t row) const {
    NearestEdge edge;
    if (!is_masked(active, row)) {
      const Vec3f q = points[row];
      if (is_finite(q))
        edge = nearest_edge(edges, q);
      else
        count_rejected(counters);
    }
    out.put(row, edge);
  }
};

/// Rays, 0 <= t <= tmax in units of |direction|.
struct NearestEdgeOfRayRows {
  EdgeView edges;
  const Vec3f* origins;
  const Vec3f* directions;
  const float* tmax;
  const std::uint8_t* active;
  NearestEdgeOutputs out;
  RowCounters* counters;

  SW_HD void operator()(std::int64_t row) const {
    NearestEdge edge;
    if (!is_masked(active, row)) {
      EdgeRay ray;
      const Vec3f d = directions[row];
      if (ray.prepare(origins[row], d, ray_limit(tmax, row)))
        edge = nearest_edge(edges, ray, d);
      else
        count_rejected(counters);
    }
    out.put(row, edge);
  }
};

}  // namespace shardwise
