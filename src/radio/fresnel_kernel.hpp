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

/// sqrt_decaying() without scaling: |a| lies between 1e-15 and 1e18 (or is 0), because permittivities do.
template <class T>
SW_HD inline Complex<T> medium_root(Complex<T> a) {
  const T m = std::sqrt(norm(a));
  const T size = a.re < T(0) ? -a.re : a.re, loss = a.im < T(0) ? -a.im : a.im;
  const T large = std::sqrt(T(0.5) * (m + size));
  const T small = large > T(0) ? T(0.5) * loss / large : T(0);
  return a.re < T(0) ? Complex<T>{small, -large} : Complex<T>{large, -small};
}

/// Both quotients as (p - rho) conj(p + rho) / |p + rho|^2: one real division each, an absolute error of a
/// few ulp.
template <class T>
SW_HD inline PolarizedPair<T> half_space(Complex<T> contrast, Complex<T> eta, T mu_r, T cosine,
                                         Complex<T>* root) {
  const Complex<T> rho = medium_root(Complex<T>{contrast.re + cosine * cosine, contrast.im});
  const T rho2 = norm(rho);
  const T te = mu_r * cosine;
  const T te_inverse = T(1) / ((te + rho.re) * (te + rho.re) + rho.im * rho.im);
  const Complex<T> tm = cosine * eta;
  const T tm_inverse = T(1) / norm(tm + rho);
  *root = rho;
  return {{(te * te - rho2) * te_inverse, T(-2) * te * rho.im * te_inverse},
          {(norm(tm) - rho2) * tm_inverse, T(2) * (tm.im * rho.re - tm.re * rho.im) * tm_inverse}};
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
  Complexf root;
  const PolarizedPair<float> r = detail::half_space<float>(
      {m.contrast_re, m.contrast_im}, {m.eta_re, m.eta_im}, m.mu_r, detail::clamp_cosine(cosine), &root);
  const Complexf te = detail::finish(r.te, m.gain), tm = detail::finish(r.tm, m.gain);
  // Chosen at the end, so that a loop over many paths has no branch.
  const bool conductor = (m.flags & SurfaceMaterial::conductor) != 0;
  return {{conductor ? -m.gain : te.re, conductor ? 0.0f : te.im},
          {conductor ? m.gain : tm.re, conductor ? 0.0f : tm.im}};
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
