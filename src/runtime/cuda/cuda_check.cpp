#include "runtime/cuda/cuda_check.hpp"

#include <fmt/format.h>

#include "shardwise/runtime/error.hpp"

namespace shardwise {

CudaSeverity severity(cudaError_t code) noexcept {
  switch (code) {
    case cudaErrorMemoryAllocation:
      return CudaSeverity::out_of_memory;
    // The context is gone after these: the driver answers every later call with the same code.
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorExternalDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorUnknown:
      return CudaSeverity::fatal;
    default:
      return CudaSeverity::recoverable;
  }
}

void throw_cuda(cudaError_t code, const char* call, const char* file, int line) {
  cudaGetLastError();
  int device = -1;
  cudaGetDevice(&device);
  const char* slash = file;
  for (const char* c = file; *c; ++c)
    if (*c == '/') slash = c + 1;
  const CudaSeverity how_bad = severity(code);
  const char* next = how_bad == CudaSeverity::out_of_memory ? "use a smaller chunk or --memory"
                     : how_bad == CudaSeverity::fatal ? "this device can do nothing more in this process; "
                                                        "start again, and run compute-sanitizer if it repeats"
                                                      : "this is a bug or an unfit driver";
  const ErrorClass error_class = how_bad == CudaSeverity::out_of_memory ? ErrorClass::memory
                                 : how_bad == CudaSeverity::fatal       ? ErrorClass::lost
                                                                        : ErrorClass::device;
  throw Error(error_class,
              fmt::format("cuda:{}: {} ({}) from {} at {}:{}; {}", device, cudaGetErrorName(code),
                          cudaGetErrorString(code), call, slash, line, next));
}

}  // namespace shardwise
