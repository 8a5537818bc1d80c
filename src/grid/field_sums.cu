// Sums over cells on CUDA: a thread gathers exact slices of its cells, a block merges its threads' integers.

#include "grid/field_sums.hpp"
#include "runtime/cuda/cuda_check.hpp"

namespace shardwise {

namespace {

constexpr int threads = 256;
constexpr int most_pieces = 528;  ///< four blocks for each multiprocessor of the largest GPUs: one wave
constexpr int batch = 4;          ///< summands whose window is found together

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

  __device__ void add(const double (&x)[batch], bool exact) {
    double largest = 0;
#pragma unroll
    for (int b = 0; b < batch; ++b) {
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
    if (top > window.top || held + batch > (1 << 20)) {
      window.flush(total);
      held = 0;
      if (top > window.top) window = BinWindow(top);
    }
#pragma unroll
    for (int b = 0; b < batch; ++b) window.add(x[b]);
    held += batch;
  }
};

/// `flat`: all fields are without gaps, cells are counted through.
template <class Body, bool flat>
__global__ void __launch_bounds__(threads)
    sum_kernel(CellBox box, Body body, bool exact, SumPartial* partials) {
  constexpr int count = Body::count;
  ThreadSum sums[count];
  const std::int64_t n0 = box.size(0), n1 = box.size(1), cells = box.count();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads;
  // A batch is read at once, so that its loads are under way together. What lies beyond the end counts as 0.
  for (std::int64_t first = blockIdx.x * static_cast<std::int64_t>(threads) + threadIdx.x; first < cells;
       first += batch * stride) {
    double values[count][batch];
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const std::int64_t at = first + b * stride;
      double out[count] = {};
      if (at < cells) {
        if constexpr (flat) {
          body.cell(at, 0, 0, out);
        } else {
          const std::int64_t row = at / n0;
          body.cell(box.lo[0] + (at - row * n0), box.lo[1] + row % n1, box.lo[2] + row / n1, out);
        }
      }
#pragma unroll
      for (int s = 0; s < count; ++s) values[s][b] = out[s];
    }
#pragma unroll
    for (int s = 0; s < count; ++s) sums[s].add(values[s], exact);
  }
  // Bytes, because shared objects cannot have constructors.
  __shared__ alignas(16) unsigned char bytes[threads * sizeof(SumPartial)];
  auto* const shared = reinterpret_cast<SumPartial*>(bytes);
  SumPartial mine;
  for (int s = 0; s < count; ++s) {
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
  const auto stream = static_cast<cudaStream_t>(context.native_stream());
  const int pieces = cuda_sum_pieces(box.count());
  if (body.flat(box.size(0), box.size(1)))
    sum_kernel<Body, true><<<pieces, threads, 0, stream>>>(box, body, exact, partials);
  else
    sum_kernel<Body, false><<<pieces, threads, 0, stream>>>(box, body, exact, partials);
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
