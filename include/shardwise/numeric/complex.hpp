#pragma once
// Complex numbers for kernel bodies: the same bits on host and CUDA, no libm.

#include <cmath>

#include "shardwise/numeric/host_device.hpp"

namespace shardwise {

/// re + j im. Every operator rounds each real operation once, in the order written.
template <class T>
struct Complex {
  T re{}, im{};

  friend SW_HD constexpr Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  friend SW_HD constexpr Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
  friend SW_HD constexpr Complex operator-(Complex a) { return {-a.re, -a.im}; }
  friend SW_HD constexpr Complex operator*(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  friend SW_HD constexpr Complex operator*(Complex a, T s) { return {a.re * s, a.im * s}; }
  friend SW_HD constexpr Complex operator*(T s, Complex a) { return {a.re * s, a.im * s}; }

  /// Division by the larger component first, so that |b|^2 is never formed and cannot overflow or underflow
  /// (R. L. Smith, "Algorithm 116: Complex division", CACM 5(8), 1962). b = 0 gives NaN or infinity.
  friend SW_HD constexpr Complex operator/(Complex a, Complex b) {
    const T abs_re = b.re < T(0) ? -b.re : b.re, abs_im = b.im < T(0) ? -b.im : b.im;
    if (abs_re >= abs_im) {
      const T ratio = b.im / b.re;
      const T divisor = b.re + b.im * ratio;
      return {(a.re + a.im * ratio) / divisor, (a.im - a.re * ratio) / divisor};
    }
    const T ratio = b.re / b.im;
    const T divisor = b.re * ratio + b.im;
    return {(a.re * ratio + a.im) / divisor, (a.im * ratio - a.re) / divisor};
  }
  friend SW_HD constexpr bool operator==(const Complex&, const Complex&) = default;
};

using Complexf = Complex<float>;
using Complexd = Complex<double>;

/// |a|^2.
template <class T>
SW_HD constexpr T norm(Complex<T> a) {
  return a.re * a.re + a.im * a.im;
}

template <class T>
SW_HD constexpr Complex<T> conjugate(Complex<T> a) {
  return {a.re, -a.im};
}

/// |a|, scaled by the larger component.
template <class T>
SW_HD inline T magnitude(Complex<T> a) {
  const T x = a.re < T(0) ? -a.re : a.re, y = a.im < T(0) ? -a.im : a.im;
  const T large = x > y ? x : y, small = x > y ? y : x;
  if (!(large > T(0))) return large;
  const T ratio = small / large;
  return large * std::sqrt(T(1) + ratio * ratio);
}

/// The square root that decays under exp(+j omega t): Re >= 0 and Im <= 0, for an argument with Im <= 0 (a
/// passive medium). The sign of a zero imaginary part does not decide: a negative real argument gives -j
/// sqrt(|re|). Two real square roots; the component that would cancel is found by division.
template <class T>
SW_HD inline Complex<T> sqrt_decaying(Complex<T> a) {
  const T abs_im = a.im < T(0) ? -a.im : a.im;
  const T m = magnitude(a);
  if (!(m > T(0))) return {T(0), T(0)};
  if (a.re >= T(0)) {
    const T re = std::sqrt(T(0.5) * m + T(0.5) * a.re);
    return {re, T(-0.5) * (abs_im / re)};
  }
  const T im = std::sqrt(T(0.5) * m - T(0.5) * a.re);
  return {T(0.5) * (abs_im / im), -im};
}

}  // namespace shardwise
