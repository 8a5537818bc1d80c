// CUDA launches of rows that look for edges. The bodies are those of the host.

#include "rays/nearest_edge_rows.hpp"
#include "runtime/cuda/for_each.cuh"

SW_INSTANTIATE_FOR_EACH_AS(shardwise::NearestEdgeOfPointRows, 64, 16);
SW_INSTANTIATE_FOR_EACH_AS(shardwise::NearestEdgeOfRayRows, 64, 16);
SW_INSTANTIATE_FOR_EACH(shardwise::NearestEdgesOfPointRows);
