#pragma once
// 16 bytes of a row, as a thread loads and stores them.

namespace shardwise {

template <class T>
struct MarchVector;
template <>
struct MarchVector<float> {
  using Type = float4;
  static constexpr int size = 4;
};
template <>
struct MarchVector<double> {
  using Type = double2;
  static constexpr int size = 2;
};

/// 16 bytes of a row.
template <class T>
struct Lanes {
  static constexpr int size = MarchVector<T>::size;
  T v[size];
};

__device__ inline Lanes<float> lanes_of(float4 w) {
  return {w.x, w.y, w.z, w.w};
}
__device__ inline Lanes<double> lanes_of(double2 w) {
  return {w.x, w.y};
}
template <class T>
__device__ inline Lanes<T> load_lanes(const void* p) {
  return lanes_of(*static_cast<const typename MarchVector<T>::Type*>(p));
}
/// Streaming: what is stored is not read again soon.
__device__ inline void store_lanes(float* p, const Lanes<float>& r) {
  __stcs(reinterpret_cast<float4*>(p), make_float4(r.v[0], r.v[1], r.v[2], r.v[3]));
}
__device__ inline void store_lanes(double* p, const Lanes<double>& r) {
  __stcs(reinterpret_cast<double2*>(p), make_double2(r.v[0], r.v[1]));
}
__device__ inline void store_lanes_to_stay(float* p, const Lanes<float>& r) {
  *reinterpret_cast<float4*>(p) = make_float4(r.v[0], r.v[1], r.v[2], r.v[3]);
}
__device__ inline void store_lanes_to_stay(double* p, const Lanes<double>& r) {
  *reinterpret_cast<double2*>(p) = make_double2(r.v[0], r.v[1]);
}
template <class T>
__device__ inline Lanes<T> times(T m, const Lanes<T>& a) {
  Lanes<T> r;
#pragma unroll
  for (int l = 0; l < Lanes<T>::size; ++l) r.v[l] = m * a.v[l];
  return r;
}

/// By value: a conditional expression of two arrays would take their addresses, and put them in memory.
template <class T>
__device__ inline Lanes<T> select(bool first, const Lanes<T>& a, const Lanes<T>& b) {
  Lanes<T> r;
#pragma unroll
  for (int l = 0; l < Lanes<T>::size; ++l) r.v[l] = first ? a.v[l] : b.v[l];
  return r;
}

}  // namespace shardwise
