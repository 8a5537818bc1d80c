// A closed, perfectly conducting box against the sum over its image sources.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "reference/library.hpp"

namespace shardwise {
namespace {

using namespace test;

constexpr double size_x = 10, size_y = 8, size_z = 5;

/// Coordinate of the image number n of c between walls at 0 and `size`; it takes |n| reflections.
double image(double c, int n, double size) {
  return n % 2 == 0 ? c + n * size : (n + 1) * size - c;
}

TestScene conducting_box() {
  TestScene scene;
  const int material = scene.add_material({1, std::numeric_limits<double>::infinity()});
  scene.add_box({0, 0, 0}, {size_x, size_y, size_z}, material);
  return scene;
}

SimulateOptions box_options() {
  SimulateOptions options;
  options.transmitters = {{{3.3, 2.9, 3.6}}};
  options.position = 1.2;
  options.max0 = size_x;
  options.max1 = size_y;
  options.resolution0 = 20;
  options.resolution1 = 16;
  options.frequency_hz = 3.5e9;
  return options;
}

/// Sum over images with at most `bounces` reflections of (lambda / 4 pi L)^2, averaged over each cell.
std::vector<double> image_sum(const SimulateOptions& options, int bounces) {
  const Vec3d tx = options.transmitters[0].position;
  const double spread = options.wavelength() / (4 * std::numbers::pi), cell = 0.5;
  const int points = 12;
  std::vector<double> gain;
  for (int j = 0; j < 16; ++j)
    for (int i = 0; i < 20; ++i) {
      double sum = 0;
      for (int nx = -bounces; nx <= bounces; ++nx)
        for (int ny = -bounces; ny <= bounces; ++ny)
          for (int nz = -bounces; nz <= bounces; ++nz) {
            if (std::abs(nx) + std::abs(ny) + std::abs(nz) > bounces) continue;
            const double x = image(tx.x, nx, size_x), y = image(tx.y, ny, size_y),
                         z = image(tx.z, nz, size_z);
            for (int b = 0; b < points; ++b)
              for (int a = 0; a < points; ++a) {
                const double dx = (i + (a + 0.5) / points) * cell - x,
                             dy = (j + (b + 0.5) / points) * cell - y;
                const double dz = options.position - z;
                sum += spread * spread / (dx * dx + dy * dy + dz * dz);
              }
          }
      gain.push_back(sum / (points * points));
    }
  return gain;
}

void check_box(int bounces) {
  SimulateOptions options = box_options();
  options.samples = 16'000'000;
  options.bounces = bounces;
  const SimulateResult result = simulate_on_library(conducting_box(), options);
  const std::vector<double> want = image_sum(options, bounces);
  double total = 0, want_total = 0;
  int dense = 0, close = 0;
  for (std::size_t k = 0; k < want.size(); ++k) {
    total += result.gain[k];
    want_total += want[k];
    if (result.crossings[k] < 20000) continue;
    ++dense;
    if (std::fabs(result.gain[k] / want[k] - 1) <= 0.01) ++close;
  }
  printf("box, %d bounces: total %+.4f %%, %d of %d dense cells within 1 %%\n", bounces,
         100 * (total / want_total - 1), close, dense);
  EXPECT_NEAR(total / want_total, 1, 1e-3);
  EXPECT_GT(dense, 10);
  EXPECT_GE(close, 0.99 * dense);
}

TEST(ConductingBox, LineOfSight) {
  check_box(0);
}
TEST(ConductingBox, OneBounce) {
  check_box(1);
}
TEST(ConductingBox, ThreeBounces) {
  check_box(3);
}

TEST(ConductingBox, TotalIsStableInTheNumberOfRays) {
  SimulateOptions options = box_options();
  options.bounces = 2;
  const std::vector<double> want = image_sum(options, 2);
  double want_total = 0;
  for (const double gain : want) want_total += gain;
  const struct {
    std::int64_t samples;
    double tolerance;
  } rows[] = {{10'000, 2e-2}, {100'000, 6e-3}, {1'000'000, 2e-3}, {10'000'000, 1e-3}};
  for (const auto& row : rows) {
    options.samples = row.samples;
    const SimulateResult result = simulate_on_library(conducting_box(), options);
    double total = 0;
    for (const double gain : result.gain) total += gain;
    printf("box, %ld rays: total %+.4f %%\n", static_cast<long>(row.samples), 100 * (total / want_total - 1));
    EXPECT_NEAR(total / want_total, 1, row.tolerance) << row.samples;
  }
}

}  // namespace
}  // namespace shardwise
