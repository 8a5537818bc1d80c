#pragma once
// The tuned schedule for 7-point leaves on CUDA: a block marches a tile through the planes of the slowest
// dimension, and the copy engine brings planes of the tile, with the rows and columns around it, into a ring
// in shared memory well ahead of the cells that read them.
//
//     a tile      Shape::vectors x 16 bytes of a row, Shape::rows rows; in the ring with one more row on
//     either
//                 side, and columns of 16 bytes beside it
//     a thread    16 bytes of `own` rows that follow each other; y neighbours in its registers or from the
//                 ring, x neighbours from the ring, z neighbours in registers
//     one warp    more, which only starts copies
//
// Beyond a wall lies the cell at the wall, times a multiplier; beyond a periodic end a piece that is copied
// on its own. Boxes begin where tiles do: on 128-byte lines where rows do, or L2 would move half as much
// again. Every face between two cells has one difference and, for Diffusion, one coefficient and one product,
// which both cells use: the values that the plain readers would compute twice, hence the same bits. Stores
// are streaming: the result is not read again soon.

#include "grid/bulk_copy.cuh"
#include "grid/exact_sum.cuh"
#include "grid/lanes.cuh"
#include "grid/leaf_kernel.hpp"
#include "grid/leaf_launch.hpp"

namespace shardwise {

/// vectors: a row of the tile in 16 bytes; own: rows of a thread; stages: planes in the ring, at least 3;
/// blocks: on a multiprocessor.
template <int Vectors, int ThreadRows, int Own, int Stages, int Blocks>
struct TileShape {
  static constexpr int vectors = Vectors, thread_rows = ThreadRows, own = Own, stages = Stages,
                       blocks = Blocks;
  static constexpr int rows = ThreadRows * Own;
  static constexpr int workers = Vectors * ThreadRows, threads = workers + 32;
  static constexpr int pitch = 16 * Vectors;  ///< bytes
  static constexpr int box_bytes = pitch * (rows + 2);
  static constexpr int edge_bytes = 16 * rows;
  SW_HD static constexpr int round(int bytes) { return (bytes + 127) / 128 * 128; }
  // A plane of a field in the ring: the box, then what wraps around: columns at the left and right, rows at
  // the low and high end.
  static constexpr int edge_at = round(box_bytes), row_at = edge_at + 2 * round(edge_bytes);
  static constexpr int plane = row_at + 2 * round(pitch);
  static_assert(workers % 32 == 0 && Stages >= 3 && pitch <= 256 * 8 && rows + 2 <= 256);
};

/// A field as the copy engine sees it: boxes of a tile, columns of 16 bytes, rows of a tile.
struct TileMaps {
  CUtensorMap box, column, row;
};
template <int fields>
struct TileFields {
  TileMaps field[fields];
};
/// Where cell (0, 0, 0) lies in the arrays of the maps, in elements of 8 bytes, rows and planes; and what
/// wraps around.
struct TileFrame {
  int origin[3];
  bool wrap_x, wrap_y, wrap_z;
};

/// A 7-point leaf for the march. `fields`: 1 (values) or 2 (coefficients too).
template <class T>
struct TileLaplacian {
  static constexpr int fields = 1;
  LaplacianCell<T, 3> leaf;
};
template <class T, MeanKind mean_kind>
struct TileDiffusion {
  static constexpr int fields = 2;
  static constexpr MeanKind mean = mean_kind;
  DiffusionCell<T, 3, mean_kind> leaf;

  /// The coefficient on the wall face of dimension d of a cell, from the one behind the cell.
  __device__ T wall_face(const StencilBlock<T>& block, int d, int side, T k0, T k_behind, std::int64_t i,
                         std::int64_t j, std::int64_t k) const {
    if (i >= block.cells[0] || j >= block.cells[1]) return k0;  // no cell: nothing will be stored
    if (leaf.wall == WallKind::given) {
      const std::int64_t face = d == 0   ? j + block.cells[1] * k
                                : d == 1 ? i + block.cells[0] * k
                                         : i + block.cells[0] * j;
      return leaf.given[d][side][face];
    }
    return leaf.face_of(true, leaf.wall, leaf.single[d], k0, k0, k_behind);
  }
  /// The same at walls of the slowest dimension: the coefficient behind is read from memory.
  __device__ T wall_plane_face(const StencilBlock<T>& block, int side, T k0, std::int64_t i, std::int64_t j,
                               std::int64_t k) const {
    if (i >= block.cells[0] || j >= block.cells[1]) return k0;
    const std::int64_t step = side == 0 ? block.stride[2] : -block.stride[2];
    return wall_face(block, 2, side, k0, leaf.single[2] ? k0 : leaf.k[0][block.element(i, j, k) + step], i, j,
                     k);
  }
};

/// One thread starts copies: planes first - 1 .. end of the tile, into the ring.
template <class T, class Shape, int fields>
__device__ inline void copy_tiles(const StencilBlock<T>& block, const TileMaps* maps, const TileFrame& frame,
                                  unsigned char* ring, const std::uint64_t* full, const std::uint64_t* empty,
                                  int x0, int j0, int first, int end) {
  constexpr int V = Lanes<T>::size, per_element = 8 / static_cast<int>(sizeof(T));
  const int n0 = static_cast<int>(block.cells[0]), n1 = static_cast<int>(block.cells[1]),
            n2 = static_cast<int>(block.cells[2]);
  const int x1 = x0 + Shape::vectors * V;
  const bool west = x0 > 0 || !block.face[0][0].wall, east = x1 < n0 || !block.face[0][1].wall;
  const bool south = frame.wrap_y && j0 == 0, north = frame.wrap_y && j0 + Shape::rows >= n1;
  const unsigned bytes = fields * (Shape::box_bytes + (unsigned(west) + unsigned(east)) * Shape::edge_bytes +
                                   (unsigned(south) + unsigned(north)) * Shape::pitch);
  int stage = 0;
  unsigned parity = 1;  // a fresh ring is empty
  const int left = frame.origin[0] + x0 / per_element;
  const int west_at = frame.origin[0] + (x0 == 0 && frame.wrap_x ? n0 - V : x0 - V) / per_element;
  const int east_at = frame.origin[0] + (x1 < n0 ? x1 : frame.wrap_x ? 0 : n0) / per_element;
  for (int k = first - 1; k <= end; ++k) {
    const int plane = frame.origin[2] + (!frame.wrap_z ? k : k < 0 ? n2 - 1 : k >= n2 ? 0 : k);
    const BulkBarrier ready(full + stage);
    BulkBarrier(empty + stage).wait(parity);
    ready.arrive_for_bytes(bytes);
#pragma unroll
    for (int f = 0; f < fields; ++f) {
      unsigned char* const target = ring + (stage * fields + f) * Shape::plane;
      const TileMaps& map = maps[f];
      copy_box(target, map.box, left, frame.origin[1] + j0 - 1, plane, ready);
      if (west) copy_box(target + Shape::edge_at, map.column, west_at, frame.origin[1] + j0, plane, ready);
      if (east)
        copy_box(target + Shape::edge_at + Shape::round(Shape::edge_bytes), map.column, east_at,
                 frame.origin[1] + j0, plane, ready);
      if (south) copy_box(target + Shape::row_at, map.row, left, frame.origin[1] + n1 - 1, plane, ready);
      if (north)
        copy_box(target + Shape::row_at + Shape::round(Shape::pitch), map.row, left, frame.origin[1], plane,
                 ready);
    }
    if (++stage == Shape::stages) stage = 0, parity ^= 1;
  }
}

/// y <- alpha leaf(x) + beta y over `box`. `Sums`: and adds the exact sum of x . y to `sum`.
template <class T, class Leaf, class Shape, bool ReadsY, bool Sums>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks)
    tile_march_kernel(const __grid_constant__ StencilBlock<T> block, const __grid_constant__ Leaf march,
                      const __grid_constant__ TileFields<Leaf::fields> maps,
                      const __grid_constant__ TileFrame frame, T* y, T alpha, T beta,
                      const __grid_constant__ CellBox box, int chunk_planes, SumCell* sum) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  __trap();  // has no copy engine; march_fits() does not come here
#else
  constexpr int V = Lanes<T>::size, own = Shape::own, fields = Leaf::fields;
  constexpr int size = static_cast<int>(sizeof(T));
  extern __shared__ __align__(128) unsigned char ring[];
  __shared__ std::uint64_t full[Shape::stages], empty[Shape::stages];
  const int x0 = static_cast<int>(blockIdx.x) * Shape::vectors * V;
  const int j0 = static_cast<int>(box.lo[1]) + static_cast<int>(blockIdx.y) * Shape::rows;
  const int first = static_cast<int>(box.lo[2]) + static_cast<int>(blockIdx.z) * chunk_planes;
  const int end = min(first + chunk_planes, static_cast<int>(box.hi[2]));
  if (threadIdx.x == 0) {
    for (int s = 0; s < Shape::stages; ++s) {
      BulkBarrier(full + s).init(1);
      BulkBarrier(empty + s).init(Shape::workers / 32);
    }
    bulk_barriers_are_ready();
  }
  __syncthreads();
  if (threadIdx.x >= Shape::workers) {
    if (threadIdx.x == Shape::workers)
      copy_tiles<T, Shape, fields>(block, maps.field, frame, ring, full, empty, x0, j0, first, end);
    return;
  }

  const int n0 = static_cast<int>(block.cells[0]), n1 = static_cast<int>(block.cells[1]),
            n2 = static_cast<int>(block.cells[2]);
  const int tx = static_cast<int>(threadIdx.x) % Shape::vectors,
            ty = static_cast<int>(threadIdx.x) / Shape::vectors;
  const int i = x0 + tx * V, j = j0 + ty * own;  // the first cell of the thread's first row
  const bool at_west = i == 0, at_east = i + V == n0;
  const bool west_wall = at_west && block.face[0][0].wall, east_wall = at_east && block.face[0][1].wall;
  const T left_times = at_west ? block.face[0][0].multiplier : T(1);
  const T right_times = at_east ? block.face[0][1].multiplier : T(1);
  const int active_rows = i < n0 ? min(own, static_cast<int>(box.hi[1]) - j) : 0;
  // Whether this tile's rows need more than what lies in the box; the same for the whole block.
  const bool y_ends =
      (j0 == 0 && !block.face[1][0].plain) || (j0 + Shape::rows >= n1 && !block.face[1][1].plain);

  // Bytes in the ring: the thread's first cell; from there, what lies left and right of its cells.
  const int mine = (ty * own + 1) * Shape::pitch + tx * 16, edge = Shape::edge_at + ty * own * 16 - mine;
  const bool left_edge = tx == 0 && !west_wall;
  const bool right_edge = (tx == Shape::vectors - 1 || at_east) && !east_wall;
  const int left_at = west_wall ? 0 : left_edge ? edge + (V - 1) * size : -size;
  const int right_at = east_wall    ? (V - 1) * size
                       : right_edge ? edge + Shape::round(Shape::edge_bytes)
                                    : V * size;
  const int left_step = left_edge ? 16 : Shape::pitch, right_step = right_edge ? 16 : Shape::pitch;

  int stage = 0;  // of the plane ahead
  unsigned parity = 0;
  const auto wait = [&] { BulkBarrier(full + stage).wait(parity); };
  const auto release = [&](int s) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) BulkBarrier(empty + s).arrive();
  };
  const auto advance = [&] {
    if (++stage == Shape::stages) stage = 0, parity ^= 1;
  };
  const auto cell_of = [&](int s) { return ring + s * (fields * Shape::plane) + mine; };
  const auto scalar = [](const unsigned char* p) { return *reinterpret_cast<const T*>(p); };

  // low: values below; of Diffusion the products of the faces below.
  Lanes<T> low[own], here[own], k_here[fields == 2 ? own : 1];
  const bool floor_wall = first == 0 && block.face[2][0].wall;
  wait();
#pragma unroll
  for (int r = 0; r < own; ++r) {
    low[r] = load_lanes<T>(cell_of(stage) + r * Shape::pitch);
    if constexpr (fields == 2) k_here[r] = load_lanes<T>(cell_of(stage) + Shape::plane + r * Shape::pitch);
  }
  release(stage);
  advance();
  wait();
#pragma unroll
  for (int r = 0; r < own; ++r) {
    here[r] = load_lanes<T>(cell_of(stage) + r * Shape::pitch);
    if (first == 0) low[r] = times(block.face[2][0].multiplier, select(floor_wall, here[r], low[r]));
    if constexpr (fields == 2) {
      const Lanes<T> k = load_lanes<T>(cell_of(stage) + Shape::plane + r * Shape::pitch);
#pragma unroll
      for (int l = 0; l < V; ++l) {
        const T face = floor_wall ? march.wall_plane_face(block, 0, k.v[l], i + l, j + r, 0)
                                  : face_mean(Leaf::mean, k.v[l], k_here[r].v[l]);
        low[r].v[l] = face * (here[r].v[l] - low[r].v[l]);
      }
      k_here[r] = k;
    }
  }
  int centre_stage = stage;
  advance();
  T* out = y + block.element(i, j, first);
  [[maybe_unused]] ThreadSum products;

  // One plane. `Ends`: with rules for the ends in y and the ceiling.
  const auto step = [&]<bool Ends>(std::bool_constant<Ends>, int k) __attribute__((always_inline)) {
    Lanes<T> old[ReadsY ? own : 1];
    if constexpr (ReadsY) {
#pragma unroll
      for (int r = 0; r < own; ++r)
        if (r < active_rows) old[r] = load_lanes<T>(out + r * block.stride[1]);
    }
    const unsigned char* const cell = cell_of(centre_stage);
    // Everything of this plane that is not in registers, so that its place is free for the next copy.
    Lanes<T> south, north[1];
    T left[own], right[own];
    [[maybe_unused]] Lanes<T> k_south, k_north;
    [[maybe_unused]] T k_left[own], k_right[own];
    south = load_lanes<T>(cell - Shape::pitch);
    north[0] = load_lanes<T>(cell + own * Shape::pitch);
#pragma unroll
    for (int r = 0; r < own; ++r) {
      left[r] = left_times * scalar(cell + left_at + r * left_step);
      right[r] = right_times * scalar(cell + right_at + r * right_step);
    }
    if constexpr (fields == 2) {
      const unsigned char* const k_cell = cell + Shape::plane;
      k_south = load_lanes<T>(k_cell - Shape::pitch);
      k_north = load_lanes<T>(k_cell + own * Shape::pitch);
#pragma unroll
      for (int r = 0; r < own; ++r) {
        k_left[r] = scalar(k_cell + left_at + r * left_step);
        k_right[r] = scalar(k_cell + right_at + r * right_step);
      }
    }
    const int last = n1 - 1 - j;  // the row at the high end, where it is one of the thread's
    Lanes<T> beyond;              // that end
    [[maybe_unused]] Lanes<T> k_beyond;
    if constexpr (Ends) {
      if (j == 0 && !block.face[1][0].plain) {
        if (frame.wrap_y) {
          south = load_lanes<T>(cell - mine + Shape::row_at + tx * 16);
          if constexpr (fields == 2)
            k_south = load_lanes<T>(cell - mine + Shape::plane + Shape::row_at + tx * 16);
        } else {
          south = here[0];
        }
        south = times(block.face[1][0].multiplier, south);
      }
      if (last >= 0 && last < own && !block.face[1][1].plain) {
        if (frame.wrap_y) {
          const unsigned char* const row = cell - mine + Shape::row_at + Shape::round(Shape::pitch) + tx * 16;
          beyond = load_lanes<T>(row);
          if constexpr (fields == 2) k_beyond = load_lanes<T>(row + Shape::plane);
        } else {
#pragma unroll
          for (int r = 0; r < own; ++r)
            if (r == last) beyond = here[r];
        }
        beyond = times(block.face[1][1].multiplier, beyond);
      }
    }
    release(centre_stage);
    wait();
    Lanes<T> ahead[own];
    [[maybe_unused]] Lanes<T> k_ahead[fields == 2 ? own : 1];
    const unsigned char* const next = cell_of(stage);
    const bool ceiling = Ends && k == n2 - 1;
    const bool ceiling_wall = ceiling && block.face[2][1].wall;
#pragma unroll
    for (int r = 0; r < own; ++r) {
      ahead[r] = load_lanes<T>(next + r * Shape::pitch);
      if (ceiling) ahead[r] = times(block.face[2][1].multiplier, select(ceiling_wall, here[r], ahead[r]));
      if constexpr (fields == 2) k_ahead[r] = load_lanes<T>(next + Shape::plane + r * Shape::pitch);
    }
    centre_stage = stage;
    advance();

    Lanes<T> below = south;                // the row below
    [[maybe_unused]] Lanes<T> flux_below;  // of Diffusion the products of the face below
    if constexpr (fields == 2) {
#pragma unroll
      for (int l = 0; l < V; ++l) {
        T face = face_mean(Leaf::mean, k_here[0].v[l], k_south.v[l]);
        if constexpr (Ends)
          if (j == 0 && block.face[1][0].wall)
            face = march.wall_face(block, 1, 0, k_here[0].v[l],
                                   own > 1 ? k_here[own > 1 ? 1 : 0].v[l] : k_north.v[l], i + l, 0, k);
        flux_below.v[l] = face * (here[0].v[l] - south.v[l]);
      }
    }
#pragma unroll
    for (int r = 0; r < own; ++r) {
      const bool north_end = Ends && r == last && !block.face[1][1].plain;
      Lanes<T> above = r + 1 < own ? here[r + 1 < own ? r + 1 : 0] : north[0];
      if constexpr (Ends)
        if (north_end) above = beyond;
      Lanes<T> result;
      if constexpr (fields == 1) {
#pragma unroll
        for (int l = 0; l < V; ++l) {
          const T centre = here[r].v[l];
          const T difference[3] = {
              march.leaf.second_difference(l == 0 ? left[r] : here[r].v[l > 0 ? l - 1 : 0], centre,
                                           l == V - 1 ? right[r] : here[r].v[l < V - 1 ? l + 1 : 0]),
              march.leaf.second_difference(below.v[l], centre, above.v[l]),
              march.leaf.second_difference(low[r].v[l], centre, ahead[r].v[l])};
          result.v[l] = march.leaf.sum(difference);
        }
      } else {
        const Lanes<T>& k0 = k_here[r];
        Lanes<T> k_above = r + 1 < own ? k_here[r + 1 < own ? r + 1 : 0] : k_north;
        if constexpr (Ends)
          if (north_end && frame.wrap_y) k_above = k_beyond;
        T face_x[V + 1], across[V + 1];  // coefficients and differences of the faces in x
#pragma unroll
        for (int l = 0; l <= V; ++l) {
          face_x[l] = face_mean(Leaf::mean, l == V ? k_right[r] : k0.v[l < V ? l : 0],
                                l == 0 ? k_left[r] : k0.v[l > 0 ? l - 1 : 0]);
          across[l] = (l == V ? right[r] : here[r].v[l < V ? l : 0]) -
                      (l == 0 ? left[r] : here[r].v[l > 0 ? l - 1 : 0]);
        }
        if (west_wall) face_x[0] = march.wall_face(block, 0, 0, k0.v[0], k0.v[1], 0, j + r, k);
        if (east_wall)
          face_x[V] = march.wall_face(block, 0, 1, k0.v[V - 1], k0.v[V - 2], i + V - 1, j + r, k);
#pragma unroll
        for (int l = 0; l < V; ++l) {
          const T centre = here[r].v[l];
          T fluxes[3];
          fluxes[0] = std::fma(face_x[l + 1], across[l + 1], -(face_x[l] * across[l]));
          T face = face_mean(Leaf::mean, k0.v[l], k_above.v[l]);
          if constexpr (Ends)
            if (north_end && block.face[1][1].wall)
              face = march.wall_face(block, 1, 1, k0.v[l],
                                     r > 0 ? k_here[r > 0 ? r - 1 : 0].v[l] : k_south.v[l], i + l, j + r, k);
          const T up = above.v[l] - centre;
          fluxes[1] = std::fma(face, up, -flux_below.v[l]);
          flux_below.v[l] = face * up;
          face = face_mean(Leaf::mean, k0.v[l], k_ahead[r].v[l]);
          if constexpr (Ends)
            if (ceiling_wall) face = march.wall_plane_face(block, 1, k0.v[l], i + l, j + r, k);
          const T forth = ahead[r].v[l] - centre;
          fluxes[2] = std::fma(face, forth, -low[r].v[l]);
          low[r].v[l] = face * forth;
          result.v[l] = march.leaf.sum(fluxes);
        }
      }
#pragma unroll
      for (int l = 0; l < V; ++l) {
        T value = ReadsY ? old[ReadsY ? r : 0].v[l] : T(0);
        blend<ReadsY>(&value, result.v[l], alpha, beta);
        result.v[l] = value;
      }
      if (r < active_rows) {
        store_lanes(out + r * block.stride[1], result);
        if constexpr (Sums) {
          double product[V];
#pragma unroll
          for (int l = 0; l < V; ++l)
            product[l] = static_cast<double>(here[r].v[l]) * static_cast<double>(result.v[l]);
          products.add(product);
        }
      }
      below = here[r];
      if constexpr (fields == 1) low[r] = here[r];
    }
    out += block.stride[2];
#pragma unroll
    for (int r = 0; r < own; ++r) {
      here[r] = ahead[r];
      if constexpr (fields == 2) k_here[r] = k_ahead[r];
    }
  };
  int k = first;
  if (!y_ends)
    for (const int plain_end = min(end, n2 - 1); k < plain_end; ++k) step(std::false_type{}, k);
  for (; k < end; ++k) step(std::true_type{}, k);
  if constexpr (Sums) {
    // Bytes, because shared objects cannot have constructors.
    __shared__ alignas(8) unsigned char scratch[Shape::workers / 32 * sizeof(BinnedSum)];
    products.window.flush(products.total);
    add_block<Shape::workers>(products.total, reinterpret_cast<BinnedSum*>(scratch), sum);
  }
#endif
}

}  // namespace shardwise
