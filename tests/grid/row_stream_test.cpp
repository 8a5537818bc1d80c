// Rows that are streamed past the cache have the bits of one cell after the other, wherever lines and rows
// begin, and write nothing else.

#include <gtest/gtest.h>

#include <vector>

#include "grid/grid_cases.hpp"
#include "grid/leaf_kernel.hpp"

namespace shardwise::grid_test {
namespace {

enum class Face { wall, periodic, cut };

/// A block of more than stream_from_bytes, its first cell `shift` elements into the allocation.
template <class T>
void check(std::int64_t nx, std::int64_t ny, std::int64_t nz, Face in_x, Face in_y, Face in_z,
           std::int64_t shift) {
  SCOPED_TRACE(::testing::Message() << nx << " x " << ny << " x " << nz << ", faces "
                                    << static_cast<int>(in_x) << static_cast<int>(in_y)
                                    << static_cast<int>(in_z) << ", shift " << shift);
  StencilBlock<T> block;
  const Face faces[3] = {in_x, in_y, in_z};
  const std::int64_t cells[3] = {nx, ny, nz};
  // Ghosts beside cuts only.
  std::int64_t size = 1, origin = shift;
  for (int d = 0; d < 3; ++d) {
    const std::int64_t halo = faces[d] == Face::cut ? 1 : 0;
    block.cells[d] = cells[d];
    block.stride[d] = size;
    origin += halo * size;
    size *= cells[d] + 2 * halo;
    for (int side = 0; side < 2; ++side) {
      FaceRule<T>& rule = block.face[d][side];
      const std::int64_t outward = side == 0 ? -block.stride[d] : block.stride[d];
      if (faces[d] == Face::wall) rule = {side == 0 ? T(-1) : T(0.75), 0, true, false};
      if (faces[d] == Face::periodic) rule = {1, -outward * (cells[d] - 1), false, false};
      if (faces[d] == Face::cut) rule = {1, outward, false, true};
    }
  }
  size += shift;
  ASSERT_GE(nx * ny * nz * std::int64_t{sizeof(T)}, stream_from_bytes);
  std::vector<T> x(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(random_value(i, 1));
  const T untouched = T(-77);
  std::vector<T> rows(x.size(), untouched), single = rows;
  const LaplacianCell<T, 3> leaf{{T(3), T(0.7), T(11)}};
  ApplyBody<T, 3, LaplacianCell<T, 3>, false> body{block,   leaf, x.data() + origin, rows.data() + origin,
                                                   T(-1.1), T(0)};
  ASSERT_EQ(body.streams(), SHARDWISE_STREAMS_ROWS != 0);
  // Whole rows, and rows without their ends or a piece of them, as shells and interiors have them.
  std::int64_t begin = 0, end = nx;
  for (std::int64_t k = 0; k < nz; ++k)
    for (std::int64_t j = 0; j < ny; ++j) {
      begin = (j + k) % 5 == 3 ? 1 + k % 21 : 0;
      end = (j + k) % 7 == 2 ? nx - 1 - j % 19 : nx;
      body.row(begin, end, j, k);
      ApplyBody<T, 3, LaplacianCell<T, 3>, false> cell = body;
      cell.y = single.data() + origin;
      for (std::int64_t i = begin; i < end; ++i) cell.cell(i, j, k);
    }
  body.finish();
  EXPECT_TRUE(same_bits(rows, single)) << "differs by " << max_difference(rows, single);
}

TEST(GridRowStream, HasTheBitsOfSingleCells) {
  check<float>(256, 181, 182, Face::wall, Face::wall, Face::wall, 0);
  check<float>(203, 207, 211, Face::wall, Face::periodic, Face::cut, 0);
  check<float>(211, 203, 207, Face::periodic, Face::cut, Face::wall, 3);
  check<double>(151, 167, 173, Face::cut, Face::wall, Face::periodic, 1);
  check<double>(40, 343, 307, Face::wall, Face::wall, Face::cut, 5);
}

}  // namespace
}  // namespace shardwise::grid_test
