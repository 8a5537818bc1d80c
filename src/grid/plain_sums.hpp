#pragma once
// Sums of doubles without exactness: what `fast` and `ordered` are made of. One addition a summand.
//
// Cells are cut into pieces of whole rows, each piece is added in lanes, lanes and pieces by trees of fixed
// shape. No atomics: a sum has the same bits again for the same blocks and device kind. Another partition
// adds in another order (about 1e-16 times the square root of the cells, relative to the sum of sizes).

#include <cmath>

#include "grid/cell_launch.hpp"
#include "grid/sum_kernel.hpp"

namespace shardwise {

/// One piece's share of up to two sums.
struct PlainPartial {
  double sum[2] = {0, 0};
};

#if SHARDWISE_WITH_CUDA
template <class Body>
void plain_sums_on_cuda(LaunchContext& context, const CellBox& box, const Body& body, int pieces,
                        bool on_device, PlainPartial* partials);
#endif

/// Fills `pieces` partials. `on_device` adds them up as well: the sum is in partials[0], the others are
/// scratch (fast: one word leaves the device; ordered: all partials do, and the host adds them in order).
template <class Body>
void plain_sums(LaunchContext& context, const CellBox& box, const Body& body, int pieces, bool on_device,
                PlainPartial* partials);

}  // namespace shardwise
