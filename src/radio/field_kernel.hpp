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

/// A surface as a ray from one of its sides sees it.
struct SurfaceFrame {
  Vec3f normal;   ///< unit, faces the ray
  float cosine;   ///< |cos| of the incidence
  Vec3f across;   ///< normal x direction
  float squared;  ///< |across|^2
};

SW_HD inline SurfaceFrame surface_frame(Vec3f edge1, Vec3f edge2, Vec3f direction) {
  const Vec3f normal = triangle_normal(edge1, edge2);
  const float cosine = dot(direction, normal);
  const bool turned = cosine > 0;
  const Vec3f facing{turned ? -normal.x : normal.x, turned ? -normal.y : normal.y,
                     turned ? -normal.z : normal.z};
  const Vec3f across = cross(facing, direction);
  return {facing, turned ? cosine : -cosine, across, dot(across, across)};
}

/// Below this |across|^2 the incidence is normal, and any transverse axis is the TE axis.
inline constexpr float least_across_squared = 1e-12f;

/// The TE axis s = n x k / |n x k| where the incidence is not normal.
SW_HD inline Vec3f te_axis_off_normal(Vec3f across, float squared) {
  return across * (1.0f / std::sqrt(squared));
}

SW_HD inline Vec3f te_axis(Vec3f across, float squared, Vec3f direction) {
  return squared > least_across_squared ? te_axis_off_normal(across, squared) : any_transverse(direction);
}

/// E -> r_TE (E.s) s + r_TM (E.p_in) p_out with the TE axis s, p_in = s x k, p_out = s x k'.
SW_HD inline ComplexVec3 reflect_field_about(const ComplexVec3& e, const PolarizedPair<float>& r, Vec3f s,
                                             Vec3f direction, Vec3f reflected) {
  const Vec3f p_in = cross(s, direction), p_out = cross(s, reflected);
  const Complexf te = r.te * Complexf{dot(e.re, s), dot(e.im, s)};
  const Complexf tm = r.tm * Complexf{dot(e.re, p_in), dot(e.im, p_in)};
  return {te.re * s + tm.re * p_out, te.im * s + tm.im * p_out};
}

/// The same about the TE axis of a surface whose `normal` faces the ray.
SW_HD inline ComplexVec3 reflect_field(const ComplexVec3& e, const PolarizedPair<float>& r, Vec3f normal,
                                       Vec3f direction, Vec3f reflected) {
  const Vec3f across = cross(normal, direction);
  return reflect_field_about(e, r, te_axis(across, dot(across, across), direction), direction, reflected);
}

/// The mirrored direction, unit.
SW_HD inline Vec3f reflect_direction(Vec3f direction, Vec3f normal, float cosine) {
  return to_unit(direction + (2.0f * cosine) * normal);
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
