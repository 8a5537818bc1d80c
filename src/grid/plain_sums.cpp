#include "grid/plain_sums.hpp"

#include <cmath>

namespace shardwise {

namespace {

constexpr int lanes = 8;

/// A row in lanes side by side, so that the compiler can use wide registers.
template <class Body>
void add_row(const Body& body, std::int64_t begin, std::int64_t end, std::int64_t j, std::int64_t k,
             double (&sum)[Body::count][lanes]) {
  constexpr int count = Body::count;
  std::int64_t i = begin;
  for (; i + lanes <= end; i += lanes)
    for (int l = 0; l < lanes; ++l) {
      double out[count];
      body.cell(i + l, j, k, out);
      for (int s = 0; s < count; ++s) sum[s][l] += out[s];
    }
  for (int l = 0; i < end; ++i, ++l) {
    double out[count];
    body.cell(i, j, k, out);
    for (int s = 0; s < count; ++s) sum[s][l] += out[s];
  }
}

}  // namespace

template <class Body>
void plain_sums(LaunchContext& context, const CellBox& box, const Body& body, int pieces, bool on_device,
                PlainPartial* partials) {
#if SHARDWISE_WITH_CUDA
  if (context.native_stream()) return plain_sums_on_cuda(context, box, body, pieces, on_device, partials);
#endif
  const std::int64_t rows = box.size(1) * box.size(2);
  context.parallel_for(pieces, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t piece = first; piece < last; ++piece) {
      double sum[Body::count][lanes] = {};
      for (std::int64_t row = rows * piece / pieces; row < rows * (piece + 1) / pieces; ++row)
        add_row(body, box.lo[0], box.hi[0], box.lo[1] + row % box.size(1), box.lo[2] + row / box.size(1),
                sum);
      PlainPartial mine;
      for (int s = 0; s < Body::count; ++s)
        mine.sum[s] = ((sum[s][0] + sum[s][4]) + (sum[s][2] + sum[s][6])) +
                      ((sum[s][1] + sum[s][5]) + (sum[s][3] + sum[s][7]));
      partials[piece] = mine;
    }
  });
  if (!on_device) return;
  for (int half = (pieces + 1) / 2, left = pieces; left > 1; left = half, half = (half + 1) / 2)
    for (int p = 0; p + half < left; ++p)
      for (int s = 0; s < 2; ++s) partials[p].sum[s] += partials[p + half].sum[s];
}

#define SW_INSTANTIATE(Body) \
  template void plain_sums(LaunchContext&, const CellBox&, const Body&, int, bool, PlainPartial*)
SW_INSTANTIATE(DotBody<float>);
SW_INSTANTIATE(DotBody<double>);
SW_INSTANTIATE(TwoDotsBody<float>);
SW_INSTANTIATE(TwoDotsBody<double>);
SW_INSTANTIATE(ResidualBody<float>);
SW_INSTANTIATE(ResidualBody<double>);

}  // namespace shardwise
