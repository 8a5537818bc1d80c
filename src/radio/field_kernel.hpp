#pragma once
// The complex field vector of a path, and what a reflection does to it and to the image of its source.

#include "radio/fresnel_kernel.hpp"
#include "radio/launch_kernel.hpp"
#include "shardwise/numeric/complex.hpp"
#include "shardwise/numeric/vec3.hpp"

namespace shardwise {

struct ComplexVec3 {
  Vec3f re, im;
};

/// |E|^2.
SW_HD inline float norm(const ComplexVec3& e) {
  return dot(e.re, e.re) + dot(e.im, e.im);
}

/// a b - c d with one rounding error at the end, where the products cancel (W. Kahan; see N. J. Higham,
/// "Accuracy and Stability of Numerical Algorithms", 2nd ed., section 2.6).
SW_HD inline float difference_of_products(float a, float b, float c, float d) {
  const float cd = c * d;
  return std::fma(a, b, -cd) + std::fma(-c, d, cd);
}

/// v / |v| by one division; |v| is far from zero.
SW_HD inline Vec3f to_unit(Vec3f v) {
  return v * (1.0f / std::sqrt(dot(v, v)));
}

/// The unit normal edge1 x edge2 of a triangle of positive area.
SW_HD inline Vec3f triangle_normal(Vec3f edge1, Vec3f edge2) {
  return to_unit(Vec3f{difference_of_products(edge1.y, edge2.z, edge1.z, edge2.y),
                       difference_of_products(edge1.z, edge2.x, edge1.x, edge2.z),
                       difference_of_products(edge1.x, edge2.y, edge1.y, edge2.x)});
}

/// E -> r_TE (E.s) s + r_TM (E.p_in) p_out with s = n x k / |n x k|, p_in = s x k, p_out = s x k'. `normal`
/// faces the ray. Where the incidence is normal (|n x k|^2 <= 1e-12), s is any transverse axis.
SW_HD inline ComplexVec3 reflect_field(const ComplexVec3& e, const PolarizedPair<float>& r, Vec3f normal,
                                       Vec3f direction, Vec3f reflected) {
  const Vec3f across = cross(normal, direction);
  const float squared = dot(across, across);
  Vec3f s;
  if (squared > 1e-12f) {
    const float inverse = 1.0f / std::sqrt(squared);
    s = across * inverse;
  } else {
    s = any_transverse(direction);
  }
  const Vec3f p_in = cross(s, direction), p_out = cross(s, reflected);
  const Complexf te = r.te * Complexf{dot(e.re, s), dot(e.im, s)};
  const Complexf tm = r.tm * Complexf{dot(e.re, p_in), dot(e.im, p_in)};
  return {te.re * s + tm.re * p_out, te.im * s + tm.im * p_out};
}

/// The mirror image of p in the plane of a triangle, in double precision: path lengths carry the phase.
SW_HD inline Vec3d mirror(Vec3d p, Vec3f v0, Vec3f v1, Vec3f v2) {
  const Vec3d corner = to_double(v0);
  const Vec3d normal = cross(to_double(v1) - corner, to_double(v2) - corner);
  const double squared = dot(normal, normal);
  const double distance = 2.0 * (dot(p - corner, normal) / squared);
  return p - distance * normal;
}

}  // namespace shardwise
