#pragma once
// A gather on CUDA: columns of inner cells, which carry what they have read from plane to plane, and the
// shell around them, cell by cell.

#include "grid/cell_shell.hpp"
#include "runtime/cuda/for_each.cuh"

namespace shardwise {

/// Cell by cell at walls there are many questions, and few cells: more of them at once hide the waits.
template <class Body>
inline constexpr LaunchShape launch_shape<ShellBody<Body>>{256, 4};

template <class Body>
__global__ void __launch_bounds__(256) for_each_column_kernel(const __grid_constant__ CellBox box,
                                                              const __grid_constant__ Body body, int planes) {
  // Warps begin at whole lines.
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t j = box.lo[1] + static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
  if (i < box.lo[0] || i >= box.hi[0] || j >= box.hi[1]) return;
  const std::int64_t begin = box.lo[2] + static_cast<std::int64_t>(blockIdx.z) * planes;
  body.column(i, j, begin, min(begin + planes, box.hi[2]));
}

/// Whether a launch's grid can hold the columns of a box.
inline bool columns_fit(const CellBox& box) {
  return box.size(1) <= 4 * std::int64_t{65535} && box.size(2) <= std::int64_t{65535};
}

template <class Body>
void gather_on_cuda(LaunchContext& context, const CellBox& box, const Body& body) {
  CellBox inner = body.inner_cells();
  if (!columns_fit(inner)) inner = {};
  const CellShell shell(box, inner);
  if (shell.inner.count() > 0) {
    const dim3 threads(64, 4);
    const auto pieces = [](std::int64_t count, std::int64_t each) {
      return static_cast<unsigned>((count + each - 1) / each);
    };
    dim3 grid(pieces(inner.hi[0], threads.x), pieces(inner.size(1), threads.y), 1);
    // So few planes that the device is full.
    const std::int64_t full = 2048, blocks = std::int64_t{grid.x} * grid.y;
    const auto planes = static_cast<int>(std::clamp<std::int64_t>(inner.size(2) * blocks / full, 1, 16));
    grid.z = pieces(inner.size(2), planes);
    for_each_column_kernel<<<grid, threads, 0, static_cast<cudaStream_t>(context.native_stream())>>>(
        inner, body, planes);
    SW_CUDA(cudaGetLastError());
  }
  if (shell.count() > 0) for_each_on_cuda(context, shell.count(), ShellBody<Body>{shell, body});
}

}  // namespace shardwise
