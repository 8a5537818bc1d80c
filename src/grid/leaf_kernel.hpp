#pragma once
// The discrete operators: one function a cell, the same for every device, kernel and partition. N is the
// number of dimensions. `weight(reader, d, side)` and `centre_weight(reader)` are the entries of the bare
// stencil's row, from which the transpose is gathered.

#include "grid/row_stream.hpp"
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

/// Whether a leaf's rows are worth streaming: where reading and computing leave the memory idle, the shorter
/// loops cost more than the traffic that they save (measured for Diffusion: a fifth more time).
template <class Leaf>
constexpr bool streams_rows = false;
template <class T, int N>
constexpr bool streams_rows<LaplacianCell<T, N>> = SHARDWISE_STREAMS_ROWS != 0;

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
  /// Whether what this launch writes is streamed past the cache.
  bool streams() const {
    return !ReadsY && streams_rows<Leaf> &&
           block.cells[0] * block.cells[1] * block.cells[2] * std::int64_t{sizeof(T)} >= stream_from_bytes;
  }
  /// Whether a row reads nothing beyond a face but at its ends.
  bool plain_row(std::int64_t j, std::int64_t k) const {
    return !(N > 1 && special(1, j)) && !(N > 2 && special(2, k));
  }
  /// Calls work(reader), reader(i) being that of cell i, for the cells of a row that are not at its ends.
  template <class Work>
  void with_reader(std::int64_t j, std::int64_t k, Work&& work) const {
    const std::int64_t row_at = block.element(0, j, k);
    if (!plain_row(j, k)) {
      const typename RowReader<T>::Rules rules = row_rules(block, j, k);
      work([&](std::int64_t i) {
        return RowReader<T>{
            x, row_at + i, &rules, {j + block.cells[1] * k, i + block.cells[0] * k, i + block.cells[0] * j}};
      });
    } else {
      const std::int64_t stride[3] = {1, block.stride[1], block.stride[2]};
      work([&](std::int64_t i) { return PlainReader<T>{x, row_at + i, stride}; });
    }
  }
  /// A cell at an end of a row.
  void end_cell(T* out, std::int64_t i, std::int64_t j, std::int64_t k) const {
    if (!plain_row(j, k))
      return blend<ReadsY>(out, leaf(WallReader<T>{x, block.element(i, j, k), &block, {i, j, k}}), alpha,
                           beta);
    blend<ReadsY>(out, leaf(end_reader(x, block, i, j, k)), alpha, beta);
  }
  /// Cells [begin, end) of a row, walls included, into out[0 ..].
  void cells(T* out, std::int64_t begin, std::int64_t end, std::int64_t j, std::int64_t k) const {
    if (begin < end && special(0, begin)) end_cell(out++, begin++, j, k);
    const std::int64_t inner = end - (begin < end && special(0, end - 1) ? 1 : 0);
    with_reader(j, k, [&](const auto& reader) {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < inner; ++i)
        blend<ReadsY>(out + (i - begin), leaf(reader(i)), alpha, beta);
    });
    if (inner < end) end_cell(out + (inner - begin), inner, j, k);
  }
  void row(std::int64_t begin, std::int64_t end, std::int64_t j, std::int64_t k) const {
    T* const out = y + block.element(0, j, k);
    constexpr std::int64_t width = line_cells<T>;
    if (!streams() || end - begin < 4 * width) return cells(out + begin, begin, end, j, k);
    // Whole lines are streamed; those that are shared with other rows are stored as usual, for a streamed
    // piece of a line costs more than reading it.
    std::int64_t first = begin;
    while (!begins_line(out + first)) ++first;
    const std::int64_t last = first + (end - first) / width * width;
    cells(out + begin, begin, first, j, k);
    cells(out + last, last, end, j, k);
    // Of the next plane, some rows ahead: that is what comes from memory.
    const bool fetch = N > 2 && j + ahead < block.cells[1] && k + 1 < block.cells[2];
    const T* const next = x + (fetch ? block.element(0, j + ahead, k + 1) : block.element(0, j, k));
    with_reader(j, k, [=, *this](const auto& reader) {
      T line[width + 1];
      const auto make = [&](T * to, std::int64_t from) __attribute__((always_inline)) {
        prefetch_line(next + from);
#pragma GCC ivdep
        for (std::int64_t lane = 0; lane < width; ++lane)
          blend<ReadsY>(to + lane, leaf(reader(from + lane)), alpha, beta);
      };
      std::int64_t i = first, stop = last;
      if (special(0, i)) {  // a whole line one cell on, and the end before it
        make(line + 1, i + 1);
        end_cell(line, i, j, k);
        stream_line(out + i, line);
        i += width;
      }
      if (special(0, stop - 1)) {
        stop -= width;
        make(line, stop - 1);
        end_cell(line + width, stop + width - 1, j, k);
        stream_line(out + stop, line + 1);
      }
      for (; i < stop; i += width) {
        make(line, i);
        stream_line(out + i, line);
      }
    });
  }
  void finish() const {
    if (streams()) finish_rows();
  }
  static constexpr std::int64_t ahead = 4;  ///< rows
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
