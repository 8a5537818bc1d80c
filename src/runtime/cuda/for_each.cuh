#pragma once

#include <algorithm>

#include "runtime/cuda/cuda_check.hpp"
#include "runtime/for_each.hpp"

namespace shardwise {

template <class Body>
__global__ void for_each_kernel(std::int64_t count, Body body) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t item = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; item < count;
       item += step)
    body(item);
}

template <class Body>
void for_each_on_cuda(LaunchContext& context, std::int64_t count, const Body& body) {
  constexpr int threads = 256;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((count + threads - 1) / threads, 1 << 20));
  for_each_kernel<<<blocks, threads, 0, static_cast<cudaStream_t>(context.native_stream())>>>(count, body);
  SW_CUDA(cudaGetLastError());
}

#define SW_INSTANTIATE_FOR_EACH(Body) \
  template void shardwise::for_each_on_cuda<Body>(shardwise::LaunchContext&, std::int64_t, const Body&)

}  // namespace shardwise
