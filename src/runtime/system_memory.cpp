#include "runtime/system_memory.hpp"

#include <malloc.h>

#include <fstream>
#include <string>

#if SHARDWISE_WITH_CUDA
#include <cuda_runtime.h>

#include "runtime/cuda/cuda_check.hpp"
#endif

namespace shardwise {

namespace {

/// A line of /proc/self/status in bytes; 0 where it is not there.
std::uint64_t status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ":")) return std::stoull(line.substr(name.size() + 1)) * 1024;
  return 0;
}

#if SHARDWISE_WITH_CUDA
std::uint64_t pool_bytes(Device& device, cudaMemPoolAttr attribute) {
  CurrentCudaDevice current(device.info().index);
  cudaMemPool_t pool{};
  SW_CUDA(cudaDeviceGetDefaultMemPool(&pool, device.info().index));
  std::uint64_t bytes = 0;
  SW_CUDA(cudaMemPoolGetAttribute(pool, attribute, &bytes));
  return bytes;
}
#endif

}  // namespace

std::uint64_t start_system_peak([[maybe_unused]] Device& device) {
#if SHARDWISE_WITH_CUDA
  if (device.kind() == PlatformKind::cuda) {
    CurrentCudaDevice current(device.info().index);
    cudaMemPool_t pool{};
    SW_CUDA(cudaDeviceGetDefaultMemPool(&pool, device.info().index));
    std::uint64_t zero = 0;
    SW_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
    return pool_bytes(device, cudaMemPoolAttrUsedMemCurrent);
  }
#endif
  // What the allocator keeps of earlier calls would count as used before.
  malloc_trim(0);
  // 5: forget the peak of the resident set (proc(5)).
  std::ofstream("/proc/self/clear_refs") << "5";
  return status_bytes("VmRSS");
}

std::uint64_t system_peak([[maybe_unused]] Device& device) {
#if SHARDWISE_WITH_CUDA
  if (device.kind() == PlatformKind::cuda) return pool_bytes(device, cudaMemPoolAttrUsedMemHigh);
#endif
  return status_bytes("VmHWM");
}

}  // namespace shardwise
