#include "grid/window_copy.hpp"

#include <algorithm>

#include "grid/transfer_kernel.hpp"

namespace shardwise {

namespace {

/// The index of a part among the local ones, -1 where another process has it.
std::ptrdiff_t local_index(const Blocks& blocks, int part) {
  const std::vector<int>& parts = blocks.local_parts();
  const auto found = std::find(parts.begin(), parts.end(), part);
  return found == parts.end() ? -1 : found - parts.begin();
}

/// Where a piece of `count` elements goes in the buffer of a part; the buffers' sizes so far are kept.
std::int64_t reserve(std::vector<std::int64_t>& sizes, std::ptrdiff_t local, std::int64_t count) {
  if (local < 0) return 0;
  auto& size = sizes[static_cast<std::size_t>(local)];
  return std::exchange(size, size + count);
}

}  // namespace

template <class T>
WindowCopy<T>::WindowCopy(const Blocks& source, const Blocks& target, const std::vector<Window>& windows)
    : source_(source), target_(target) {
  for (const Window& window : windows) add_pieces(window);
  std::stable_sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) {
    return std::pair{a.source, a.target} < std::pair{b.source, b.target};
  });
  BlocksState &from = source.state(), &to = target.state();
  std::vector<std::int64_t> sends(from.parts.size()), receives(to.parts.size());
  for (Piece& piece : pieces_) {
    if (piece.source == piece.target) continue;
    piece.send = reserve(sends, local_index(source_, piece.source), piece.count());
    piece.receive = reserve(receives, local_index(target_, piece.target), piece.count());
  }
  for (std::size_t p = 0; p < sends.size(); ++p)
    send_.emplace_back(from.queue, from.transport->transfer(from.parts[p]), sends[p], "window send");
  for (std::size_t p = 0; p < receives.size(); ++p)
    receive_.emplace_back(to.queue, to.transport->transfer(to.parts[p]), receives[p], "window receive");
  for (const Window& window : windows) {
    if (local_index(target_, window.part) < 0) continue;
    windows_.push_back(
        {window.part, window.box,
         QueuedBuffer<T>(to.queue, to.transport->compute(window.part), window.box.count(), "window")});
  }
}

template <class T>
void WindowCopy<T>::add_pieces(const Window& window) {
  const CartesianGrid& grid = source_.grid();
  for (int part = 0; part < source_.partition().parts(); ++part) {
    const CartesianGrid& block = source_.local_grid(part);
    // The block, and its images beyond the ends of periodic dimensions.
    std::int64_t images[3] = {0, 0, 0};
    for (int d = 0; d < grid.dims(); ++d)
      images[d] = grid.boundary(d, 0).kind == BoundaryKind::periodic ? 1 : 0;
    for (std::int64_t c = -images[2]; c <= images[2]; ++c)
      for (std::int64_t b = -images[1]; b <= images[1]; ++b)
        for (std::int64_t a = -images[0]; a <= images[0]; ++a) {
          const std::int64_t shift[3] = {a * grid.cells(0), b * grid.cells(1), c * grid.cells(2)};
          Piece piece;
          piece.source = part;
          piece.target = window.part;
          bool empty = false;
          for (int d = 0; d < 3; ++d) {
            const auto i = static_cast<std::size_t>(d);
            const std::int64_t first = block.first(d) + shift[d];
            const std::int64_t lo = std::max(window.box.lo[d], first);
            const std::int64_t hi = std::min(window.box.hi[d], first + block.cells(d));
            empty = empty || hi <= lo;
            piece.from[i] = lo - first;
            piece.to[i] = lo - window.box.lo[d];
            piece.size[i] = hi - lo;
          }
          if (!empty) pieces_.push_back(piece);
        }
  }
}

template <class T>
CellPointer<const T> WindowCopy<T>::pointer(std::size_t local) const {
  const Local& window = windows_[local];
  return {window.buffer.data(), window.box.size(0), window.box.size(0) * window.box.size(1)};
}

template <class T>
CellPointer<T> WindowCopy<T>::inside(const Local& window, const Piece& piece) const {
  const std::int64_t row = window.box.size(0), plane = row * window.box.size(1);
  return {window.buffer.data() + piece.to[0] + row * piece.to[1] + plane * piece.to[2], row, plane};
}

template <class T>
Access WindowCopy<T>::window_access(const Local& window, const Piece& piece) const {
  BlockLayout layout;
  for (std::size_t d = 0; d < 3; ++d) layout.cells[d] = window.box.size(static_cast<int>(d));
  layout.stride = {1, layout.cells[0], layout.cells[0] * layout.cells[1]};
  std::array<std::int64_t, 3> hi{};
  for (std::size_t d = 0; d < 3; ++d) hi[d] = piece.to[d] + piece.size[d];
  return box_access(window.buffer.memory(), layout, sizeof(T), piece.to, hi, AccessMode::write);
}

template <class T>
void WindowCopy<T>::copy(const char* name, Stream& stream, const Piece& piece, CellPointer<const T> from,
                         CellPointer<T> to, const Access& read, const Access& write) {
  const CellBox box{{0, 0, 0}, {piece.size[0], piece.size[1], piece.size[2]}};
  Operation operation;
  operation.name = name;
  operation.items = box.count();
  operation.accesses = {read, write};
  operation.body = [box, body = CopyCellsBody<T>{from, to}](LaunchContext& context) {
    for_each_cell(context, box, body);
  };
  target_.state().queue.enqueue(stream, std::move(operation));
}

template <class T>
void WindowCopy<T>::run(const FieldStorage<T>& field) {
  BlocksState &source = source_.state(), &target = target_.state();
  const auto window_of = [&](int part) -> const Local& {
    return *std::find_if(windows_.begin(), windows_.end(), [&](const Local& w) { return w.part == part; });
  };
  const auto in_block = [&](const Piece& piece) -> std::pair<CellPointer<const T>, Access> {
    const FieldBlock<T>& block = field.local[static_cast<std::size_t>(local_index(source_, piece.source))];
    const auto& stride = block.layout.stride;
    std::array<std::int64_t, 3> hi{};
    for (std::size_t d = 0; d < 3; ++d) hi[d] = piece.from[d] + piece.size[d];
    return {{block.cell() + piece.from[0] + piece.from[1] * stride[1] + piece.from[2] * stride[2], stride[1],
             stride[2]},
            box_access(block.buffer.memory(), block.layout, sizeof(T), piece.from, hi, AccessMode::read)};
  };
  const auto packed = [](const Piece& piece, T* data) {
    return CellPointer<T>{data, piece.size[0], piece.size[0] * piece.size[1]};
  };
  const auto bytes = [](std::int64_t elements) { return static_cast<std::uint64_t>(elements) * sizeof(T); };
  messages_.clear();
  for (const Piece& piece : pieces_) {
    const std::ptrdiff_t from = local_index(source_, piece.source), to = local_index(target_, piece.target);
    if (from < 0 && to < 0) continue;
    if (piece.source == piece.target) {
      const Local& window = window_of(piece.target);
      const auto [pointer, access] = in_block(piece);
      copy("window", target.transport->compute(piece.target), piece, pointer, inside(window, piece), access,
           window_access(window, piece));
      continue;
    }
    const QueuedBuffer<T>* const send = from < 0 ? nullptr : &send_[static_cast<std::size_t>(from)];
    const QueuedBuffer<T>* const receive = to < 0 ? nullptr : &receive_[static_cast<std::size_t>(to)];
    if (send) {
      const auto [pointer, access] = in_block(piece);
      copy("pack window", source.transport->transfer(piece.source), piece, pointer,
           packed(piece, send->data() + piece.send), access,
           send->memory().access(AccessMode::write, bytes(piece.send), bytes(piece.count())));
    }
    if (!messages_.empty() && messages_.back().source == piece.source &&
        messages_.back().target == piece.target) {
      messages_.back().bytes += bytes(piece.count());
      continue;
    }
    Message m{piece.source, piece.target, Message::window, 0};
    m.from = send ? &send->memory() : nullptr;
    m.from_begin = bytes(piece.send);
    m.to = receive ? &receive->memory() : nullptr;
    m.to_begin = bytes(piece.receive);
    m.bytes = bytes(piece.count());
    messages_.push_back(m);
  }
  if (!messages_.empty()) target.transport->move(messages_, target.queue);
  for (const Piece& piece : pieces_) {
    const std::ptrdiff_t to = local_index(target_, piece.target);
    if (to < 0 || piece.source == piece.target) continue;
    const QueuedBuffer<T>& receive = receive_[static_cast<std::size_t>(to)];
    const Local& window = window_of(piece.target);
    const CellPointer<T> box = packed(piece, receive.data() + piece.receive);
    copy("unpack window", target.transport->transfer(piece.target), piece,
         {box.cell, box.stride1, box.stride2}, inside(window, piece),
         receive.memory().access(AccessMode::read, bytes(piece.receive), bytes(piece.count())),
         window_access(window, piece));
  }
}

template class WindowCopy<float>;
template class WindowCopy<double>;

}  // namespace shardwise
