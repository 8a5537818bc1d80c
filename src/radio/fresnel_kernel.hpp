#pragma once
// Reflection coefficients of a half-space and of a slab in vacuum, under exp(+j omega t).
//
// Half-space: C. A. Balanis, "Advanced Engineering Electromagnetics", ch. 5; ITU-R P.2040-3, section 2:
//     rho = sqrt(mu_r eta - sin^2), Re rho >= 0, Im rho <= 0
//     r_TE = (mu_r cos - rho) / (mu_r cos + rho),   r_TM = (eta cos - rho) / (eta cos + rho)
// TE: the field is normal to the plane of incidence; TM: in it, with the axes of the field recursion, where a
// perfect conductor has r_TE = -1 and r_TM = +1 (normal incidence turns E into -E).
//
// Slab of thickness d (ITU-R P.2040-3, single layer), with the half-space coefficient R' of its first face:
//     R = R' (1 - e) / (1 - R'^2 e),   T = (1 - R'^2) sqrt(e) / (1 - R'^2 e),   sqrt(e) = exp(-j 2 pi rho d /
//     lambda)

#include "radio/surface_material.hpp"
#include "shardwise/numeric/complex.hpp"
#include "shardwise/numeric/trigonometry.hpp"
#include "shardwise/numeric/vec3.hpp"

namespace shardwise {

template <class T>
struct PolarizedPair {
  Complex<T> te, tm;
};

constexpr float min_incidence_cosine = 1e-6f;

namespace detail {

template <class T>
SW_HD inline bool is_finite(Complex<T> a) {
  return shardwise::is_finite(a.re) && shardwise::is_finite(a.im);
}

template <class T>
SW_HD inline PolarizedPair<T> half_space(Complex<T> contrast, Complex<T> eta, T mu_r, T cosine,
                                         Complex<T>* root) {
  const Complex<T> rho = sqrt_decaying(Complex<T>{contrast.re + cosine * cosine, contrast.im});
  const T te = mu_r * cosine;
  const Complex<T> tm = eta * cosine;
  *root = rho;
  return {Complex<T>{te - rho.re, -rho.im} / Complex<T>{te + rho.re, rho.im}, (tm - rho) / (tm + rho)};
}

SW_HD inline float clamp_cosine(float cosine) {
  return cosine < min_incidence_cosine ? min_incidence_cosine : cosine > 1.0f ? 1.0f : cosine;
}

/// Gain applied; anything not finite becomes 0.
template <class T>
SW_HD inline Complex<float> finish(Complex<T> r, float gain) {
  const Complex<float> result{static_cast<float>(r.re) * gain, static_cast<float>(r.im) * gain};
  return is_finite(result) ? result : Complex<float>{0, 0};
}

}  // namespace detail

/// Coefficients of a half-space at |cos(theta)| = `cosine` (held to [1e-6, 1]), gain included.
SW_HD inline PolarizedPair<float> reflect_half_space(const SurfaceMaterial& m, float cosine) {
  if ((m.flags & SurfaceMaterial::conductor) != 0) return {{-m.gain, 0}, {m.gain, 0}};
  Complexf root;
  const PolarizedPair<float> r = detail::half_space<float>(
      {m.contrast_re, m.contrast_im}, {m.eta_re, m.eta_im}, m.mu_r, detail::clamp_cosine(cosine), &root);
  return {detail::finish(r.te, m.gain), detail::finish(r.tm, m.gain)};
}

/// Reflection and transmission of a slab without the gain.
struct SlabCoefficients {
  PolarizedPair<double> reflection, transmission;
};

/// exp(-j 2 pi rho d / lambda) for rho with Im <= 0, d in wavelengths.
SW_HD inline Complexd slab_phase(Complexd rho, double thickness) {
  const double decay = exponential(6.283185307179586 * thickness * rho.im);
  const SinCos a = sincos_turn(thickness * rho.re);
  return {decay * a.cos, -decay * a.sin};
}

SW_HD inline SlabCoefficients slab_coefficients(const SurfaceMaterial& m, float cosine) {
  Complexd rho;
  const double mu_r = m.mu_r;
  const Complexd contrast{m.contrast_re_wide, m.contrast_im_wide};
  const Complexd eta{(contrast.re + 1.0) / mu_r, contrast.im / mu_r};
  const PolarizedPair<double> face = detail::half_space<double>(
      contrast, eta, mu_r, static_cast<double>(detail::clamp_cosine(cosine)), &rho);
  const Complexd once = slab_phase(rho, m.thickness), twice = once * once;
  const Complexd one{1, 0};
  const Complexd te2 = face.te * face.te, tm2 = face.tm * face.tm;
  const Complexd te_divisor = one - te2 * twice, tm_divisor = one - tm2 * twice;
  return {{face.te * (one - twice) / te_divisor, face.tm * (one - twice) / tm_divisor},
          {(one - te2) * once / te_divisor, (one - tm2) * once / tm_divisor}};
}

/// Reflection of a slab of the material's thickness, gain included; a slab of zero thickness is not there.
SW_HD inline PolarizedPair<float> reflect_slab(const SurfaceMaterial& m, float cosine) {
  if ((m.flags & SurfaceMaterial::conductor) != 0) return {{-m.gain, 0}, {m.gain, 0}};
  if (!(m.thickness > 0)) return {{0, 0}, {0, 0}};
  const PolarizedPair<double> r = slab_coefficients(m, cosine).reflection;
  return {detail::finish(r.te, m.gain), detail::finish(r.tm, m.gain)};
}

}  // namespace shardwise
