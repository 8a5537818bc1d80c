#pragma once

#include "grid/cell_launch.hpp"
#include "runtime/cuda/cuda_check.hpp"

namespace shardwise {

template <class Body>
__global__ void for_each_cell_kernel(CellBox box, Body body) {
  const std::int64_t i = box.lo[0] + static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= box.hi[0]) return;
  for (std::int64_t k = box.lo[2] + blockIdx.z; k < box.hi[2]; k += gridDim.z)
    for (std::int64_t j = box.lo[1] + static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
         j < box.hi[1]; j += static_cast<std::int64_t>(gridDim.y) * blockDim.y)
      body.cell(i, j, k);
}

template <class Body>
void for_each_cell_on_cuda(LaunchContext& context, const CellBox& box, const Body& body) {
  const dim3 threads(64, 4);
  const auto pieces = [](std::int64_t count, std::int64_t each, std::int64_t most) {
    return static_cast<unsigned>(std::min<std::int64_t>((count + each - 1) / each, most));
  };
  const dim3 grid(pieces(box.size(0), threads.x, 0x7fffffff), pieces(box.size(1), threads.y, 65535),
                  pieces(box.size(2), 1, 65535));
  for_each_cell_kernel<<<grid, threads, 0, static_cast<cudaStream_t>(context.native_stream())>>>(box, body);
  SW_CUDA(cudaGetLastError());
}

#define SW_INSTANTIATE_FOR_EACH_CELL(...)                                                \
  template void shardwise::for_each_cell_on_cuda<__VA_ARGS__>(shardwise::LaunchContext&, \
                                                              const shardwise::CellBox&, const __VA_ARGS__&)

}  // namespace shardwise
