#pragma once

#include <cmath>

#include "shardwise/numeric/host_device.hpp"

namespace shardwise {

/// Three components, no padding. Every operation rounds once per component and never contracts, so host and
/// CUDA give the same bits.
template <class T>
struct Vec3 {
  T x{}, y{}, z{};

  SW_HD constexpr T operator[](int axis) const { return axis == 0 ? x : axis == 1 ? y : z; }
  SW_HD constexpr void set(int axis, T value) { (axis == 0 ? x : axis == 1 ? y : z) = value; }

  friend SW_HD constexpr Vec3 operator+(Vec3 a, Vec3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
  friend SW_HD constexpr Vec3 operator-(Vec3 a, Vec3 b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
  friend SW_HD constexpr Vec3 operator-(Vec3 a) { return {-a.x, -a.y, -a.z}; }
  friend SW_HD constexpr Vec3 operator*(Vec3 a, T s) { return {a.x * s, a.y * s, a.z * s}; }
  friend SW_HD constexpr Vec3 operator*(T s, Vec3 a) { return a * s; }
  friend SW_HD constexpr bool operator==(const Vec3&, const Vec3&) = default;
};

using Vec3f = Vec3<float>;
using Vec3d = Vec3<double>;

template <class T>
SW_HD constexpr T dot(Vec3<T> a, Vec3<T> b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}

template <class T>
SW_HD constexpr Vec3<T> cross(Vec3<T> a, Vec3<T> b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

/// |v| without scaling: components are metres, far from overflow.
template <class T>
SW_HD inline T length(Vec3<T> v) {
  return std::sqrt(dot(v, v));
}

/// v / |v|, or v itself where it is zero.
template <class T>
SW_HD inline Vec3<T> normalized(Vec3<T> v) {
  const T norm = length(v);
  return norm > T(0) ? Vec3<T>{v.x / norm, v.y / norm, v.z / norm} : v;
}

/// |x|, without a branch.
SW_HD constexpr float absolute(float x) {
  return __builtin_fabsf(x);
}
SW_HD constexpr double absolute(double x) {
  return __builtin_fabs(x);
}

/// The largest absolute component, |v|_inf.
template <class T>
SW_HD constexpr T max_abs(Vec3<T> v) {
  const T ax = absolute(v.x), ay = absolute(v.y), az = absolute(v.z);
  const T xy = ax > ay ? ax : ay;
  return xy > az ? xy : az;
}

SW_HD constexpr Vec3f to_float(Vec3d v) {
  return {static_cast<float>(v.x), static_cast<float>(v.y), static_cast<float>(v.z)};
}
SW_HD constexpr Vec3d to_double(Vec3f v) {
  return {v.x, v.y, v.z};
}

SW_HD inline bool is_finite(float v) {
  return v - v == 0.0f;
}
SW_HD inline bool is_finite(double v) {
  return v - v == 0.0;
}
template <class T>
SW_HD inline bool is_finite(Vec3<T> v) {
  return is_finite(v.x) && is_finite(v.y) && is_finite(v.z);
}

}  // namespace shardwise
