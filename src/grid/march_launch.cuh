#pragma once

#include "grid/leaf_dispatch.hpp"
#include "grid/march_kernel.cuh"
#include "runtime/cuda/cuda_check.hpp"

namespace shardwise {

/// Runs the call as a march where that fits; false: nothing was done.
template <class T>
bool march(LaunchContext& context, const LeafCall<T>& c) {
  if (!march_fits(c)) return false;
  const auto stream = static_cast<cudaStream_t>(context.native_stream());
  if (c.kind == LeafKind::laplacian) {
    MarchLaplacian<T> leaf;
    for (int d = 0; d < 3; ++d) leaf.leaf.inverse_square[d] = c.inverse_square[d];
    launch_march(stream, c, leaf);
  } else if (c.mean == MeanKind::arithmetic) {
    launch_march(stream, c,
                 MarchDiffusion<T, MeanKind::arithmetic>{diffusion_cell<T, 3, MeanKind::arithmetic>(c)});
  } else {
    launch_march(stream, c,
                 MarchDiffusion<T, MeanKind::harmonic>{diffusion_cell<T, 3, MeanKind::harmonic>(c)});
  }
  SW_CUDA(cudaGetLastError());
  return true;
}

}  // namespace shardwise
