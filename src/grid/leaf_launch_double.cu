// The bodies of all leaves in double on CUDA: one thread a cell, the march of tiles where it fits,
// and gathers by columns.

#include "grid/cell_launch.cuh"
#include "grid/leaf_dispatch.hpp"
#include "grid/tile_launch.cuh"
#include "grid/transpose_launch.cuh"

namespace shardwise {

template <>
void launch_leaf_on_cuda(LaunchContext& context, const LeafCall<double>& call) {
  if (call.box.count() == 0 || march_tiles(context, call)) return;
  dispatch_leaf(call, [&](const auto& body) {
    if constexpr (requires { body.inner_cells(); }) {
      if (!call.plain) return gather_on_cuda(context, call.box, body);
    }
    for_each_cell_on_cuda(context, call.box, body);
  });
}

template <>
bool sum_fits(const Device& device, const LeafCall<double>& call) {
  return call.box.count() == 0 || march_fits(device.info().index, call);
}

}  // namespace shardwise
