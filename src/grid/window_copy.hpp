#pragma once
// Cells of a grid as one partition has them, brought to where another partition of the same parts needs them.

#include "grid/blocks_state.hpp"
#include "grid/cell_launch.hpp"
#include "grid/ghost_kernel.hpp"

namespace shardwise {

/// Cells that one part needs, numbered over the whole grid. A window may go on beyond the ends of a periodic
/// dimension, by less than the grid's length: there it holds the cells of the other end.
struct Window {
  int part = 0;
  CellBox box;
};

/// Fills a contiguous buffer on each target part from a field on the source blocks. What a part has itself is
/// copied in place; the rest is packed, moved (one message for each pair of parts) and unpacked. Buffers are
/// allocated once. Source and target blocks share one queue.
template <class T>
class WindowCopy {
 public:
  WindowCopy(const Blocks& source, const Blocks& target, const std::vector<Window>& windows);

  void run(const FieldStorage<T>& field);
  /// The window of a local target part: its first cell is the window's, rows and planes without gaps.
  CellPointer<const T> pointer(std::size_t local) const;
  Access reads(std::size_t local) const { return windows_[local].buffer.reads(); }

 private:
  struct Piece {
    int source = 0, target = 0;
    std::array<std::int64_t, 3> from{}, to{}, size{};  ///< in the source's block; in the window
    std::int64_t send = 0, receive = 0;                ///< elements, in the buffers of the two parts
    std::int64_t count() const { return size[0] * size[1] * size[2]; }
  };
  struct Local {
    int part = 0;
    CellBox box;
    QueuedBuffer<T> buffer;
  };
  void add_pieces(const Window& window);
  void copy(const char* name, Stream& stream, const Piece& piece, CellPointer<const T> from,
            CellPointer<T> to, const Access& read, const Access& write);
  Access window_access(const Local& window, const Piece& piece) const;
  CellPointer<T> inside(const Local& window, const Piece& piece) const;

  Blocks source_, target_;
  std::vector<Piece> pieces_;  ///< by source, then target: those of a pair are neighbours
  std::vector<Local> windows_;
  std::vector<QueuedBuffer<T>> send_, receive_;  ///< one a local part of the source; of the target
  std::vector<Message> messages_;
};

}  // namespace shardwise
