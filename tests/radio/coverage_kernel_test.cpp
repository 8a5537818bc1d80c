#include "radio/coverage_kernel.hpp"

#include <gtest/gtest.h>

#include "reference/simulate.hpp"

namespace shardwise {
namespace {
using namespace test;

SimulateOptions free_space_cell() {
  SimulateOptions options;
  options.transmitters = {{{0, 0, 2}}};
  options.position = 0;
  options.min0 = options.min1 = -0.5;
  options.max0 = options.max1 = 0.5;
  options.frequency_hz = speed_of_light;  // a wavelength of 1 m
  return options;
}

TEST(Coverage, FreeSpaceCell) {
  // The cell average of (lambda / 4 pi L)^2 over the cell, exact.
  SimulateOptions options = free_space_cell();
  options.samples = 1'000'000;
  const SimulateResult result = simulate(TestScene{}, options, true);
  EXPECT_NEAR(result.gain[0], 1.520781e-3, 1.520781e-6);
  const auto& f = result.field[0];
  const double size = std::sqrt(std::norm(f[0]) + std::norm(f[1]) + std::norm(f[2]));
  printf("free space: %.7e, |F| %.6f, crossings %ld\n", result.gain[0], size,
         static_cast<long>(result.crossings[0]));
}
}  // namespace
}  // namespace shardwise
