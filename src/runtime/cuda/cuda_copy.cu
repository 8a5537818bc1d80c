#include <cuda.h>
#include <cuda_runtime.h>

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/cuda/cuda_check.hpp"
#include "runtime/cuda/cuda_copy.hpp"
#include "runtime/cuda/cuda_known_memory.hpp"
#include "runtime/cuda/cuda_peer.hpp"
#include "runtime/cuda/cuda_stream.hpp"

namespace shardwise {

namespace {

__global__ void probe_kernel() {}

std::atomic<bool> gpu_opened{false};

struct Place {
  int gpu = -1;           ///< that the memory is on, or -1 for host memory
  bool pageable = false;  ///< host memory that no GPU reads by itself
};

Place place_of(const void* pointer) {
  if (const std::optional<KnownMemory> known = find_known_memory(pointer)) return {known->gpu, false};
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
    cudaGetLastError();
    return {-1, true};
  }
  return {attributes.type == cudaMemoryTypeDevice ? attributes.device : -1,
          attributes.type == cudaMemoryTypeUnregistered};
}

/// The pool that GPU memory came from, null for cudaMalloc; false where the driver cannot say. The driver's
/// entry point is asked for at run time, so that nothing links against the driver.
bool cuda_pointer_pool(const void* pointer, CUmemoryPool& pool) {
  using Query = CUresult (*)(void*, CUpointer_attribute, CUdeviceptr);
  static const auto query = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status{};
#if CUDART_VERSION >= 12050
    const cudaError_t code =
        cudaGetDriverEntryPointByVersion("cuPointerGetAttribute", &found, 12000, cudaEnableDefault, &status);
#else
    const cudaError_t code =
        cudaGetDriverEntryPoint("cuPointerGetAttribute", &found, cudaEnableDefault, &status);
#endif
    if (code != cudaSuccess || status != cudaDriverEntryPointSuccess) {
      cudaGetLastError();
      found = nullptr;
    }
    return reinterpret_cast<Query>(found);
  }();
  if (!query) return false;
  return query(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, reinterpret_cast<CUdeviceptr>(pointer)) ==
         CUDA_SUCCESS;
}

/// Streams for copies that host threads wait for, by GPU. Never destroyed: threads may outlive static
/// objects.
class HostThreadStreams {
 public:
  static HostThreadStreams& instance() {
    static HostThreadStreams* streams = new HostThreadStreams;
    return *streams;
  }
  /// Of the current GPU, which is `gpu`.
  cudaStream_t take(int gpu) {
    {
      std::lock_guard lock(mutex_);
      std::vector<cudaStream_t>& idle = idle_[gpu];
      if (!idle.empty()) {
        const cudaStream_t stream = idle.back();
        idle.pop_back();
        return stream;
      }
    }
    cudaStream_t stream = nullptr;
    SW_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
  }
  void give(int gpu, cudaStream_t stream) {
    std::lock_guard lock(mutex_);
    idle_[gpu].push_back(stream);
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<cudaStream_t>> idle_;
};

}  // namespace

void cuda_copy(LaunchContext& context, void* target, const void* source, std::uint64_t bytes) {
  auto& on_cuda = dynamic_cast<CudaLaunchContext&>(context);
  const Place from = place_of(source), to = place_of(target);
  if (from.gpu < 0 && to.gpu < 0) return on_cuda.stager().host_to_host(target, source, bytes);
  if (from.pageable) return on_cuda.stager().pageable_to_gpu(target, source, bytes);
  if (to.pageable) return on_cuda.stager().gpu_to_pageable(target, source, bytes);
  if (from.gpu >= 0 && to.gpu >= 0 && from.gpu != to.gpu && cuda_pair_is_staged(from.gpu, to.gpu))
    return on_cuda.stager().gpu_to_gpu(target, to.gpu, source, from.gpu, bytes);
  SW_CUDA(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault,
                          static_cast<cudaStream_t>(context.native_stream())));
}

namespace {

/// On a stream of this GPU, and done when it returns. Not the legacy stream: that would wait for streams of
/// the user's own.
void copy_on(int gpu, void* target, const void* source, std::uint64_t bytes) {
  CurrentCudaDevice current(gpu);
  HostThreadStreams& streams = HostThreadStreams::instance();
  const cudaStream_t stream = streams.take(gpu);
  cudaError_t code = cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream);
  const cudaError_t after = cudaStreamSynchronize(stream);
  streams.give(gpu, stream);
  SW_CUDA(code);
  SW_CUDA(after);
}

}  // namespace

void cuda_copy_and_wait(void* target, const void* source, std::uint64_t bytes) {
  const Place from = place_of(source), to = place_of(target);
  if (from.gpu >= 0 && to.gpu >= 0 && from.gpu != to.gpu && cuda_pair_is_staged(from.gpu, to.gpu)) {
    std::vector<std::byte> between(bytes);
    copy_on(from.gpu, between.data(), source, bytes);
    copy_on(to.gpu, target, between.data(), bytes);
  } else {
    copy_on(to.gpu >= 0 ? to.gpu : from.gpu, target, source, bytes);
  }
}

bool is_gpu_memory(const void* pointer) {
  return gpu_opened && place_of(pointer).gpu >= 0;
}

int gpu_of_memory(const void* pointer) {
  return gpu_opened ? place_of(pointer).gpu : -1;
}

bool is_open_gpu_memory(const void* pointer) {
  if (const std::optional<KnownMemory> known = find_known_memory(pointer)) return known->gpu >= 0;
  CUmemoryPool owner = nullptr;
  if (!cuda_pointer_pool(pointer, owner)) return false;
  if (owner == nullptr) return true;
  cudaMemPool_t ours{};
  SW_CUDA(cudaDeviceGetDefaultMemPool(&ours, place_of(pointer).gpu));
  return owner == ours;
}

void note_gpu_opened() noexcept {
  gpu_opened = true;
}

void cuda_zero(LaunchContext& context, void* target, std::uint64_t bytes) {
  SW_CUDA(cudaMemsetAsync(target, 0, bytes, static_cast<cudaStream_t>(context.native_stream())));
}

bool cuda_has_code() {
  cudaFuncAttributes attributes{};
  const cudaError_t code = cudaFuncGetAttributes(&attributes, probe_kernel);
  if (code == cudaSuccess) return true;
  cudaGetLastError();
  // Code is loaded into the GPU's memory.
  if (code == cudaErrorMemoryAllocation) SW_CUDA(code);
  return false;
}

}  // namespace shardwise
