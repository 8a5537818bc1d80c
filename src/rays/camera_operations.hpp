#pragma once
// The camera's row operations. They need no scene.

#include "dispatch/row_operation.hpp"
#include "rays/camera_kernel.hpp"
#include "shardwise/rays/camera.hpp"

namespace shardwise {

/// What kernels need of a camera; throws as validate_camera().
CameraConstants camera_constants(const Camera& camera, const char* op);

RowOperation sample_ray_operation(const Camera& camera);

/// `depth_column`: each row has its own depth; else `depth`, which must be finite.
RowOperation sample_to_world_operation(const Camera& camera, float depth = 1, bool depth_column = false);

RowOperation world_to_sample_operation(const Camera& camera);

}  // namespace shardwise
