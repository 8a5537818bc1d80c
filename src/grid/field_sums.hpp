#pragma once

#include <array>

#include "grid/binned_sum_kernel.hpp"
#include "grid/blocks_state.hpp"
#include "grid/cell_launch.hpp"
#include "grid/plain_sums.hpp"
#include "grid/sum_kernel.hpp"
#include "shardwise/numeric/accumulation.hpp"

namespace shardwise {

/// One piece's share of up to two exact sums, on the host.
struct PieceSums {
  BinnedSum exact[2];
};

/// Where a CUDA device adds one sum up: integers a bin, so that blocks may come in any order. All 0: empty.
struct SumCell {
  static constexpr int lowest_bin = BinnedSum::lowest - 2, bins = BinnedSum::highest - lowest_bin + 1;
  SW_HD static int index(std::int32_t bin) { return bin - lowest_bin; }
  std::int64_t bin[bins];
  std::int32_t top_above_lowest, bad;

  BinnedSum value() const {
    BinnedSum sum;
    sum.top = BinnedSum::lowest + top_above_lowest;
    for (int k = 0; k < 3; ++k) sum.digit[k] = bin[index(sum.top - k)];
    sum.bad = bad;
    return sum;
  }
};

#if SHARDWISE_WITH_CUDA
/// Pieces that a launch over this many cells fills.
int cuda_sum_pieces(std::int64_t cells);
template <class Body>
void sum_cells_on_cuda(LaunchContext& context, const CellBox& box, const Body& body, SumCell* sums);
template <class T>
void direction_on_cuda(LaunchContext& context, const CellBox& box, const DirectionBody<T>& body);
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
  /// r -= alpha q; {r.r, r.(d r)}. d may be null.
  template <class T>
  std::array<double, 2> residual_update(Field<T>& r, const Field<T>& q, const Field<T>* d, T alpha);
  /// {x.y, y.y}
  template <class T>
  std::array<double, 2> two_dots(const Field<T>& x, const Field<T>& y);

  /// For launches that sum what they compute anyway: whether they may (exact sums, all parts on CUDA), where
  /// those of the b-th local part add to the first sum, what they declare for it, and the result.
  bool takes_fused_sums() const { return exact_ && all_cuda_; }
  SumCell* cell(std::size_t b) { return parts_[b].cells.data(); }
  Access cell_access(std::size_t b) const { return parts_[b].cells.writes(); }
  double fused() { return finish()[0]; }

  /// Sums so far.
  std::int64_t sums() const { return sums_; }

 private:
  struct Part {
    int part = 0, pieces = 0;
    bool on_cuda = false;
    CellBox box;
    // One of them: exact sums on CUDA, exact ones on the host, plain ones.
    QueuedBuffer<SumCell> cells;
    QueuedBuffer<PieceSums> exact;
    QueuedBuffer<PlainPartial> plain;
    std::shared_ptr<void> host;  ///< where what a part has added up is fetched to
  };
  template <class MakeBody, class Accesses>
  std::array<double, 2> run(const char* name, const MakeBody& make_body, const Accesses& accesses);
  /// Fetches what the parts have, merges it, and leaves them empty.
  std::array<double, 2> finish();

  Blocks blocks_;
  Accumulation accumulation_;
  bool exact_, all_cuda_ = true;
  std::vector<Part> parts_;
  std::int64_t sums_ = 0;
};

/// x += alpha p; p <- (d) z + beta p on all blocks. d may be null.
template <class T>
void enqueue_direction(const Blocks& blocks, Field<T>& x, Field<T>& p, const Field<T>& z, const Field<T>* d,
                       T alpha, T beta);

}  // namespace shardwise
