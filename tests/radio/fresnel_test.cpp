#include "radio/fresnel_kernel.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <random>

#include "radio/field_kernel.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

float cosine_of_degrees(double degrees) {
  return static_cast<float>(std::cos(degrees * std::numbers::pi / 180));
}

void expect_value(Complexf got, double re, double im, double tolerance = 1e-5) {
  EXPECT_NEAR(got.re, re, tolerance);
  EXPECT_NEAR(got.im, im, tolerance);
}
void expect_value(Complexd got, double re, double im) {
  EXPECT_NEAR(got.re, re, 1e-6);
  EXPECT_NEAR(got.im, im, 1e-6);
}

SurfaceMaterial dielectric(double eta_r, double sigma, double frequency, double thickness = 0.1) {
  return make_surface_material(eta_r, sigma, 1, thickness, 1, frequency);
}

const double infinity = std::numeric_limits<double>::infinity();

TEST(Fresnel, KnownValues) {
  const auto glassy = dielectric(4, 0, 1e9);
  expect_value(reflect_half_space(glassy, 1).te, -1.0 / 3, 0);
  expect_value(reflect_half_space(glassy, 1).tm, 1.0 / 3, 0);
  const auto brewster = reflect_half_space(glassy, cosine_of_degrees(63.43494882292201));
  expect_value(brewster.tm, 0, 0);
  expect_value(brewster.te, -0.6, 0);
  const auto concrete =
      reflect_half_space(dielectric(5.24, 0.0462 * std::pow(3.5, 0.7822), 3.5e9), cosine_of_degrees(45));
  expect_value(concrete.te, -0.511723, 0.024482);
  expect_value(concrete.tm, 0.261262, -0.025056);
  const auto steep = reflect_half_space(dielectric(5.24, 0.62605, 28e9), cosine_of_degrees(80));
  expect_value(steep.te, -0.845411, 0.006697);
  expect_value(steep.tm, -0.388333, -0.012581);
  const auto ground = reflect_half_space(dielectric(15, 0.005, 2.4e9), 0.22414769f);
  EXPECT_NEAR(ground.te.re, -0.887151, 1e-5);
  expect_value(ground.tm, -0.054306, -0.000580);
}

TEST(Fresnel, Slab) {
  const auto glass = dielectric(6.31, 0.0036 * std::pow(10.0, 1.3394), 10e9, 0.01);
  const SlabCoefficients normal = slab_coefficients(glass, 1);
  expect_value(normal.reflection.te, -0.592880, 0.242917);
  expect_value(normal.transmission.te, 0.282994, 0.651547);
  const SlabCoefficients oblique = slab_coefficients(glass, 0.5f);
  expect_value(oblique.reflection.te, -0.883300, 0.083760);
  expect_value(oblique.transmission.te, 0.038426, 0.401898);
  expect_value(oblique.reflection.tm, 0.253580, -0.061767);
  expect_value(oblique.transmission.tm, 0.196986, 0.883295);
  expect_value(reflect_slab(glass, 0.5f).te, -0.883300, 0.083760);
  expect_value(reflect_slab(glass, 0.5f).tm, 0.253580, -0.061767);
}

TEST(Fresnel, ThickLossySlabIsAHalfSpaceAndNoSlabIsTransparent) {
  const auto thick = dielectric(5.24, 2.0, 3.5e9, 100);
  for (const float cosine : {1.0f, 0.5f, 0.01f}) {
    const auto slab = reflect_slab(thick, cosine), half = reflect_half_space(thick, cosine);
    expect_value(slab.te, half.te.re, half.te.im);
    expect_value(slab.tm, half.tm.re, half.tm.im);
    const auto none = reflect_slab(dielectric(5.24, 0.1, 3.5e9, 0), cosine);
    expect_value(none.te, 0, 0, 0);
    expect_value(none.tm, 0, 0, 0);
  }
}

TEST(Fresnel, AgreesWithComplexDoublesEverywhere) {
  std::mt19937_64 random(41);
  std::uniform_real_distribution<double> uniform(0, 1);
  double worst = 0;
  for (int k = 0; k < 100000; ++k) {
    const double eta_r = k % 5 == 0 ? 0.2 + uniform(random) : 1 + 30 * uniform(random) * uniform(random);
    const double sigma = k % 3 == 0 ? 0 : std::pow(10.0, -6 + 14 * uniform(random));
    const double mu_r = k % 7 == 0 ? 0.5 + 5 * uniform(random) : 1;
    const double frequency = std::pow(10.0, 8 + 3 * uniform(random));
    const float cosine = k % 4 == 0 ? static_cast<float>(std::pow(10.0, -6 * uniform(random)))
                                    : static_cast<float>(uniform(random));
    const auto material = make_surface_material(eta_r, sigma, mu_r, 0.1, 1, frequency);
    const auto got = reflect_half_space(material, cosine);
    const double c = std::max(1e-6, static_cast<double>(cosine));
    const std::complex<double> eta(eta_r, -sigma / (2 * std::numbers::pi * frequency * vacuum_permittivity));
    std::complex<double> rho = std::sqrt(mu_r * eta - 1.0 + c * c);
    if (rho.imag() > 0) rho = -rho;
    const auto te = (mu_r * c - rho) / (mu_r * c + rho), tm = (eta * c - rho) / (eta * c + rho);
    const double error = std::max(std::abs(std::complex<double>(got.te.re, got.te.im) - te),
                                  std::abs(std::complex<double>(got.tm.re, got.tm.im) - tm));
    ASSERT_LT(error, 1e-5) << eta_r << " " << sigma << " " << mu_r << " " << cosine;
    worst = std::max(worst, error);
    // Passive: no energy is made.
    ASSERT_LE(norm(got.te), 1 + 2e-6f);
    ASSERT_LE(norm(got.tm), 1 + 2e-6f);
  }
  printf("Fresnel: worst absolute error %.2e\n", worst);
}

TEST(Fresnel, VacuumReflectsNothing) {
  const auto vacuum = dielectric(1, 0, 1e9);
  for (const float cosine : {1.0f, 0.3f, 1e-3f, 1e-6f}) {
    expect_value(reflect_half_space(vacuum, cosine).te, 0, 0, 1e-6);
    expect_value(reflect_half_space(vacuum, cosine).tm, 0, 0, 1e-6);
  }
}

TEST(Fresnel, TotalReflectionTakesTheDecayingBranch) {
  // mu_r eta < sin^2: rho = -j |rho|.
  const auto thin = dielectric(0.25, 0, 1e9);
  const double c = 0.5, rho = std::sqrt(0.75 - 0.25);
  const std::complex<double> te = (c + std::complex<double>(0, rho)) / (c - std::complex<double>(0, rho));
  expect_value(reflect_half_space(thin, 0.5f).te, te.real(), te.imag());
}

TEST(Fresnel, SlabConservesEnergy) {
  std::mt19937_64 random(42);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int k = 0; k < 20000; ++k) {
    const bool lossless = k % 2 == 0;
    const auto material = dielectric(1 + 10 * uniform(random), lossless ? 0 : uniform(random),
                                     1e9 + 5e10 * uniform(random), 0.2 * uniform(random));
    const SlabCoefficients slab =
        slab_coefficients(material, static_cast<float>(0.001 + 0.999 * uniform(random)));
    for (const auto& [r, t] : {std::pair(slab.reflection.te, slab.transmission.te),
                               std::pair(slab.reflection.tm, slab.transmission.tm)}) {
      const double sum = norm(r) + norm(t);
      ASSERT_LE(sum, 1 + 1e-9);
      if (lossless) {
        ASSERT_NEAR(sum, 1, 1e-9);
      }
    }
  }
}

TEST(Fresnel, PerfectConductorIsExact) {
  for (const auto& material :
       {make_surface_material(1, infinity, 1, 0.1, 1, 1e9), make_surface_material(3, 1e30, 1, 0.1, 1, 1e9)}) {
    for (const float cosine : {1.0f, 0.4f, 1e-6f}) {
      for (const auto& r : {reflect_half_space(material, cosine), reflect_slab(material, cosine)}) {
        EXPECT_EQ(r.te, (Complexf{-1, 0}));
        EXPECT_EQ(r.tm, (Complexf{1, 0}));
      }
    }
  }
}

TEST(Fresnel, NormalIncidenceOnAConductorTurnsTheFieldAround) {
  const auto r = reflect_half_space(make_surface_material(1, infinity, 1, 0, 1, 1e9), 1);
  const Vec3f k = normalized(Vec3f{1, 2, -3});
  const Vec3f e = transverse_field({0, 0, 1}, k);
  const ComplexVec3 out = reflect_field({e, 0.5f * e}, r, -k, k, -k);
  for (int axis = 0; axis < 3; ++axis) {
    EXPECT_NEAR(out.re[axis], -e[axis], 1e-6f);
    EXPECT_NEAR(out.im[axis], -0.5f * e[axis], 1e-6f);
  }
}

TEST(Fresnel, ConductorKeepsTheFieldsSizeAndCancelsItsTangent) {
  std::mt19937_64 random(43);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const auto r = reflect_half_space(make_surface_material(1, infinity, 1, 0, 1, 1e9), 1);
  for (int trial = 0; trial < 5000; ++trial) {
    const Vec3f k = to_unit({uniform(random), uniform(random), uniform(random)});
    Vec3f n = to_unit({uniform(random), uniform(random), uniform(random)});
    if (dot(k, n) > 0) n = -n;
    const Vec3f e = transverse_field(to_unit({uniform(random), uniform(random), uniform(random)}), k);
    const Vec3f out = to_unit(k - 2 * dot(k, n) * n);
    const ComplexVec3 reflected = reflect_field({e, {0, 0, 0}}, r, n, k, out);
    ASSERT_NEAR(norm(reflected), 1.0f, 1e-5f);
    ASSERT_NEAR(dot(reflected.re, out), 0.0f, 1e-5f);
    const Vec3f total = e + reflected.re;  // tangential parts cancel
    ASSERT_LT(length(total - dot(total, n) * n), 2e-5f);
  }
}

TEST(Fresnel, GainScalesTheAmplitude) {
  const auto plain = reflect_half_space(make_surface_material(4, 0, 1, 0.1, 1, 1e9), 0.7f);
  const auto doubled = reflect_half_space(make_surface_material(4, 0, 1, 0.1, 2, 1e9), 0.7f);
  EXPECT_EQ(doubled.te.re, 2 * plain.te.re);
  EXPECT_EQ(doubled.tm.re, 2 * plain.tm.re);
}

TEST(Fresnel, BadNumbersAreRefusedByName) {
  const auto message = [](double eta, double sigma, double mu, double thickness, double gain,
                          double f) -> std::string {
    try {
      make_surface_material(eta, sigma, mu, thickness, gain, f);
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::usage);
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(0, 0, 1, 0, 1, 1e9).find("eta_r"), std::string::npos);
  EXPECT_NE(message(1, -1, 1, 0, 1, 1e9).find("sigma"), std::string::npos);
  EXPECT_NE(message(1, std::nan(""), 1, 0, 1, 1e9).find("sigma"), std::string::npos);
  EXPECT_NE(message(1, 0, 0, 0, 1, 1e9).find("mu_r"), std::string::npos);
  EXPECT_NE(message(1, 0, 1, -1, 1, 1e9).find("thickness"), std::string::npos);
  EXPECT_NE(message(1, 0, 1, 0, -1, 1e9).find("gain"), std::string::npos);
  EXPECT_NE(message(1, 0, 1, 0, 1, 0).find("frequency"), std::string::npos);
  EXPECT_EQ(message(1, 0, 1, 0, 1, 1e9), "");
}

}  // namespace
}  // namespace shardwise
