#pragma once
// What the sums of solvers add up, cell by cell. A body has a number of sums `count` and
//     SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k, double (&out)[count]) const
// which may update fields on the way. Products are rounded once, in double.

#include "grid/ghost_kernel.hpp"

namespace shardwise {

/// x . y, or the sum of x where y is null.
template <class T>
struct DotBody {
  static constexpr int count = 1;
  CellPointer<const T> x, y;
  bool flat(std::int64_t n0, std::int64_t n1) const { return x.flat(n0, n1) && y.flat(n0, n1); }
  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k, double (&out)[1]) const {
    const auto a = static_cast<double>(*x.at(i, j, k));
    out[0] = y.cell ? a * static_cast<double>(*y.at(i, j, k)) : a;
  }
};

/// x += alpha p, r -= alpha q; sums r . r and r . (inverse_diagonal r).
template <class T>
struct CgUpdateBody {
  static constexpr int count = 2;
  CellPointer<T> x, r;
  CellPointer<const T> p, q, inverse_diagonal;  ///< the last may be null: 1
  T alpha;
  bool flat(std::int64_t n0, std::int64_t n1) const {
    return x.flat(n0, n1) && r.flat(n0, n1) && p.flat(n0, n1) && q.flat(n0, n1) &&
           inverse_diagonal.flat(n0, n1);
  }
  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k, double (&out)[2]) const {
    T* const xs = x.at(i, j, k);
    T* const rs = r.at(i, j, k);
    *xs = std::fma(alpha, *p.at(i, j, k), *xs);
    const T residual = std::fma(-alpha, *q.at(i, j, k), *rs);
    *rs = residual;
    const auto wide = static_cast<double>(residual);
    out[0] = wide * wide;
    out[1] =
        inverse_diagonal.cell ? wide * static_cast<double>(*inverse_diagonal.at(i, j, k) * residual) : out[0];
  }
};

/// x . y and y . y.
template <class T>
struct TwoDotsBody {
  static constexpr int count = 2;
  CellPointer<const T> x, y;
  bool flat(std::int64_t n0, std::int64_t n1) const { return x.flat(n0, n1) && y.flat(n0, n1); }
  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k, double (&out)[2]) const {
    const auto a = static_cast<double>(*x.at(i, j, k)), b = static_cast<double>(*y.at(i, j, k));
    out[0] = a * b;
    out[1] = b * b;
  }
};

}  // namespace shardwise
