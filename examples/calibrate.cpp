// The shares of unlike devices, found by calibrating and used in a call.

#include <cstdio>

#include "shardwise/rays/calibrate.hpp"
#include "shardwise/rays/generators.hpp"
#include "shardwise/rays/intersect.hpp"

int main() {
  using namespace shardwise;
  Mesh wall;
  wall.name = "wall";
  wall.vertices = {{-1, 0, 0}, {1, 0, 0}, {0, 0, 1}};
  wall.faces = {{0, 1, 2}};
  SceneModel model;
  model.add_mesh(std::move(wall));

  // Two devices, of which the second takes four times as long for a row.
  OpenOptions slow;
  slow.sim_speeds = {1, 0.25};
  slow.sim_costs.ns_per_item = 1000;
  Scene scene(open_devices("sim:2", slow), std::move(model));
  scene.build();

  const CalibrationRecord record = calibrate(scene, "intersect:full", 20'000);
  std::fputs(record.describe().c_str(), stdout);
  save_calibration("calibration.json", scene.devices(), {record});

  IntersectOptions options;
  options.operation_weights = load_calibration("calibration.json", scene.devices());
  options.min_rows_per_device = 0;  // the weights were proved at this size
  options.sink = to_host();
  const RowSource rays = generated(random_rays(20'000, {-1, -1, 0}, {1, 1, 1}));
  const Intersections hits = intersect(scene, rays, options).get();
  std::printf("rows of the devices: about %.1f to 1\n",
              static_cast<double>(hits.dispatch.devices[0].lanes) /
                  static_cast<double>(hits.dispatch.devices[1].lanes));
}
