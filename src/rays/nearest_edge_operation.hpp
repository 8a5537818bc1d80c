#pragma once
// nearest_edge and nearest_edges as row operations. The nearest edge is the least (d^2, global_edge_id) over
// the edges that the mask shows; the search is exact and has no radius. Inactive rows, and scenes without
// such edges, give the values of a miss: distance +inf, ids -1, false, the rest 0.

#include "dispatch/row_operation.hpp"
#include "shardwise/rays/nearest_edge.hpp"
#include "shardwise/scene/scene.hpp"

namespace shardwise {

/// Rejected: points that are not finite. Throws as Scene::require_edges(), as the others do.
RowOperation nearest_edge_of_point_operation(Scene& scene, bool active, bool echo = false);

/// Rejected: rays that are not finite, whose |direction|^2 is no normal number, whose tmax is NaN or <= 0.
RowOperation nearest_edge_of_ray_operation(Scene& scene, bool tmax, bool active);

/// Throws a usage error unless 1 <= k <= most_nearest_edges.
RowOperation nearest_edges_operation(Scene& scene, const NearestEdgesRequest& request, bool active);

}  // namespace shardwise
