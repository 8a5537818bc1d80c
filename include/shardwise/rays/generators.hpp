#pragma once
// Rays that devices make themselves: sources for generated().

#include <cstdint>

#include "shardwise/dispatch/rows.hpp"
#include "shardwise/numeric/vec3.hpp"
#include "shardwise/rays/camera.hpp"

namespace shardwise {

/// Rays with origins uniform in a box and directions uniform over the sphere (unit): the stress test of a
/// tracer. Row i depends on the seed and i alone (Philox4x32-10). Usage errors: a negative count, a box that
/// is not finite or has lower > upper.
RowGenerator random_rays(std::int64_t rows, Vec3f lower, Vec3f upper, std::uint64_t seed = 0);

/// One ray through the middle of each pixel of the camera: row = y * width + x, y downwards.
RowGenerator camera_rays(const Camera& camera);

}  // namespace shardwise
