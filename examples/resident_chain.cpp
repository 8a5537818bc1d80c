// A chain of three calls: pixels to rays, rays to surfaces, surfaces to the nearest edge. Rows stay on the
// devices that made them; only the last answer leaves them.

#include <cstdio>
#include <vector>

#include "shardwise/rays/camera.hpp"
#include "shardwise/rays/intersect.hpp"
#include "shardwise/rays/nearest_edge.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/scene/city.hpp"
#include "shardwise/scene/scene_io.hpp"

namespace {

using namespace shardwise;

unsigned long long moved(const RowResult& result) {
  unsigned long long bytes = 0;
  for (const DeviceReport& device : result.dispatch.devices) bytes += device.bytes_in + device.bytes_out;
  return bytes;
}

/// The distance of what each pixel shows to the nearest edge.
std::vector<float> edge_picture(const char* devices, const std::vector<Vec2f>& pixels) {
  Scene scene(open_devices(devices), read_scene(write_city("city").scene_file));
  scene.build();
  Camera camera{.width = 160, .height = 120, .fov_x_deg = 70, .camera_to_world = {}};
  // From 60 m up over the crossroads, along +x: the camera's z is the world's x, its y the world's z.
  camera.camera_to_world = Transform{{0, 0, 1, 0, -1, 0, 0, 0, 0, 1, 0, 60, 0, 0, 0, 1}};

  RowCallOptions first;
  first.min_rows_per_device = 0;
  first.sink = left_resident();
  const CameraRays rays = sample_ray(scene, camera, Samples{pixels, {}}, first).get();

  IntersectOptions second;
  second.fields = IntersectFields::geometric;
  second.sink = left_resident();
  const Intersections hits = intersect(scene, resident({rays.origin, rays.direction}), second).get();

  NearestEdgeOptions last;
  last.sink = to_host();
  const NearestEdges edges = nearest_edge_of_points(scene, resident({hits.point}), last).get();
  std::printf("%s: %zu devices, %llu bytes between the calls, %s\n", devices, edges.dispatch.devices.size(),
              moved(hits), edges.dispatch.reason.c_str());
  return edges.distance.to_host();
}

int run() {
  std::vector<Vec2f> pixels;
  for (int y = 0; y < 120; ++y)
    for (int x = 0; x < 160; ++x)
      pixels.push_back({(static_cast<float>(x) + 0.5f) / 160, (static_cast<float>(y) + 0.5f) / 120});
  const std::vector<float> one = edge_picture("host:1", pixels), three = edge_picture("host:3", pixels);
  int near = 0;
  for (const float distance : three) near += distance < 0.5f;
  std::printf("%d of %zu pixels show something within 0.5 m of an edge\n", near, pixels.size());
  std::puts(one == three ? "equal bits" : "NOT equal bits");
  return one == three && near > 0 ? 0 : 1;
}

}  // namespace

int main() try { return run(); } catch (const Error& error) {
  std::fprintf(stderr, "resident_chain: %s\n", error.what());
  return exit_code(error.error_class());
}
