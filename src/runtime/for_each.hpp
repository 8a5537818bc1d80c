#pragma once
// One launch over items, from one per-item body, on any device.
//
// A body is a trivially copyable functor with `SW_HD void operator()(std::int64_t item) const`. For CUDA, one
// .cu file includes for_each.cuh and instantiates SW_INSTANTIATE_FOR_EACH(Body).

#include <cstdint>

#include "shardwise/numeric/host_device.hpp"
#include "shardwise/runtime/operation.hpp"

namespace shardwise {

#if SHARDWISE_WITH_CUDA
template <class Body>
void for_each_on_cuda(LaunchContext& context, std::int64_t count, const Body& body);
#endif

template <class Body>
void for_each(LaunchContext& context, std::int64_t count, const Body& body, std::int64_t grain = 1 << 14) {
  if (count <= 0) return;
#if SHARDWISE_WITH_CUDA
  if (context.native_stream()) return for_each_on_cuda(context, count, body);
#endif
  context.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) body(item);
  });
}

}  // namespace shardwise
