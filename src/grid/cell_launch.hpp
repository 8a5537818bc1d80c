#pragma once
// One launch over a box of cells, from one body, on any device.
//
// A body is trivially copyable with `SW_HD void cell(i, j, k) const`. On the host a body may have `void
// row(begin, end, j, k) const` too, which does the same for cells (begin..end-1, j, k) at once, and `void
// finish() const` for the end of what one thread does. For CUDA one .cu file includes cell_launch.cuh and
// instantiates SW_INSTANTIATE_FOR_EACH_CELL(Body).

#include <algorithm>
#include <cstdint>

#include "shardwise/numeric/host_device.hpp"
#include "shardwise/runtime/operation.hpp"

namespace shardwise {

/// Cells [lo, hi); empty where any hi <= lo. Ghosts have indices below 0 or beyond the owned cells.
struct CellBox {
  std::int64_t lo[3] = {0, 0, 0}, hi[3] = {0, 0, 0};
  SW_HD std::int64_t size(int d) const { return hi[d] > lo[d] ? hi[d] - lo[d] : 0; }
  SW_HD std::int64_t count() const { return size(0) * size(1) * size(2); }
};

#if SHARDWISE_WITH_CUDA
template <class Body>
void for_each_cell_on_cuda(LaunchContext& context, const CellBox& box, const Body& body);
#endif

template <class Body>
void for_each_cell_on_host(LaunchContext& context, const CellBox& box, const Body& body) {
  if (box.count() == 0) return;
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 15) / box.size(0));
  context.parallel_for(box.size(1) * box.size(2), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t j = box.lo[1] + row % box.size(1), k = box.lo[2] + row / box.size(1);
      if constexpr (requires { body.row(box.lo[0], box.hi[0], j, k); }) {
        body.row(box.lo[0], box.hi[0], j, k);
      } else {
        for (std::int64_t i = box.lo[0]; i < box.hi[0]; ++i) body.cell(i, j, k);
      }
    }
    if constexpr (requires { body.finish(); }) body.finish();
  });
}

template <class Body>
void for_each_cell(LaunchContext& context, const CellBox& box, const Body& body) {
#if SHARDWISE_WITH_CUDA
  if (context.native_stream()) {
    if (box.count() > 0) for_each_cell_on_cuda(context, box, body);
    return;
  }
#endif
  for_each_cell_on_host(context, box, body);
}

}  // namespace shardwise
