// Rays of the caller's own: a cone that looks down from a mast, and the map on a small plane below it,
// without and with the reflection from the ground. Checked against Friis' formula.

#include <cmath>
#include <cstdio>
#include <numbers>
#include <vector>

#include "shardwise/numeric/philox.hpp"
#include "shardwise/radio/accumulate.hpp"

namespace {

using namespace shardwise;

/// 100 m x 100 m of concrete at z = 0.
SceneModel ground() {
  SceneModel model;
  Mesh mesh;
  mesh.name = "ground";
  mesh.vertices = {{-50, -50, 0}, {50, -50, 0}, {50, 50, 0}, {-50, 50, 0}};
  mesh.faces = {{0, 1, 2}, {0, 2, 3}};
  mesh.material = model.add_material(make_itu_material("floor", "concrete"));
  model.add_mesh(mesh);
  model.build();
  return model;
}

/// Uniform over the cone of directions within `angle` of straight down.
std::vector<Vec3f> cone(std::size_t count, double angle) {
  std::vector<Vec3f> directions(count);
  for (std::size_t i = 0; i < count; ++i) {
    const PhiloxWords random = philox(/*seed=*/7, i, /*stream=*/0);
    const double z = 1 - random.uniform_double(0) * (1 - std::cos(angle));
    const double azimuth = 2 * std::numbers::pi * random.uniform_double(1), radius = std::sqrt(1 - z * z);
    directions[i] = to_float({radius * std::cos(azimuth), radius * std::sin(azimuth), -z});
  }
  return directions;
}

int run() {
  const double height = 10, map_z = 1.5, angle = std::numbers::pi / 6, frequency = 3.5e9;
  Scene scene(open_devices("host:2"), ground());
  scene.build();

  const std::size_t count = 1'000'000;
  const std::vector<Vec3f> directions = cone(count, angle);
  const std::vector<Vec3f> origins(count, Vec3f{0, 0, static_cast<float>(height)});
  const std::vector<Vec3f> polarization{{1, 0, 0}};  // one row serves all rays

  AccumulateOptions options;
  options.grid = {.position = map_z,
                  .min0 = -0.5,
                  .max0 = 0.5,
                  .min1 = -0.5,
                  .max1 = 0.5,
                  .resolution0 = 1,
                  .resolution1 = 1};
  options.frequency_hz = frequency;
  options.solid_angle_per_ray = 2 * std::numbers::pi * (1 - std::cos(angle)) / static_cast<double>(count);

  const RayRows rays{.origins = origins,
                     .directions = directions,
                     .tmax = {},
                     .active = {},
                     .transmitters = {},
                     .polarizations = polarization};
  options.bounces = 0;
  const CoverageResult direct = accumulate_reflections(scene, rays, options).get();
  options.bounces = 1;
  const CoverageResult both = accumulate_reflections(scene, rays, options).get();

  const double per_metre = 299792458.0 / frequency / (4 * std::numbers::pi);
  const double friis = std::pow(per_metre / (height - map_z), 2);
  std::printf("line of sight: %.2f dB, Friis %.2f dB, %ld crossings\n", 10 * std::log10(direct.gain[0]),
              10 * std::log10(friis), static_cast<long>(direct.crossings[0]));
  std::printf("with the ground: %.2f dB, %ld crossings\n", 10 * std::log10(both.gain[0]),
              static_cast<long>(both.crossings[0]));
  const bool good = std::abs(direct.gain[0] / friis - 1) < 0.05 && both.gain[0] > direct.gain[0];
  std::puts(good ? "as expected" : "NOT as expected");
  return good ? 0 : 1;
}

}  // namespace

int main() try { return run(); } catch (const Error& error) {
  std::fprintf(stderr, "caller_rays: %s\n", error.what());
  return exit_code(error.error_class());
}
