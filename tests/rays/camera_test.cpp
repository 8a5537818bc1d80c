#include "rays/camera_kernel.hpp"

#include "ray_fixtures.hpp"
#include "rays/camera_operations.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::testing {
namespace {

struct Ray {
  Vec3f o, d;
};
Ray ray_of(const Camera& camera, Vec2f sample, RowCounters* counters = nullptr) {
  Ray ray{{7, 7, 7}, {7, 7, 7}};
  run_rows(SampleRayRows{camera_constants(camera, "test"), &sample, &ray.o, &ray.d, counters}, 1);
  return ray;
}
Vec3f point_of(const Camera& camera, Vec2f sample, float depth, RowCounters* counters = nullptr) {
  Vec3f point{7, 7, 7};
  run_rows(SampleToWorldRows{camera_constants(camera, "test"), 1, &sample, &depth, &point, counters}, 1);
  return point;
}
struct Projected {
  Vec2f sample;
  std::uint8_t in_front;
};
Projected sample_of(const Camera& camera, Vec3f point, RowCounters* counters = nullptr) {
  Projected result{{7, 7}, 7};
  run_rows(
      WorldToSampleRows{camera_constants(camera, "test"), &point, &result.sample, &result.in_front, counters},
      1);
  return result;
}

Camera wide() {
  return {640, 480, 90, {}};
}
/// Turned, and moved.
Camera posed() {
  Transform pose;
  pose.m = {0, 0, 1, 5, 1, 0, 0, -2, 0, 1, 0, 3, 0, 0, 0, 1};  // z to x, x to y, y to z
  return {400, 300, 70, pose};
}

TEST(CameraRows, KnownRays) {
  EXPECT_EQ(ray_of(wide(), {0.5f, 0.5f}).d, (Vec3f{0, 0, 1}));
  EXPECT_EQ(ray_of(wide(), {0.5f, 0.5f}).o, (Vec3f{0, 0, 0}));
  // 90 degrees: tan of half is 1; v runs down.
  EXPECT_LE(max_abs(ray_of(wide(), {1, 0.5f}).d - normalized(Vec3f{1, 0, 1})), 1e-7f);
  EXPECT_LE(max_abs(ray_of(wide(), {0, 0}).d - normalized(Vec3f{-1, 0.75f, 1})), 1e-7f);
  EXPECT_LE(max_abs(ray_of(wide(), {0.5f, 1}).d - normalized(Vec3f{0, -0.75f, 1})), 1e-7f);
  EXPECT_EQ(point_of(wide(), {1, 0.5f}, 4), (Vec3f{4, 0, 4}));  // depth along z, not range
  const Ray ray = ray_of(posed(), {0.5f, 0.5f});
  EXPECT_EQ(ray.o, (Vec3f{5, -2, 3}));
  EXPECT_EQ(ray.d, (Vec3f{1, 0, 0}));
  EXPECT_EQ(point_of(posed(), {0.5f, 0.5f}, 2), (Vec3f{7, -2, 3}));
}

TEST(CameraRows, RoundTrips) {
  Random random(6);
  for (const Camera& camera : {wide(), posed(), Camera{1, 3, 5, {}}, Camera{1920, 1080, 170, {}}})
    for (int i = 0; i < 300; ++i) {
      const Vec2f sample{random.uniform(), random.uniform()};
      const float depth = random.uniform(0.5f, 50);
      const Vec3f point = point_of(camera, sample, depth);
      const Projected back = sample_of(camera, point);
      EXPECT_EQ(back.in_front, 1);
      EXPECT_NEAR(back.sample.x, sample.x, 3e-5);  // the pose's offset costs digits of near points
      EXPECT_NEAR(back.sample.y, sample.y, 3e-5);
      // The point lies on the sample's ray.
      const Ray ray = ray_of(camera, sample);
      EXPECT_NEAR(length(ray.d), 1, 1e-6);
      const Vec3f off = point - ray.o;
      EXPECT_NEAR(dot(normalized(off), ray.d), 1, 1e-6);
    }
}

TEST(CameraRows, BehindTheCamera) {
  EXPECT_EQ(sample_of(wide(), {0, 0, -1}).in_front, 0);
  EXPECT_EQ(sample_of(wide(), {1, 1, 0}).in_front, 0);
  EXPECT_EQ(sample_of(posed(), {4, -2, 3}).in_front, 0);
  EXPECT_EQ(sample_of(posed(), {6, -2, 3}).in_front, 1);
  const Projected at = sample_of(wide(), {0, 0, 0});
  EXPECT_EQ(at.sample, (Vec2f{0.5f, 0.5f}));
}

TEST(CameraRows, BadRowsAreZero) {
  RowCounters counters{};
  std::uint64_t bad_rows = 0;
  for (const float bad : bad_numbers()) {
    for (const Vec2f sample : {Vec2f{bad, 0.5f}, Vec2f{0.5f, bad}}) {
      const Ray ray = ray_of(posed(), sample, &counters);
      EXPECT_TRUE(is_plus_zero(ray.o) && is_plus_zero(ray.d));
      EXPECT_TRUE(is_plus_zero(point_of(posed(), sample, 1, &counters)));
      bad_rows += 2;
    }
    EXPECT_TRUE(is_plus_zero(point_of(posed(), {0.5f, 0.5f}, bad, &counters)));
    const Projected p = sample_of(posed(), {0, bad, 0}, &counters);
    EXPECT_TRUE(is_plus_zero(p.sample.x) && is_plus_zero(p.sample.y));
    EXPECT_EQ(p.in_front, 0);
    bad_rows += 2;
    EXPECT_EQ(counters.rejected, bad_rows);
  }
}

TEST(CameraRows, RefusalsNameTheField) {
  const auto refused = [](Camera camera, const std::string& field, const std::string& value) {
    try {
      sample_ray_operation(camera);
      ADD_FAILURE() << field << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::usage);
      EXPECT_NE(std::string(error.what()).find(field), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(value), std::string::npos) << error.what();
    }
  };
  refused({0, 1, 60, {}}, "width", "0");
  refused({1, -3, 60, {}}, "height", "-3");
  refused({1, 1, 0, {}}, "fov_x_deg", "got 0");
  refused({1, 1, 180, {}}, "fov_x_deg", "got 180");
  refused({1, 1, -1, {}}, "fov_x_deg", "got -1");
  refused({1, 1, NAN, {}}, "fov_x_deg", "nan");
  Transform flat = Transform::scaling({1, 1, 0}), broken, skew;
  broken.m[6] = NAN;
  skew.m[14] = 2;
  refused({1, 1, 60, flat}, "camera_to_world", "inverse");
  refused({1, 1, 60, broken}, "camera_to_world", "row 1, column 2");
  refused({1, 1, 60, skew}, "camera_to_world", "last row");
  EXPECT_THROW(sample_to_world_operation(wide(), NAN), Error);
}

}  // namespace
}  // namespace shardwise::testing
