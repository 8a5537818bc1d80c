#pragma once
// A radio material at one frequency, as the reflection kernels read it.

#include <cstdint>

namespace shardwise {

/// eta = eta_r - j sigma / (omega eps0) under exp(+j omega t). `contrast` is mu_r eta - 1: the root of the
/// Fresnel formulas is taken of contrast + cos^2, which keeps its accuracy where mu_r eta is close to 1.
struct SurfaceMaterial {
  static constexpr std::uint32_t valid = 1;      ///< clear: the face absorbs, a path ends there
  static constexpr std::uint32_t conductor = 2;  ///< an exact perfect conductor; the numbers are not read

  float contrast_re = 0, contrast_im = 0;
  float eta_re = 1, eta_im = 0;
  float mu_r = 1;
  float gain = 1;  ///< extra amplitude factor
  std::uint32_t flags = 0;
  std::uint32_t unused = 0;
  double thickness = 0;                               ///< wavelengths in vacuum; read by the slab form only
  double contrast_re_wide = 0, contrast_im_wide = 0;  ///< the slab form works in double precision
};
static_assert(sizeof(SurfaceMaterial) == 56);

constexpr double speed_of_light = 299792458.0;            // m/s
constexpr double vacuum_permittivity = 8.8541878128e-12;  // F/m, CODATA 2018

/// From relative permittivity, conductivity (S/m; infinity: a perfect conductor), relative permeability,
/// thickness (m), amplitude gain and frequency (Hz). Throws a usage error that names the value outside its
/// range.
SurfaceMaterial make_surface_material(double eta_r, double sigma, double mu_r, double thickness_m,
                                      double gain, double frequency_hz);

}  // namespace shardwise
