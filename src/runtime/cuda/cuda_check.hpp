#pragma once

#include <cuda_runtime.h>

#include <string>

namespace shardwise {

/// What can be done about a CUDA error.
enum class CudaSeverity {
  out_of_memory,  ///< the call failed, the context lives: ask for less
  recoverable,    ///< a bad call; nothing else is affected
  fatal,          ///< the process can make no further CUDA call on this device
};
CudaSeverity severity(cudaError_t code) noexcept;

/// Throws an Error with the call, its place, CUDA's name and text for the code, the device and the next step,
/// and clears the last error.
[[noreturn]] void throw_cuda(cudaError_t code, const char* call, const char* file, int line);

#define SW_CUDA(call)                                                                        \
  do {                                                                                       \
    const cudaError_t sw_code = (call);                                                      \
    if (sw_code != cudaSuccess) ::shardwise::throw_cuda(sw_code, #call, __FILE__, __LINE__); \
  } while (0)

/// Makes a device current and restores the one that was, also when something throws.
class CurrentCudaDevice {
 public:
  explicit CurrentCudaDevice(int index) {
    SW_CUDA(cudaGetDevice(&previous_));
    if (previous_ != index) SW_CUDA(cudaSetDevice(index));
    changed_ = previous_ != index;
  }
  ~CurrentCudaDevice() {
    if (changed_) cudaSetDevice(previous_);
  }
  CurrentCudaDevice(const CurrentCudaDevice&) = delete;
  CurrentCudaDevice& operator=(const CurrentCudaDevice&) = delete;

 private:
  int previous_ = 0;
  bool changed_ = false;
};

}  // namespace shardwise
