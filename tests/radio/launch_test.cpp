#include "radio/launch_kernel.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "radio/coverage_setup.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

TEST(Launch, DirectionsAreUnitAndEven) {
  const std::uint64_t n = 20000;
  double sum[9] = {};
  for (std::uint64_t i = 0; i < n; ++i) {
    const Vec3d d = fibonacci_direction(i, n);
    ASSERT_NEAR(dot(d, d), 1.0, 1e-15);
    for (int a = 0; a < 3; ++a)
      for (int b = 0; b < 3; ++b) sum[3 * a + b] += d[a] * d[b] / static_cast<double>(n);
  }
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b) EXPECT_NEAR(sum[3 * a + b], a == b ? 1.0 / 3 : 0, 1e-4);
}

TEST(Launch, AzimuthStaysExactForLargeLanes) {
  const std::uint64_t n = 1ull << 40;
  for (const std::uint64_t i : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{123456789}, n - 1}) {
    const Vec3d d = fibonacci_direction(i, n);
    const auto fraction =
        static_cast<std::uint64_t>(static_cast<unsigned __int128>(i) * 0x9E3779B97F4A7C15ull);
    const long double angle =
        6.283185307179586476925286766559005768L * static_cast<long double>(fraction) * 0x1p-64L;
    const double radius = std::hypot(d.x, d.y);
    EXPECT_NEAR(d.x, radius * static_cast<double>(cosl(angle)), 1e-15);
    EXPECT_NEAR(d.y, radius * static_cast<double>(sinl(angle)), 1e-15);
  }
}

TEST(Launch, RotationsAreRotations) {
  double trace = 0;
  const int count = 2000;
  for (int pass = 0; pass < count; ++pass) {
    const LaunchRotation r = launch_rotation(7, static_cast<std::uint32_t>(pass), 3, count);
    for (int a = 0; a < 3; ++a)
      for (int b = 0; b < 3; ++b) {
        double product = 0;
        for (int k = 0; k < 3; ++k) product += r.m[3 * a + k] * r.m[3 * b + k];
        ASSERT_NEAR(product, a == b ? 1 : 0, 1e-14);
      }
    const Vec3d x = rotate(r, {1, 0, 0}), y = rotate(r, {0, 1, 0}), z = rotate(r, {0, 0, 1});
    ASSERT_NEAR(dot(cross(x, y), z), 1, 1e-14);
    trace += r.m[0] + r.m[4] + r.m[8];
  }
  EXPECT_NEAR(trace / count, 0, 0.1);  // the mean trace of a uniform rotation is 0
  const LaunchRotation still = launch_rotation(7, 0, 3, 1);
  EXPECT_EQ(still.m[0], 1);
  EXPECT_EQ(still.m[1], 0);
  const LaunchRotation turned = launch_rotation(7, 0, 3, 2), other = launch_rotation(7, 0, 4, 2);
  EXPECT_NE(turned.m[0], 1);
  EXPECT_NE(turned.m[0], other.m[0]);
}

TEST(Launch, LaneIsPassTransmitterIndex) {
  const std::vector<LaunchTransmitter> transmitters{launch_transmitter({1, 2, 3}, 1),
                                                    launch_transmitter({4, 5, 6}, 4)};
  const auto rotations = launch_rotations(5, 3, 2);
  LaunchView view;
  view.rays_per_pass = 10;
  view.transmitter_count = 2;
  view.transmitters = transmitters.data();
  view.rotations = rotations.data();
  LaunchedRay ray;
  launch_generated(view, (2 * 2 + 1) * 10 + 7, ray);
  EXPECT_EQ(ray.pass, 2u);
  EXPECT_EQ(ray.origin, (Vec3f{4, 5, 6}));
  EXPECT_EQ(ray.weight, 4.0f);
  EXPECT_EQ(ray.inverse_root_gain, 0.5f);
  EXPECT_EQ(ray.direction, to_float(rotate(launch_rotation(5, 2, 1, 3), fibonacci_direction(7, 10))));
  EXPECT_NEAR(dot(ray.field, ray.direction), 0, 1e-6);
  EXPECT_NEAR(length(ray.field), 1, 1e-6);
}

TEST(Launch, PolarizationAlongTheRayFallsBackToAnAxis) {
  for (const Vec3f k : {Vec3f{0, 0, 1}, Vec3f{0, 0, -1}, Vec3f{1, 0, 0}}) {
    const Vec3f field = transverse_field(k, k);
    EXPECT_NEAR(length(field), 1, 1e-6);
    EXPECT_NEAR(dot(field, k), 0, 1e-6);
  }
  EXPECT_EQ(transverse_field({0, 0, 1}, {0, 0, 1}), (Vec3f{0, 1, 0}));
}

class LaunchRowsTest : public ::testing::Test {
 protected:
  bool launch(Vec3f origin, Vec3f direction, float tmax, Vec3f polarization = {0, 0, 1}) {
    LaunchRows rows;
    rows.origin = &origin;
    rows.direction = &direction;
    rows.tmax = &tmax;
    rows.polarization = &polarization;
    rows.first_row = 100;
    bool masked = true;
    const bool active = launch_row(rows, 100, ray_, masked);
    EXPECT_FALSE(masked);
    return active;
  }
  LaunchedRay ray_{};
  const float nan_ = std::numeric_limits<float>::quiet_NaN(),
              infinity_ = std::numeric_limits<float>::infinity();
};

TEST_F(LaunchRowsTest, AnyLengthOfDirection) {
  for (const float size : {1e-15f, 1.0f, 1e30f}) {
    ASSERT_TRUE(launch({1, 2, 3}, {3 * size, 0, -4 * size}, infinity_));
    EXPECT_NEAR(ray_.direction.x, 0.6f, 1e-6f);
    EXPECT_NEAR(ray_.direction.z, -0.8f, 1e-6f);
    EXPECT_EQ(ray_.source.y, 2.0);
  }
}

TEST_F(LaunchRowsTest, InputThatMeansNothingIsInactive) {
  EXPECT_FALSE(launch({nan_, 0, 0}, {1, 0, 0}, 1));
  EXPECT_FALSE(launch({0, 0, 0}, {1, infinity_, 0}, 1));
  EXPECT_FALSE(launch({0, 0, 0}, {0, 0, 0}, 1));
  EXPECT_FALSE(launch({0, 0, 0}, {1e-25f, 0, 0}, 1));  // a squared norm that is subnormal
  EXPECT_FALSE(launch({0, 0, 0}, {1, 0, 0}, 0));
  EXPECT_FALSE(launch({0, 0, 0}, {1, 0, 0}, -1));
  EXPECT_FALSE(launch({0, 0, 0}, {1, 0, 0}, nan_));
  EXPECT_FALSE(launch({0, 0, 0}, {1, 0, 0}, 1, {nan_, 0, 0}));
  EXPECT_TRUE(launch({0, 0, 0}, {1, 0, 0}, 1, {0, 0, 0}));  // no polarisation: the fallback axis
}

TEST(LaunchRowsArrays, MaskStridesAndSource) {
  const std::vector<Vec3f> origin{{0, 0, 0}, {1, 0, 0}}, direction{{1, 0, 0}, {0, 1, 0}};
  const Vec3f source{9, 9, 9}, polarization{0, 0, 2};
  const std::vector<std::uint8_t> active{0, 1};
  LaunchRows rows;
  rows.origin = origin.data();
  rows.direction = direction.data();
  rows.source = &source;
  rows.polarization = &polarization;
  rows.active = active.data();
  LaunchedRay ray{};
  bool masked = false;
  EXPECT_FALSE(launch_row(rows, 0, ray, masked));
  EXPECT_TRUE(masked);
  EXPECT_TRUE(launch_row(rows, 1, ray, masked));
  EXPECT_EQ(ray.source, (Vec3d{9, 9, 9}));
  EXPECT_EQ(ray.field, (Vec3f{0, 0, 1}));
  EXPECT_EQ(ray.tmax, std::numeric_limits<float>::infinity());
}

TEST(CoverageSetup, BadInputIsRefusedByName) {
  const auto message = [](auto call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::usage);
      return error.what();
    }
    return "";
  };
  const double nan = std::nan("");
  EXPECT_NE(message([] { make_grid_view(3, 0, 0, 1, 0, 1, 1, 1); }).find("0, 1 or 2 (got 3)"),
            std::string::npos);
  EXPECT_NE(message([] { make_grid_view(2, 0, 1, 1, 0, 1, 1, 1); }).find("window 0"), std::string::npos);
  EXPECT_NE(message([] { make_grid_view(2, 0, 0, 1, 2, 1, 1, 1); }).find("window 1"), std::string::npos);
  EXPECT_NE(message([] { make_grid_view(2, 0, 0, 1, 0, 1, 0, 1); }).find("resolution"), std::string::npos);
  EXPECT_NE(message([&] { make_grid_view(2, nan, 0, 1, 0, 1, 1, 1); }).find("position"), std::string::npos);
  EXPECT_NE(message([&] { launch_transmitter({0, nan, 0}, 1); }).find("position"), std::string::npos);
  EXPECT_NE(message([&] { launch_transmitter({0, 0, 0}, -1); }).find("gain"), std::string::npos);
  EXPECT_NE(message([] { make_polarization({0, 0, 0}); }).find("polarization"), std::string::npos);
}

TEST(CoverageSetup, BoundsAndFactors) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<SurfaceMaterial> materials{make_surface_material(4, 0, 1, 0.1, 0.5, 1e9),
                                               make_surface_material(1, infinity, 1, 0.1, 3, 1e9)};
  EXPECT_EQ(power_bound(16, {}, 5), 16);
  EXPECT_EQ(power_bound(16, std::span(materials).first(1), 5), 16);  // a gain below 1 bounds nothing
  EXPECT_EQ(power_bound(16, materials, 2), 16 * 81);
  EXPECT_EQ(power_bound(16, materials, 2, 10), 16 * 81 * 10);
  EXPECT_EQ(field_bound(16, materials, 2), 4 * 9 * 3);
  EXPECT_GT(power_bound(0, materials, 2), 0);  // exact_scale() needs a positive bound
  // All rays of a sphere of radius R: power_factor turns u = 1 into the mean of (lambda / 4 pi R)^2.
  const double lambda = 0.3, radius = 7, area = 4 * std::numbers::pi * radius * radius;
  EXPECT_NEAR(power_factor(lambda, 1000, area) * 1000, std::pow(lambda / (4 * std::numbers::pi * radius), 2),
              1e-18);
  EXPECT_NEAR(field_factor(lambda, 1000, area, 20) * 1000 * radius / 20,
              lambda / (4 * std::numbers::pi * radius), 1e-15);
}

TEST(CoverageSetup, RaysPerPassRoundsUp) {
  EXPECT_EQ(rays_per_pass(10, 3), 4);
  EXPECT_EQ(rays_per_pass(9, 3), 3);
  EXPECT_EQ(rays_per_pass(1, 8), 1);
}

}  // namespace
}  // namespace shardwise
