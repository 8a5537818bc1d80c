// A street canyon with oblique walls: 200 cells against the brute-force image method, both polarisations, one
// and two bounces, half-spaces and slabs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/image_method.hpp"
#include "reference/library.hpp"

namespace shardwise {
namespace {

using namespace test;

TestScene canyon() {
  TestScene scene;
  const int ground = scene.add_material({15, 0.035}), brick = scene.add_material({3.91, 0.029, 1, 0.12});
  const int concrete = scene.add_material({5.24, 0.123, 1, 0.2});
  scene.add_quad({-60, -40, 0}, {120, 0, 0}, {0, 80, 0}, ground);
  scene.add_box({-32, 9, -0.5}, {-3, 21, 17}, brick, 0.06);
  scene.add_box({2, 10, -0.5}, {31, 22, 24}, concrete, -0.11);
  scene.add_box({-30, -21, -0.5}, {2, -9, 20}, concrete, -0.04);
  scene.add_box({7, -23, -0.5}, {33, -10, 15}, brick, 0.17);
  return scene;
}

void check_canyon(Vec3d polarization, int bounces, bool slab_walls) {
  const TestScene scene = canyon();
  SimulateOptions options;
  const Vec3d tx{-17.3, 1.7, 7.9};
  options.transmitters = {{tx}};
  options.frequency_hz = 3.5e9;
  options.min0 = -20, options.max0 = 30, options.min1 = -4, options.max1 = 4;
  options.resolution0 = 50, options.resolution1 = 4;
  options.samples = 3'000'000;
  options.bounces = bounces;
  options.polarization = polarization;
  options.slab_walls = slab_walls;
  const SimulateResult result = simulate_on_library(scene, options);
  const ImageMethod reference(scene, options.frequency_hz, slab_walls);
  std::vector<double> errors;
  double total = 0, want_total = 0;
  for (int j = 0; j < 4; ++j)
    for (int i = 0; i < 50; ++i) {
      const double x = -20 + i, y = -4 + 2 * j;
      const double want =
          reference.cell_gain(tx, x, x + 1, y, y + 2, options.position, 8, 0, bounces, polarization);
      const double got = result.gain[static_cast<std::size_t>(j) * 50 + i];
      total += got;
      want_total += want;
      errors.push_back(std::fabs(10 * std::log10(got / want)));
    }
  std::sort(errors.begin(), errors.end());
  printf("canyon, %d bounces%s: total %+.3f %%, error median %.3f dB, 95 %% %.3f dB, worst %.3f dB\n",
         bounces, slab_walls ? ", slabs" : "", 100 * (total / want_total - 1), errors[100], errors[190],
         errors[199]);
  EXPECT_NEAR(total / want_total, 1, 3e-3);
  EXPECT_LT(errors[100], 0.05);
  EXPECT_LT(errors[190], 0.2);
  EXPECT_LT(errors[199], 0.6);  // cells cut by a reflection's edge: 64 points do not resolve it
}

TEST(StreetCanyon, VerticalOneBounce) {
  check_canyon({0, 0, 1}, 1, false);
}
TEST(StreetCanyon, VerticalTwoBounces) {
  check_canyon({0, 0, 1}, 2, false);
}
TEST(StreetCanyon, HorizontalOneBounce) {
  check_canyon({0, 1, 0}, 1, false);
}
TEST(StreetCanyon, HorizontalTwoBounces) {
  check_canyon({0, 1, 0}, 2, false);
}
TEST(StreetCanyon, SlabsTwoBounces) {
  check_canyon({0, 0, 1}, 2, true);
}

}  // namespace
}  // namespace shardwise
