#pragma once
// The edge of the scene that is nearest to a point or a ray. The least (d^2, global_edge_id) over the edges
// that the mask shows; exact, without a radius. A miss has distance +inf, ids -1, false and zeros.

#include "shardwise/rays/edge_requests.hpp"
#include "shardwise/rays/intersect.hpp"

namespace shardwise {

struct Points {
  std::span<const Vec3f> points;         ///< [N] metres
  std::span<const std::uint8_t> active;  ///< [N] optional
  std::vector<RowInput> columns() const { return {points, active}; }
};

/// Columns of nearest_edge of points, in order.
struct NearestEdgeOfPointColumns {
  enum Input { point, active };
  enum Output {
    distance,        ///< f32
    edge_point,      ///< f32 x 3, the nearest point of the edge
    edge_t,          ///< f32, where it lies on the edge: 0 at v0, 1 at v1
    shape_id,        ///< i32
    local_edge_id,   ///< i32
    global_edge_id,  ///< i32
    is_boundary,     ///< bool
    echo,            ///< f32 x 3, the query point again; only where asked for
  };
};

/// Columns of nearest_edge of rays, in order.
struct NearestEdgeOfRayColumns {
  enum Input { origin, direction, tmax, active };
  enum Output {
    distance,        ///< f32, between point and edge_point
    ray_t,           ///< f32, in units of |direction|
    point,           ///< f32 x 3, origin + ray_t direction
    edge_t,          ///< f32
    edge_point,      ///< f32 x 3
    shape_id,        ///< i32
    local_edge_id,   ///< i32
    global_edge_id,  ///< i32
    is_boundary,     ///< bool
  };
};

/// Columns of nearest_edges, in order; k slots a row, ascending in (d^2, global_edge_id), empty ones last.
struct NearestEdgesColumns {
  enum Input { point, active };
  enum Output {
    is_valid,        ///< bool
    distance,        ///< f32
    echo,            ///< f32 x 3, the query point again, 0 in empty slots
    edge_t,          ///< f32
    edge_point,      ///< f32 x 3
    shape_id,        ///< i32
    local_edge_id,   ///< i32
    global_edge_id,  ///< i32
    is_boundary,     ///< bool
  };
};

struct NearestEdgeOptions : RowCallOptions {
  bool echo = false;  ///< points only: the query point again
};

struct NearestEdges : RowAnswer {
  NearestEdges() = default;
  Column<float> distance;    ///< metres
  Column<Vec3f> edge_point;  ///< metres
  Column<float> edge_t;
  Column<std::int32_t> shape_id, local_edge_id, global_edge_id;
  Column<std::uint8_t> is_boundary;
  Column<Vec3f> point;            ///< of a ray: the nearest; of a point: the query again, where asked for
  Column<float> ray_t;            ///< rays only
  Column<std::uint8_t> is_valid;  ///< nearest_edges only

 protected:
  explicit NearestEdges(RowResult result) : RowAnswer(std::move(result)) {}
};

/// `points`: Points, or their columns elsewhere. Points that are not finite miss, and are counted in
/// `rejected`.
Pending<NearestEdges> nearest_edge_of_points(Scene& scene, const RowSource& points,
                                             const NearestEdgeOptions& options = {});

/// `rays`: Rays. The least distance in space between the ray, 0 <= t <= tmax, and an edge; what lies between
/// does not count. Candidates as Ericson, Real-Time Collision Detection, 5.1.8 and 5.1.9.
Pending<NearestEdges> nearest_edge_of_rays(Scene& scene, const RowSource& rays,
                                           const RowCallOptions& options = {});

struct NearestEdgesOptions : RowCallOptions {
  int k = 1;                     ///< slots a row, 1 to 16
  bool unique_geometry = false;  ///< one record for each geometry_id
};

/// The k nearest edges of each point; slot 0 has the bits of nearest_edge_of_points().
Pending<NearestEdges> nearest_edges(Scene& scene, const RowSource& points,
                                    const NearestEdgesOptions& options = {});

/// nearest_edge of a batch by its type.
inline Pending<NearestEdges> nearest_edge(Scene& scene, const Points& points,
                                          const NearestEdgeOptions& options = {}) {
  return nearest_edge_of_points(scene, points, options);
}
inline Pending<NearestEdges> nearest_edge(Scene& scene, const Rays& rays,
                                          const RowCallOptions& options = {}) {
  return nearest_edge_of_rays(scene, rays, options);
}

}  // namespace shardwise
