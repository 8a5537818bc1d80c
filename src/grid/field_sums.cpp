#include "grid/field_sums.hpp"

#include <fmt/format.h>

#include <cmath>
#include <span>

#include "grid/binned_total.hpp"
#include "shardwise/grid/grid_error.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise {

namespace {

constexpr int host_pieces = 64;
constexpr std::int64_t most_of_a_piece = std::int64_t{1} << 31;
// A slice is at most 2^31 units, a digit of a SumCell has 63 bits.
constexpr std::int64_t most_of_a_cell = (std::int64_t{1} << 32) - 1;

/// Cells of one piece, in runs that fit a small buffer.
template <class Body>
class HostSum {
 public:
  static constexpr int count = Body::count;
  static constexpr std::int64_t run = 512;

  void add(const Body& body, std::int64_t begin, std::int64_t end, std::int64_t j, std::int64_t k) {
    for (std::int64_t i = begin; i < end; ++i) {
      double out[count];
      body.cell(i, j, k, out);
      for (int s = 0; s < count; ++s) values_[s][filled_] = out[s];
      if (++filled_ == run) flush();
    }
  }
  void flush() {
    for (int s = 0; s < count; ++s) {
      // Lanes side by side, so that the compiler can use wide registers; all of it is exact.
      constexpr int lanes = 8;
      for (std::int64_t i = filled_; i % lanes != 0; ++i) values_[s][i] = 0;
      double size[lanes] = {};
      for (std::int64_t i = 0; i < filled_; i += lanes)
        for (int l = 0; l < lanes; ++l) {
          const double v = std::abs(values_[s][i + l]);
          size[l] = v > size[l] ? v : size[l];
        }
      double largest = 0;
      for (const double v : size) largest = v > largest ? v : largest;
      const std::int32_t top = bin_of(largest);
      if (top > BinnedSum::highest) {
        result_.exact[s].bad = 1;
        continue;
      }
      BinWindow window(top);
      double sum[3][lanes] = {};
      for (std::int64_t i = 0; i < filled_; i += lanes)
        for (int l = 0; l < lanes; ++l) {
          double x = values_[s][i + l];
          const double a = (window.magic[0] + x) - window.magic[0];
          x = x - a;
          const double b = (window.magic[1] + x) - window.magic[1];
          x = x - b;
          sum[0][l] += a;
          sum[1][l] += b;
          sum[2][l] += (window.magic[2] + x) - window.magic[2];
        }
      for (int k = 0; k < 3; ++k)
        for (const double v : sum[k]) window.sum[k] += v;
      window.flush(result_.exact[s]);
    }
    filled_ = 0;
  }
  PieceSums finish() {
    flush();
    return result_;
  }

 private:
  double values_[count][run + 8];
  std::int64_t filled_ = 0;
  PieceSums result_;
};

template <class Body>
void sum_cells_on_host(LaunchContext& context, const CellBox& box, const Body& body, PieceSums* pieces) {
  const std::int64_t rows = box.size(1) * box.size(2);
  context.parallel_for(host_pieces, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t piece = first; piece < last; ++piece) {
      HostSum<Body> sum;
      for (std::int64_t row = rows * piece / host_pieces; row < rows * (piece + 1) / host_pieces; ++row)
        sum.add(body, box.lo[0], box.hi[0], box.lo[1] + row % box.size(1), box.lo[2] + row / box.size(1));
      pieces[piece] = sum.finish();
    }
  });
}

template <class T>
CellPointer<T> writable(const FieldBlock<T>& block) {
  return {block.cell(), block.layout.stride[1], block.layout.stride[2]};
}
template <class T>
CellPointer<const T> readable(const FieldBlock<T>& block) {
  return {block.cell(), block.layout.stride[1], block.layout.stride[2]};
}

}  // namespace

FieldSums::FieldSums(const Blocks& blocks, Accumulation accumulation)
    : blocks_(blocks), accumulation_(accumulation), exact_(accumulation == Accumulation::exact) {
  BlocksState& state = blocks.state();
  for (const int part : state.parts) {
    const CartesianGrid& grid = blocks.local_grid(part);
    Part p;
    p.part = part;
    p.box = {{0, 0, 0}, {grid.cells(0), grid.cells(1), grid.cells(2)}};
    Stream& stream = state.transport->compute(part);
    p.on_cuda = stream.device().kind() == PlatformKind::cuda;
    all_cuda_ = all_cuda_ && p.on_cuda;
    p.pieces = host_pieces;
#if SHARDWISE_WITH_CUDA
    if (p.on_cuda) p.pieces = cuda_sum_pieces(p.box.count());
#endif
    // A piece of the host is made of whole rows.
    const std::int64_t rows = p.box.size(1) * p.box.size(2), row = p.box.size(0);
    const std::int64_t largest = p.on_cuda ? p.box.count() : (rows + p.pieces - 1) / p.pieces * row;
    const std::int64_t most = p.on_cuda ? most_of_a_cell : most_of_a_piece;
    if (exact_ && largest > most)
      throw GridError(
          GridErrorCode::bad_argument,
          fmt::format("sums: exact ones take at most {} cells at a time, but part {} of {} has to add "
                      "{}; cut the grid into more parts, or use ordered",
                      most, part, grid.shape_text(), largest),
          {static_cast<double>(part), static_cast<double>(largest)});
    std::uint64_t bytes = 0;
    if (!exact_) {
      p.plain = QueuedBuffer<PlainPartial>(state.queue, stream, p.pieces, "partial sums");
      bytes = p.plain.bytes();
    } else if (p.on_cuda) {
      p.cells = QueuedBuffer<SumCell>(state.queue, stream, 2, "sums");
      bytes = p.cells.bytes();
      state.queue.enqueue(stream, zero_operation("clear sums", p.cells.data(), bytes, {p.cells.writes()}));
    } else {
      p.exact = QueuedBuffer<PieceSums>(state.queue, stream, p.pieces, "partial sums");
      bytes = p.exact.bytes();
    }
    p.host = state.transport->host_memory(bytes);
    parts_.push_back(std::move(p));
  }
}

template <class MakeBody, class Accesses>
std::array<double, 2> FieldSums::run(const char* name, const MakeBody& make_body, const Accesses& accesses) {
  BlocksState& state = blocks_.state();
  for (std::size_t b = 0; b < parts_.size(); ++b) {
    Part& p = parts_[b];
    Operation operation;
    operation.name = name;
    operation.items = p.box.count();
    operation.accesses = accesses(b);
    if (!exact_) {
      operation.accesses.add(p.plain.writes());
      operation.body = [body = make_body(b), box = p.box, pieces = p.pieces,
                        fast = accumulation_ == Accumulation::fast, out = p.plain.data()](
                           LaunchContext& context) { plain_sums(context, box, body, pieces, fast, out); };
    } else if (p.on_cuda) {
      operation.accesses.add(p.cells.writes());
#if SHARDWISE_WITH_CUDA
      operation.body = [body = make_body(b), box = p.box, out = p.cells.data()](LaunchContext& context) {
        sum_cells_on_cuda(context, box, body, out);
      };
#endif
    } else {
      operation.accesses.add(p.exact.writes());
      operation.body = [body = make_body(b), box = p.box, out = p.exact.data()](LaunchContext& context) {
        sum_cells_on_host(context, box, body, out);
      };
    }
    state.queue.enqueue(state.transport->compute(p.part), std::move(operation));
  }
  return finish();
}

std::array<double, 2> FieldSums::finish() {
  BlocksState& state = blocks_.state();
  ++sums_;
  const bool fast = accumulation_ == Accumulation::fast;
  std::vector<Event> events;
  for (Part& p : parts_) {
    Stream& stream = state.transport->compute(p.part);
    const auto fetch = [&](const void* from, std::uint64_t bytes, const Access& access) {
      state.queue.enqueue(stream, copy_operation("partial sums", p.host.get(), from, bytes, {access}));
      events.push_back(state.queue.record(stream));
    };
    if (!exact_) {
      fetch(p.plain.data(), fast ? sizeof(PlainPartial) : p.plain.bytes(), p.plain.reads());
    } else if (p.on_cuda) {
      fetch(p.cells.data(), p.cells.bytes(), p.cells.reads());
      // Empty for the next one, behind what this one waits for.
      state.queue.enqueue(stream,
                          zero_operation("clear sums", p.cells.data(), p.cells.bytes(), {p.cells.writes()}));
    } else {
      fetch(p.exact.data(), p.exact.bytes(), p.exact.reads());
    }
  }
  for (const Event& event : events) event.wait_on_host();
  bool failed = false;
  for (const Event& event : events) failed = failed || event.failed();
  if (failed) blocks_.synchronize();  // throws what began it
  state.transport->check_link();
  BinnedTotal exact[2];
  double plain[2] = {0, 0};
  for (const Part& p : parts_)
    for (int s = 0; s < 2; ++s) {
      const int pieces = !exact_ ? (fast ? 1 : p.pieces) : p.on_cuda ? 1 : p.pieces;
      for (int piece = 0; piece < pieces; ++piece) {
        if (!exact_)
          plain[s] += static_cast<const PlainPartial*>(p.host.get())[piece].sum[s];
        else if (p.on_cuda)
          exact[s].add(static_cast<const SumCell*>(p.host.get())[s].value());
        else
          exact[s].add(static_cast<const PieceSums*>(p.host.get())[piece].exact[s]);
      }
    }
  // Other processes' sums, in rank order.
  std::vector<std::int64_t> words;
  for (int s = 0; s < 2; ++s) {
    if (exact_)
      exact[s].append_to(words);
    else
      words.push_back(bit_cast<std::int64_t>(plain[s]));
  }
  const std::vector<std::int64_t> all = state.transport->gather_words(words);
  std::array<double, 2> sums{};
  const std::size_t each = words.size() / 2;
  for (std::size_t s = 0; s < 2; ++s) {
    BinnedTotal total;
    for (std::size_t at = s * each; at < all.size(); at += words.size()) {
      if (exact_)
        total.add(BinnedTotal::from_words(std::span(all).subspan(at, each)));
      else
        sums[s] += bit_cast<double>(all[at]);
    }
    if (exact_) sums[s] = total.value();
  }
  return sums;
}

template <class T>
double FieldSums::dot(const Field<T>& x, const Field<T>& y) {
  auto& xs = x.storage().local;
  auto& ys = y.storage().local;
  return run(
      "dot",
      [&](std::size_t b) {
        return DotBody<T>{readable(xs[b]), readable(ys[b])};
      },
      [&](std::size_t b) {
        return AccessList{xs[b].owned(AccessMode::read), ys[b].owned(AccessMode::read)};
      })[0];
}

template <class T>
double FieldSums::total(const Field<T>& x) {
  auto& xs = x.storage().local;
  return run(
      "sum",
      [&](std::size_t b) {
        return DotBody<T>{readable(xs[b]), {}};
      },
      [&](std::size_t b) { return AccessList{xs[b].owned(AccessMode::read)}; })[0];
}

template <class T>
std::array<double, 2> FieldSums::two_dots(const Field<T>& x, const Field<T>& y) {
  auto& xs = x.storage().local;
  auto& ys = y.storage().local;
  return run(
      "dots",
      [&](std::size_t b) {
        return TwoDotsBody<T>{readable(xs[b]), readable(ys[b])};
      },
      [&](std::size_t b) {
        return AccessList{xs[b].owned(AccessMode::read), ys[b].owned(AccessMode::read)};
      });
}

template <class T>
std::array<double, 2> FieldSums::residual_update(Field<T>& r, const Field<T>& q, const Field<T>* d, T alpha) {
  return run(
      "residual",
      [&](std::size_t b) {
        return ResidualBody<T>{writable(r.storage().local[b]), readable(q.storage().local[b]),
                               d ? readable(d->storage().local[b]) : CellPointer<const T>{}, alpha};
      },
      [&](std::size_t b) {
        AccessList list{r.storage().local[b].owned(AccessMode::write),
                        q.storage().local[b].owned(AccessMode::read)};
        if (d) list.add(d->storage().local[b].owned(AccessMode::read));
        return list;
      });
}

template <class T>
void enqueue_direction(const Blocks& blocks, Field<T>& x, Field<T>& p, const Field<T>& z, const Field<T>* d,
                       T alpha, T beta) {
  BlocksState& state = blocks.state();
  for (std::size_t b = 0; b < state.parts.size(); ++b) {
    const FieldBlock<T>& block = p.storage().local[b];
    Operation operation;
    operation.name = "direction";
    operation.accesses = {x.storage().local[b].owned(AccessMode::write), block.owned(AccessMode::write),
                          z.storage().local[b].owned(AccessMode::read)};
    if (d) operation.accesses.add(d->storage().local[b].owned(AccessMode::read));
    const CellBox box{{0, 0, 0}, {block.layout.cells[0], block.layout.cells[1], block.layout.cells[2]}};
    operation.items = box.count();
    operation.body = [box,
                      body = DirectionBody<T>{writable(x.storage().local[b]), writable(block),
                                              readable(z.storage().local[b]),
                                              d ? readable(d->storage().local[b]) : CellPointer<const T>{},
                                              alpha, beta}](LaunchContext& context) {
#if SHARDWISE_WITH_CUDA
      if (context.native_stream()) return direction_on_cuda(context, box, body);
#endif
      for_each_cell_on_host(context, box, body);
    };
    state.queue.enqueue(state.transport->compute(block.part), std::move(operation));
  }
}

#define SW_INSTANTIATE(T)                                                                                    \
  template double FieldSums::dot(const Field<T>&, const Field<T>&);                                          \
  template double FieldSums::total(const Field<T>&);                                                         \
  template std::array<double, 2> FieldSums::two_dots(const Field<T>&, const Field<T>&);                      \
  template std::array<double, 2> FieldSums::residual_update(Field<T>&, const Field<T>&, const Field<T>*, T); \
  template void enqueue_direction(const Blocks&, Field<T>&, Field<T>&, const Field<T>&, const Field<T>*, T, T)
SW_INSTANTIATE(float);
SW_INSTANTIATE(double);

}  // namespace shardwise
