#pragma once
// nearest_edge and nearest_edges as row operations. The nearest edge is the least (d^2, global_edge_id) over
// the edges that the mask shows; the search is exact and has no radius. Inactive rows, and scenes without
// such edges, give the values of a miss: distance +inf, ids -1, false, the rest 0.

#include "dispatch/row_operation.hpp"
#include "shardwise/rays/edge_requests.hpp"
#include "shardwise/scene/scene.hpp"

namespace shardwise {

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

/// Rejected: points that are not finite. Throws as Scene::require_edges(), as the others do.
RowOperation nearest_edge_of_point_operation(Scene& scene, bool active, bool echo = false);

/// Rejected: rays that are not finite, whose |direction|^2 is no normal number, whose tmax is NaN or <= 0.
RowOperation nearest_edge_of_ray_operation(Scene& scene, bool tmax, bool active);

/// Throws a usage error unless 1 <= k <= most_nearest_edges.
RowOperation nearest_edges_operation(Scene& scene, const NearestEdgesRequest& request, bool active);

}  // namespace shardwise
