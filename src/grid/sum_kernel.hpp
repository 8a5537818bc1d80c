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

/// r -= alpha q; sums r . r and r . (inverse_diagonal r).
template <class T>
struct ResidualBody {
  static constexpr int count = 2;
  CellPointer<T> r;
  CellPointer<const T> q, inverse_diagonal;  ///< the last may be null: 1
  T alpha;
  bool flat(std::int64_t n0, std::int64_t n1) const {
    return r.flat(n0, n1) && q.flat(n0, n1) && inverse_diagonal.flat(n0, n1);
  }
  /// One cell's part: the new residual and its summands.
  SW_HD static T one(T r, T q, const T* d, T alpha, double (&out)[2]) {
    const T residual = std::fma(-alpha, q, r);
    const auto wide = static_cast<double>(residual);
    out[0] = wide * wide;
    out[1] = d ? wide * static_cast<double>(*d * residual) : out[0];
    return residual;
  }
  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k, double (&out)[2]) const {
    T* const at = r.at(i, j, k);
    *at =
        one(*at, *q.at(i, j, k), inverse_diagonal.cell ? inverse_diagonal.at(i, j, k) : nullptr, alpha, out);
  }
};

/// x += alpha p; p <- (inverse_diagonal) z + beta p.
template <class T>
struct DirectionBody {
  CellPointer<T> x, p;
  CellPointer<const T> z, inverse_diagonal;  ///< the last may be null: 1
  T alpha, beta;
  bool flat(std::int64_t n0, std::int64_t n1) const {
    return x.flat(n0, n1) && p.flat(n0, n1) && z.flat(n0, n1) && inverse_diagonal.flat(n0, n1);
  }
  SW_HD static void one(T& x, T& p, T z, T alpha, T beta) {
    x = std::fma(alpha, p, x);
    p = std::fma(beta, p, z);
  }
  SW_HD void cell(std::int64_t i, std::int64_t j, std::int64_t k) const {
    const T from = *z.at(i, j, k);
    one(*x.at(i, j, k), *p.at(i, j, k), inverse_diagonal.cell ? *inverse_diagonal.at(i, j, k) * from : from,
        alpha, beta);
  }
  void row(std::int64_t begin, std::int64_t end, std::int64_t j, std::int64_t k) const {
    T* const xs = x.at(0, j, k);
    T* const ps = p.at(0, j, k);
    const T* const zs = z.at(0, j, k);
    if (inverse_diagonal.cell) {
      const T* const ds = inverse_diagonal.at(0, j, k);
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) one(xs[i], ps[i], ds[i] * zs[i], alpha, beta);
    } else {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) one(xs[i], ps[i], zs[i], alpha, beta);
    }
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
