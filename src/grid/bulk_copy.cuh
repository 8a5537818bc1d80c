#pragma once
// Copies of boxes from device memory to shared memory by the copy engine of a multiprocessor (compute
// capability 9.0 and later): one instruction a box, no registers, no threads that wait, and a barrier in
// shared memory that counts the bytes. Cells outside the box's array arrive as 0.

#include <cuda.h>

#include <cstdint>

namespace shardwise {

/// A barrier in shared memory, used by its address in the shared window.
struct BulkBarrier {
  std::uint32_t address;

  __device__ explicit BulkBarrier(const std::uint64_t* barrier)
      : address(static_cast<std::uint32_t>(__cvta_generic_to_shared(barrier))) {}
  /// By one thread, before bulk_barriers_are_ready().
  __device__ void init(unsigned arrivals) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(arrivals) : "memory");
  }
  __device__ void arrive() const {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");
  }
  /// Arrives, and this phase is not over before so many bytes have come.
  __device__ void arrive_for_bytes(unsigned bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(bytes)
                 : "memory");
  }
  /// Returns once the phase of this parity is over.
  __device__ void wait(unsigned parity) const {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra over;\n"
        "bra again;\n"
        "over:\n"
        "}\n" ::"r"(address),
        "r"(parity)
        : "memory");
  }
};

/// Makes init() visible to the copy engine; a __syncthreads() for all threads comes behind it.
__device__ inline void bulk_barriers_are_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// The box at `coordinate` of the array that `map` describes, to 128-byte aligned shared memory.
__device__ inline void copy_box(void* shared, const CUtensorMap& map, int c0, int c1, int c2,
                                BulkBarrier barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
      "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(barrier.address)
      : "memory");
}

}  // namespace shardwise
