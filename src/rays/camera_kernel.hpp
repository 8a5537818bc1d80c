#pragma once
// Rows of the camera's three operations. Computed in double, rounded once.

#include "rays/row_kernel.hpp"
#include "shardwise/scene/mesh.hpp"
#include "shardwise/scene/transform.hpp"

namespace shardwise {

/// An affine map as kernels read it: linear part by rows, and what is added.
struct CameraPose {
  double m[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  Vec3d offset{};
  SW_HD Vec3d turn(const Vec3d& v) const {
    return {m[0] * v.x + m[1] * v.y + m[2] * v.z, m[3] * v.x + m[4] * v.y + m[5] * v.z,
            m[6] * v.x + m[7] * v.y + m[8] * v.z};
  }
  SW_HD Vec3d apply(const Vec3d& p) const { return turn(p) + offset; }
};

/// A camera's constants, made on the host (camera_constants()).
struct CameraConstants {
  double tan_x = 1, tan_y = 1;  ///< of half the angles of view
  bool posed = false;           ///< whether the poses are other than the identity
  CameraPose to_world, to_camera;
};

namespace detail {
/// The point of a sample on the plane at z = 1 of the camera.
SW_HD inline Vec3d at_unit_depth(const CameraConstants& camera, const Vec2f& sample) {
  return {(2.0 * sample.x - 1.0) * camera.tan_x, (1.0 - 2.0 * sample.y) * camera.tan_y, 1.0};
}
SW_HD inline bool is_finite_sample(const Vec2f& sample) {
  return is_finite(sample.x) && is_finite(sample.y);
}
}  // namespace detail

/// sample_ray: the ray through a sample; its direction is unit before the pose is applied.
struct SampleRayRows {
  CameraConstants camera;
  const Vec2f* sample = nullptr;
  Vec3f* origin = nullptr;
  Vec3f* direction = nullptr;
  RowCounters* counters = nullptr;

  SW_HD void operator()(std::int64_t row) const {
    Vec3d o{}, d{};
    if (detail::is_finite_sample(sample[row])) {
      d = normalized(detail::at_unit_depth(camera, sample[row]));
      if (camera.posed) {
        o = camera.to_world.offset;
        d = camera.to_world.turn(d);
      }
    } else {
      count_rejected(counters);
    }
    store(origin, row, to_float(o));
    store(direction, row, to_float(d));
  }
};

/// sample_to_world: the point of a sample at a depth along z (not at a range).
struct SampleToWorldRows {
  CameraConstants camera;
  float uniform_depth = 1;
  const Vec2f* sample = nullptr;
  const float* depth = nullptr;  ///< null: uniform_depth
  Vec3f* point = nullptr;
  RowCounters* counters = nullptr;

  SW_HD void operator()(std::int64_t row) const {
    const float z = depth ? depth[row] : uniform_depth;
    Vec3d p{};
    if (detail::is_finite_sample(sample[row]) && is_finite(z)) {
      p = static_cast<double>(z) * detail::at_unit_depth(camera, sample[row]);
      if (camera.posed) p = camera.to_world.apply(p);
    } else {
      count_rejected(counters);
    }
    store(point, row, to_float(p));
  }
};

/// world_to_sample: where a point lies in the picture. Points that are not in front of the camera have
/// samples without meaning.
struct WorldToSampleRows {
  CameraConstants camera;
  const Vec3f* point = nullptr;
  Vec2f* sample = nullptr;
  std::uint8_t* in_front = nullptr;
  RowCounters* counters = nullptr;
  static constexpr double least_depth = 1e-12;

  SW_HD void operator()(std::int64_t row) const {
    Vec2f s{};
    bool front = false;
    if (is_finite(point[row])) {
      Vec3d p = to_double(point[row]);
      if (camera.posed) p = camera.to_camera.apply(p);
      front = p.z > least_depth;
      const double z = front ? p.z : least_depth;
      s = {static_cast<float>(0.5 + p.x / (2.0 * z * camera.tan_x)),
           static_cast<float>(0.5 - p.y / (2.0 * z * camera.tan_y))};
    } else {
      count_rejected(counters);
    }
    store(sample, row, s);
    store(in_front, row, static_cast<std::uint8_t>(front));
  }
};

}  // namespace shardwise
