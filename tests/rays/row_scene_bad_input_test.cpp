// Operations on rows of scenes that are not ready, or became poisoned.

#include "row_bad_input.hpp"

#include <gtest/gtest.h>

namespace shardwise::test {
namespace {

void expect_all_refused(Scene& scene, ErrorClass expected, const std::string& fragment) {
  const Rows rows(10);
  for (const Call& call : all_calls()) {
    SCOPED_TRACE(call.name);
    expect_error(expected, {call.name, fragment},
                 [&] { (void)call.run(scene, call.source(rows), spread()); });
    RowCallOptions plan = spread();
    plan.plan_only = true;
    expect_error(expected, {call.name, fragment}, [&] { (void)call.run(scene, call.source(rows), plan); });
  }
}

TEST(RowBadInput, ScenesThatAreNotReadyRefuseEveryOperation) {
  for (const char* devices : {"host:1x1", "host:2x1", "sim:2"}) {
    Scene scene(open_devices(devices), moving_model());
    expect_all_refused(scene, ErrorClass::state, "build()");
    // What needs no scene works.
    const Rows rows(10);
    EXPECT_EQ(sample_ray(scene, Camera{}, Samples{rows.samples, {}}).get().rows, 10);
    scene.build();
    move_triangle(scene.model(), 1);
    expect_all_refused(scene, ErrorClass::state, "sync()");
    scene.model().sync();  // behind the scene's back
    expect_all_refused(scene, ErrorClass::state, "sync()");
    scene.sync();
    EXPECT_EQ(intersect(scene, rows.rays()).get().rows, 10);
  }
}

TEST(RowBadInput, AnUpdateThatFailsOnTheSecondDevicePoisonsUntilBuild) {
  const std::vector<std::pair<const char*, std::function<void(Scene&)>>> updates{
      {"sync",
       [](Scene& scene) {
         move_triangle(scene.model(), 2);
         scene.sync();
       }},
      {"set_edge_mask",
       [](Scene& scene) {
         scene.set_edge_mask(std::vector<std::uint8_t>{1, 0, 1});
       }},
      {"build", [](Scene& scene) { scene.build(); }},
  };
  const Rows rows(50);
  for (const char* devices : {"host:2x1", "sim:3"})
    for (const auto& [step, update] : updates) {
      SCOPED_TRACE(std::string(step) + " on " + devices);
      Scene scene = built(devices, moving_model());
      (void)nearest_edge(scene, Points{rows.a, {}}).get();  // masks are sent where there are edges
      scene.fail_next_broadcast_on(1);
      expect_error(ErrorClass::device, {scene.devices()[1].name()}, [&] { update(scene); });
      EXPECT_TRUE(scene.is_poisoned());
      expect_all_refused(scene, ErrorClass::poisoned, step);
      expect_error(ErrorClass::poisoned, {"sample_ray", step}, [&] {
        (void)sample_ray(scene, Camera{}, Samples{rows.samples, {}});
      });
      scene.build();
      EXPECT_FALSE(scene.is_poisoned());
      Scene fresh(open_devices("host:1x1"), SceneModel(scene.model()));
      fresh.build();
      for (const Call& call : all_calls())
        EXPECT_TRUE(bytes_of(*call.run(scene, call.source(rows), spread()).get().table) ==
                    bytes_of(*call.run(fresh, call.source(rows), {}).get().table))
            << call.name;
    }
}

TEST(RowBadInput, ALostExitPoisonsUntilBuild) {
  const Rows rows(900);
  for (const char* devices : {"host:3x1", "sim:3"})
    for (int lost = 0; lost < 3; ++lost)
      for (const SinkKind sink :
           {SinkKind::to_master, SinkKind::to_host, SinkKind::resident, SinkKind::offload})
        for (const bool build_first : {false, true}) {
          SCOPED_TRACE(std::string(devices) + ", device " + std::to_string(lost) + ", " + to_string(sink));
          Scene scene = built(devices);
          const RowResult expected = intersect(scene, rows.rays()).get();
          const std::string device = scene.devices()[lost].name();
          IntersectOptions options;
          options.min_rows_per_device = 0;
          options.mode = DispatchMode::pipelined;
          options.sink.kind = sink;
          if (sink == SinkKind::offload) options.sink.hook = [](const RowChunk&) {};
          scene.executor().lose_next_exit_to(lost);
          Pending<Intersections> pending = intersect(scene, rows.rays(), options);
          EXPECT_TRUE(scene.is_poisoned());
          expect_all_refused(scene, ErrorClass::poisoned, "caller of " + device);
          expect_error(ErrorClass::poisoned, {"sample_ray", device, "build()"}, [&] {
            (void)sample_ray(scene, Camera{}, Samples{rows.samples, {}});
          });
          expect_error(ErrorClass::poisoned, {"sync", device, "build()"}, [&] { scene.sync(); });
          expect_error(ErrorClass::poisoned, {"set_edge_mask", device, "build()"},
                       [&] { scene.set_edge_mask({}); });
          if (build_first) scene.build();
          expect_error(ErrorClass::lost, {"exit edge", device}, [&] { (void)pending.get(); });
          if (!build_first) scene.build();
          EXPECT_FALSE(scene.is_poisoned());
          options.sink = to_master();
          EXPECT_TRUE(bytes_of(*intersect(scene, rows.rays(), options).get().table) ==
                      bytes_of(*expected.table));
          if (SimWorld* world = scene.devices().sim_world()) {
            EXPECT_TRUE(world->races().empty());
          }
        }
}

}  // namespace
}  // namespace shardwise::test
