#pragma once
// The camera's row operations. They need no scene.

#include "dispatch/row_operation.hpp"
#include "rays/camera_kernel.hpp"
#include "shardwise/rays/camera.hpp"

namespace shardwise {

/// What kernels need of a camera; throws as validate_camera().
CameraConstants camera_constants(const Camera& camera, const char* op);

/// The ray through each sample.
struct SampleRayColumns {
  enum Input { sample };              ///< f32 x 2
  enum Output { origin, direction };  ///< f32 x 3
};
RowOperation sample_ray_operation(const Camera& camera);

/// The point of each sample at a depth along the camera's z.
struct SampleToWorldColumns {
  enum Input { sample, depth };  ///< f32 x 2, f32
  enum Output { point };         ///< f32 x 3
};
/// `depth_column`: each row has its own depth; else `depth`, which must be finite.
RowOperation sample_to_world_operation(const Camera& camera, float depth = 1, bool depth_column = false);

/// Where each point lies in the picture.
struct WorldToSampleColumns {
  enum Input { point };              ///< f32 x 3
  enum Output { sample, in_front };  ///< f32 x 2, bool
};
RowOperation world_to_sample_operation(const Camera& camera);

}  // namespace shardwise
