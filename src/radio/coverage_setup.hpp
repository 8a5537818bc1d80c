#pragma once
// What a coverage call computes once on the host before its lanes run: tables, constants and bounds.

#include <cstdint>
#include <span>
#include <vector>

#include "radio/coverage_grid_kernel.hpp"
#include "radio/launch_kernel.hpp"
#include "radio/surface_material.hpp"

namespace shardwise {

/// The rotation of the launch pattern of (seed, pass, transmitter): uniform over all rotations (K. Shoemake,
/// "Uniform random rotations", Graphics Gems III, 1992), independent of how many transmitters there are. The
/// single pass of `passes` = 1 is not turned.
LaunchRotation launch_rotation(std::uint64_t seed, std::uint32_t pass, std::uint32_t transmitter, int passes);

/// [pass x transmitters + transmitter]
std::vector<LaunchRotation> launch_rotations(std::uint64_t seed, int passes, std::size_t transmitters);

LaunchTransmitter launch_transmitter(Vec3d position, double gain);

/// Rays of one pass of one transmitter: ceil(samples / passes).
std::int64_t rays_per_pass(std::int64_t samples, int passes);

/// Throws a usage error for an axis outside 0..2, a window that is empty or not finite, also when rounded to
/// float, and resolutions outside [1, 2^24] (a float must hold them).
GridView make_grid_view(int axis, double position, double min0, double max0, double min1, double max1,
                        std::int64_t resolution0, std::int64_t resolution1);

/// The unit polarisation; a usage error where it is zero or not finite.
Vec3f make_polarization(Vec3d polarization);

/// (lambda / 4 pi)^2 (4 pi / rays) / A: from a sum of u over `rays` launched rays to path gain.
double power_factor(double wavelength, std::int64_t rays, double cell_area);

/// (lambda / 4 pi) (4 pi / rays) D / A: from a sum of field samples to the cell's mean field.
double field_factor(double wavelength, std::int64_t rays, double cell_area, double diagonal);

/// W_max for exact_scale(): the largest gain times the material gains' squares over all bounces. A summand
/// may exceed it by 2^20 before it counts as an overflow (1 / cos alone reaches 10^6). `roulette` is the
/// product of 1/p.
double power_bound(double largest_gain, std::span<const SurfaceMaterial> materials, int bounces,
                   double roulette = 1);
/// The same for field samples (W sqrt(g) |E| L / D): a path of bounces + 1 legs may be that many diagonals
/// long.
double field_bound(double largest_gain, std::span<const SurfaceMaterial> materials, int bounces,
                   double roulette = 1);

}  // namespace shardwise
