#pragma once
// A pinhole camera. Its frame: origin 0, looking along +z, y up, x to the right of a viewer for whom v runs
// down the picture. Samples (u, v) are in [0, 1]^2, (0, 0) is the upper left corner.

#include <cstdint>
#include <optional>

#include "shardwise/scene/transform.hpp"

namespace shardwise {

struct Camera {
  std::int32_t width = 1, height = 1;  ///< pixels, above 0; only their ratio enters
  double fov_x_deg = 60;               ///< the horizontal angle of view, degrees, above 0 and below 180
  /// Where given, rays and points leave in the world and points to project come from it. Directions are not
  /// normalised again, so a rigid transform keeps them unit.
  std::optional<Transform> camera_to_world = {};
};

/// Throws a usage error that names `op`, the field and the value: sizes and angle out of range, a transform
/// that is not affine and finite, or that cannot be inverted.
void validate_camera(const Camera& camera, const char* op);

}  // namespace shardwise
