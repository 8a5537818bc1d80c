#pragma once
// Exact sums on CUDA: a thread gathers slices of its summands, a block adds its threads' integers up, and one
// thread of it adds them to a SumCell in device memory by integer atomics, so that the order of blocks does
// not matter.

#include "grid/field_sums.hpp"

namespace shardwise {

/// One sum of a thread: slices in a window that is raised when something larger comes.
struct ThreadSum {
  BinWindow window{BinnedSum::lowest};
  BinnedSum total;
  int held = 0;

  template <int count>
  __device__ void add(const double (&x)[count]) {
    double largest = 0;
#pragma unroll
    for (int b = 0; b < count; ++b) {
      const double size = x[b] < 0 ? -x[b] : x[b];
      largest = size > largest ? size : largest;  // a NaN shows in the flush
    }
    const std::int32_t top = bin_of(largest);
    if (top > window.top || held + count > (1 << 20)) {
      if (top > BinnedSum::highest) {
        total.bad = 1;
        return;
      }
      window.flush(total);
      held = 0;
      if (top > window.top) window = BinWindow(top);
    }
#pragma unroll
    for (int b = 0; b < count; ++b) window.add(x[b]);
    held += count;
  }
};

/// Adds the sums of `workers` threads (a multiple of 32, those with the lowest indices; all of them call
/// this) to `cell`. `scratch` holds workers / 32 sums in shared memory that nobody uses meanwhile.
template <int workers>
__device__ inline void add_block(BinnedSum mine, BinnedSum* scratch, SumCell* cell) {
  const auto across_warp = [](BinnedSum& sum) {
    int top = sum.top;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) top = max(top, __shfl_xor_sync(0xffffffffu, top, step));
    raise(sum, top);
    sum.bad = __any_sync(0xffffffffu, sum.bad != 0);
#pragma unroll
    for (int k = 0; k < 3; ++k)
#pragma unroll
      for (int step = 16; step > 0; step /= 2)
        sum.digit[k] += __shfl_xor_sync(0xffffffffu, static_cast<long long>(sum.digit[k]), step);
  };
  constexpr int warps = workers / 32;
  static_assert(warps <= 32);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  across_warp(mine);
  if (lane == 0) scratch[warp] = mine;
  asm volatile("bar.sync 1, %0;" ::"n"(workers) : "memory");
  if (warp == 0) {
    mine = lane < warps ? scratch[lane] : BinnedSum{};
    across_warp(mine);
    if (lane == 0) {
      for (int k = 0; k < 3; ++k)
        if (mine.digit[k] != 0)
          atomicAdd(reinterpret_cast<unsigned long long*>(&cell->bin[SumCell::index(mine.top - k)]),
                    static_cast<unsigned long long>(mine.digit[k]));
      atomicMax(&cell->top_above_lowest, mine.top - BinnedSum::lowest);
      if (mine.bad) atomicOr(&cell->bad, 1);
    }
  }
  asm volatile("bar.sync 1, %0;" ::"n"(workers) : "memory");
}

}  // namespace shardwise
