#pragma once
// From a LeafCall to a march of tiles: maps for the copy engine, how the planes are cut into chunks.

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>

#include "grid/leaf_dispatch.hpp"
#include "grid/tile_march.cuh"
#include "runtime/cuda/cuda_check.hpp"

namespace shardwise {

/// cuTensorMapEncodeTiled of the driver, which nothing here links to; null where it has none.
inline decltype(&cuTensorMapEncodeTiled) tensor_map_encoder() {
  static const auto encoder = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found{};
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault,
                                         &found) != cudaSuccess ||
        found != cudaDriverEntryPointSuccess)
      entry = nullptr;
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
  }();
  return encoder;
}

template <class T>
TileFrame tile_frame(const StencilBlock<T>& block) {
  constexpr int V = Lanes<T>::size;
  TileFrame frame;
  bool* const wrap[3] = {&frame.wrap_x, &frame.wrap_y, &frame.wrap_z};
  for (int d = 0; d < 3; ++d) {
    const FaceRule<T>& low = block.face[d][0];
    *wrap[d] = !low.wall && low.offset >= 0;  // of one cell: 0
    const int reach = !low.wall && !*wrap[d] ? 1 : 0;
    frame.origin[d] = d == 0 ? reach * V * static_cast<int>(sizeof(T)) / 8 : reach;
  }
  return frame;
}

/// The maps of one field; false: it has none (the driver says so).
template <class T, class Shape>
bool tile_maps(const StencilBlock<T>& block, const TileFrame& frame, const T* field, TileMaps& maps) {
  constexpr std::int64_t V = Lanes<T>::size;
  const bool wrap[3] = {frame.wrap_x, frame.wrap_y, frame.wrap_z};
  std::uint64_t extent[3];
  const T* base = field;
  for (int d = 0; d < 3; ++d) {
    const std::int64_t layer = d == 0 ? V : 1;
    std::int64_t cells = block.cells[d];
    for (int side = 0; side < 2; ++side)
      if (!block.face[d][side].wall && !wrap[d]) {
        cells += layer;
        if (side == 0) base -= layer * (d == 0 ? 1 : block.stride[d]);
      }
    extent[d] = static_cast<std::uint64_t>(d == 0 ? cells * static_cast<std::int64_t>(sizeof(T)) / 8 : cells);
  }
  const std::uint64_t strides[2] = {static_cast<std::uint64_t>(block.stride[1]) * sizeof(T),
                                    static_cast<std::uint64_t>(block.stride[2]) * sizeof(T)};
  const std::uint32_t ones[3] = {1, 1, 1};
  const auto encode = [&](CUtensorMap& map, std::uint32_t x, std::uint32_t y) {
    const std::uint32_t box[3] = {x, y, 1};
    return tensor_map_encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_INT64, 3, const_cast<T*>(base), extent, strides,
                                box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
  };
  return encode(maps.box, Shape::pitch / 8, Shape::rows + 2) && encode(maps.column, 2, Shape::rows) &&
         encode(maps.row, Shape::pitch / 8, 1);
}

/// What the march asks of a device and knows about it.
struct MarchDevice {
  bool can = false;  ///< it has the copy engine, and the driver makes maps for it
  int processors = 0;
};
inline MarchDevice march_device(int device) {
  constexpr int most = 64;
  static std::atomic<int> known[most];  // 0: not asked; -1: cannot; else its multiprocessors
  const auto ask = [&] {
    int major = 0, processors = 0;
    SW_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    SW_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    return major >= 9 && tensor_map_encoder() ? processors : -1;
  };
  if (device < 0 || device >= most) return {};
  int state = known[device].load(std::memory_order_relaxed);
  if (state == 0) known[device].store(state = ask(), std::memory_order_relaxed);
  return {state > 0, state > 0 ? state : 0};
}

// Found by measurement on an H200 (docs/measurements.md): one block that fills a multiprocessor, and a box of
// some 20 to 40 KiB four or six planes deep.
template <class T, int fields>
struct MarchShape;
template <>
struct MarchShape<float, 1> {
  using Type = TileShape<128, 2, 4, 6, 1>;
};
template <>
struct MarchShape<double, 1> {
  using Type = TileShape<128, 4, 2, 6, 1>;
};
template <class T>
struct MarchShape<T, 2> {
  using Type = TileShape<64, 6, 2, 4, 1>;
};

/// Planes a chunk. About 16: chunks beside each other read the planes that both need at about the same time,
/// while they are in L2. So many that the last wave of blocks leaves few multiprocessors without work.
inline int chunk_planes(std::int64_t tiles, std::int64_t planes, std::int64_t slots) {
  std::int64_t best = 1;
  double least = 0;
  for (std::int64_t each = 20; each >= 4; --each) {
    const std::int64_t waves = (tiles * ((planes + each - 1) / each) + slots - 1) / slots;
    const double time =
        static_cast<double>(waves) * (static_cast<double>(each) + 3);  // two planes more, a start
    if (each == 20 || time < least) best = each, least = time;
  }
  return static_cast<int>(best < planes ? best : planes);
}

/// Whether the march can run this call: three dimensions, whole rows, 16-byte pieces.
template <class T>
bool march_fits(int device, const LeafCall<T>& c) {
  constexpr std::int64_t V = MarchVector<T>::size;
  const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  if (c.plain || c.action != LeafAction::apply || c.dims != 3) return false;
  if (c.kind != LeafKind::laplacian && c.kind != LeafKind::diffusion) return false;
  if (c.sum && c.beta != T(0)) return false;
  if (c.box.lo[0] != 0 || c.box.hi[0] != c.block.cells[0] || c.block.cells[0] % V != 0) return false;
  if (c.block.stride[1] % V != 0 || c.block.stride[2] % V != 0 || !aligned(c.x) || !aligned(c.y))
    return false;
  for (const std::int64_t n : c.block.cells)
    if (n > (1 << 30)) return false;
  if (c.kind == LeafKind::diffusion &&
      (c.mean == MeanKind::geometric || c.k[0] != c.k[1] || c.k[0] != c.k[2] || !aligned(c.k[0])))
    return false;
  return march_device(device).can;
}

template <class T, class Leaf, class Shape, bool ReadsY, bool Sums>
void launch_tiles(cudaStream_t stream, int device, const LeafCall<T>& c, const Leaf& leaf,
                  const TileFields<Leaf::fields>& maps, const TileFrame& frame) {
  constexpr std::int64_t across = Shape::vectors * Lanes<T>::size;
  constexpr int bytes = Shape::stages * Leaf::fields * Shape::plane;
  const auto kernel = tile_march_kernel<T, Leaf, Shape, ReadsY, Sums>;
  // Blocks that a multiprocessor holds; set once a device.
  static std::atomic<int> resident[64];
  int blocks = resident[device].load(std::memory_order_relaxed);
  if (blocks == 0) {
    SW_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    SW_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, Shape::threads, bytes));
    resident[device].store(blocks, std::memory_order_relaxed);
  }
  const std::int64_t columns = (c.block.cells[0] + across - 1) / across;
  const std::int64_t rows = (c.box.size(1) + Shape::rows - 1) / Shape::rows;
  const int planes = chunk_planes(columns * rows, c.box.size(2),
                                  static_cast<std::int64_t>(blocks) * march_device(device).processors);
  const dim3 grid(static_cast<unsigned>(columns), static_cast<unsigned>(rows),
                  static_cast<unsigned>((c.box.size(2) + planes - 1) / planes));
  kernel<<<grid, Shape::threads, bytes, stream>>>(c.block, leaf, maps, frame, c.y, c.alpha, c.beta, c.box,
                                                  planes, c.sum);
  SW_CUDA(cudaGetLastError());
}

template <class T, class Leaf>
bool launch_tiles(cudaStream_t stream, int device, const LeafCall<T>& c, const Leaf& leaf) {
  using Shape = typename MarchShape<T, Leaf::fields>::Type;
  const TileFrame frame = tile_frame(c.block);
  TileFields<Leaf::fields> maps;
  if (!tile_maps<T, Shape>(c.block, frame, c.x, maps.field[0])) return false;
  if constexpr (Leaf::fields == 2)
    if (!tile_maps<T, Shape>(c.block, frame, c.k[0], maps.field[1])) return false;
  if (c.beta != T(0))
    launch_tiles<T, Leaf, Shape, true, false>(stream, device, c, leaf, maps, frame);
  else if (c.sum)
    launch_tiles<T, Leaf, Shape, false, true>(stream, device, c, leaf, maps, frame);
  else
    launch_tiles<T, Leaf, Shape, false, false>(stream, device, c, leaf, maps, frame);
  return true;
}

/// Runs the call as a march of tiles where that fits; false: nothing was done.
template <class T>
bool march_tiles(LaunchContext& context, const LeafCall<T>& c) {
  int device = 0;
  SW_CUDA(cudaGetDevice(&device));
  if (!march_fits(device, c)) return false;
  const auto stream = static_cast<cudaStream_t>(context.native_stream());
  bool done = false;
  if (c.kind == LeafKind::laplacian) {
    TileLaplacian<T> leaf;
    for (int d = 0; d < 3; ++d) leaf.leaf.inverse_square[d] = c.inverse_square[d];
    done = launch_tiles(stream, device, c, leaf);
  } else if (c.mean == MeanKind::arithmetic) {
    done =
        launch_tiles(stream, device, c,
                     TileDiffusion<T, MeanKind::arithmetic>{diffusion_cell<T, 3, MeanKind::arithmetic>(c)});
  } else {
    done = launch_tiles(stream, device, c,
                        TileDiffusion<T, MeanKind::harmonic>{diffusion_cell<T, 3, MeanKind::harmonic>(c)});
  }
  if (!done && c.sum)
    throw Error(ErrorClass::internal, "grid: the driver refuses a map for a launch that sums; report this");
  return done;
}

}  // namespace shardwise
