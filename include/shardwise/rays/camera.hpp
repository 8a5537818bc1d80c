#pragma once
// A pinhole camera. Its frame: origin 0, looking along +z, y up, x to the right of a viewer for whom v runs
// down the picture. Samples (u, v) are in [0, 1]^2, (0, 0) is the upper left corner.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "shardwise/dispatch/row_answer.hpp"
#include "shardwise/numeric/vec3.hpp"
#include "shardwise/scene/scene.hpp"
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

struct Samples {
  std::span<const Vec2f> samples;  ///< [N] (u, v)
  std::span<const float> depths;   ///< [N] optional, sample_to_world only: metres along the camera's z
  std::vector<RowInput> columns() const { return {samples, depths}; }
};

struct SampleRayColumns {
  enum Input { sample };              ///< f32 x 2
  enum Output { origin, direction };  ///< f32 x 3
};
struct CameraRays : RowAnswer {
  CameraRays() = default;
  explicit CameraRays(RowResult result);
  Column<Vec3f> origin, direction;
};
/// The ray through each sample; its direction is unit before the pose is applied. Samples that are not finite
/// give zeros, and are counted in `rejected`.
Pending<CameraRays> sample_ray(Scene& scene, const Camera& camera, const RowSource& samples,
                               const RowCallOptions& options = {});

struct SampleToWorldColumns {
  enum Input { sample, depth };  ///< f32 x 2, f32
  enum Output { point };         ///< f32 x 3
};
struct SampleToWorldOptions : RowCallOptions {
  float depth = 1;  ///< of every sample where none are given
};
struct WorldPoints : RowAnswer {
  WorldPoints() = default;
  explicit WorldPoints(RowResult result);
  Column<Vec3f> point;
};
/// The point of each sample at a depth along the camera's z (not at a range).
Pending<WorldPoints> sample_to_world(Scene& scene, const Camera& camera, const RowSource& samples,
                                     const SampleToWorldOptions& options = {});

struct WorldToSampleColumns {
  enum Input { point };              ///< f32 x 3
  enum Output { sample, in_front };  ///< f32 x 2, bool
};
struct PictureSamples : RowAnswer {
  PictureSamples() = default;
  explicit PictureSamples(RowResult result);
  Column<Vec2f> sample;
  Column<std::uint8_t> in_front;  ///< of the camera; samples of points behind it mean nothing
};
struct WorldPointBatch {
  std::span<const Vec3f> points;  ///< [N] metres
  std::vector<RowInput> columns() const { return {points}; }
};
/// Where each point lies in the picture.
Pending<PictureSamples> world_to_sample(Scene& scene, const Camera& camera, const RowSource& points,
                                        const RowCallOptions& options = {});

}  // namespace shardwise
