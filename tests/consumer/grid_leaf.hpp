#pragma once
#include <cstdint>

/// y <- alpha (fourth-order d2/dx2 of u) + beta y on nx x ny cells, two ghosts to each side in x.
struct LeafArguments {
  const double* u;
  double* y;
  std::int64_t nx, ny, u_stride, y_stride;
  double weight, alpha, beta;
};

/// Enqueues it on a cudaStream_t. Returns CUDA's error code.
int enqueue_leaf(const LeafArguments& arguments, void* stream);
