#pragma once

#include "grid/blocks_state.hpp"
#include "grid/cell_launch.hpp"
#include "grid/transpose_kernel.hpp"

namespace shardwise {

/// Fills the interface ghosts of fields of one layout, and its transpose. Face mode: all faces of all
/// dimensions at once, corners stay as they are. Buffers are allocated here, once.
template <class T>
class HaloExchange {
 public:
  HaloExchange(const Blocks& blocks, GhostLayout layout);

  /// Whether there is anything to exchange.
  bool is_needed() const { return !faces_.empty(); }
  /// S: interface ghosts <- the neighbours' owned values.
  void scatter(FieldStorage<T>& field);
  /// The exact transpose of S over all padded cells: each owner adds what its neighbours hold in the ghosts
  /// that mirror its cells (its own value first, then by dimension, low before high), and interface ghosts
  /// are cleared.
  void reduce(FieldStorage<T>& field);

 private:
  /// A face of a local part with a neighbour behind it.
  struct Face {
    std::size_t block;  ///< index among the local parts
    int part, neighbour, d, side;
    CellBox ghosts, owned;               ///< beyond the face; the planes beside it
    std::int64_t count = 0, offset = 0;  ///< in the buffers of its part
    bool packed = true;                  ///< false: ghosts and planes are contiguous, messages go straight
  };
  const Face* face_of(int part, int d, int side) const;
  void copy_box(const FieldBlock<T>& block, const Face& face, const CellBox& box,
                const QueuedBuffer<T>& buffer, int what);

  Blocks blocks_;
  std::vector<Face> faces_;
  std::vector<QueuedBuffer<T>> send_, receive_;  ///< one a local part
  std::vector<Message> messages_;
};

/// Ghosts of padded and pitched layouts. `affine`: with the offsets of the conditions.
template <class T>
void fill_walls(const Blocks& blocks, FieldStorage<T>& field, bool affine);
/// As fill_walls(), but every wall is an even mirror: for coefficients.
template <class T>
void fill_even(const Blocks& blocks, FieldStorage<T>& field);
template <class T>
void fold_walls(const Blocks& blocks, FieldStorage<T>& field, bool even);
/// After a gather that gave deep cells their final value, and folded the rows of blocks with folds_rows().
template <class T>
void fold_shell(const Blocks& blocks, FieldStorage<T>& field);
/// Whether the gather folds the rows of deep cells itself: dimension 0 is not cut and has one layer of
/// ghosts.
bool folds_rows(const CartesianGrid& block);
/// Cells of a gathered field of this layout that nothing is added to any more.
DeepCells deep_cells(const CartesianGrid& block, const BlockLayout& layout);
/// All ghosts, or all but interface ghosts.
template <class T>
void clear_ghosts(const Blocks& blocks, FieldStorage<T>& field, bool walls_only);

}  // namespace shardwise
