// CUDA launches of rows that look for edges. The bodies are those of the host.

#include "rays/nearest_edge_rows.hpp"
#include "runtime/cuda/for_each.cuh"
#include "runtime/cuda/warm_kernel.cuh"

SW_INSTANTIATE_FOR_EACH_AS(shardwise::NearestEdgeOfPointRows, 64, 16);
SW_INSTANTIATE_FOR_EACH_AS(shardwise::NearestEdgeOfRayRows, 64, 16);
SW_INSTANTIATE_FOR_EACH(shardwise::NearestEdgesOfPointRows);

namespace shardwise {
namespace {

[[maybe_unused]] const bool are_noted[] = {note_warm_body<NearestEdgeOfPointRows>(),
                                           note_warm_body<NearestEdgeOfRayRows>(),
                                           note_warm_body<NearestEdgesOfPointRows>()};

}  // namespace
}  // namespace shardwise
