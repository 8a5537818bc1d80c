#pragma once
// The tuned schedule for 7-point leaves on CUDA: threads own 16 bytes of a row and march through the planes
// of the slowest dimension with the planes below, at and above in registers.
//
//     a warp      32 x 16 bytes of one row; neighbours in x come by shuffles, the warp's ends from memory
//     a block     8 rows; neighbours in y come from L1, where the block's other warps put them
//     a chunk     up to 16 planes; every other chunk is marched downwards, so that two chunks reach the
//     planes that
//                 both read at the same time, while these are in L2
//
// Values around a cell are gathered as the plain reader gathers them, walls included, and handed to the same
// functions: same bits. Stores are streaming: the result is not read again soon.

#include <type_traits>

#include "grid/leaf_kernel.hpp"
#include "grid/leaf_launch.hpp"

namespace shardwise {

template <class T>
struct MarchVector;
template <>
struct MarchVector<float> {
  using Type = float4;
  static constexpr int size = 4;
};
template <>
struct MarchVector<double> {
  using Type = double2;
  static constexpr int size = 2;
};

template <class T>
struct Lanes {
  static constexpr int size = MarchVector<T>::size;
  T v[size];
};

template <class T>
__device__ inline Lanes<T> load_lanes(const T* p) {
  const auto w = __ldg(reinterpret_cast<const typename MarchVector<T>::Type*>(p));
  Lanes<T> r;
  if constexpr (std::is_same_v<T, float>) {
    r.v[0] = w.x, r.v[1] = w.y, r.v[2] = w.z, r.v[3] = w.w;
  } else {
    r.v[0] = w.x, r.v[1] = w.y;
  }
  return r;
}
template <class T>
__device__ inline Lanes<T> load_lanes_again(const T* p) {
  const auto w = *reinterpret_cast<const typename MarchVector<T>::Type*>(p);
  Lanes<T> r;
  if constexpr (std::is_same_v<T, float>) {
    r.v[0] = w.x, r.v[1] = w.y, r.v[2] = w.z, r.v[3] = w.w;
  } else {
    r.v[0] = w.x, r.v[1] = w.y;
  }
  return r;
}
template <class T>
__device__ inline void store_lanes(T* p, const Lanes<T>& r) {
  if constexpr (std::is_same_v<T, float>)
    __stcs(reinterpret_cast<float4*>(p), make_float4(r.v[0], r.v[1], r.v[2], r.v[3]));
  else
    __stcs(reinterpret_cast<double2*>(p), make_double2(r.v[0], r.v[1]));
}
template <class T>
__device__ inline Lanes<T> times(T m, const Lanes<T>& a) {
  Lanes<T> r;
#pragma unroll
  for (int l = 0; l < Lanes<T>::size; ++l) r.v[l] = m * a.v[l];
  return r;
}

constexpr int march_rows = 8;

/// Where one thread's cells lie and what is beyond them.
template <class T>
struct MarchPlace {
  std::int64_t i, j;
  bool first, last;  ///< in x
  std::int64_t low_y, high_y;
  T low_y_times, high_y_times;
};

/// Everything around the lanes of one plane in one field, given the planes below and above.
template <class T>
struct MarchAround {
  Lanes<T> low[3], high[3];
};

/// x and y neighbours of the plane at `at`; `u` is any field of the block; `scaled`: with the multipliers of
/// walls (values), without (coefficients, which are not read beyond walls).
template <bool scaled, class T>
__device__ inline void gather_plane(const StencilBlock<T>& block, const MarchPlace<T>& place, const T* u,
                                    std::int64_t at, const Lanes<T>& centre, MarchAround<T>& around) {
  constexpr int V = Lanes<T>::size;
  around.low[1] = load_lanes(u + at + place.low_y);
  around.high[1] = load_lanes(u + at + place.high_y);
  if (scaled) {
    around.low[1] = times(place.low_y_times, around.low[1]);
    around.high[1] = times(place.high_y_times, around.high[1]);
  }
  T left = __shfl_up_sync(0xffffffffu, centre.v[V - 1], 1);
  T right = __shfl_down_sync(0xffffffffu, centre.v[0], 1);
  if (place.first) {
    left = __ldg(u + at + block.face[0][0].offset);
    if (scaled) left = block.face[0][0].multiplier * left;
  } else if (threadIdx.x == 0) {
    left = __ldg(u + at - 1);
  }
  if (place.last) {
    right = __ldg(u + at + V - 1 + block.face[0][1].offset);
    if (scaled) right = block.face[0][1].multiplier * right;
  } else if (threadIdx.x == 31) {
    right = __ldg(u + at + V);
  }
#pragma unroll
  for (int l = 0; l < V; ++l) {
    around.low[0].v[l] = l == 0 ? left : centre.v[l - 1];
    around.high[0].v[l] = l == V - 1 ? right : centre.v[l + 1];
  }
}

/// Plane k of a field at the thread's cells; beyond the block by the rules of its faces.
template <bool scaled, class T>
__device__ inline Lanes<T> load_plane(const StencilBlock<T>& block, const T* u, std::int64_t row,
                                      std::int64_t k) {
  const std::int64_t n = block.cells[2], s = block.stride[2];
  if (k < 0) {
    const Lanes<T> v = load_lanes(u + row + block.face[2][0].offset);
    return scaled ? times(block.face[2][0].multiplier, v) : v;
  }
  if (k >= n) {
    const Lanes<T> v = load_lanes(u + row + (n - 1) * s + block.face[2][1].offset);
    return scaled ? times(block.face[2][1].multiplier, v) : v;
  }
  return load_lanes(u + row + k * s);
}

template <class T>
struct MarchLaplacian {
  static constexpr bool has_coefficient = false;
  LaplacianCell<T, 3> leaf;
  __device__ const T* coefficient() const { return nullptr; }
  __device__ T value(const T (&low)[3], T centre, const T (&high)[3], const T (&)[3], T, const T (&)[3],
                     const bool (&)[3][2]) const {
    T difference[3];
#pragma unroll
    for (int d = 0; d < 3; ++d) difference[d] = leaf.second_difference(low[d], centre, high[d]);
    return leaf.sum(difference);
  }
};

template <class T, MeanKind mean>
struct MarchDiffusion {
  static constexpr bool has_coefficient = true;
  using Leaf = DiffusionCell<T, 3, mean>;
  Leaf leaf;
  __device__ const T* coefficient() const { return leaf.k[0]; }
  __device__ T value(const T (&low)[3], T centre, const T (&high)[3], const T (&k_low)[3], T k,
                     const T (&k_high)[3], const bool (&wall)[3][2]) const {
    T fluxes[3];
#pragma unroll
    for (int d = 0; d < 3; ++d) {
      const T below = Leaf::face_of(wall[d][0], leaf.wall, leaf.single[d], k, k_low[d], k_high[d]);
      const T above = Leaf::face_of(wall[d][1], leaf.wall, leaf.single[d], k, k_high[d], k_low[d]);
      fluxes[d] = Leaf::flux(below, above, low[d], centre, high[d]);
    }
    return leaf.sum(fluxes);
  }
};

template <class T, class March, bool ReadsY>
__global__ void __launch_bounds__(32 * march_rows)
    march_kernel(StencilBlock<T> block, March march, const T* x, T* y, T alpha, T beta, CellBox box,
                 int chunk_planes) {
  constexpr int V = Lanes<T>::size;
  MarchPlace<T> place;
  place.i = (static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x) * V;
  place.j = box.lo[1] + static_cast<std::int64_t>(blockIdx.y) * march_rows + threadIdx.y;
  // All lanes of a warp take part in shuffles: those beyond the row repeat its first cells and store nothing.
  const bool active = place.i < block.cells[0] && place.j < box.hi[1];
  if (!active) {
    if (place.i >= block.cells[0]) place.i = 0;
    if (place.j >= box.hi[1]) place.j = box.lo[1];
  }
  place.first = place.i == 0;
  place.last = place.i + V == block.cells[0];
  const FaceRule<T>&south = block.face[1][0], &north = block.face[1][1];
  const bool at_south = place.j == 0, at_north = place.j == block.cells[1] - 1;
  place.low_y = at_south ? south.offset : -block.stride[1];
  place.high_y = at_north ? north.offset : block.stride[1];
  place.low_y_times = at_south ? south.multiplier : T(1);
  place.high_y_times = at_north ? north.multiplier : T(1);

  const std::int64_t begin = box.lo[2] + static_cast<std::int64_t>(blockIdx.z) * chunk_planes;
  const std::int64_t end = begin + chunk_planes < box.hi[2] ? begin + chunk_planes : box.hi[2];
  const bool upwards = blockIdx.z % 2 == 0;
  const std::int64_t step = upwards ? 1 : -1;
  std::int64_t k = upwards ? begin : end - 1;
  const std::int64_t row = place.i + place.j * block.stride[1];
  const T* const kappa = march.coefficient();

  // behind, here, ahead: in the direction of the march.
  Lanes<T> behind = load_plane<true>(block, x, row, k - step), here = load_plane<true>(block, x, row, k);
  Lanes<T> ahead = load_plane<true>(block, x, row, k + step);
  Lanes<T> k_behind, k_here, k_ahead;
  if constexpr (March::has_coefficient) {
    k_behind = load_plane<false>(block, kappa, row, k - step);
    k_here = load_plane<false>(block, kappa, row, k);
    k_ahead = load_plane<false>(block, kappa, row, k + step);
  }
  for (std::int64_t count = end - begin; count > 0; --count, k += step) {
    // The plane after next is on its way while this one is computed.
    Lanes<T> next = ahead, k_next;
    if (count > 1) {
      next = load_plane<true>(block, x, row, k + 2 * step);
      if constexpr (March::has_coefficient) k_next = load_plane<false>(block, kappa, row, k + 2 * step);
    }
    const std::int64_t at = row + k * block.stride[2];
    MarchAround<T> around, k_around;
    gather_plane<true>(block, place, x, at, here, around);
    around.low[2] = upwards ? behind : ahead;
    around.high[2] = upwards ? ahead : behind;
    if constexpr (March::has_coefficient) {
      gather_plane<false>(block, place, kappa, at, k_here, k_around);
      k_around.low[2] = upwards ? k_behind : k_ahead;
      k_around.high[2] = upwards ? k_ahead : k_behind;
    }
    const bool wall_y[2] = {at_south && south.wall, at_north && north.wall};
    const bool wall_z[2] = {k == 0 && block.face[2][0].wall,
                            k == block.cells[2] - 1 && block.face[2][1].wall};
    Lanes<T> result;
    if constexpr (ReadsY) result = load_lanes_again(y + at);
#pragma unroll
    for (int l = 0; l < V; ++l) {
      T low[3], high[3], k_low[3] = {}, k_high[3] = {};
      T coefficient = 0;
#pragma unroll
      for (int d = 0; d < 3; ++d) {
        low[d] = around.low[d].v[l];
        high[d] = around.high[d].v[l];
        if constexpr (March::has_coefficient) {
          k_low[d] = k_around.low[d].v[l];
          k_high[d] = k_around.high[d].v[l];
        }
      }
      if constexpr (March::has_coefficient) coefficient = k_here.v[l];
      const bool wall[3][2] = {
          {l == 0 && place.first && block.face[0][0].wall, l == V - 1 && place.last && block.face[0][1].wall},
          {wall_y[0], wall_y[1]},
          {wall_z[0], wall_z[1]}};
      const T value = march.value(low, here.v[l], high, k_low, coefficient, k_high, wall);
      T out = ReadsY ? result.v[l] : T(0);
      blend<ReadsY>(&out, value, alpha, beta);
      result.v[l] = out;
    }
    if (active) store_lanes(y + at, result);
    behind = here;
    here = ahead;
    ahead = next;
    if constexpr (March::has_coefficient) {
      k_behind = k_here;
      k_here = k_ahead;
      k_ahead = k_next;
    }
  }
}

/// Whether the march can run this call: three dimensions, whole rows, 16-byte pieces.
template <class T>
bool march_fits(const LeafCall<T>& c) {
  constexpr std::int64_t V = MarchVector<T>::size;
  const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  if (c.plain || c.action != LeafAction::apply || c.dims != 3) return false;
  if (c.box.lo[0] != 0 || c.box.hi[0] != c.block.cells[0] || c.block.cells[0] % V != 0) return false;
  if (c.block.stride[1] % V != 0 || c.block.stride[2] % V != 0 || !aligned(c.x) || !aligned(c.y))
    return false;
  if (c.kind == LeafKind::laplacian) return true;
  return c.kind == LeafKind::diffusion && c.mean != MeanKind::geometric && c.wall != WallKind::given &&
         c.k[0] == c.k[1] && c.k[0] == c.k[2] && aligned(c.k[0]);
}

template <class T, class March>
void launch_march(cudaStream_t stream, const LeafCall<T>& c, const March& march) {
  constexpr std::int64_t V = MarchVector<T>::size;
  // Chunks of 16 planes where that leaves work for every multiprocessor, shorter ones for small blocks.
  const std::int64_t across =
      ((c.block.cells[0] + 32 * V - 1) / (32 * V)) * ((c.box.size(1) + march_rows - 1) / march_rows);
  int planes = 16;
  while (planes > 4 && across * ((c.box.size(2) + planes - 1) / planes) < 1024) planes /= 2;
  const dim3 threads(32, march_rows);
  const dim3 grid(static_cast<unsigned>((c.block.cells[0] + 32 * V - 1) / (32 * V)),
                  static_cast<unsigned>((c.box.size(1) + march_rows - 1) / march_rows),
                  static_cast<unsigned>((c.box.size(2) + planes - 1) / planes));
  if (c.beta == T(0))
    march_kernel<T, March, false>
        <<<grid, threads, 0, stream>>>(c.block, march, c.x, c.y, c.alpha, c.beta, c.box, planes);
  else
    march_kernel<T, March, true>
        <<<grid, threads, 0, stream>>>(c.block, march, c.x, c.y, c.alpha, c.beta, c.box, planes);
}

}  // namespace shardwise
