// Sums over cells on CUDA: a thread gathers exact slices of its cells, a block merges its threads' integers.

#include "grid/field_sums.hpp"
#include "runtime/cuda/cuda_check.hpp"

namespace shardwise {

namespace {

constexpr int threads = 256;
constexpr int most_pieces = 1024;
constexpr int batch = 4;  ///< summands whose window is found together

__device__ SumPartial merged(const SumPartial& a, const SumPartial& b, int count) {
  SumPartial r = a;
  for (int s = 0; s < count; ++s) {
    merge(r.exact[s], b.exact[s]);
    r.plain[s] = r.plain[s] + b.plain[s];
  }
  return r;
}

/// One sum of a thread: slices in a window that is raised when something larger comes.
struct ThreadSum {
  BinWindow window{BinnedSum::lowest};
  BinnedSum total;
  double plain = 0;
  int held = 0;

  __device__ void add(const double (&x)[batch], int count, bool exact) {
    double largest = 0;
    for (int b = 0; b < batch; ++b) {
      if (b >= count) break;
      plain += x[b];
      const double size = x[b] < 0 ? -x[b] : x[b];
      largest = size > largest ? size : largest;
    }
    if (!exact) return;
    const std::int32_t top = bin_of(largest);
    if (top > BinnedSum::highest) {
      total.bad = 1;
      return;
    }
    if (top > window.top || held + count > (1 << 20)) {
      window.flush(total);
      held = 0;
      if (top > window.top) window = BinWindow(top);
    }
    for (int b = 0; b < batch; ++b)
      if (b < count) window.add(x[b]);
    held += count;
  }
};

template <class Body>
__global__ void __launch_bounds__(threads)
    sum_kernel(CellBox box, Body body, bool exact, SumPartial* partials) {
  constexpr int count = Body::count;
  ThreadSum sums[count];
  // Rows of the box go to blocks in turn, their cells to threads; a batch is `batch` cells of one thread.
  const std::int64_t n0 = box.size(0), n1 = box.size(1), cells = box.count();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads;
  double values[count][batch];
  int held = 0;
  for (std::int64_t at = blockIdx.x * static_cast<std::int64_t>(threads) + threadIdx.x; at < cells;
       at += stride) {
    const std::int64_t row = at / n0;
    double out[count];
    body.cell(box.lo[0] + (at - row * n0), box.lo[1] + row % n1, box.lo[2] + row / n1, out);
#pragma unroll
    for (int b = 0; b < batch; ++b)
      if (b == held)
        for (int s = 0; s < count; ++s) values[s][b] = out[s];
    if (++held == batch) {
      for (int s = 0; s < count; ++s) sums[s].add(values[s], batch, exact);
      held = 0;
    }
  }
  // Bytes, because shared objects cannot have constructors.
  __shared__ alignas(16) unsigned char bytes[threads * sizeof(SumPartial)];
  auto* const shared = reinterpret_cast<SumPartial*>(bytes);
  SumPartial mine;
  for (int s = 0; s < count; ++s) {
    if (held > 0) sums[s].add(values[s], held, exact);
    sums[s].window.flush(sums[s].total);
    mine.exact[s] = sums[s].total;
    mine.plain[s] = sums[s].plain;
  }
  shared[threadIdx.x] = mine;
  for (int half = threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half)
      shared[threadIdx.x] = merged(shared[threadIdx.x], shared[threadIdx.x + half], count);
  }
  if (threadIdx.x == 0) partials[blockIdx.x] = shared[0];
}

}  // namespace

int cuda_sum_pieces(std::int64_t cells) {
  const std::int64_t wanted = (cells + threads * 8 - 1) / (threads * 8);
  return static_cast<int>(wanted < 1 ? 1 : wanted < most_pieces ? wanted : most_pieces);
}

template <class Body>
void sum_cells_on_cuda(LaunchContext& context, const CellBox& box, const Body& body, bool exact,
                       SumPartial* partials) {
  sum_kernel<<<cuda_sum_pieces(box.count()), threads, 0,
               static_cast<cudaStream_t>(context.native_stream())>>>(box, body, exact, partials);
  SW_CUDA(cudaGetLastError());
}

#define SW_INSTANTIATE(Body) \
  template void sum_cells_on_cuda(LaunchContext&, const CellBox&, const Body&, bool, SumPartial*)
SW_INSTANTIATE(DotBody<float>);
SW_INSTANTIATE(DotBody<double>);
SW_INSTANTIATE(TwoDotsBody<float>);
SW_INSTANTIATE(TwoDotsBody<double>);
SW_INSTANTIATE(CgUpdateBody<float>);
SW_INSTANTIATE(CgUpdateBody<double>);

}  // namespace shardwise
