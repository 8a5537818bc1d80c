#include "shardwise/rays/generators.hpp"

#include <fmt/format.h>

#include "dispatch/row_operation.hpp"
#include "rays/camera_operations.hpp"
#include "rays/generators_kernel.hpp"
#include "runtime/for_each.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

RowGenerator random_rays(std::int64_t rows, Vec3f lower, Vec3f upper, std::uint64_t seed) {
  if (rows < 0) throw_usage(fmt::format("random_rays: rows must not be negative (got {})", rows));
  const Vec3f size = upper - lower;
  if (!is_finite(lower) || !is_finite(size) || size.x < 0 || size.y < 0 || size.z < 0)
    throw_usage(
        fmt::format("random_rays: the box from ({}, {}, {}) to ({}, {}, {}) must be finite, lower <= upper",
                    lower.x, lower.y, lower.z, upper.x, upper.y, upper.z));
  RowGenerator generator;
  generator.name = "random rays";
  generator.rows = rows;
  generator.columns = {sizeof(Vec3f), sizeof(Vec3f)};
  generator.make = [=](LaunchContext& context, const RowLaunch& launch) {
    for_each(
        context, launch.count,
        RandomRayRows{lower, size, seed, launch.first_row, launch.output<Vec3f>(0), launch.output<Vec3f>(1)});
  };
  return generator;
}

RowGenerator camera_rays(const Camera& camera) {
  CameraRayRows body;
  body.camera = camera_constants(camera, "camera_rays");
  body.width = camera.width;
  body.height = camera.height;
  RowGenerator generator;
  generator.name = "camera rays";
  generator.rows = static_cast<std::int64_t>(camera.width) * camera.height;
  generator.columns = {sizeof(Vec3f), sizeof(Vec3f)};
  generator.make = [body](LaunchContext& context, const RowLaunch& launch) {
    CameraRayRows rows = body;
    rows.first_row = launch.first_row;
    rows.origin = launch.output<Vec3f>(0);
    rows.direction = launch.output<Vec3f>(1);
    for_each(context, launch.count, rows);
  };
  return generator;
}

}  // namespace shardwise
