#include "shardwise/runtime/copy.hpp"

#include <cstring>

#if SHARDWISE_WITH_CUDA
#include "runtime/cuda/cuda_copy.hpp"
#endif

namespace shardwise {

Operation copy_operation(std::string name, void* target, const void* source, std::uint64_t bytes,
                         AccessList accesses) {
  Operation operation;
  operation.name = std::move(name);
  operation.kind = OperationKind::copy;
  operation.accesses = accesses;
  operation.bytes = bytes;
  operation.body = [target, source, bytes]([[maybe_unused]] LaunchContext& context) {
    if (bytes == 0) return;
#if SHARDWISE_WITH_CUDA
    if (context.native_stream()) return cuda_copy(context, target, source, bytes);
    if (is_gpu_memory(target) || is_gpu_memory(source)) return cuda_copy_and_wait(target, source, bytes);
#endif
    std::memcpy(target, source, bytes);
  };
  return operation;
}

Operation zero_operation(std::string name, void* target, std::uint64_t bytes, AccessList accesses) {
  Operation operation;
  operation.name = std::move(name);
  operation.accesses = accesses;
  operation.bytes = bytes;
  operation.body = [target, bytes]([[maybe_unused]] LaunchContext& context) {
    if (bytes == 0) return;
#if SHARDWISE_WITH_CUDA
    if (context.native_stream()) return cuda_zero(context, target, bytes);
#endif
    std::memset(target, 0, bytes);
  };
  return operation;
}

}  // namespace shardwise
