// CUDA launches of rows that look along segments. The bodies are those of the host.

#include "rays/visible_chain_kernel.hpp"
#include "rays/visible_edge_kernel.hpp"
#include "rays/visible_kernel.hpp"
#include "runtime/cuda/for_each.cuh"
#include "runtime/cuda/warm_kernel.cuh"

SW_INSTANTIATE_FOR_EACH_AS(shardwise::VisibleRows<shardwise::BvhQueries>, 64, 12);
SW_INSTANTIATE_FOR_EACH_AS(shardwise::VisiblePairRows<shardwise::BvhQueries>, 64, 12);
SW_INSTANTIATE_FOR_EACH_AS(shardwise::VisibleEdgeRows<shardwise::BvhQueries>, 64, 12);
SW_INSTANTIATE_FOR_EACH_AS(shardwise::VisibleChainRows<shardwise::BvhQueries>, 64, 12);

namespace shardwise {
namespace {

[[maybe_unused]] const bool are_noted[] = {
    note_warm_body<VisibleRows<BvhQueries>>(), note_warm_body<VisiblePairRows<BvhQueries>>(),
    note_warm_body<VisibleEdgeRows<BvhQueries>>(), note_warm_body<VisibleChainRows<BvhQueries>>()};

}  // namespace
}  // namespace shardwise
