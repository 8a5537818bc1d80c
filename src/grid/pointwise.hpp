#pragma once
// Launches that read no neighbour.

#include "grid/blocks_state.hpp"
#include "grid/cell_launch.hpp"

namespace shardwise {

inline CellBox owned_box(const BlockLayout& layout) {
  return {{0, 0, 0}, {layout.cells[0], layout.cells[1], layout.cells[2]}};
}

/// Every element, ghosts included.
template <class T>
void enqueue_set_all(OperationQueue& queue, Stream& stream, const QueuedBuffer<T>& buffer, T value);

/// y <- alpha x + beta y on owned cells; beta = 0: y is not read. Layouts may differ.
template <class T>
void enqueue_axpby(const Blocks& blocks, FieldStorage<T>& y, const FieldStorage<T>& x, T alpha, T beta);

/// y <- alpha z + beta y for the owned cells within z's halo of a face: what a gather left in z.
template <class T>
void enqueue_blend_shell(const Blocks& blocks, FieldStorage<T>& y, const FieldStorage<T>& z, T alpha, T beta);

/// y <- alpha c x + beta y on one block, c a field of x's layout or null.
template <class T>
void launch_scale(LaunchContext& context, const BlockRef<T>& y, const BlockRef<T>& x, const T* field, T alpha,
                  T beta);

}  // namespace shardwise
