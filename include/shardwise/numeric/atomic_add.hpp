#pragma once
// Relaxed atomic additions on host and CUDA. Nothing is returned: sums are read after the launch.

#include <atomic>
#include <cstdint>

#include "shardwise/numeric/host_device.hpp"

namespace shardwise {

/// *target += value. The host side needs `target` aligned to its size.
SW_HD inline void atomic_add(std::int64_t* target, std::int64_t value) {
#if defined(__CUDA_ARCH__)
  atomicAdd(reinterpret_cast<unsigned long long*>(target), static_cast<unsigned long long>(value));
#else
  std::atomic_ref<std::int64_t>(*target).fetch_add(value, std::memory_order_relaxed);
#endif
}

SW_HD inline void atomic_add(std::uint64_t* target, std::uint64_t value) {
#if defined(__CUDA_ARCH__)
  atomicAdd(reinterpret_cast<unsigned long long*>(target), static_cast<unsigned long long>(value));
#else
  std::atomic_ref<std::uint64_t>(*target).fetch_add(value, std::memory_order_relaxed);
#endif
}

SW_HD inline void atomic_add(double* target, double value) {
#if defined(__CUDA_ARCH__)
  atomicAdd(target, value);
#else
  std::atomic_ref<double>(*target).fetch_add(value, std::memory_order_relaxed);
#endif
}

}  // namespace shardwise
