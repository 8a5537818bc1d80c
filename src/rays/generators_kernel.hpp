#pragma once
// One row of each generator.

#include "rays/camera_kernel.hpp"
#include "shardwise/numeric/philox.hpp"
#include "shardwise/numeric/random_streams.hpp"
#include "shardwise/numeric/trigonometry.hpp"
#include "shardwise/numeric/vec3.hpp"

namespace shardwise {

struct RandomRayRows {
  Vec3f lower, size;
  std::uint64_t seed = 0;
  std::int64_t first_row = 0;
  Vec3f* origin = nullptr;
  Vec3f* direction = nullptr;

  SW_HD void operator()(std::int64_t row) const {
    const auto lane = static_cast<std::uint64_t>(first_row + row);
    const PhiloxWords a = philox(seed, lane, random_stream(RandomOperation::rays, 0), 0);
    const PhiloxWords b = philox(seed, lane, random_stream(RandomOperation::rays, 0), 1);
    origin[row] = {lower.x + size.x * unit(a.word[0]), lower.y + size.y * unit(a.word[1]),
                   lower.z + size.z * unit(a.word[2])};
    // Uniform over the sphere: z uniform (Archimedes), the azimuth uniform.
    const double z = 1.0 - (2.0 * b.word[0] + 1.0) * 0x1p-32;
    const double radius = std::sqrt(1.0 - z * z);
    const SinCos azimuth = sincos_turns(b.wide(1));
    direction[row] = {static_cast<float>(radius * azimuth.cos), static_cast<float>(radius * azimuth.sin),
                      static_cast<float>(z)};
  }

 private:
  SW_HD static float unit(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
};

struct CameraRayRows {
  CameraConstants camera;
  std::int32_t width = 1, height = 1;
  std::int64_t first_row = 0;
  Vec3f* origin = nullptr;
  Vec3f* direction = nullptr;

  SW_HD void operator()(std::int64_t row) const {
    const std::int64_t pixel = first_row + row;
    const Vec2f sample{(static_cast<float>(pixel % width) + 0.5f) / static_cast<float>(width),
                       (static_cast<float>(pixel / width) + 0.5f) / static_cast<float>(height)};
    SampleRayRows one;
    one.camera = camera;
    one.sample = &sample;
    one.origin = origin + row;
    one.direction = direction + row;
    one(0);
  }
};

}  // namespace shardwise
