#include "runtime/pinned_memory.hpp"

#include <cstdlib>
#include <string>

#include "shardwise/runtime/error.hpp"

#if SHARDWISE_WITH_CUDA
#include "runtime/cuda/cuda_device.hpp"
#endif

namespace shardwise {

namespace {

bool has_gpu(const DeviceSet& devices) {
  for (int d = 0; d < devices.size(); ++d)
    if (devices[d].kind() == PlatformKind::cuda) return true;
  return false;
}

}  // namespace

std::shared_ptr<void> allocate_pinned(const DeviceSet& devices, std::uint64_t bytes, const char* what) {
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
#if SHARDWISE_WITH_CUDA
  if (has_gpu(devices)) {
    memory = cuda_allocate_pinned(bytes);
    if (memory) return {memory, cuda_release_pinned};
  } else
#endif
    memory = std::malloc(bytes);
  if (!memory)
    throw Error(ErrorClass::memory, std::string(what) + ": no " + std::to_string(bytes) + " bytes of " +
                                        (has_gpu(devices) ? "pinned host memory" : "host memory"));
  return {memory, std::free};
}

}  // namespace shardwise
