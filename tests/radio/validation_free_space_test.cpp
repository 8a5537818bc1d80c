// Free space and a plane ground: maps against closed forms and against the independent image method.

#include <gtest/gtest.h>

#include <cmath>

#include "reference/image_method.hpp"
#include "reference/library.hpp"

namespace shardwise {
namespace {

using namespace test;

double decibel(double ratio) {
  return 10 * std::log10(ratio);
}

double power_of(const ComplexField& f) {
  return std::norm(f[0]) + std::norm(f[1]) + std::norm(f[2]);
}

SimulateOptions free_space_cell() {
  SimulateOptions options;
  options.transmitters = {{{0, 0, 2}}};
  options.position = 0;
  options.min0 = options.min1 = -0.5;
  options.max0 = options.max1 = 0.5;
  options.frequency_hz = speed_of_light;  // a wavelength of 1 m
  return options;
}

TEST(FreeSpace, CellAverageAtOneMillionRays) {
  SimulateOptions options = free_space_cell();
  options.samples = 1'000'000;
  const SimulateResult result = simulate_on_library(TestScene{}, options);
  printf("free-space cell, 1 M rays: %.6e, asked 1.520781e-3, %+.4f %%\n", result.gain[0],
         100 * (result.gain[0] / 1.520781e-3 - 1));
  EXPECT_NEAR(result.gain[0], 1.520781e-3, 1e-3 * 1.520781e-3);
}

TEST(FreeSpace, StaysPutFromTenThousandToTenMillionRays) {
  SimulateOptions options = free_space_cell();
  options.polarization = {1, 0, 0};
  const TestScene nothing;
  // The mean of the complex field over the cell, by midpoints.
  const ImageMethod reference(nothing, options.frequency_hz);
  ComplexField mean{};
  const int points = 64;
  for (int j = 0; j < points; ++j)
    for (int i = 0; i < points; ++i) {
      const Vec3d y{-0.5 + (i + 0.5) / points, -0.5 + (j + 0.5) / points, 0};
      const ComplexField f = reference.paths({0, 0, 2}, y, 0, options.polarization).at(0).transfer(1);
      for (int axis = 0; axis < 3; ++axis) mean[axis] += f[axis] / static_cast<double>(points * points);
    }
  const struct {
    std::int64_t samples;
    double power_tolerance, field_tolerance;
  } rows[] = {{10'000, 5e-3, 1e-2}, {100'000, 3e-3, 3e-3}, {1'000'000, 1e-3, 1e-3}, {10'000'000, 3e-4, 3e-4}};
  for (const auto& row : rows) {
    options.samples = row.samples;
    const SimulateResult result = simulate_on_library(nothing, options, true);
    const double size = std::sqrt(power_of(mean));
    double off = 0;
    for (int axis = 0; axis < 3; ++axis) off += std::norm(result.field[0][axis] - mean[axis]);
    printf("%9ld rays: gain %.6e, |F| %.6f (reference %.6f), |F - reference| %.1e\n",
           static_cast<long>(row.samples), result.gain[0], std::sqrt(power_of(result.field[0])), size,
           std::sqrt(off));
    EXPECT_NEAR(result.gain[0] / 1.520781e-3, 1, row.power_tolerance) << row.samples;
    EXPECT_LT(std::sqrt(off), row.field_tolerance * size) << row.samples;
  }
}

TestScene ground(MaterialNumbers numbers) {
  TestScene scene;
  const int material = scene.add_material(numbers);
  scene.add_quad({-300, -300, 0}, {600, 0, 0}, {0, 600, 0}, material);
  return scene;
}

TEST(TwoRay, ReferenceReproducesThePublishedNumbers) {
  // f = 2.4 GHz, heights 10 and 1.5 m, 50 m apart, eps_r 15, sigma 0.005.
  const ImageMethod reference(ground({15, 0.005}), 2.4e9);
  const auto los = reference.paths({0, 0, 10}, {50, 0, 1.5}, 0, {0, 1, 0});
  const auto reflected = reference.paths({0, 0, 10}, {50, 0, 1.5}, 1, {0, 1, 0});
  ASSERT_EQ(los.size(), 1u);
  ASSERT_EQ(reflected.size(), 1u);
  EXPECT_NEAR(los[0].length, 50.71735403, 1e-8);
  EXPECT_NEAR(reflected[0].length, 51.30545780, 1e-8);
  EXPECT_NEAR(std::abs(los[0].transfer(reference.wavelength())[1] - ComplexNumber(1.94492e-4, -2.42217e-5)),
              0, 2e-9);
  EXPECT_NEAR(
      std::abs(reflected[0].transfer(reference.wavelength())[1] - ComplexNumber(2.3863e-5, -1.70219e-4)), 0,
      2e-9);
  const auto vertical =
      reference.paths({0, 0, 10}, {50, 0, 1.5}, 1, {0, 0, 1}).at(0).transfer(reference.wavelength());
  EXPECT_NEAR(std::abs(vertical[0] - ComplexNumber(-3.5275e-7, 2.3320e-6)), 0, 1e-10);
  EXPECT_NEAR(std::abs(vertical[2] - ComplexNumber(1.53372e-6, -1.01391e-5)), 0, 1e-10);
}

TEST(TwoRay, PowerIsTheSumOfBothPaths) {
  const TestScene scene = ground({15, 0.005});
  SimulateOptions options;
  options.transmitters = {{{0, 0, 10}}};
  options.frequency_hz = 2.4e9;
  options.min0 = 5, options.max0 = 65, options.min1 = -1, options.max1 = 1;
  options.resolution0 = 30;
  options.samples = 4'000'000;
  options.bounces = 1;
  const ImageMethod reference(scene, options.frequency_hz);
  for (const Vec3d polarization : {Vec3d{0, 0, 1}, Vec3d{0, 1, 0}}) {
    options.polarization = polarization;
    const SimulateResult result = simulate_on_library(scene, options);
    double worst = 0;
    for (int k = 0; k < 30; ++k) {
      const double want =
          reference.cell_gain({0, 0, 10}, 5 + 2 * k, 7 + 2 * k, -1, 1, 1.5, 16, 0, 1, polarization);
      worst = std::max(worst, std::fabs(decibel(result.gain[k] / want)));
    }
    printf("two-ray power: worst %.3f dB\n", worst);
    EXPECT_LT(worst, 0.2);
  }
}

TEST(TwoRay, FieldGridIsTheCoherentSum) {
  // 100 MHz, cells of lambda / 20, heights 10 and 1.5 m, offsets 3 to 12 m.
  const TestScene scene = ground({15, 0.005});
  SimulateOptions options;
  options.transmitters = {{{0, 0, 10}}};
  options.frequency_hz = 100e6;
  const double cell = options.wavelength() / 20;
  const int cells = 60;
  options.min0 = 3, options.max0 = 3 + cells * cell, options.min1 = -cell / 2, options.max1 = cell / 2;
  options.resolution0 = cells;
  options.samples = 10'000'000;
  options.bounces = 1;
  const ImageMethod reference(scene, options.frequency_hz);
  for (const Vec3d polarization : {Vec3d{0, 0, 1}, Vec3d{0, 1, 0}}) {
    options.polarization = polarization;
    const SimulateResult result = simulate_on_library(scene, options, true);
    double worst = 0;
    int compared = 0;
    for (int k = 0; k < cells; ++k) {
      const Vec3d centre{3 + (k + 0.5) * cell, 0, 1.5};
      ComplexField sum{};
      double apart = 0;
      for (int order = 0; order <= 1; ++order)
        for (const ReferencePath& path : reference.paths({0, 0, 10}, centre, order, polarization)) {
          const ComplexField f = path.transfer(options.wavelength());
          for (int axis = 0; axis < 3; ++axis) sum[axis] += f[axis];
          apart += power_of(f);
        }
      if (power_of(sum) < 0.25 * apart) continue;  // a null
      ++compared;
      worst = std::max(worst, std::fabs(decibel(power_of(result.field[k]) / power_of(sum))));
    }
    printf("two-ray field: %d cells, worst %.3f dB\n", compared, worst);
    EXPECT_GE(compared, cells / 2);
    EXPECT_LT(worst, 0.2);
  }
}

}  // namespace
}  // namespace shardwise
