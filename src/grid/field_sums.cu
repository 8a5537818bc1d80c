// Sums over cells and the vector updates of solvers on CUDA. Blocks without gaps are read in pieces of 16
// bytes, several of them under way together.

#include "grid/exact_sum.cuh"
#include "grid/lanes.cuh"
#include "runtime/cuda/cuda_check.hpp"

namespace shardwise {

namespace {

constexpr int threads = 256;
constexpr int batch = 4;  ///< pieces, or cells, that are read before the first is used

// What each body reads of a piece of a block without gaps, and what it does with that.
template <class T>
struct DotPiece {
  Lanes<T> x, y;
  __device__ void read(const DotBody<T>& body, std::int64_t at) {
    x = load_lanes<T>(body.x.cell + at);
    if (body.y.cell) y = load_lanes<T>(body.y.cell + at);
  }
  __device__ void sum(const DotBody<T>& body, std::int64_t, int l, double (&out)[1]) {
    const auto a = static_cast<double>(x.v[l]);
    out[0] = body.y.cell ? a * static_cast<double>(y.v[l]) : a;
  }
  __device__ void write(const DotBody<T>&, std::int64_t) {}
};
template <class T>
struct TwoDotsPiece {
  Lanes<T> x, y;
  __device__ void read(const TwoDotsBody<T>& body, std::int64_t at) {
    x = load_lanes<T>(body.x.cell + at);
    y = load_lanes<T>(body.y.cell + at);
  }
  __device__ void sum(const TwoDotsBody<T>&, std::int64_t, int l, double (&out)[2]) {
    const auto a = static_cast<double>(x.v[l]), b = static_cast<double>(y.v[l]);
    out[0] = a * b;
    out[1] = b * b;
  }
  __device__ void write(const TwoDotsBody<T>&, std::int64_t) {}
};
template <class T>
struct ResidualPiece {
  Lanes<T> r, q, d;
  __device__ void read(const ResidualBody<T>& body, std::int64_t at) {
    r = load_lanes<T>(body.r.cell + at);
    q = load_lanes<T>(body.q.cell + at);
    if (body.inverse_diagonal.cell) d = load_lanes<T>(body.inverse_diagonal.cell + at);
  }
  __device__ void sum(const ResidualBody<T>& body, std::int64_t, int l, double (&out)[2]) {
    r.v[l] = body.one(r.v[l], q.v[l], body.inverse_diagonal.cell ? &d.v[l] : nullptr, body.alpha, out);
  }
  __device__ void write(const ResidualBody<T>& body, std::int64_t at) {
    store_lanes_to_stay(body.r.cell + at, r);
  }
};

template <class Body>
struct PieceOf;
template <class T>
struct PieceOf<DotBody<T>> {
  using Number = T;
  using Type = DotPiece<T>;
};
template <class T>
struct PieceOf<TwoDotsBody<T>> {
  using Number = T;
  using Type = TwoDotsPiece<T>;
};
template <class T>
struct PieceOf<ResidualBody<T>> {
  using Number = T;
  using Type = ResidualPiece<T>;
};

template <class T>
bool aligned(CellPointer<T> p) {
  return reinterpret_cast<std::uintptr_t>(p.cell) % 16 == 0;
}
template <class T>
bool is_aligned(const DotBody<T>& b) {
  return aligned(b.x) && aligned(b.y);
}
template <class T>
bool is_aligned(const TwoDotsBody<T>& b) {
  return aligned(b.x) && aligned(b.y);
}
template <class T>
bool is_aligned(const ResidualBody<T>& b) {
  return aligned(b.r) && aligned(b.q) && aligned(b.inverse_diagonal);
}

/// The sums of a block's threads, to where they belong.
template <int count>
__device__ void keep_sums(ThreadSum (&sums)[count], SumCell* out) {
  // Bytes, because shared objects cannot have constructors.
  __shared__ alignas(8) unsigned char scratch[threads / 32 * sizeof(BinnedSum)];
#pragma unroll
  for (int s = 0; s < count; ++s) {
    sums[s].window.flush(sums[s].total);
    add_block<threads>(sums[s].total, reinterpret_cast<BinnedSum*>(scratch), out + s);
  }
}

/// Blocks without gaps, in pieces of 16 bytes; the cells behind the last piece are the last thread's.
template <class Body>
__global__ void __launch_bounds__(threads) sum_pieces_kernel(std::int64_t cells, Body body, SumCell* out) {
  using Piece = typename PieceOf<Body>::Type;
  constexpr int count = Body::count, V = Lanes<typename PieceOf<Body>::Number>::size;
  ThreadSum sums[count];
  const std::int64_t pieces = cells / V, stride = static_cast<std::int64_t>(gridDim.x) * threads;
  const std::int64_t me = blockIdx.x * static_cast<std::int64_t>(threads) + threadIdx.x;
  const auto add = [&](Piece& piece, std::int64_t at) {
    double values[count][V];
#pragma unroll
    for (int l = 0; l < V; ++l) {
      double one[count];
      piece.sum(body, at, l, one);
#pragma unroll
      for (int s = 0; s < count; ++s) values[s][l] = one[s];
    }
    piece.write(body, at);
#pragma unroll
    for (int s = 0; s < count; ++s) sums[s].add(values[s]);
  };
  std::int64_t first = me;
  for (; first + (batch - 1) * stride < pieces; first += batch * stride) {
    Piece held[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b) held[b].read(body, (first + b * stride) * V);
#pragma unroll
    for (int b = 0; b < batch; ++b) add(held[b], (first + b * stride) * V);
  }
  for (; first < pieces; first += stride) {
    Piece piece;
    piece.read(body, first * V);
    add(piece, first * V);
  }
  if (me == stride - 1)
    for (std::int64_t at = pieces * V; at < cells; ++at) {
      double one[count];
      body.cell(at, 0, 0, one);
#pragma unroll
      for (int s = 0; s < count; ++s) {
        const double value[1] = {one[s]};
        sums[s].add(value);
      }
    }
  keep_sums(sums, out);
}

/// Any layout, cell by cell.
template <class Body>
__global__ void __launch_bounds__(threads) sum_cells_kernel(CellBox box, Body body, SumCell* out) {
  constexpr int count = Body::count;
  ThreadSum sums[count];
  const std::int64_t n0 = box.size(0), n1 = box.size(1), cells = box.count();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads;
  for (std::int64_t first = blockIdx.x * static_cast<std::int64_t>(threads) + threadIdx.x; first < cells;
       first += batch * stride) {
    double values[count][batch];
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const std::int64_t at = first + b * stride, row = at / n0;
      double one[count] = {};
      if (at < cells) body.cell(box.lo[0] + (at - row * n0), box.lo[1] + row % n1, box.lo[2] + row / n1, one);
#pragma unroll
      for (int s = 0; s < count; ++s) values[s][b] = one[s];
    }
#pragma unroll
    for (int s = 0; s < count; ++s) sums[s].add(values[s]);
  }
  keep_sums(sums, out);
}

/// x += alpha p; p <- (d) z + beta p, in pieces of 16 bytes.
template <class T, bool diagonal>
__global__ void __launch_bounds__(threads) direction_kernel(std::int64_t cells, DirectionBody<T> body) {
  constexpr int V = Lanes<T>::size, held = 2;
  const std::int64_t pieces = cells / V, stride = static_cast<std::int64_t>(gridDim.x) * threads;
  const std::int64_t me = blockIdx.x * static_cast<std::int64_t>(threads) + threadIdx.x;
  for (std::int64_t first = me; first < pieces; first += held * stride) {
    Lanes<T> x[held], p[held], z[held], d[held];
#pragma unroll
    for (int b = 0; b < held; ++b)
      if (first + b * stride < pieces) {
        const std::int64_t at = (first + b * stride) * V;
        x[b] = load_lanes<T>(body.x.cell + at);
        p[b] = load_lanes<T>(body.p.cell + at);
        z[b] = load_lanes<T>(body.z.cell + at);
        if constexpr (diagonal) d[b] = load_lanes<T>(body.inverse_diagonal.cell + at);
      }
#pragma unroll
    for (int b = 0; b < held; ++b)
      if (first + b * stride < pieces) {
        const std::int64_t at = (first + b * stride) * V;
#pragma unroll
        for (int l = 0; l < V; ++l)
          body.one(x[b].v[l], p[b].v[l], diagonal ? d[b].v[l] * z[b].v[l] : z[b].v[l], body.alpha, body.beta);
        store_lanes(body.x.cell + at, x[b]);
        store_lanes_to_stay(body.p.cell + at, p[b]);
      }
  }
  if (me == stride - 1)
    for (std::int64_t at = pieces * V; at < cells; ++at) body.cell(at, 0, 0);
}
template <class T>
__global__ void __launch_bounds__(threads) direction_cells_kernel(CellBox box, DirectionBody<T> body) {
  const std::int64_t n0 = box.size(0), n1 = box.size(1), cells = box.count();
  for (std::int64_t at = blockIdx.x * static_cast<std::int64_t>(threads) + threadIdx.x; at < cells;
       at += static_cast<std::int64_t>(gridDim.x) * threads) {
    const std::int64_t row = at / n0;
    body.cell(box.lo[0] + (at - row * n0), box.lo[1] + row % n1, box.lo[2] + row / n1);
  }
}

}  // namespace

int cuda_sum_pieces(std::int64_t cells) {
  constexpr std::int64_t most = 528;  // four blocks for each multiprocessor of the largest GPUs
  const std::int64_t wanted = (cells + threads * 8 - 1) / (threads * 8);
  return static_cast<int>(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

template <class Body>
void sum_cells_on_cuda(LaunchContext& context, const CellBox& box, const Body& body, SumCell* sums) {
  const auto stream = static_cast<cudaStream_t>(context.native_stream());
  const int pieces = cuda_sum_pieces(box.count());
  if (body.flat(box.size(0), box.size(1)) && is_aligned(body))
    sum_pieces_kernel<Body><<<pieces, threads, 0, stream>>>(box.count(), body, sums);
  else
    sum_cells_kernel<Body><<<pieces, threads, 0, stream>>>(box, body, sums);
  SW_CUDA(cudaGetLastError());
}

template <class T>
void direction_on_cuda(LaunchContext& context, const CellBox& box, const DirectionBody<T>& body) {
  const auto stream = static_cast<cudaStream_t>(context.native_stream());
  const std::int64_t cells = box.count();
  const bool flat = body.flat(box.size(0), box.size(1)) && aligned(body.x) && aligned(body.p) &&
                    aligned(body.z) && aligned(body.inverse_diagonal);
  const std::int64_t each = flat ? 2 * Lanes<T>::size : 1;
  const auto blocks = static_cast<unsigned>(
      std::min<std::int64_t>((cells + each * threads - 1) / (each * threads), flat ? 1 << 20 : 4096));
  if (!flat)
    direction_cells_kernel<T><<<blocks, threads, 0, stream>>>(box, body);
  else if (body.inverse_diagonal.cell)
    direction_kernel<T, true><<<blocks, threads, 0, stream>>>(cells, body);
  else
    direction_kernel<T, false><<<blocks, threads, 0, stream>>>(cells, body);
  SW_CUDA(cudaGetLastError());
}

#define SW_INSTANTIATE(Body) \
  template void sum_cells_on_cuda(LaunchContext&, const CellBox&, const Body&, SumCell*)
SW_INSTANTIATE(DotBody<float>);
SW_INSTANTIATE(DotBody<double>);
SW_INSTANTIATE(TwoDotsBody<float>);
SW_INSTANTIATE(TwoDotsBody<double>);
SW_INSTANTIATE(ResidualBody<float>);
SW_INSTANTIATE(ResidualBody<double>);
template void direction_on_cuda(LaunchContext&, const CellBox&, const DirectionBody<float>&);
template void direction_on_cuda(LaunchContext&, const CellBox&, const DirectionBody<double>&);

}  // namespace shardwise
