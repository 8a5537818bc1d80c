#pragma once
// From a leaf as data to the launch of its body, on host and CUDA.

#include "grid/cell_launch.hpp"
#include "grid/kappa_kernel.hpp"
#include "grid/transpose_kernel.hpp"

namespace shardwise {

struct SumCell;

enum class LeafKind : std::uint8_t { laplacian, difference, diffusion, advection, advection_adjoint };
enum class LeafAction : std::uint8_t { apply, lift, diagonal, transpose, kappa_gradient, kappa_scatter };

/// One launch of a leaf on one block. All pointers are to the block's first owned cell.
template <class T>
struct LeafCall {
  LeafKind kind = LeafKind::laplacian;
  LeafAction action = LeafAction::apply;
  int dims = 1;
  bool plain = false;  ///< no tuned schedule
  StencilBlock<T> block;
  T inverse_square[3] = {}, half_inverse[3] = {};
  // difference
  int d = 0;
  Scheme scheme = Scheme::centred;
  T scale = 1;
  // diffusion, advection
  MeanKind mean = MeanKind::arithmetic;
  WallKind wall = WallKind::extrapolate;
  bool single[3] = {};
  const T* k[3] = {};
  const T* given[3][2] = {};
  // where the whole grid's walls are, for derivatives with respect to kappa
  std::int64_t first[3] = {}, global[3] = {1, 1, 1};
  T global_multiplier[3][2] = {};
  bool global_wall[3][2] = {};
  int component_begin = 0, component_end = 3;  ///< dimensions that the component stands for

  const T* x = nullptr;
  const T* u = nullptr;  ///< second input, of derivatives
  T* y = nullptr;
  std::int64_t y_stride[2] = {};  ///< of transposes, whose output has a layout of its own
  /// Of transposes: cells at least deep_margin from every face go here, blended, or all (fold.whole).
  T* deep_y = nullptr;
  std::int64_t deep_margin[3] = {};
  GatherFold<T> fold;
  T alpha = 1, beta = 0;
  LiftFaces<T> faces;
  CellBox box;
  /// Where not null: adds the exact sum of x . y to it; only for calls that sum_fits() says yes to.
  SumCell* sum = nullptr;
};

template <class T>
void launch_leaf(LaunchContext& context, const LeafCall<T>& call);
template <>
void launch_leaf(LaunchContext& context, const LeafCall<float>& call);
template <>
void launch_leaf(LaunchContext& context, const LeafCall<double>& call);

#if SHARDWISE_WITH_CUDA
template <class T>
void launch_leaf_on_cuda(LaunchContext& context, const LeafCall<T>& call);
/// Whether the launch of this call on a CUDA device can sum x . y on the way.
template <class T>
bool sum_fits(const Device& device, const LeafCall<T>& call);
#endif

}  // namespace shardwise
