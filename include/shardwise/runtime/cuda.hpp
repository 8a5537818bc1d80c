#pragma once
// The one public header that needs CUDA: link shardwise::cuda. For kernels of your own, in a leaf of a grid
// operator or in an operation.

#include <cuda_runtime_api.h>

#include "shardwise/runtime/device.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/operation.hpp"
#include "shardwise/runtime/stream.hpp"

namespace shardwise {

/// The stream that an operation's body enqueues its work on; the device is current while the body runs.
/// Throws a usage Error on a device that is no GPU.
inline cudaStream_t cuda_stream(LaunchContext& context) {
  if (context.device().kind() != PlatformKind::cuda)
    throw_usage("cuda_stream: " + context.device().name() +
                " is no GPU; ask device().kind() and run the host's version there");
  return static_cast<cudaStream_t>(context.native_stream());
}

/// The device's number as the CUDA runtime counts (cudaSetDevice). Throws a usage Error for another platform.
inline int cuda_ordinal(const Device& device) {
  if (device.kind() != PlatformKind::cuda) throw_usage("cuda_ordinal: " + device.name() + " is no GPU");
  return device.info().index;
}

}  // namespace shardwise
