// The bodies of all leaves in float on CUDA: one thread a cell, and the march where it fits.

#include "grid/cell_launch.cuh"
#include "grid/leaf_dispatch.hpp"
#include "grid/march_launch.cuh"

namespace shardwise {

template <>
void launch_leaf_on_cuda(LaunchContext& context, const LeafCall<float>& call) {
  if (call.box.count() == 0 || march(context, call)) return;
  dispatch_leaf(call, [&](const auto& body) { for_each_cell_on_cuda(context, call.box, body); });
}

}  // namespace shardwise
