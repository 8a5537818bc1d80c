#pragma once
// What a stencil of radius 1 reads around a cell, walls included.
//
// A ghost value beyond a wall exists in registers only: it is multiplier x (its mirror image), rounded once,
// as if a fill had stored it. So every cell does the same operations on the same values wherever the blocks
// are cut, and whatever the layout.

#include <cmath>
#include <cstdint>

#include "shardwise/numeric/host_device.hpp"

namespace shardwise {

/// What lies beyond one face of a block: multiplier x the value `offset` elements from the cell at the face.
///     wall        multiplier of layer 1, offset 0 (the mirror image of layer 1 is the cell itself)
///     periodic    1, the cell at the other end of the row
///     interface   1, the ghost that an exchange filled: one stride outward
template <class T>
struct FaceRule {
  T multiplier = 1;
  std::int64_t offset = 0;
  bool wall = false, plain = false;  ///< plain: as inside, one stride outward
};

/// One block as a stencil sees it; all fields of a leaf share this layout.
template <class T>
struct StencilBlock {
  std::int64_t cells[3] = {1, 1, 1}, stride[3] = {1, 1, 1};
  FaceRule<T> face[3][2];

  SW_HD std::int64_t element(std::int64_t i, std::int64_t j, std::int64_t k) const {
    return i + j * stride[1] + k * stride[2];
  }
};

/// Around a cell none of whose neighbours lies beyond a wall.
template <class T>
struct PlainReader {
  const T* u;
  std::int64_t at;
  const std::int64_t* stride;

  SW_HD T centre() const { return u[at]; }
  SW_HD std::int64_t offset(int d, int side) const { return side == 0 ? -stride[d] : stride[d]; }
  SW_HD T value(int d, int side) const { return u[at + offset(d, side)]; }
  SW_HD bool is_wall(int, int) const { return false; }
  SW_HD std::int64_t face_cell(int, int) const { return 0; }
};

/// Around the inner cells of a row that lies at a wall or a periodic end of another dimension: what lies
/// beyond is the same rule for the whole row, so that loops over it become vector loops. The reader of a
/// wall, cell by cell, gives the same values.
template <class T>
struct RowReader {
  struct Rules {
    std::int64_t offset[3][2];
    T multiplier[3][2];
    bool wall[3][2];
  };
  const T* u;
  std::int64_t at;
  const Rules* rules;
  std::int64_t face[3];  ///< this cell's index in the faces of each dimension

  SW_HD T centre() const { return u[at]; }
  SW_HD std::int64_t offset(int d, int side) const { return rules->offset[d][side]; }
  SW_HD T value(int d, int side) const {
    return d == 0 ? u[at + rules->offset[0][side]]
                  : rules->multiplier[d][side] * u[at + rules->offset[d][side]];
  }
  SW_HD bool is_wall(int d, int side) const { return d != 0 && rules->wall[d][side]; }
  SW_HD std::int64_t face_cell(int d, int) const { return face[d]; }
};

/// The rules of the row (j, k).
template <class T>
typename RowReader<T>::Rules row_rules(const StencilBlock<T>& block, std::int64_t j, std::int64_t k) {
  const std::int64_t index[3] = {0, j, k};
  typename RowReader<T>::Rules rules;
  for (int d = 0; d < 3; ++d)
    for (int side = 0; side < 2; ++side) {
      const bool at_face = d > 0 && index[d] == (side == 0 ? 0 : block.cells[d] - 1);
      const FaceRule<T>& rule = block.face[d][side];
      rules.offset[d][side] = at_face ? rule.offset : side == 0 ? -block.stride[d] : block.stride[d];
      rules.multiplier[d][side] = at_face ? rule.multiplier : T(1);
      rules.wall[d][side] = at_face && rule.wall;
    }
  return rules;
}

/// Around a cell at an end of a row that is at no end of another dimension.
template <class T>
struct EndReader {
  const T* u;
  std::int64_t at;
  const std::int64_t* stride;
  std::int64_t ends[2];  ///< offsets in dimension 0
  T multiplier[2];       ///< 1 at the side that is no face
  bool wall[2];
  std::int64_t face;  ///< this cell's index in the faces of dimension 0

  SW_HD T centre() const { return u[at]; }
  SW_HD std::int64_t offset(int d, int side) const {
    return d == 0 ? ends[side] : side == 0 ? -stride[d] : stride[d];
  }
  SW_HD T value(int d, int side) const {
    const T v = u[at + offset(d, side)];
    return d == 0 ? multiplier[side] * v : v;
  }
  SW_HD bool is_wall(int d, int side) const { return d == 0 && wall[side]; }
  SW_HD std::int64_t face_cell(int, int) const { return face; }
};

/// Of cell i of the row (j, k).
template <class T>
inline __attribute__((always_inline)) EndReader<T> end_reader(const T* u, const StencilBlock<T>& block,
                                                              std::int64_t i, std::int64_t j,
                                                              std::int64_t k) {
  EndReader<T> reader{u,  block.element(i, j, k), block.stride, {-1, 1}, {T(1), T(1)},
                      {}, j + block.cells[1] * k};
  for (int side = 0; side < 2; ++side)
    if (i == (side == 0 ? 0 : block.cells[0] - 1)) {
      const FaceRule<T>& rule = block.face[0][side];
      reader.ends[side] = rule.offset;
      reader.multiplier[side] = rule.multiplier;
      reader.wall[side] = rule.wall;
    }
  return reader;
}

/// Around any cell.
template <class T>
struct WallReader {
  const T* u;
  std::int64_t at;
  const StencilBlock<T>* block;
  std::int64_t index[3];

  SW_HD bool at_face(int d, int side) const { return index[d] == (side == 0 ? 0 : block->cells[d] - 1); }
  SW_HD T centre() const { return u[at]; }
  SW_HD std::int64_t offset(int d, int side) const {
    return at_face(d, side) ? block->face[d][side].offset : side == 0 ? -block->stride[d] : block->stride[d];
  }
  SW_HD T value(int d, int side) const {
    const T v = u[at + offset(d, side)];
    return at_face(d, side) ? block->face[d][side].multiplier * v : v;
  }
  SW_HD bool is_wall(int d, int side) const { return at_face(d, side) && block->face[d][side].wall; }
  /// Index of the cell among those of its face, the dimensions of the face ascending.
  SW_HD std::int64_t face_cell(int d, int) const {
    return d == 0   ? index[1] + block->cells[1] * index[2]
           : d == 1 ? index[0] + block->cells[0] * index[2]
                    : index[0] + block->cells[0] * index[1];
  }
};

/// Around a cell of a field that is 0, with the offsets of the conditions as ghosts: what a lift is made of.
template <class T>
struct LiftReader {
  WallReader<T> cells;
  const T* const (*shift)[2];  ///< [dimension][side], one value a cell of the face; null: 0

  SW_HD T centre() const { return T(0); }
  SW_HD std::int64_t offset(int d, int side) const { return cells.offset(d, side); }
  SW_HD T value(int d, int side) const {
    return cells.is_wall(d, side) && shift[d][side] ? shift[d][side][cells.face_cell(d, side)] : T(0);
  }
  SW_HD bool is_wall(int d, int side) const { return cells.is_wall(d, side); }
  SW_HD std::int64_t face_cell(int d, int side) const { return cells.face_cell(d, side); }
  std::int64_t at = 0;
};

}  // namespace shardwise
