#include "grid/halo_exchange.hpp"

#include "grid/ghost_kernel.hpp"

namespace shardwise {

namespace {

template <class T>
CellPointer<T> pointer(const BlockRef<T>& block) {
  return {block.cell, block.layout.stride[1], block.layout.stride[2]};
}

template <class T>
Access access_of(const FieldBlock<T>& block, const CellBox& box, AccessMode mode) {
  return box_access(block.buffer.memory(), block.layout, sizeof(T), {box.lo[0], box.lo[1], box.lo[2]},
                    {box.hi[0], box.hi[1], box.hi[2]}, mode);
}

template <class T>
std::uint64_t byte_of(const FieldBlock<T>& block, const CellBox& box) {
  return access_of(block, box, AccessMode::read).begin;
}

}  // namespace

template <class T>
HaloExchange<T>::HaloExchange(const Blocks& blocks, GhostLayout layout) : blocks_(blocks) {
  BlocksState& state = blocks.state();
  for (std::size_t b = 0; b < state.parts.size(); ++b) {
    const int part = state.parts[b];
    const CartesianGrid& grid = blocks.local_grid(part);
    const BlockLayout l = block_layout(grid, layout, sizeof(T));
    std::int64_t size = 0;
    for (int d = 0; d < grid.dims(); ++d)
      for (int side = 0; side < 2; ++side) {
        const int neighbour = blocks.partition().neighbour(part, d, side);
        if (neighbour < 0) continue;
        Face face{b, part, neighbour, d, side, {}, {}, 0, size};
        for (int e = 0; e < 3; ++e) face.ghosts.hi[e] = face.owned.hi[e] = grid.cells(e);
        const std::int64_t n = grid.cells(d), h = grid.halo(d);
        face.ghosts.lo[d] = side == 0 ? -h : n;
        face.ghosts.hi[d] = side == 0 ? 0 : n + h;
        face.owned.lo[d] = side == 0 ? 0 : n - h;
        face.owned.hi[d] = side == 0 ? h : n;
        face.count = face.ghosts.count();
        size += face.count;
        // A box without gaps in this part's memory has none in the neighbour's, whose other sizes are equal.
        face.packed = !(l.stride[1] == l.cells[0] && d == grid.dims() - 1 &&
                        (d < 2 || l.stride[2] == l.stride[1] * l.cells[1]));
        faces_.push_back(face);
      }
    Stream& stream = state.transport->transfer(part);
    send_.emplace_back(state.queue, stream, size, "halo send");
    receive_.emplace_back(state.queue, stream, size, "halo receive");
  }
}

template <class T>
auto HaloExchange<T>::face_of(int part, int d, int side) const -> const Face* {
  for (const Face& face : faces_)
    if (face.part == part && face.d == d && face.side == side) return &face;
  return nullptr;
}

namespace {
enum { pack, unpack, add };
constexpr const char* what_names[] = {"pack", "unpack", "add faces"};
}  // namespace

template <class T>
void HaloExchange<T>::copy_box(const FieldBlock<T>& block, const Face& face, const CellBox& box,
                               const QueuedBuffer<T>& buffer, int what) {
  BlocksState& state = blocks_.state();
  Operation operation;
  operation.name = what_names[what];
  operation.items = face.count;
  operation.accesses = {access_of(block, box, what == pack ? AccessMode::read : AccessMode::write),
                        buffer.memory().access(what == pack ? AccessMode::write : AccessMode::read,
                                               static_cast<std::uint64_t>(face.offset) * sizeof(T),
                                               static_cast<std::uint64_t>(face.count) * sizeof(T))};
  const PackedBox<T> packed{
      buffer.data() + face.offset, {box.lo[0], box.lo[1], box.lo[2]}, {box.size(0), box.size(1)}};
  operation.body = [u = pointer(block.ref()), packed, box, what](LaunchContext& context) {
    if (what == pack) for_each_cell(context, box, PackBody<T>{u, packed});
    if (what == unpack) for_each_cell(context, box, UnpackBody<T>{u, packed});
    if (what == add) for_each_cell(context, box, AddPackedBody<T>{u, packed});
  };
  state.queue.enqueue(state.transport->transfer(face.part), std::move(operation));
}

template <class T>
void HaloExchange<T>::scatter(FieldStorage<T>& field) {
  if (faces_.empty()) return;
  BlocksState& state = blocks_.state();
  for (const Face& face : faces_)
    if (face.packed) copy_box(field.local[face.block], face, face.owned, send_[face.block], pack);
  messages_.clear();
  for (const Face& face : faces_) {
    // What this face receives; the sender's face is the opposite one.
    Message m{face.neighbour, face.part, face.d, face.side};
    m.bytes = static_cast<std::uint64_t>(face.count) * sizeof(T);
    const FieldBlock<T>& block = field.local[face.block];
    m.to = face.packed ? &receive_[face.block].memory() : &block.buffer.memory();
    m.to_begin =
        face.packed ? static_cast<std::uint64_t>(face.offset) * sizeof(T) : byte_of(block, face.ghosts);
    if (const Face* other = face_of(face.neighbour, face.d, 1 - face.side)) {
      const FieldBlock<T>& from = field.local[other->block];
      m.from = face.packed ? &send_[other->block].memory() : &from.buffer.memory();
      m.from_begin =
          face.packed ? static_cast<std::uint64_t>(other->offset) * sizeof(T) : byte_of(from, other->owned);
    }
    messages_.push_back(m);
  }
  for (const Face& face : faces_) {
    if (face_of(face.neighbour, face.d, 1 - face.side)) continue;
    // What a neighbour of another process receives.
    const FieldBlock<T>& block = field.local[face.block];
    Message m{face.part, face.neighbour, face.d, 1 - face.side};
    m.bytes = static_cast<std::uint64_t>(face.count) * sizeof(T);
    m.from = face.packed ? &send_[face.block].memory() : &block.buffer.memory();
    m.from_begin =
        face.packed ? static_cast<std::uint64_t>(face.offset) * sizeof(T) : byte_of(block, face.owned);
    messages_.push_back(m);
  }
  state.transport->move(messages_, state.queue);
  for (const Face& face : faces_)
    if (face.packed) copy_box(field.local[face.block], face, face.ghosts, receive_[face.block], unpack);
}

template <class T>
void HaloExchange<T>::reduce(FieldStorage<T>& field) {
  if (faces_.empty()) return;
  BlocksState& state = blocks_.state();
  // First all contributions are read, then ghosts are cleared and owners add: with thin blocks and two parts
  // one cell is source and receiver of several messages.
  for (const Face& face : faces_)
    copy_box(field.local[face.block], face, face.ghosts, send_[face.block], pack);
  messages_.clear();
  for (const Face& face : faces_) {
    Message m{face.neighbour, face.part, face.d, face.side};
    m.bytes = static_cast<std::uint64_t>(face.count) * sizeof(T);
    m.to = &receive_[face.block].memory();
    m.to_begin = static_cast<std::uint64_t>(face.offset) * sizeof(T);
    if (const Face* other = face_of(face.neighbour, face.d, 1 - face.side)) {
      m.from = &send_[other->block].memory();
      m.from_begin = static_cast<std::uint64_t>(other->offset) * sizeof(T);
    }
    messages_.push_back(m);
  }
  for (const Face& face : faces_) {
    if (face_of(face.neighbour, face.d, 1 - face.side)) continue;
    Message m{face.part, face.neighbour, face.d, 1 - face.side};
    m.bytes = static_cast<std::uint64_t>(face.count) * sizeof(T);
    m.from = &send_[face.block].memory();
    m.from_begin = static_cast<std::uint64_t>(face.offset) * sizeof(T);
    messages_.push_back(m);
  }
  state.transport->move(messages_, state.queue);
  for (const Face& face : faces_) {
    const FieldBlock<T>& block = field.local[face.block];
    Operation clear;
    clear.name = "clear ghosts";
    clear.items = face.count;
    clear.accesses = {access_of(block, face.ghosts, AccessMode::write)};
    clear.body = [body = ClearBody<T>{pointer(block.ref())}, box = face.ghosts](LaunchContext& context) {
      for_each_cell(context, box, body);
    };
    state.queue.enqueue(state.transport->transfer(face.part), std::move(clear));
  }
  for (const Face& face : faces_)
    copy_box(field.local[face.block], face, face.owned, receive_[face.block], add);
}

namespace {

/// Calls f(block, grid, d, side, layer) for the ghost layers that are no interface, in the order of filling.
template <class T, class F>
void for_wall_layers(const Blocks& blocks, FieldStorage<T>& field, bool reverse, F&& f) {
  for (FieldBlock<T>& block : field.local) {
    const CartesianGrid& grid = blocks.local_grid(block.part);
    struct Layer {
      int d, side, k;
    };
    std::vector<Layer> layers;
    for (int d = 0; d < grid.dims(); ++d)
      for (int side = 0; side < 2; ++side)
        for (int k = 1; k <= grid.halo(d); ++k)
          if (grid.boundary(d, side).kind != BoundaryKind::interface) layers.push_back({d, side, k});
    if (reverse) std::reverse(layers.begin(), layers.end());
    for (const Layer& layer : layers) f(block, grid, layer.d, layer.side, layer.k);
  }
}

struct LayerPlace {
  CellBox box;                ///< the layer, full padded cross-section
  std::int64_t source_shift;  ///< cells along d
};

LayerPlace place(const CartesianGrid& grid, int d, int side, int k) {
  LayerPlace result;
  for (int e = 0; e < 3; ++e) {
    const int h = e < grid.dims() ? grid.halo(e) : 0;
    result.box.lo[e] = -h;
    result.box.hi[e] = grid.cells(e) + h;
  }
  const std::int64_t n = grid.cells(d);
  const std::int64_t ghost = side == 0 ? -k : n + k - 1;
  const bool periodic = grid.boundary(d, side).kind == BoundaryKind::periodic;
  const std::int64_t source = periodic ? (side == 0 ? n - k : k - 1) : (side == 0 ? k - 1 : n - k);
  result.box.lo[d] = ghost;
  result.box.hi[d] = ghost + 1;
  result.source_shift = source - ghost;
  return result;
}

template <class T, class Body>
void enqueue_layer(const Blocks& blocks, const FieldBlock<T>& block, const CellBox& box, const char* name,
                   const Body& body) {
  BlocksState& state = blocks.state();
  Operation operation;
  operation.name = name;
  operation.items = box.count();
  operation.accesses = {block.access(AccessMode::write)};
  operation.body = [box, body](LaunchContext& context) { for_each_cell(context, box, body); };
  state.queue.enqueue(state.transport->compute(block.part), std::move(operation));
}

template <class T>
void fill_layers(const Blocks& blocks, FieldStorage<T>& field, bool affine, bool even) {
  for_wall_layers(blocks, field, false,
                  [&](FieldBlock<T>& block, const CartesianGrid& grid, int d, int side, int k) {
                    const LayerPlace where = place(grid, d, side, k);
                    const Boundary& b = grid.boundary(d, side);
                    FillBody<T> body{pointer(block.ref()),
                                     where.source_shift * block.layout.stride[static_cast<std::size_t>(d)],
                                     even ? T(1) : static_cast<T>(b.multiplier(k, grid.spacing(d))),
                                     static_cast<T>(b.offset(k, grid.spacing(d), b.value)), affine};
                    enqueue_layer(blocks, block, where.box, "fill", body);
                  });
}

}  // namespace

template <class T>
void fill_walls(const Blocks& blocks, FieldStorage<T>& field, bool affine) {
  fill_layers(blocks, field, affine, false);
}
template <class T>
void fill_even(const Blocks& blocks, FieldStorage<T>& field) {
  fill_layers(blocks, field, false, true);
}

namespace {

template <class T>
void fold_layers(const Blocks& blocks, FieldStorage<T>& field, bool even, bool after_gather) {
  for_wall_layers(
      blocks, field, true, [&](FieldBlock<T>& block, const CartesianGrid& grid, int d, int side, int k) {
        const LayerPlace where = place(grid, d, side, k);
        FoldBody<T> body{pointer(block.ref()),
                         where.source_shift * block.layout.stride[static_cast<std::size_t>(d)],
                         even ? T(1) : static_cast<T>(grid.boundary(d, side).multiplier(k, grid.spacing(d)))};
        if (after_gather && d == 0 && folds_rows(grid)) {
          const DeepCells deep = deep_cells(grid, block.layout);
          for (int e = 0; e < 2; ++e) {
            body.skip_lo[e] = deep.margin[e + 1];
            body.skip_hi[e] = deep.cells[e + 1] - deep.margin[e + 1];
          }
        }
        enqueue_layer(blocks, block, where.box, "fold", body);
      });
}

}  // namespace

template <class T>
void fold_walls(const Blocks& blocks, FieldStorage<T>& field, bool even) {
  fold_layers(blocks, field, even, false);
}
template <class T>
void fold_shell(const Blocks& blocks, FieldStorage<T>& field) {
  fold_layers(blocks, field, false, true);
}

bool folds_rows(const CartesianGrid& block) {
  return block.dims() > 1 && block.halo(0) == 1 && block.cells(0) > 1 &&
         block.boundary(0, 0).kind != BoundaryKind::interface &&
         block.boundary(0, 1).kind != BoundaryKind::interface;
}

DeepCells deep_cells(const CartesianGrid& block, const BlockLayout& layout) {
  DeepCells deep;
  for (std::size_t d = 0; d < 3; ++d) {
    deep.cells[d] = layout.cells[d];
    deep.margin[d] = layout.halo[d];
  }
  if (folds_rows(block)) deep.margin[0] = 0;
  return deep;
}

template <class T>
void clear_ghosts(const Blocks& blocks, FieldStorage<T>& field, bool walls_only) {
  for (FieldBlock<T>& block : field.local) {
    const CartesianGrid& grid = blocks.local_grid(block.part);
    for (int d = 0; d < grid.dims(); ++d)
      for (int side = 0; side < 2; ++side) {
        if (walls_only && grid.boundary(d, side).kind == BoundaryKind::interface) continue;
        for (int k = 1; k <= grid.halo(d); ++k)
          enqueue_layer(blocks, block, place(grid, d, side, k).box, "clear ghosts",
                        ClearBody<T>{pointer(block.ref())});
      }
  }
}

#define SW_INSTANTIATE(T)                                          \
  template class HaloExchange<T>;                                  \
  template void fill_walls(const Blocks&, FieldStorage<T>&, bool); \
  template void fill_even(const Blocks&, FieldStorage<T>&);        \
  template void fold_walls(const Blocks&, FieldStorage<T>&, bool); \
  template void fold_shell(const Blocks&, FieldStorage<T>&);       \
  template void clear_ghosts(const Blocks&, FieldStorage<T>&, bool)
SW_INSTANTIATE(float);
SW_INSTANTIATE(double);

}  // namespace shardwise
