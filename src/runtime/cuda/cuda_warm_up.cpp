#include "runtime/cuda/cuda_warm_up.hpp"

#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "runtime/cuda/cuda_check.hpp"
#include "runtime/cuda/cuda_device.hpp"
#include "shardwise/runtime/device.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

namespace {

std::vector<WarmKernel>& warm_kernels() {
  static std::vector<WarmKernel> kernels;
  return kernels;
}

}  // namespace

bool note_warm_kernel(const WarmKernel& kernel) {
  warm_kernels().push_back(kernel);
  return true;
}

void warm_up_kernels(LaunchContext& context) {
  static std::array<std::atomic<bool>, max_cuda_devices> is_warm{};
  const auto gpu = static_cast<std::size_t>(context.device().info().index);
  if (is_warm[gpu].exchange(true)) return;
  for (const WarmKernel& kernel : warm_kernels()) {
    std::int64_t count = 0;
    std::vector<std::max_align_t> body(kernel.body_bytes / sizeof(std::max_align_t) + 1);
    std::array<void*, 2> arguments{&count, body.data()};
    SW_CUDA(cudaLaunchKernel(kernel.function, dim3(1), dim3(static_cast<unsigned>(kernel.threads)),
                             arguments.data(), 0, static_cast<cudaStream_t>(context.native_stream())));
  }
}

}  // namespace shardwise
