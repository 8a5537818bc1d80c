#include "radio/coverage_setup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "shardwise/numeric/philox.hpp"
#include "shardwise/numeric/random_streams.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

double largest_material_gain(std::span<const SurfaceMaterial> materials) {
  double gain = 1;
  for (const SurfaceMaterial& material : materials)
    if ((material.flags & SurfaceMaterial::valid) != 0)
      gain = std::max(gain, static_cast<double>(material.gain));
  return gain;
}

// Bounds enter exact_scale(), which wants a normal positive number.
double usable_bound(double bound) {
  return std::clamp(bound, 1e-30, 1e300);
}

}  // namespace

LaunchRotation launch_rotation(std::uint64_t seed, std::uint32_t pass, std::uint32_t transmitter,
                               int passes) {
  if (passes == 1) return {{1, 0, 0, 0, 1, 0, 0, 0, 1}};
  const std::uint64_t lane = static_cast<std::uint64_t>(pass) << 32 | transmitter;
  const std::uint32_t stream = random_stream(CoverageDraw::rotation);
  const PhiloxWords first = philox(seed, lane, stream, 0), second = philox(seed, lane, stream, 1);
  const double split = first.uniform_double(0);
  const SinCos a = sincos_turn(first.uniform_double(1)), b = sincos_turn(second.uniform_double(0));
  const double r1 = std::sqrt(1.0 - split), r2 = std::sqrt(split);
  const double x = r1 * a.sin, y = r1 * a.cos, z = r2 * b.sin, w = r2 * b.cos;  // a unit quaternion
  return {{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),   //
           2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),   //
           2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}};
}

std::vector<LaunchRotation> launch_rotations(std::uint64_t seed, int passes, std::size_t transmitters) {
  std::vector<LaunchRotation> rotations;
  rotations.reserve(static_cast<std::size_t>(passes) * transmitters);
  for (int pass = 0; pass < passes; ++pass)
    for (std::size_t tx = 0; tx < transmitters; ++tx)
      rotations.push_back(
          launch_rotation(seed, static_cast<std::uint32_t>(pass), static_cast<std::uint32_t>(tx), passes));
  return rotations;
}

LaunchTransmitter launch_transmitter(Vec3d position, double gain) {
  if (!is_finite(position) || !is_finite(to_float(position)))
    throw_usage(fmt::format("transmitter: position must be finite (got {}, {}, {})", position.x, position.y,
                            position.z));
  if (!(gain >= 0 && gain <= 1e30))
    throw_usage(fmt::format("transmitter: gain must be linear, between 0 and 1e30 (got {})", gain));
  return {position, static_cast<float>(gain), gain > 0 ? static_cast<float>(1.0 / std::sqrt(gain)) : 0.0f};
}

std::int64_t rays_per_pass(std::int64_t samples, int passes) {
  return samples / passes + (samples % passes != 0);
}

GridView make_grid_view(int axis, double position, double min0, double max0, double min1, double max1,
                        std::int64_t resolution0, std::int64_t resolution1) {
  if (axis < 0 || axis > 2) throw_usage(fmt::format("coverage grid: axis must be 0, 1 or 2 (got {})", axis));
  if (!std::isfinite(static_cast<float>(position)))
    throw_usage(fmt::format("coverage grid: position must be finite (got {})", position));
  const auto check_window = [](const char* name, double low, double high, std::int64_t resolution) {
    const auto low_f = static_cast<float>(low), high_f = static_cast<float>(high);
    if (!std::isfinite(low_f) || !std::isfinite(high_f) || !(low_f < high_f) ||
        !std::isfinite(high_f - low_f))
      throw_usage(fmt::format("coverage grid: {} must span a positive, finite length (got {} to {})", name,
                              low, high));
    if (resolution < 1 || resolution > 1 << 24)
      throw_usage(fmt::format("coverage grid: resolution of {} must be between 1 and 16777216 (got {})", name,
                              resolution));
  };
  check_window("window 0", min0, max0, resolution0);
  check_window("window 1", min1, max1, resolution1);
  GridView grid;
  grid.axis = axis;
  grid.position = static_cast<float>(position);
  grid.min0 = static_cast<float>(min0);
  grid.max0 = static_cast<float>(max0);
  grid.min1 = static_cast<float>(min1);
  grid.max1 = static_cast<float>(max1);
  grid.resolution0 = static_cast<std::uint32_t>(resolution0);
  grid.resolution1 = static_cast<std::uint32_t>(resolution1);
  return grid;
}

Vec3f make_polarization(Vec3d polarization) {
  const double size = std::hypot(polarization.x, polarization.y, polarization.z);
  if (!std::isfinite(size) || !(size > 0))
    throw_usage(fmt::format("polarization: must be finite and not zero (got {}, {}, {})", polarization.x,
                            polarization.y, polarization.z));
  return to_float({polarization.x / size, polarization.y / size, polarization.z / size});
}

double power_factor(double wavelength, std::int64_t rays, double cell_area) {
  const double spread = wavelength / (4 * std::numbers::pi);
  return spread * spread * (4 * std::numbers::pi / static_cast<double>(rays)) / cell_area;
}

double field_factor(double wavelength, std::int64_t rays, double cell_area, double diagonal) {
  return wavelength / (4 * std::numbers::pi) * (4 * std::numbers::pi / static_cast<double>(rays)) * diagonal /
         cell_area;
}

double power_bound(double largest_gain, std::span<const SurfaceMaterial> materials, int bounces,
                   double roulette) {
  const double gain = largest_material_gain(materials);
  return usable_bound(largest_gain * std::pow(gain * gain, bounces) * roulette);
}

double field_bound(double largest_gain, std::span<const SurfaceMaterial> materials, int bounces,
                   double roulette) {
  const double gain = largest_material_gain(materials);
  return usable_bound(std::sqrt(largest_gain) * std::pow(gain, bounces) * roulette * (bounces + 1));
}

}  // namespace shardwise
