#pragma once

#include <algorithm>

#include "runtime/cuda/cuda_check.hpp"
#include "runtime/for_each.hpp"

namespace shardwise {

/// How a body is launched. Walks through trees want small blocks, which leave the processor as soon as their
/// slowest thread does, and a bound on their registers; a .cu file specialises this before it instantiates.
struct LaunchShape {
  int threads = 256;
  int least_blocks = 1;  ///< a multiprocessor
};
template <class Body>
inline constexpr LaunchShape launch_shape{};

template <class Body>
__global__ void __launch_bounds__(launch_shape<Body>.threads, launch_shape<Body>.least_blocks)
    for_each_kernel(std::int64_t count, Body body) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t item = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; item < count;
       item += step)
    body(item);
}

template <class Body>
void for_each_on_cuda(LaunchContext& context, std::int64_t count, const Body& body) {
  constexpr int threads = launch_shape<Body>.threads;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((count + threads - 1) / threads, 1 << 20));
  for_each_kernel<<<blocks, threads, 0, static_cast<cudaStream_t>(context.native_stream())>>>(count, body);
  SW_CUDA(cudaGetLastError());
}

/// With a launch shape of its own.
#define SW_INSTANTIATE_FOR_EACH_AS(Body, threads, least_blocks)                                 \
  template <>                                                                                   \
  inline constexpr shardwise::LaunchShape shardwise::launch_shape<Body>{threads, least_blocks}; \
  SW_INSTANTIATE_FOR_EACH(Body)

#define SW_INSTANTIATE_FOR_EACH(Body) \
  template void shardwise::for_each_on_cuda<Body>(shardwise::LaunchContext&, std::int64_t, const Body&)

}  // namespace shardwise
