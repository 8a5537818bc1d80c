#pragma once
// From a global lane to the ray it launches: generated directions, or rows that the caller gives.

#include <cmath>
#include <cstdint>

#include "shardwise/numeric/bits.hpp"
#include "shardwise/numeric/trigonometry.hpp"
#include "shardwise/numeric/vec3.hpp"

namespace shardwise {

/// A transmitter as the kernel reads it.
struct LaunchTransmitter {
  Vec3d position;
  float gain;               ///< linear
  float inverse_root_gain;  ///< 1 / sqrt(gain), 0 where the gain is 0
};

/// A rotation matrix, rows first.
struct LaunchRotation {
  double m[9];
};

/// The caller's own rays; lane l is row l - first_row of these arrays. A pointer with a stride of 0 serves
/// all rows.
struct LaunchRows {
  const Vec3f* origin = nullptr;
  const Vec3f* direction = nullptr;      ///< any length above 0
  const float* tmax = nullptr;           ///< of the first leg, metres; null: unbounded
  const std::uint8_t* active = nullptr;  ///< null: all
  const Vec3f* source = nullptr;         ///< where the wave comes from; null: the origin
  const Vec3f* polarization = nullptr;
  std::uint64_t source_stride = 0, polarization_stride = 0;  ///< 0 or 1
  std::uint64_t first_row = 0;
};

/// Where lanes come from. Generated lanes: lane = (pass x transmitter_count + transmitter) x rays_per_pass +
/// i.
struct LaunchView {
  bool from_rows = false;
  std::uint64_t rays_per_pass = 1;
  std::uint64_t transmitter_count = 1;
  bool grid_per_transmitter = false;  ///< grids of [pass x transmitter_count + transmitter], not of passes
  const LaunchTransmitter* transmitters = nullptr;
  const LaunchRotation* rotations = nullptr;  ///< [pass x transmitter_count + transmitter]
  Vec3f polarization{0, 0, 1};                ///< unit; of every transmitter
  LaunchRows rows;
};

struct LaunchedRay {
  Vec3f origin, direction;  ///< the direction is of unit length
  Vec3f field;              ///< unit, normal to the direction
  float tmax;
  float weight;             ///< the transmitter's gain
  float inverse_root_gain;  ///< amplitudes carry weight x this
  Vec3d source;
  std::uint32_t pass;  ///< of the sums that it adds to; with grid_per_transmitter: which of the grids
};

/// The golden ratio of a turn, in 2^-64 turns.
inline constexpr std::uint64_t golden_turn = 0x9E3779B97F4A7C15ull;

/// Direction i of n: the Fibonacci lattice z = 1 - (2i+1)/n, with an azimuth of i golden turns kept as an
/// integer fraction of a turn, so that it is exact for any i (R. Swinbank, R. J. Purser, "Fibonacci grids",
/// Q. J. R. Meteorol. Soc. 132, 2006).
SW_HD inline Vec3d fibonacci_direction(std::uint64_t i, std::uint64_t n) {
  const double from_pole = static_cast<double>(2 * i + 1) / static_cast<double>(n);
  const double radius = std::sqrt(from_pole * (2.0 - from_pole));
  const SinCos azimuth = sincos_turns(i * golden_turn);
  return {radius * azimuth.cos, radius * azimuth.sin, 1.0 - from_pole};
}

SW_HD inline Vec3d rotate(const LaunchRotation& r, Vec3d v) {
  return {r.m[0] * v.x + r.m[1] * v.y + r.m[2] * v.z, r.m[3] * v.x + r.m[4] * v.y + r.m[5] * v.z,
          r.m[6] * v.x + r.m[7] * v.y + r.m[8] * v.z};
}

/// A unit vector normal to the unit vector k: the axis z, or y where |k_z| >= 0.9, projected.
SW_HD inline Vec3f any_transverse(Vec3f k) {
  const float size = absolute(k.z);
  const Vec3f axis = size >= 0.9f ? Vec3f{0, 1, 0} : Vec3f{0, 0, 1};
  return normalized(axis - dot(axis, k) * k);
}

/// The unit polarisation p projected transverse to the unit vector k, and normalised.
SW_HD inline Vec3f transverse_field(Vec3f p, Vec3f k) {
  const Vec3f projected = p - dot(p, k) * k;
  const float squared = dot(projected, projected);
  if (!(squared > 1e-12f)) return any_transverse(k);
  return projected * (1.0f / std::sqrt(squared));
}

/// False: the row is inactive, masked, or its input means nothing (not finite, zero direction, tmax NaN or <=
/// 0).
SW_HD inline bool launch_row(const LaunchRows& rows, std::uint64_t lane, LaunchedRay& ray, bool& masked) {
  const std::uint64_t row = lane - rows.first_row;
  masked = rows.active != nullptr && rows.active[row] == 0;
  if (masked) return false;
  const Vec3f origin = rows.origin[row], direction = rows.direction[row];
  const Vec3f source = rows.source != nullptr ? rows.source[row * rows.source_stride] : origin;
  const Vec3f polarization = rows.polarization[row * rows.polarization_stride];
  ray.tmax = rows.tmax != nullptr ? rows.tmax[row] : infinity_f;
  if (!is_finite(origin) || !is_finite(direction) || !is_finite(source) || !is_finite(polarization))
    return false;
  if (!(ray.tmax > 0.0f)) return false;
  const Vec3d wide = to_double(direction);
  const double squared = dot(wide, wide);
  if (squared < static_cast<double>(smallest_normal_f)) return false;
  const double size = std::sqrt(squared);
  ray.origin = origin;
  ray.direction = to_float({wide.x / size, wide.y / size, wide.z / size});
  const Vec3d p = to_double(polarization);
  const double p_size = std::sqrt(dot(p, p));
  const Vec3f unit = p_size > 0 ? to_float({p.x / p_size, p.y / p_size, p.z / p_size}) : Vec3f{0, 0, 0};
  ray.field = transverse_field(unit, ray.direction);
  ray.weight = 1;
  ray.inverse_root_gain = 1;
  ray.source = to_double(source);
  ray.pass = 0;
  return true;
}

/// The ray of a generated lane; always active (transmitters are validated when the call is made).
SW_HD inline void launch_generated(const LaunchView& launch, std::uint64_t lane, LaunchedRay& ray) {
  const std::uint64_t group = lane / launch.rays_per_pass;  // pass x transmitters + transmitter
  const std::uint64_t i = lane - group * launch.rays_per_pass;
  const std::uint64_t pass = group / launch.transmitter_count;
  const LaunchTransmitter& transmitter = launch.transmitters[group - pass * launch.transmitter_count];
  ray.source = transmitter.position;
  ray.origin = to_float(transmitter.position);
  ray.direction = to_float(rotate(launch.rotations[group], fibonacci_direction(i, launch.rays_per_pass)));
  ray.field = transverse_field(launch.polarization, ray.direction);
  ray.tmax = infinity_f;
  ray.weight = transmitter.gain;
  ray.inverse_root_gain = transmitter.inverse_root_gain;
  ray.pass = static_cast<std::uint32_t>(launch.grid_per_transmitter ? group : pass);
}

}  // namespace shardwise
