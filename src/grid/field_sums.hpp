#pragma once

#include <array>

#include "grid/binned_sum_kernel.hpp"
#include "grid/blocks_state.hpp"
#include "grid/cell_launch.hpp"
#include "grid/plain_sums.hpp"
#include "grid/sum_kernel.hpp"
#include "shardwise/numeric/accumulation.hpp"

namespace shardwise {

/// One piece's share of up to two sums.
struct SumPartial {
  BinnedSum exact[2];
  double plain[2] = {0, 0};
};

#if SHARDWISE_WITH_CUDA
/// Pieces that a launch over this many cells fills.
int cuda_sum_pieces(std::int64_t cells);
template <class Body>
void sum_cells_on_cuda(LaunchContext& context, const CellBox& box, const Body& body, bool exact,
                       SumPartial* partials);
#endif

/// Sums over the owned cells of fields, for solvers. `exact`: independent of the partition, the device and
/// the order. `ordered` and `fast`: plain float64 sums (plain_sums.hpp), the first with partials that the
/// host adds in the order of the parts, so that a part's sum depends on its block alone; the second added up
/// where they are. Buffers are allocated once. Every sum waits for its result.
class FieldSums {
 public:
  FieldSums(const Blocks& blocks, Accumulation accumulation);

  template <class T>
  double dot(const Field<T>& x, const Field<T>& y);
  template <class T>
  double total(const Field<T>& x);
  /// x += alpha p, r -= alpha q; {r.r, r.(d r)}. d may be null.
  template <class T>
  std::array<double, 2> cg_update(Field<T>& x, Field<T>& r, const Field<T>& p, const Field<T>& q,
                                  const Field<T>* d, T alpha);
  /// {x.y, y.y}
  template <class T>
  std::array<double, 2> two_dots(const Field<T>& x, const Field<T>& y);

  /// Sums so far.
  std::int64_t sums() const { return sums_; }

 private:
  struct Part {
    int part = 0, pieces = 0;
    CellBox box;
    QueuedBuffer<SumPartial> partials;
    std::shared_ptr<void> host;
  };
  template <class MakeBody, class Accesses>
  std::array<double, 2> run(const char* name, const MakeBody& make_body, const Accesses& accesses);

  Blocks blocks_;
  Accumulation accumulation_;
  bool exact_;
  std::vector<Part> parts_;
  std::int64_t sums_ = 0;
};

}  // namespace shardwise
