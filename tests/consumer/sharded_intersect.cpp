// A ramp of triangles, a grid of rays straight down, split over three devices: every distance is checked
// against the plane's, and every bit against one device. Arguments: a device set and the one device to
// compare with.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "shardwise/rays/intersect.hpp"
#include "shardwise/scene/scene.hpp"

using namespace shardwise;

namespace {

constexpr int cells = 40;

/// z = x/2 over [0, 40] x [0, 40], two triangles a square metre.
Mesh ramp() {
  Mesh mesh;
  mesh.name = "ramp";
  for (int y = 0; y <= cells; ++y)
    for (int x = 0; x <= cells; ++x)
      mesh.vertices.push_back({static_cast<float>(x), static_cast<float>(y), static_cast<float>(x) * 0.5f});
  for (int y = 0; y < cells; ++y)
    for (int x = 0; x < cells; ++x) {
      const int a = y * (cells + 1) + x, b = a + 1, c = a + cells + 1, d = c + 1;
      mesh.faces.push_back({a, b, d});
      mesh.faces.push_back({a, d, c});
    }
  return mesh;
}

struct Answer {
  std::vector<float> t;
  std::vector<std::int32_t> face;
  int devices_with_work = 0;
};

Answer ask(const char* devices, const std::vector<double>& weights, const RowSource& rays) {
  SceneModel model;
  model.add_mesh(ramp());
  Scene scene(open_devices(devices), std::move(model));
  scene.build();
  IntersectOptions options;
  options.min_rows_per_device = 0;
  options.weights = weights;
  const Intersections hits = intersect(scene, rays, options).get();
  Answer answer{hits.t.to_host(), hits.global_prim_id.to_host(), 0};
  for (const DeviceReport& device : hits.dispatch.devices) answer.devices_with_work += device.lanes > 0;
  return answer;
}

}  // namespace

int main(int argc, char** argv) {
  const char* many = argc > 1 ? argv[1] : "host:3x1";
  const char* one = argc > 2 ? argv[2] : "host:1x1";
  std::vector<Vec3f> origins, directions;
  const int side = 300;
  for (int row = 0; row < side; ++row)
    for (int column = 0; column < side; ++column) {
      // A margin of 5 m on every side misses.
      origins.push_back({-5 + 50 * (static_cast<float>(column) + 0.37f) / side,
                         -5 + 50 * (static_cast<float>(row) + 0.41f) / side, 100});
      directions.push_back({0, 0, -1});
    }
  const Rays rays{origins, directions, {}, {}};
  // A GPU gets rows from the host's memory by name; host devices take them where they lie.
  const RowSource source = argc > 1 ? on_host(rays) : RowSource(rays);
  const Answer split = ask(many, argc > 1 ? std::vector<double>{} : std::vector<double>{3, 1, 2}, source);
  const Answer whole = ask(one, {}, source);

  std::int64_t hits = 0, wrong = 0, other_bits = 0;
  for (std::size_t i = 0; i < origins.size(); ++i) {
    const Vec3f o = origins[i];
    const bool inside = o.x > 0 && o.x < cells && o.y > 0 && o.y < cells;
    const float t = split.t[i];
    if (inside ? !(std::fabs(t - (100 - o.x / 2)) < 1e-3f) : !std::isinf(t)) ++wrong;
    hits += std::isinf(t) ? 0 : 1;
    if (std::bit_cast<std::uint32_t>(t) != std::bit_cast<std::uint32_t>(whole.t[i]) ||
        split.face[i] != whole.face[i])
      ++other_bits;
  }
  std::printf("%d devices worked, %lld of %zu rays hit, %lld wrong, %lld with other bits than %s\n",
              split.devices_with_work, static_cast<long long>(hits), origins.size(),
              static_cast<long long>(wrong), static_cast<long long>(other_bits), one);
  return split.devices_with_work >= (argc > 1 ? 1 : 3) && hits == 57600 && wrong == 0 && other_bits == 0 ? 0
                                                                                                         : 1;
}
