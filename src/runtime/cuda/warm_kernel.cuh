#pragma once
// Notes a body's kernel (for_each.cuh) as one to warm up. In the .cu file that instantiates it.

#include "runtime/cuda/cuda_warm_up.hpp"
#include "runtime/cuda/for_each.cuh"

namespace shardwise {

template <class Body>
bool note_warm_body() {
  return note_warm_kernel(
      {reinterpret_cast<const void*>(&for_each_kernel<Body>), launch_shape<Body>.threads, sizeof(Body)});
}

}  // namespace shardwise
