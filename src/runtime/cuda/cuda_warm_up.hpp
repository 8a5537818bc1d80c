#pragma once
// Kernels that are to be ready on a GPU before the first call that is timed: the driver loads a kernel, and
// makes room for its stack, when it is first launched, which takes up to milliseconds.

#include <cstddef>

#include "shardwise/runtime/operation.hpp"

namespace shardwise {

/// A kernel of (std::int64_t count, Body body) that does nothing for a count of 0, whatever the bytes of its
/// body are.
struct WarmKernel {
  const void* function = nullptr;
  int threads = 1;
  std::size_t body_bytes = 0;
};

/// For static objects: adds a kernel to those that warm_up_kernels() launches. Returns true.
bool note_warm_kernel(const WarmKernel& kernel);

/// Launches every noted kernel once, for no items, on the context's stream; a GPU that had that before is
/// left alone.
void warm_up_kernels(LaunchContext& context);

}  // namespace shardwise
