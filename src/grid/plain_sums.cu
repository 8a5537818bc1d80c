// Plain sums over cells on CUDA: a thread adds its cells, a block its threads, one block the blocks.

#include "grid/plain_sums.hpp"
#include "runtime/cuda/cuda_check.hpp"

namespace shardwise {

namespace {

constexpr int threads = 256;
constexpr int batch = 4;  ///< cells whose loads are under way together

__device__ void add_block(PlainPartial (&shared)[threads]) {
  for (int half = threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half)
      for (int s = 0; s < 2; ++s) shared[threadIdx.x].sum[s] += shared[threadIdx.x + half].sum[s];
  }
}

template <class Body, bool flat>
__global__ void __launch_bounds__(threads) plain_sum_kernel(CellBox box, Body body, PlainPartial* partials) {
  constexpr int count = Body::count;
  double sum[count][batch] = {};
  const std::int64_t n0 = box.size(0), n1 = box.size(1), cells = box.count();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads;
  for (std::int64_t first = blockIdx.x * static_cast<std::int64_t>(threads) + threadIdx.x; first < cells;
       first += batch * stride) {
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const std::int64_t at = first + b * stride;
      if (at >= cells) break;
      double out[count];
      if constexpr (flat) {
        body.cell(at, 0, 0, out);
      } else {
        const std::int64_t row = at / n0;
        body.cell(box.lo[0] + (at - row * n0), box.lo[1] + row % n1, box.lo[2] + row / n1, out);
      }
#pragma unroll
      for (int s = 0; s < count; ++s) sum[s][b] += out[s];
    }
  }
  __shared__ alignas(16) unsigned char bytes[threads * sizeof(PlainPartial)];
  auto& shared = *reinterpret_cast<PlainPartial(*)[threads]>(bytes);
  shared[threadIdx.x] = PlainPartial{};
  for (int s = 0; s < count; ++s)
    shared[threadIdx.x].sum[s] = (sum[s][0] + sum[s][1]) + (sum[s][2] + sum[s][3]);
  add_block(shared);
  if (threadIdx.x == 0) partials[blockIdx.x] = shared[0];
}

__global__ void __launch_bounds__(threads) add_pieces_kernel(PlainPartial* partials, int pieces) {
  __shared__ alignas(16) unsigned char bytes[threads * sizeof(PlainPartial)];
  auto& shared = *reinterpret_cast<PlainPartial(*)[threads]>(bytes);
  PlainPartial mine;
  for (int p = threadIdx.x; p < pieces; p += threads)
    for (int s = 0; s < 2; ++s) mine.sum[s] += partials[p].sum[s];
  shared[threadIdx.x] = mine;
  add_block(shared);
  if (threadIdx.x == 0) partials[0] = shared[0];
}

}  // namespace

template <class Body>
void plain_sums_on_cuda(LaunchContext& context, const CellBox& box, const Body& body, int pieces,
                        bool on_device, PlainPartial* partials) {
  const auto stream = static_cast<cudaStream_t>(context.native_stream());
  if (body.flat(box.size(0), box.size(1)))
    plain_sum_kernel<Body, true><<<pieces, threads, 0, stream>>>(box, body, partials);
  else
    plain_sum_kernel<Body, false><<<pieces, threads, 0, stream>>>(box, body, partials);
  SW_CUDA(cudaGetLastError());
  if (!on_device) return;
  add_pieces_kernel<<<1, threads, 0, stream>>>(partials, pieces);
  SW_CUDA(cudaGetLastError());
}

#define SW_INSTANTIATE(Body) \
  template void plain_sums_on_cuda(LaunchContext&, const CellBox&, const Body&, int, bool, PlainPartial*)
SW_INSTANTIATE(DotBody<float>);
SW_INSTANTIATE(DotBody<double>);
SW_INSTANTIATE(TwoDotsBody<float>);
SW_INSTANTIATE(TwoDotsBody<double>);
SW_INSTANTIATE(ResidualBody<float>);
SW_INSTANTIATE(ResidualBody<double>);

}  // namespace shardwise
