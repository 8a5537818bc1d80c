#include "runtime/warm_up.hpp"

#include "shardwise/runtime/device.hpp"

#if SHARDWISE_WITH_CUDA
#include "runtime/cuda/cuda_warm_up.hpp"
#endif

namespace shardwise {

void warm_up([[maybe_unused]] Stream& stream) {
#if SHARDWISE_WITH_CUDA
  if (stream.device().kind() != PlatformKind::cuda) return;
  Operation operation;
  operation.name = "warm up";
  operation.body = [](LaunchContext& context) { warm_up_kernels(context); };
  stream.enqueue(std::move(operation));
#endif
}

}  // namespace shardwise
