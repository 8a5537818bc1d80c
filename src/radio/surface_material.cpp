#include "radio/surface_material.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

// Beyond this |eta| the difference from a perfect conductor is below 1e-14, and floats would overflow soon
// after.
constexpr double conductor_eta = 1e30;

void require(bool holds, const char* name, double value, const char* range) {
  if (!holds) throw_usage(fmt::format("surface material: {} must be {} (got {})", name, range, value));
}

}  // namespace

SurfaceMaterial make_surface_material(double eta_r, double sigma, double mu_r, double thickness_m,
                                      double gain, double frequency_hz) {
  require(std::isfinite(frequency_hz) && frequency_hz > 0, "frequency_hz", frequency_hz,
          "positive and finite");
  require(std::isfinite(eta_r) && eta_r > 0, "eta_r", eta_r, "positive and finite");
  require(sigma >= 0, "sigma", sigma, "zero or positive (infinity: a perfect conductor)");
  require(std::isfinite(mu_r) && mu_r > 0, "mu_r", mu_r, "positive and finite");
  require(std::isfinite(thickness_m) && thickness_m >= 0, "thickness", thickness_m,
          "zero or positive, in metres");
  require(std::isfinite(gain) && gain >= 0 && gain <= 1e15, "gain", gain, "between 0 and 1e15");

  SurfaceMaterial material;
  material.flags = SurfaceMaterial::valid;
  material.gain = static_cast<float>(gain);
  const double eta_im = -sigma / (2.0 * std::numbers::pi * frequency_hz * vacuum_permittivity);
  if (!(std::fabs(eta_im) < conductor_eta) || !(eta_r < conductor_eta) || !(mu_r < conductor_eta)) {
    require(eta_r < conductor_eta, "eta_r", eta_r, "below 1e18");
    require(mu_r < conductor_eta, "mu_r", mu_r, "below 1e18");
    material.flags |= SurfaceMaterial::conductor;
    return material;
  }
  material.eta_re = static_cast<float>(eta_r);
  material.eta_im = static_cast<float>(eta_im);
  material.mu_r = static_cast<float>(mu_r);
  material.contrast_re_wide = mu_r * eta_r - 1.0;
  material.contrast_im_wide = mu_r * eta_im;
  material.contrast_re = static_cast<float>(material.contrast_re_wide);
  material.contrast_im = static_cast<float>(material.contrast_im_wide);
  require(mu_r * std::hypot(eta_r, eta_im) < conductor_eta, "mu_r x eta", mu_r * std::hypot(eta_r, eta_im),
          "below 1e18");
  material.thickness = thickness_m * frequency_hz / speed_of_light;
  return material;
}

}  // namespace shardwise
