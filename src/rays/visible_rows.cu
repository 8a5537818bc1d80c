// CUDA launches of rows that look along segments. The bodies are those of the host.

#include "rays/visible_chain_kernel.hpp"
#include "rays/visible_edge_kernel.hpp"
#include "rays/visible_kernel.hpp"
#include "runtime/cuda/for_each.cuh"

SW_INSTANTIATE_FOR_EACH(shardwise::VisibleRows<shardwise::BvhQueries>);
SW_INSTANTIATE_FOR_EACH(shardwise::VisiblePairRows<shardwise::BvhQueries>);
SW_INSTANTIATE_FOR_EACH(shardwise::VisibleEdgeRows<shardwise::BvhQueries>);
SW_INSTANTIATE_FOR_EACH(shardwise::VisibleChainRows<shardwise::BvhQueries>);
