#include "rays/camera_operations.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "rays/row_columns.hpp"
#include "runtime/for_each.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

/// The linear part by rows, and its determinant.
struct Linear {
  Vec3d rows[3];
  double determinant;
  explicit Linear(const Transform& m)
      : rows{{m(0, 0), m(0, 1), m(0, 2)}, {m(1, 0), m(1, 1), m(1, 2)}, {m(2, 0), m(2, 1), m(2, 2)}},
        determinant(dot(rows[0], cross(rows[1], rows[2]))) {}
  /// Relative, so that the unit of length does not matter.
  bool is_singular() const {
    return !(std::abs(determinant) > 1e-12 * length(rows[0]) * length(rows[1]) * length(rows[2]));
  }
};

CameraPose pose_of(const Transform& m) {
  return {{m(0, 0), m(0, 1), m(0, 2), m(1, 0), m(1, 1), m(1, 2), m(2, 0), m(2, 1), m(2, 2)},
          {m(0, 3), m(1, 3), m(2, 3)}};
}

/// The inverse by cofactors: column i of the inverse is the cross product of the other two rows over the
/// determinant.
CameraPose inverse_of(const Transform& m) {
  const Linear linear(m);
  const double scale = 1 / linear.determinant;
  const Vec3d c0 = scale * cross(linear.rows[1], linear.rows[2]);
  const Vec3d c1 = scale * cross(linear.rows[2], linear.rows[0]);
  const Vec3d c2 = scale * cross(linear.rows[0], linear.rows[1]);
  CameraPose pose{{c0.x, c1.x, c2.x, c0.y, c1.y, c2.y, c0.z, c1.z, c2.z}, {}};
  pose.offset = -pose.turn({m(0, 3), m(1, 3), m(2, 3)});
  return pose;
}

RowOperation without_scene(const char* name) {
  RowOperation operation;
  operation.name = operation.family = name;
  operation.reads = [](int) { return Access{}; };
  return operation;
}

}  // namespace

void validate_camera(const Camera& camera, const char* op) {
  if (camera.width <= 0)
    throw_usage(fmt::format("{}: camera width must be above 0 (got {})", op, camera.width));
  if (camera.height <= 0)
    throw_usage(fmt::format("{}: camera height must be above 0 (got {})", op, camera.height));
  if (!(camera.fov_x_deg > 0 && camera.fov_x_deg < 180))
    throw_usage(fmt::format("{}: camera fov_x_deg must be above 0 and below 180 degrees (got {})", op,
                            camera.fov_x_deg));
  if (!camera.camera_to_world) return;
  const auto& m = camera.camera_to_world->m;
  for (std::size_t i = 0; i < m.size(); ++i)
    if (!is_finite(m[i]))
      throw_usage(fmt::format("{}: camera_to_world (4, 4) must be finite (got {} in row {}, column {})", op,
                              m[i], i / 4, i % 4));
  if (m[12] != 0 || m[13] != 0 || m[14] != 0 || m[15] != 1)
    throw_usage(
        fmt::format("{}: camera_to_world (4, 4) must have the last row (0, 0, 0, 1) (got ({}, {}, {}, {})); "
                    "a translation "
                    "stands in the last column",
                    op, m[12], m[13], m[14], m[15]));
  const Linear linear(*camera.camera_to_world);
  if (linear.is_singular())
    throw_usage(fmt::format("{}: camera_to_world must have an inverse (its determinant is {})", op,
                            linear.determinant));
}

CameraConstants camera_constants(const Camera& camera, const char* op) {
  validate_camera(camera, op);
  CameraConstants result;
  result.tan_x = std::tan(camera.fov_x_deg * (std::numbers::pi / 360));
  result.tan_y = result.tan_x * camera.height / camera.width;
  result.posed = camera.camera_to_world.has_value();
  if (result.posed) {
    result.to_world = pose_of(*camera.camera_to_world);
    result.to_camera = inverse_of(*camera.camera_to_world);
  }
  return result;
}

RowOperation sample_ray_operation(const Camera& camera) {
  using Columns = SampleRayColumns;
  RowOperation operation = without_scene("sample_ray");
  operation.inputs = {row_column<Vec2f>("sample")};
  operation.outputs = {row_column<Vec3f>("origin"), row_column<Vec3f>("direction")};
  operation.launch = [constants = camera_constants(camera, "sample_ray")](LaunchContext& context,
                                                                          const RowLaunch& launch) {
    for_each(
        context, launch.count,
        SampleRayRows{constants, launch.input<Vec2f>(Columns::sample), launch.output<Vec3f>(Columns::origin),
                      launch.output<Vec3f>(Columns::direction), launch.counters});
  };
  return operation;
}

RowOperation sample_to_world_operation(const Camera& camera, float depth, bool depth_column) {
  using Columns = SampleToWorldColumns;
  if (!depth_column && !is_finite(depth))
    throw_usage(fmt::format("sample_to_world: depth must be finite (got {})", depth));
  RowOperation operation = without_scene("sample_to_world");
  operation.inputs = {row_column<Vec2f>("sample"), row_column<float>("depth", depth_column)};
  operation.outputs = {row_column<Vec3f>("point")};
  operation.launch = [constants = camera_constants(camera, "sample_to_world"), depth](
                         LaunchContext& context, const RowLaunch& launch) {
    for_each(context, launch.count,
             SampleToWorldRows{constants, depth, launch.input<Vec2f>(Columns::sample),
                               launch.input<float>(Columns::depth), launch.output<Vec3f>(Columns::point),
                               launch.counters});
  };
  return operation;
}

RowOperation world_to_sample_operation(const Camera& camera) {
  using Columns = WorldToSampleColumns;
  RowOperation operation = without_scene("world_to_sample");
  operation.inputs = {row_column<Vec3f>("point")};
  operation.outputs = {row_column<Vec2f>("sample"), row_column<std::uint8_t>("in_front")};
  operation.launch = [constants = camera_constants(camera, "world_to_sample")](LaunchContext& context,
                                                                               const RowLaunch& launch) {
    for_each(context, launch.count,
             WorldToSampleRows{constants, launch.input<Vec3f>(Columns::point),
                               launch.output<Vec2f>(Columns::sample),
                               launch.output<std::uint8_t>(Columns::in_front), launch.counters});
  };
  return operation;
}

}  // namespace shardwise
