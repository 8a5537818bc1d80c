#pragma once
// The discrete operators: one function a cell, the same for every device, kernel and partition. N is the
// number of dimensions. `weight(reader, d, side)` and `centre_weight(reader)` are the entries of the bare
// stencil's row, from which the transpose is gathered.

#include "grid/stencil_kernel.hpp"

namespace shardwise {

/// Sum over d of (u- - 2 u0 + u+) / spacing_d^2, terms added in the order of d.
template <class T, int N>
struct LaplacianCell {
  T inverse_square[N];

  SW_HD static T second_difference(T low, T centre, T high) { return std::fma(T(-2), centre, low + high); }
  SW_HD T sum(const T (&difference)[N]) const {
    T result = difference[0] * inverse_square[0];
    for (int d = 1; d < N; ++d) result = std::fma(difference[d], inverse_square[d], result);
    return result;
  }
  template <class Reader>
  SW_HD T operator()(const Reader& r) const {
    const T centre = r.centre();
    T difference[N];
    for (int d = 0; d < N; ++d) difference[d] = second_difference(r.value(d, 0), centre, r.value(d, 1));
    return sum(difference);
  }
  template <class Reader>
  SW_HD T weight(const Reader&, int d, int) const {
    return inverse_square[d];
  }
  template <class Reader>
  SW_HD T centre_weight(const Reader&) const {
    T result = 0;
    for (int d = 0; d < N; ++d) result = std::fma(T(-2), inverse_square[d], result);
    return result;
  }
};

/// A difference along one dimension: scale x (low u- + centre u0 + high u+), in one of four forms.
enum class Scheme : std::uint8_t { centred, second, backward, forward };

template <class T, int N>
struct DifferenceCell {
  int d = 0;
  Scheme scheme = Scheme::centred;
  T scale = 1;  ///< 1/(2 spacing), 1/spacing^2, 1/spacing

  template <class Reader>
  SW_HD T operator()(const Reader& r) const {
    switch (scheme) {
      case Scheme::centred:
        return (r.value(d, 1) - r.value(d, 0)) * scale;
      case Scheme::second:
        return LaplacianCell<T, N>::second_difference(r.value(d, 0), r.centre(), r.value(d, 1)) * scale;
      case Scheme::backward:
        return (r.centre() - r.value(d, 0)) * scale;
      default:
        return (r.value(d, 1) - r.centre()) * scale;
    }
  }
  template <class Reader>
  SW_HD T weight(const Reader&, int e, int side) const {
    if (e != d) return T(0);
    switch (scheme) {
      case Scheme::centred:
        return side == 0 ? -scale : scale;
      case Scheme::second:
        return scale;
      case Scheme::backward:
        return side == 0 ? -scale : T(0);
      default:
        return side == 0 ? T(0) : scale;
    }
  }
  template <class Reader>
  SW_HD T centre_weight(const Reader&) const {
    switch (scheme) {
      case Scheme::centred:
        return T(0);
      case Scheme::second:
        return T(-2) * scale;
      case Scheme::backward:
        return scale;
      default:
        return -scale;
    }
  }
};

/// The mean that makes a face coefficient of two cells'.
enum class MeanKind : std::uint8_t { arithmetic, harmonic, geometric };

template <class T>
SW_HD T face_mean(MeanKind mean, T a, T b) {
  switch (mean) {
    case MeanKind::arithmetic:
      return (a + b) * T(0.5);
    case MeanKind::harmonic:
      return T(2) * (a * b) / (a + b);
    default:
      return std::sqrt(a * b);
  }
}

/// d face_mean(a, b) / d a.
template <class T>
SW_HD T face_mean_slope(MeanKind mean, T a, T b) {
  switch (mean) {
    case MeanKind::arithmetic:
      return T(0.5);
    case MeanKind::harmonic: {
      const T sum = a + b;
      return T(2) * (b * b) / (sum * sum);
    }
    default:
      return T(0.5) * (b / std::sqrt(a * b));
  }
}

/// The coefficient on a wall face from the two cells behind it.
enum class WallKind : std::uint8_t { mirror, extrapolate, given };

/// Sum over d of [k+ (u+ - u0) - k- (u0 - u-)] / spacing_d^2. Walls take the coefficient of the wall face:
/// that of the cell, (3 k0 - k1)/2 where that is positive and there is a second cell, or a given one.
template <class T, int N, MeanKind mean>
struct DiffusionCell {
  const T* k[N];  ///< of dimension d, at the block's first owned cell
  T inverse_square[N];
  WallKind wall = WallKind::extrapolate;
  bool single[N] = {};        ///< the whole grid has one cell in this dimension
  const T* given[N][2] = {};  ///< one value a cell of the face

  /// (3 k0 - k1)/2 where it is used, else k0.
  SW_HD static T extrapolated(T k0, T k1) {
    const T value = std::fma(T(3), k0, -k1) * T(0.5);
    return value > T(0) ? value : k0;
  }
  /// The coefficient of a face from the values around it: beyond the face, or behind the cell where that is a
  /// wall.
  SW_HD static T face_of(bool is_wall, WallKind wall, bool single, T k0, T k_beyond, T k_behind) {
    if (!is_wall) return face_mean(mean, k0, k_beyond);
    return wall == WallKind::mirror || single ? k0 : extrapolated(k0, k_behind);
  }
  template <class Reader>
  SW_HD T face(const Reader& r, int d, int side) const {
    const T k0 = k[d][r.at];
    if (!r.is_wall(d, side)) return face_mean(mean, k0, k[d][r.at + r.offset(d, side)]);
    if (wall == WallKind::given) return given[d][side][r.face_cell(d, side)];
    return face_of(true, wall, single[d], k0, k0, single[d] ? k0 : k[d][r.at + r.offset(d, 1 - side)]);
  }
  SW_HD static T flux(T k_low, T k_high, T low, T centre, T high) {
    return std::fma(k_high, high - centre, -(k_low * (centre - low)));
  }
  SW_HD T sum(const T (&flux)[N]) const {
    T result = flux[0] * inverse_square[0];
    for (int d = 1; d < N; ++d) result = std::fma(flux[d], inverse_square[d], result);
    return result;
  }
  template <class Reader>
  SW_HD T operator()(const Reader& r) const {
    const T centre = r.centre();
    T fluxes[N];
    for (int d = 0; d < N; ++d)
      fluxes[d] = flux(face(r, d, 0), face(r, d, 1), r.value(d, 0), centre, r.value(d, 1));
    return sum(fluxes);
  }
  template <class Reader>
  SW_HD T weight(const Reader& r, int d, int side) const {
    return face(r, d, side) * inverse_square[d];
  }
  template <class Reader>
  SW_HD T centre_weight(const Reader& r) const {
    T result = 0;
    for (int d = 0; d < N; ++d)
      result = std::fma(-(face(r, d, 0) + face(r, d, 1)), inverse_square[d], result);
    return result;
  }
};

/// Sum over d of v_d du/dx_d, centred, with a prescribed velocity.
template <class T, int N>
struct AdvectionCell {
  const T* velocity[N];
  T half_inverse[N];

  template <class Reader>
  SW_HD T operator()(const Reader& r) const {
    T result = 0;
    for (int d = 0; d < N; ++d)
      result = std::fma(velocity[d][r.at] * half_inverse[d], r.value(d, 1) - r.value(d, 0), result);
    return result;
  }
  template <class Reader>
  SW_HD T weight(const Reader& r, int d, int side) const {
    const T w = velocity[d][r.at] * half_inverse[d];
    return side == 0 ? -w : w;
  }
  template <class Reader>
  SW_HD T centre_weight(const Reader&) const {
    return T(0);
  }
};

/// Its transpose: minus the sum of d(v_d u)/dx_d, with the multipliers of the walls negated (by the block).
template <class T, int N>
struct AdvectionAdjointCell {
  const T* velocity[N];
  T half_inverse[N];

  template <class Reader>
  SW_HD T operator()(const Reader& r) const {
    T result = 0;
    for (int d = 0; d < N; ++d) {
      const T low = (velocity[d][r.at + r.offset(d, 0)] * half_inverse[d]) * r.value(d, 0);
      const T high = (velocity[d][r.at + r.offset(d, 1)] * half_inverse[d]) * r.value(d, 1);
      result = result - (high - low);
    }
    return result;
  }
  template <class Reader>
  SW_HD T weight(const Reader& r, int d, int side) const {
    const T w = velocity[d][r.at + r.offset(d, side)] * half_inverse[d];
    return side == 0 ? w : -w;
  }
  template <class Reader>
  SW_HD T centre_weight(const Reader&) const {
    return T(0);
  }
};

/// alpha v + beta y; y is not read where beta is 0 (ReadsY false).
template <bool ReadsY, class T>
SW_HD void blend(T* y, T v, T alpha, T beta) {
  *y = ReadsY ? std::fma(beta, *y, alpha * v) : alpha * v;
}

template <class T>
SW_HD void blend_any(T* y, T v, T alpha, T beta) {
  beta == T(0) ? blend<false>(y, v, alpha, beta) : blend<true>(y, v, alpha, beta);
}

/// y <- alpha leaf(x) + beta y over a box of owned cells.
template <class T, int N, class Leaf, bool ReadsY>
struct ApplyBody {
  StencilBlock<T> block;
  Leaf leaf;
  const T* x;
  T* y;
  T alpha, beta;

  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k) const {
    const std::int64_t at = block.element(i, j, k);
    blend<ReadsY>(y + at, leaf(WallReader<T>{x, at, &block, {i, j, k}}), alpha, beta);
  }

  /// Whether cells with this index in dimension d read beyond a face in another way than inside.
  bool special(int d, std::int64_t index) const {
    return (index == 0 && !block.face[d][0].plain) ||
           (index == block.cells[d] - 1 && !block.face[d][1].plain);
  }
  void row(std::int64_t begin, std::int64_t end, std::int64_t j, std::int64_t k) const {
    if (begin < end && special(0, begin)) cell(begin++, j, k);
    const bool last = begin < end && special(0, end - 1);
    const std::int64_t row_at = block.element(0, j, k), inner = last ? end - 1 : end;
    if ((N > 1 && special(1, j)) || (N > 2 && special(2, k))) {
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
#pragma GCC ivdep
      for (std::int64_t i = begin; i < inner; ++i) {
        const RowReader<T> reader{
            x, row_at + i, &rules, {j + block.cells[1] * k, i + block.cells[0] * k, i + block.cells[0] * j}};
        blend<ReadsY>(y + row_at + i, leaf(reader), alpha, beta);
      }
    } else {
      const std::int64_t stride[3] = {1, block.stride[1], block.stride[2]};
#pragma GCC ivdep
      for (std::int64_t i = begin; i < inner; ++i)
        blend<ReadsY>(y + row_at + i, leaf(PlainReader<T>{x, row_at + i, stride}), alpha, beta);
    }
    if (last) cell(end - 1, j, k);
  }
};

/// The offsets of the walls as an applied leaf sees them: shift[d][side], one value a cell of the face.
template <class T>
struct LiftFaces {
  const T* shift[3][2] = {};
  const T* flux[3][2] = {};  ///< of conormal faces: value / spacing, added as it is
};

/// y <- alpha leaf(affine ghosts of a zero field) + beta y.
template <class T, int N, class Leaf>
struct LiftBody {
  StencilBlock<T> block;
  Leaf leaf;
  LiftFaces<T> faces;
  T* y;
  T alpha, beta;

  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k) const {
    LiftReader<T> reader{{nullptr, block.element(i, j, k), &block, {i, j, k}}, faces.shift};
    reader.at = reader.cells.at;
    T value = leaf(reader);
    for (int d = 0; d < N; ++d)
      for (int side = 0; side < 2; ++side)
        if (faces.flux[d][side] && reader.is_wall(d, side))
          value = value + faces.flux[d][side][reader.face_cell(d, side)];
    blend_any(y + reader.at, value, alpha, beta);
  }
};

/// y <- alpha c x + beta y, c a number or a field.
template <class T, bool ReadsY>
struct ScaleBody {
  std::int64_t x_stride[2], y_stride[2];
  const T* x;
  T* y;
  const T* field;  ///< with the layout of x; null: 1
  T alpha, beta;

  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k) const {
    const std::int64_t at = i + j * x_stride[0] + k * x_stride[1];
    const T v = field ? field[at] * x[at] : x[at];
    blend<ReadsY>(y + i + j * y_stride[0] + k * y_stride[1], v, alpha, beta);
  }
  void row(std::int64_t begin, std::int64_t end, std::int64_t j, std::int64_t k) const {
    const T* const in = x + j * x_stride[0] + k * x_stride[1];
    T* const out = y + j * y_stride[0] + k * y_stride[1];
    if (field) {
      const T* const factor = field + j * x_stride[0] + k * x_stride[1];
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) blend<ReadsY>(out + i, factor[i] * in[i], alpha, beta);
    } else {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) blend<ReadsY>(out + i, in[i], alpha, beta);
    }
  }
};

/// Sets elements to one value.
template <class T>
struct SetBody {
  T* y;
  T value;
  SW_HD void operator()(std::int64_t i) const { y[i] = value; }
};

}  // namespace shardwise
