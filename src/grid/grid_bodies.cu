// Pointwise bodies, ghosts and packing on CUDA.

#include "grid/cell_launch.cuh"
#include "grid/cell_shell.hpp"
#include "grid/ghost_kernel.hpp"
#include "grid/leaf_kernel.hpp"
#include "grid/transfer_kernel.hpp"
#include "grid/transpose_kernel.hpp"
#include "runtime/cuda/for_each.cuh"

#define SW_GRID_BODIES(T)                                                      \
  SW_INSTANTIATE_FOR_EACH(shardwise::SetBody<T>);                              \
  SW_INSTANTIATE_FOR_EACH(shardwise::DenseBody<T>);                            \
  SW_INSTANTIATE_FOR_EACH(shardwise::ShellBody<shardwise::BlendShellBody<T>>); \
  SW_INSTANTIATE_FOR_EACH_CELL(shardwise::ProlongBody<T>);                     \
  SW_INSTANTIATE_FOR_EACH_CELL(shardwise::RestrictBody<T>);                    \
  SW_INSTANTIATE_FOR_EACH_CELL(shardwise::CopyCellsBody<T>);                   \
  SW_INSTANTIATE_FOR_EACH_CELL(shardwise::ScaleBody<T, false>);                \
  SW_INSTANTIATE_FOR_EACH_CELL(shardwise::ScaleBody<T, true>);                 \
  SW_INSTANTIATE_FOR_EACH_CELL(shardwise::FillBody<T>);                        \
  SW_INSTANTIATE_FOR_EACH_CELL(shardwise::FoldBody<T>);                        \
  SW_INSTANTIATE_FOR_EACH_CELL(shardwise::ClearBody<T>);                       \
  SW_INSTANTIATE_FOR_EACH_CELL(shardwise::PackBody<T>);                        \
  SW_INSTANTIATE_FOR_EACH_CELL(shardwise::UnpackBody<T>);                      \
  SW_INSTANTIATE_FOR_EACH_CELL(shardwise::AddPackedBody<T>)
SW_GRID_BODIES(float);
SW_GRID_BODIES(double);
