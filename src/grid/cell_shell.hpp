#pragma once
// The cells of a box around an inner box, by number: one launch over them alone.

#include "grid/cell_launch.hpp"
#include "runtime/for_each.hpp"

namespace shardwise {

/// Planes below and above the inner box, then what is left of the rows beside it, then of the ends of rows.
struct CellShell {
  /// `inner` lies in `outer`, or is empty.
  CellShell(const CellBox& whole, const CellBox& hole) : outer(whole), inner(hole) {
    if (hole.count() == 0)
      for (int d = 0; d < 3; ++d) inner.lo[d] = inner.hi[d] = whole.lo[d];
  }
  SW_HD std::int64_t count() const { return outer.count() - inner.count(); }
  SW_HD void locate(std::int64_t item, std::int64_t (&cell)[3]) const {
    const std::int64_t planes = (outer.size(2) - inner.size(2)) * outer.size(1) * outer.size(0);
    if (item < planes) return locate(item, outer.size(0), outer.size(1), 2, cell);
    item -= planes;
    const std::int64_t rows = inner.size(2) * (outer.size(1) - inner.size(1)) * outer.size(0);
    if (item < rows) return locate(item, outer.size(0), outer.size(1) - inner.size(1), 1, cell);
    locate(item - rows, outer.size(0) - inner.size(0), inner.size(1), 0, cell);
  }

  CellBox outer, inner;

 private:
  /// Of boxes with the outer box's extent in dimensions below `split` and the inner one's above it, around
  /// the hole in that dimension; `size0`, `size1`: cells in the first two.
  SW_HD void locate(std::int64_t item, std::int64_t size0, std::int64_t size1, int split,
                    std::int64_t (&cell)[3]) const {
    const std::int64_t row = item / size0;
    cell[0] = item - row * size0;
    cell[2] = row / size1;
    cell[1] = row - cell[2] * size1;
    for (int d = 0; d < 3; ++d) {
      cell[d] += d <= split ? outer.lo[d] : inner.lo[d];
      if (d == split && cell[d] >= inner.lo[d]) cell[d] += inner.size(d);
    }
  }
};

/// body.cell() for the cells of a shell.
template <class Body>
struct ShellBody {
  CellShell shell;
  Body body;
  SW_HD void operator()(std::int64_t item) const {
    std::int64_t cell[3];
    shell.locate(item, cell);
    body.cell(cell[0], cell[1], cell[2]);
  }
};

/// One launch over the cells of a shell. On the host the rows of the outer box: the body's row() passes over
/// what lies inside.
template <class Body>
void for_each_cell_of_shell(LaunchContext& context, const CellShell& shell, const Body& body) {
#if SHARDWISE_WITH_CUDA
  if (context.native_stream()) return for_each(context, shell.count(), ShellBody<Body>{shell, body});
#endif
  for_each_cell_on_host(context, shell.outer, body);
}

}  // namespace shardwise
