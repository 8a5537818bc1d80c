#include <cuda_runtime.h>

#include <atomic>

#include "runtime/cuda/cuda_check.hpp"
#include "runtime/cuda/cuda_copy.hpp"
#include "runtime/cuda/cuda_peer.hpp"

namespace shardwise {

namespace {

__global__ void probe_kernel() {}

std::atomic<bool> gpu_opened{false};

/// The GPU a pointer lives on, or -1 for host memory.
int gpu_of(const void* pointer) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
    cudaGetLastError();
    return -1;
  }
  return attributes.type == cudaMemoryTypeDevice ? attributes.device : -1;
}

/// Pinned memory for one copy.
struct Staging {
  explicit Staging(std::uint64_t bytes) { SW_CUDA(cudaMallocHost(&memory, bytes)); }
  ~Staging() {
    if (cudaFreeHost(memory) != cudaSuccess) cudaGetLastError();
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  void* memory = nullptr;
};

}  // namespace

void cuda_copy(LaunchContext& context, void* target, const void* source, std::uint64_t bytes) {
  auto stream = static_cast<cudaStream_t>(context.native_stream());
  const int from = gpu_of(source), to = gpu_of(target);
  if (from >= 0 && to >= 0 && from != to && cuda_pair_is_staged(from, to)) {
    const Staging staging(bytes);
    SW_CUDA(cudaMemcpyAsync(staging.memory, source, bytes, cudaMemcpyDeviceToHost, stream));
    SW_CUDA(cudaMemcpyAsync(target, staging.memory, bytes, cudaMemcpyHostToDevice, stream));
    // Freeing pinned memory waits for its users anyway.
    SW_CUDA(cudaStreamSynchronize(stream));
    return;
  }
  SW_CUDA(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream));
}

void cuda_copy_and_wait(void* target, const void* source, std::uint64_t bytes) {
  SW_CUDA(cudaMemcpy(target, source, bytes, cudaMemcpyDefault));
}

bool is_gpu_memory(const void* pointer) {
  return gpu_opened && gpu_of(pointer) >= 0;
}

void note_gpu_opened() noexcept {
  gpu_opened = true;
}

void cuda_zero(LaunchContext& context, void* target, std::uint64_t bytes) {
  SW_CUDA(cudaMemsetAsync(target, 0, bytes, static_cast<cudaStream_t>(context.native_stream())));
}

bool cuda_has_code() {
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, probe_kernel) == cudaSuccess) return true;
  cudaGetLastError();
  return false;
}

}  // namespace shardwise
