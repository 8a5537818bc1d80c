// A scene on devices: replicas in lockstep, failures, what calls need. Coverage is the witness of what is on
// the devices.

#include "shardwise/scene/scene.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "scene/replica.hpp"
#include "scene_test_util.hpp"
#include "shardwise/radio/coverage.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise {
namespace {

using namespace test;

/// Ground, a wall that may move, and a block with a copy that may move.
struct Shapes {
  SceneModel model;
  std::int32_t ground, wall, block, copy;
};

std::vector<Vec3f> wall_vertices(float x) {
  return {{x, -5, 0}, {x, 5, 0}, {x, 5, 6}, {x, -5, 6}};
}

Transform moved(double x, double y) {
  return Transform::translation({x, y, 0});
}

Shapes make_shapes(float wall_x = 4, Transform copy_at = moved(-6, 2)) {
  Shapes s;
  const std::int32_t concrete = s.model.add_material(make_itu_material("wall", "concrete"));
  Mesh ground = square("ground");
  for (Vec3f& v : ground.vertices) v = {v.x * 40 - 20, v.y * 40 - 20, 0};
  ground.material = concrete;
  s.ground = s.model.add_mesh(ground);
  Mesh wall;
  wall.name = "wall";
  wall.vertices = wall_vertices(wall_x);
  wall.faces = {{0, 1, 2}, {0, 2, 3}};
  wall.material = concrete;
  s.wall = s.model.add_mesh(wall, true);
  Mesh block;
  block.name = "block";
  block.vertices = {{0, 0, 0}, {2, 0, 0}, {0, 2, 0}, {0, 0, 3}};
  block.faces = {{0, 2, 1}, {0, 1, 3}, {1, 2, 3}, {2, 0, 3}};
  block.material = concrete;
  s.block = s.model.add_mesh(block);
  s.copy = s.model.add_instance(s.block, copy_at);
  return s;
}

CoverageOptions options() {
  CoverageOptions o;
  o.transmitters = {{{-1, 0.5, 5}}};
  o.grid = {2, 1.5, -20, 20, -20, 20, 20, 20};
  o.samples = 8000;
  o.bounces = 2;
  o.split.min_rows_per_device = 0;
  return o;
}

/// The map with all weight on one device: what that replica holds.
std::vector<double> map_on(Scene& scene, int device) {
  CoverageOptions o = options();
  o.split.weights.assign(static_cast<std::size_t>(scene.devices().size()), 0);
  o.split.weights[static_cast<std::size_t>(device)] = 1;
  return coverage(scene, o).get().gain;
}

/// Every replica gives the bits of a fresh scene of the same shapes on host:1.
void expect_like_fresh(Scene& scene, Shapes fresh_shapes) {
  Scene fresh(open_devices("host:1"), std::move(fresh_shapes.model), scene.options());
  fresh.build();
  const std::vector<double> want = map_on(fresh, 0);
  for (int d = 0; d < scene.devices().size(); ++d) {
    EXPECT_TRUE(same_bits(map_on(scene, d), want)) << scene.devices()[d].name();
    EXPECT_EQ(scene.replica(d).version(), scene.version());
  }
  if (scene.devices().sim_world()) {
    EXPECT_TRUE(scene.devices().sim_world()->races().empty());
  }
}

class SceneOn : public ::testing::TestWithParam<std::tuple<const char*, TracerChoice>> {
 protected:
  Scene make(Shapes shapes) const {
    Scene scene(open_devices(std::get<0>(GetParam())), std::move(shapes.model),
                SceneOptions{std::get<1>(GetParam())});
    scene.build();
    return scene;
  }
};
INSTANTIATE_TEST_SUITE_P(Sets, SceneOn,
                         ::testing::Combine(::testing::Values("host:1", "host:3x1", "sim:3"),
                                            ::testing::Values(TracerChoice::bvh, TracerChoice::automatic)),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param);
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name +
                                  (std::get<1>(info.param) == TracerChoice::bvh ? "_bvh" : "_automatic");
                         });

TEST_P(SceneOn, BuildBroadcasts) {
  Scene scene = make(make_shapes());
  EXPECT_EQ(scene.version(), 1);
  expect_like_fresh(scene, make_shapes());
  for (int d = 0; d < scene.devices().size(); ++d) {
    std::uint64_t sum = 0;
    for (const auto& [name, bytes] : scene.scene_bytes(d)) {
      EXPECT_GT(bytes, 0u) << name;
      sum += bytes;
    }
    EXPECT_EQ(sum, scene.devices()[d].memory(MemoryUse::scene).current());
    EXPECT_EQ(scene.devices()[d].memory(MemoryUse::work).current(), 0u) << "scene bytes are no work bytes";
  }
}

TEST_P(SceneOn, MovedVerticesAreThoseOfAFreshScene) {
  Shapes shapes = make_shapes();
  const std::int32_t wall = shapes.wall;
  Scene scene = make(std::move(shapes));
  const std::vector<double> before = map_on(scene, 0);
  for (const float x : {3.0f, -7.5f, 4.0f}) {
    scene.model().update_mesh_vertices(wall, wall_vertices(x));
    expect_error(ErrorClass::state, {"coverage", "pending updates", "sync()"},
                 [&] { (void)coverage(scene, options()); });
    const std::int64_t version = scene.version();
    EXPECT_TRUE(scene.sync());
    EXPECT_EQ(scene.version(), version + 1);
    expect_like_fresh(scene, make_shapes(x));
    EXPECT_EQ(same_bits(map_on(scene, 0), before), x == 4.0f);
  }
  EXPECT_FALSE(scene.sync()) << "nothing queued";
  scene.model().update_mesh_vertices(wall, wall_vertices(4));
  EXPECT_FALSE(scene.sync()) << "the same bits";
  scene.require_ready("test");
}

TEST_P(SceneOn, InstancesMove) {
  Shapes shapes = make_shapes();
  const std::int32_t copy = shapes.copy;
  Scene scene = make(std::move(shapes));
  for (const Transform& to : {moved(1, -4), moved(-6, 2) * Transform::scaling({1, 2, 1.5})}) {
    scene.model().set_instance_transform(copy, to);
    EXPECT_TRUE(scene.sync());
    expect_like_fresh(scene, make_shapes(4, to));
  }
}

TEST_P(SceneOn, BuildTakesNewShapes) {
  Scene scene = make(make_shapes());
  const std::vector<double> before = map_on(scene, 0);
  const auto add = [](SceneModel& model) {
    Mesh roof = square("roof", 3);
    for (Vec3f& v : roof.vertices) v = {v.x * 6 - 12, v.y * 6 - 12, v.z};
    roof.material = 0;
    model.add_mesh(roof);
  };
  add(scene.model());
  expect_error(ErrorClass::state, {"coverage", "not built", "build()"},
               [&] { (void)coverage(scene, options()); });
  scene.build();
  Shapes fresh = make_shapes();
  add(fresh.model);
  expect_like_fresh(scene, std::move(fresh));
  EXPECT_FALSE(same_bits(map_on(scene, 0), before));
}

TEST_P(SceneOn, CallsInFlightSeeTheSceneAsItWas) {
  Shapes shapes = make_shapes();
  const std::int32_t wall = shapes.wall;
  Scene scene = make(std::move(shapes));
  const std::vector<double> first = map_on(scene, 0);
  CoverageOptions o = options();
  for (int round = 0; round < 3; ++round) {
    Pending<CoverageResult> before = coverage(scene, o);
    scene.model().update_mesh_vertices(wall, wall_vertices(2));
    scene.sync();
    Pending<CoverageResult> between = coverage(scene, o);
    // More triangles: other buffers.
    scene.model().add_mesh(square("tile", 1));
    scene.build();
    Pending<CoverageResult> after = coverage(scene, o);
    EXPECT_TRUE(same_bits(before.get().gain, first));
    const std::vector<double> moved_wall = between.get().gain;
    EXPECT_FALSE(same_bits(moved_wall, first));
    EXPECT_FALSE(same_bits(after.get().gain, moved_wall));
    scene = make(make_shapes());
  }
  if (scene.devices().sim_world()) {
    EXPECT_TRUE(scene.devices().sim_world()->races().empty());
  }
}

TEST_P(SceneOn, AFailedReplicaPoisonsUntilBuild) {
  for (int failing = 0; failing < open_devices(std::get<0>(GetParam())).size(); ++failing) {
    Shapes shapes = make_shapes();
    const std::int32_t wall = shapes.wall;
    Scene scene = make(std::move(shapes));
    scene.model().update_mesh_vertices(wall, wall_vertices(2));
    scene.fail_next_broadcast_on(failing);
    const std::string device = scene.devices()[failing].name();
    expect_error(ErrorClass::device, {device}, [&] { scene.sync(); });
    EXPECT_TRUE(scene.is_poisoned());
    expect_error(ErrorClass::poisoned, {"coverage", "sync", device, "build()"},
                 [&] { (void)coverage(scene, options()); });
    expect_error(ErrorClass::poisoned, {"sync", device, "build()"}, [&] { scene.sync(); });
    scene.build();
    EXPECT_FALSE(scene.is_poisoned());
    expect_like_fresh(scene, make_shapes(2));
    // A build that fails poisons, too, and the next one cures it.
    scene.fail_next_broadcast_on(failing);
    expect_error(ErrorClass::device, {device}, [&] { scene.build(); });
    EXPECT_TRUE(scene.is_poisoned());
    expect_error(ErrorClass::poisoned, {"coverage", "build"}, [&] { (void)coverage(scene, options()); });
    scene.build();
    expect_like_fresh(scene, make_shapes(2));
  }
}

TEST_P(SceneOn, ALostWayOutPoisonsUntilBuild) {
  for (int lost = 0; lost < open_devices(std::get<0>(GetParam())).size(); ++lost) {
    for (const bool build_first : {false, true}) {
      Shapes shapes = make_shapes();
      Scene scene = make(std::move(shapes));
      scene.executor().lose_next_exit_to(lost);
      const std::string device = scene.devices()[lost].name();
      Pending<CoverageResult> pending = coverage(scene, options());
      EXPECT_TRUE(scene.is_poisoned());
      scene.poison("another step", "a later error");
      expect_error(ErrorClass::poisoned, {"coverage", "way out", "caller of " + device, "build()"},
                   [&] { (void)coverage(scene, options()); });
      expect_error(ErrorClass::poisoned, {"sync", device, "build()"}, [&] { scene.sync(); });
      if (build_first) scene.build();
      expect_error(ErrorClass::lost, {"exit edge", device}, [&] { pending.get(); });
      if (!build_first) scene.build();
      EXPECT_FALSE(scene.is_poisoned());
      expect_like_fresh(scene, make_shapes());
      if (scene.devices().sim_world()) {
        EXPECT_TRUE(scene.devices().sim_world()->races().empty());
      }
    }
  }
}

TEST_P(SceneOn, BadUpdatesChangeNoReplica) {
  Shapes shapes = make_shapes();
  const std::int32_t wall = shapes.wall, ground = shapes.ground;
  Scene scene = make(std::move(shapes));
  expect_error(ErrorClass::usage, {"update_mesh_vertices", "3"},
               [&] { scene.model().update_mesh_vertices(wall, std::vector<Vec3f>(3)); });
  expect_error(ErrorClass::state, {"ground"},
               [&] { scene.model().update_mesh_vertices(ground, std::vector<Vec3f>(4)); });
  EXPECT_FALSE(scene.is_poisoned());
  expect_like_fresh(scene, make_shapes());
}

TEST_P(SceneOn, EmptyScenesWork) {
  Shapes nothing;
  nothing.model.add_mesh(Mesh{});
  Scene scene = make(std::move(nothing));
  for (int d = 0; d < scene.devices().size(); ++d) {
    const std::vector<double> map = map_on(scene, d);
    EXPECT_GT(*std::max_element(map.begin(), map.end()), 0) << "free space";
  }
  // Shapes come and go: their faces dropped by defects and back again.
  Shapes shapes = make_shapes();
  const std::int32_t wall = shapes.wall;
  Scene other = make(std::move(shapes));
  other.model().update_mesh_vertices(wall, std::vector<Vec3f>(4));
  EXPECT_TRUE(other.sync());
  EXPECT_EQ(other.model().geometry().defects.size(), 2u);
  other.model().update_mesh_vertices(wall, wall_vertices(4));
  EXPECT_TRUE(other.sync());
  expect_like_fresh(other, make_shapes());
}

TEST_P(SceneOn, IsMovable) {
  Scene scene = make(make_shapes());
  Scene taken = std::move(scene);
  expect_like_fresh(taken, make_shapes());
  Scene other = make(make_shapes(1));
  other = std::move(taken);
  expect_like_fresh(other, make_shapes());
}

TEST(Scene, GivesItsMemoryBack) {
  const DeviceSet devices = open_devices("host:2x1");
  {
    Scene scene(devices, make_shapes().model);
    scene.build();
    scene.build();
    EXPECT_GT(devices[1].memory(MemoryUse::scene).current(), 0u);
  }
  for (int d = 0; d < 2; ++d) EXPECT_EQ(devices[d].memory(MemoryUse::scene).current(), 0u);
}

TEST(Scene, CallsBeforeBuildSayWhatToDo) {
  Scene scene(open_devices("host:1"), make_shapes().model);
  expect_error(ErrorClass::state, {"render", "not built", "build()"}, [&] { scene.require_ready("render"); });
  expect_error(ErrorClass::state, {"sync", "build()"}, [&] { scene.sync(); });
  scene.build();
  scene.require_ready("render");
}

TEST(Scene, AModelThatRanAheadIsNoticed) {
  Shapes shapes = make_shapes();
  const std::int32_t wall = shapes.wall;
  Scene scene(open_devices("host:2x1"), std::move(shapes.model));
  scene.build();
  scene.model().update_mesh_vertices(wall, wall_vertices(2));
  scene.model().sync();  // not the Scene's
  expect_error(ErrorClass::state, {"render", "host:0", "version 1", "at 2", "not on its model"},
               [&] { scene.require_ready("render"); });
  scene.build();
  expect_like_fresh(scene, make_shapes(2));

  scene.model().update_mesh_vertices(wall, wall_vertices(3));
  scene.model().sync();
  EXPECT_TRUE(scene.sync()) << "sync() brings replicas that are behind up to the model, as the message says";
  expect_like_fresh(scene, make_shapes(3));

  scene.model().add_mesh(square("tile", 1));
  scene.model().build();  // other topology
  EXPECT_TRUE(scene.sync());
  Shapes fresh = make_shapes(3);
  fresh.model.add_mesh(square("tile", 1));
  expect_like_fresh(scene, std::move(fresh));
}

TEST(Scene, TracerChoices) {
  const auto name = [](TracerChoice choice) {
    Scene scene(open_devices("host:1"), make_shapes().model, SceneOptions{choice});
    scene.build();
    return scene.tracer_name(0);
  };
  EXPECT_EQ(name(TracerChoice::bvh), "bvh8");
#if SHARDWISE_WITH_EMBREE
  EXPECT_EQ(name(TracerChoice::embree), "embree");
  EXPECT_EQ(name(TracerChoice::automatic), "embree");
#else
  EXPECT_EQ(name(TracerChoice::automatic), "bvh8");
  expect_error(ErrorClass::usage, {"embree", "not built in"}, [&] { name(TracerChoice::embree); });
#endif
}

}  // namespace
}  // namespace shardwise
