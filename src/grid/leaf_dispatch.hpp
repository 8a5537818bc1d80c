#pragma once
// From a LeafCall to its body: included once for the host and once for CUDA, for each type.

#include "grid/leaf_launch.hpp"

namespace shardwise {

template <class T, int N, MeanKind mean>
DiffusionCell<T, N, mean> diffusion_cell(const LeafCall<T>& c) {
  DiffusionCell<T, N, mean> leaf;
  leaf.wall = c.wall;
  for (int d = 0; d < N; ++d) {
    leaf.k[d] = c.k[d];
    leaf.inverse_square[d] = c.inverse_square[d];
    leaf.single[d] = c.single[d];
    for (int side = 0; side < 2; ++side) leaf.given[d][side] = c.given[d][side];
  }
  return leaf;
}

/// run(body) for a leaf and an action that every leaf has.
template <int N, class T, class Leaf, class Run>
void run_action(const LeafCall<T>& c, const Leaf& leaf, const Run& run) {
  switch (c.action) {
    case LeafAction::apply:
      if (c.beta == T(0))
        run(ApplyBody<T, N, Leaf, false>{c.block, leaf, c.x, c.y, c.alpha, c.beta});
      else
        run(ApplyBody<T, N, Leaf, true>{c.block, leaf, c.x, c.y, c.alpha, c.beta});
      return;
    case LeafAction::lift:
      return run(LiftBody<T, N, Leaf>{c.block, leaf, c.faces, c.y, c.alpha, c.beta});
    case LeafAction::diagonal:
      return run(DiagonalBody<T, N, Leaf>{c.block, leaf, c.y, c.alpha, c.beta});
    case LeafAction::transpose: {
      TransposeBody<T, N, Leaf> body{c.block,  leaf,    c.x,    c.y, {c.y_stride[0], c.y_stride[1]},
                                     c.deep_y, c.alpha, c.beta, {},  c.fold};
      for (int d = 0; d < 3; ++d)
        body.deep.cells[d] = c.block.cells[d], body.deep.margin[d] = c.deep_margin[d];
      return run(body);
    }
    default:
      return;
  }
}

template <int N, MeanKind mean, class T, class Run>
void run_diffusion(const LeafCall<T>& c, const Run& run) {
  const DiffusionCell<T, N, mean> leaf = diffusion_cell<T, N, mean>(c);
  if (c.action != LeafAction::kappa_gradient && c.action != LeafAction::kappa_scatter)
    return run_action<N>(c, leaf, run);
  KappaDerivative<T, N, mean> j;
  j.block = c.block;
  j.leaf = leaf;
  j.w = c.x;
  j.u = c.u;
  j.begin = c.component_begin;
  j.end = c.component_end;
  for (int d = 0; d < 3; ++d) {
    j.first[d] = c.first[d];
    j.global[d] = c.global[d];
    for (int side = 0; side < 2; ++side) {
      j.multiplier[d][side] = c.global_multiplier[d][side];
      j.wall[d][side] = c.global_wall[d][side];
    }
  }
  if (c.action == LeafAction::kappa_gradient)
    run(KappaGradientBody<T, N, mean>{j, c.y, c.alpha});
  else
    run(KappaScatterBody<T, N, mean>{j, c.y, {c.y_stride[0], c.y_stride[1]}});
}

template <int N, class T, class Run>
void run_leaf(const LeafCall<T>& c, const Run& run) {
  switch (c.kind) {
    case LeafKind::laplacian: {
      LaplacianCell<T, N> leaf;
      for (int d = 0; d < N; ++d) leaf.inverse_square[d] = c.inverse_square[d];
      return run_action<N>(c, leaf, run);
    }
    case LeafKind::difference:
      return run_action<N>(c, DifferenceCell<T, N>{c.d, c.scheme, c.scale}, run);
    case LeafKind::diffusion:
      if (c.mean == MeanKind::arithmetic) return run_diffusion<N, MeanKind::arithmetic>(c, run);
      if (c.mean == MeanKind::harmonic) return run_diffusion<N, MeanKind::harmonic>(c, run);
      return run_diffusion<N, MeanKind::geometric>(c, run);
    case LeafKind::advection: {
      AdvectionCell<T, N> leaf;
      for (int d = 0; d < N; ++d) leaf.velocity[d] = c.k[d], leaf.half_inverse[d] = c.half_inverse[d];
      return run_action<N>(c, leaf, run);
    }
    case LeafKind::advection_adjoint: {
      AdvectionAdjointCell<T, N> leaf;
      for (int d = 0; d < N; ++d) leaf.velocity[d] = c.k[d], leaf.half_inverse[d] = c.half_inverse[d];
      return run_action<N>(c, leaf, run);
    }
  }
}

template <class T, class Run>
void dispatch_leaf(const LeafCall<T>& c, const Run& run) {
  if (c.dims == 1) return run_leaf<1>(c, run);
  if (c.dims == 2) return run_leaf<2>(c, run);
  run_leaf<3>(c, run);
}

/// The host's half of launch_leaf(); instantiated in one file a type.
template <class T>
void launch_leaf_here(LaunchContext& context, const LeafCall<T>& call) {
#if SHARDWISE_WITH_CUDA
  if (context.native_stream()) return launch_leaf_on_cuda(context, call);
#endif
  dispatch_leaf(call, [&](const auto& body) { for_each_cell_on_host(context, call.box, body); });
}

}  // namespace shardwise
