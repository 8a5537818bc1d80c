#include "bench/trace.hpp"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>

#include "bench/meshes.hpp"
#include "dispatch/row_operation.hpp"
#include "shardwise/rays/generators.hpp"
#include "shardwise/rays/intersect.hpp"
#include "shardwise/rays/nearest_edge.hpp"
#include "shardwise/rays/penetration.hpp"
#include "shardwise/rays/reflections.hpp"
#include "shardwise/rays/visible.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise::bench {

namespace {

constexpr int chain_points = 4;

/// A scene on devices, and in its master's memory random columns for every operation.
struct World {
  World(const DeviceSet& devices, const SceneModel& model, std::int64_t count)
      : scene(devices, model), rows(count) {
    scene.build();
    Stream& stream = *scene.executor().default_context().streams.front();
    const auto size = static_cast<std::uint64_t>(rows);
    points = Buffer<Vec3f>(stream, chain_points * size, "points");
    directions = Buffer<Vec3f>(stream, chain_points * size, "directions");
    t_min = Buffer<float>(stream, size, "t_min");
    t_max = Buffer<float>(stream, size, "t_max");
    const Bounds bounds = scene.model().geometry().bounds;
    Operation make;
    make.name = "make columns";
    make.accesses = {points.writes(), directions.writes()};
    const RowGenerator rays = random_rays(chain_points * rows, bounds.low, bounds.high, 7);
    make.body = [this, rays](LaunchContext& context) {
      RowLaunch launch;
      launch.count = chain_points * rows;
      launch.outputs[0] = points.data();
      launch.outputs[1] = directions.data();
      rays.make(context, launch);
    };
    stream.enqueue(std::move(make));
    const std::vector<float> low(size, -1.0f), high(size, 1.0f);
    stream.enqueue(copy_operation("t_min", t_min.data(), low.data(), t_min.bytes(), {t_min.writes()}));
    stream.enqueue(copy_operation("t_max", t_max.data(), high.data(), t_max.bytes(), {t_max.writes()}));
    stream.synchronize();
  }
  std::span<const Vec3f> some_points(int which) const {
    return {points.data() + which * rows, static_cast<std::size_t>(rows)};
  }
  std::span<const Vec3f> some_directions() const {
    return {directions.data(), static_cast<std::size_t>(rows)};
  }
  Rays rays() const {
    Rays batch;
    batch.origins = some_points(0);
    batch.directions = some_directions();
    return batch;
  }
  Scene scene;
  std::int64_t rows;
  Buffer<Vec3f> points, directions;
  Buffer<float> t_min, t_max;
  std::string chosen;  ///< the mode of the last call that was free to choose
};

/// Runs an operation on the world's columns.
struct Call {
  std::string name;
  std::function<DispatchReport(World&, DispatchMode)> run;
};

template <class Options>
Options with(DispatchMode mode) {
  Options options;
  options.mode = mode;
  return options;
}

std::vector<Call> calls_on_rays() {
  std::vector<Call> calls;
  for (const IntersectFields fields : {IntersectFields::none, IntersectFields::all})
    calls.push_back({fields == IntersectFields::none ? "intersect-reduced" : "intersect-full",
                     [fields](World& world, DispatchMode mode) {
                       auto options = with<IntersectOptions>(mode);
                       options.fields = fields;
                       return intersect(world.scene, world.rays(), options).get().dispatch;
                     }});
  for (const int bounces : {1, 4})
    calls.push_back({fmt::format("reflections-{}", bounces), [bounces](World& world, DispatchMode mode) {
                       auto options = with<ReflectionOptions>(mode);
                       options.max_bounces = bounces;
                       return trace_reflections(world.scene, world.rays(), options).get().dispatch;
                     }});
  return calls;
}

std::vector<Call> calls_on_segments() {
  return {
      {"visible",
       [](World& world, DispatchMode mode) {
         const Segments segments{world.some_points(0), world.some_points(1), {}, {}};
         return visible(world.scene, segments, with<VisibleOptions>(mode)).get().dispatch;
       }},
      {"visible-pair",
       [](World& world, DispatchMode mode) {
         const SegmentPairs pairs{world.some_points(0), world.some_points(1), world.some_points(2), {}, {}};
         return visible_pair(world.scene, pairs, with<VisiblePairOptions>(mode)).get().dispatch;
       }},
      {"visible-edge",
       [](World& world, DispatchMode mode) {
         const auto size = static_cast<std::size_t>(world.rows);
         const EdgeSegments edges{world.some_points(0),
                                  world.some_points(1),
                                  world.some_directions(),
                                  {world.t_min.data(), size},
                                  {world.t_max.data(), size},
                                  {},
                                  {}};
         return visible_edge(world.scene, edges, with<VisibleEdgeOptions>(mode)).get().dispatch;
       }},
      {"visible-chain",
       [](World& world, DispatchMode mode) {
         auto options = with<VisibleChainOptions>(mode);
         options.points_per_chain = chain_points;
         const Chains chains{
             {world.points.data(), static_cast<std::size_t>(chain_points * world.rows)}, {}, {}, {}};
         return visible_chain(world.scene, chains, options).get().dispatch;
       }},
      {"segment-penetration",
       [](World& world, DispatchMode mode) {
         const PenetrationSegments segments{world.some_points(0), world.some_points(1), {}};
         return segment_penetration(world.scene, segments, with<PenetrationOptions>(mode)).get().dispatch;
       }},
  };
}

std::vector<Call> calls_on_edges() {
  std::vector<Call> calls{
      {"nearest-edge-of-points",
       [](World& world, DispatchMode mode) {
         const Points points{world.some_points(0), {}};
         return nearest_edge_of_points(world.scene, points, with<NearestEdgeOptions>(mode)).get().dispatch;
       }},
      {"nearest-edge-of-rays",
       [](World& world, DispatchMode mode) {
         return nearest_edge_of_rays(world.scene, world.rays(), with<RowCallOptions>(mode)).get().dispatch;
       }},
  };
  for (const int k : {4, 16})
    calls.push_back({fmt::format("nearest-edges-{}", k), [k](World& world, DispatchMode mode) {
                       auto options = with<NearestEdgesOptions>(mode);
                       options.k = k;
                       const Points points{world.some_points(0), {}};
                       return nearest_edges(world.scene, points, options).get().dispatch;
                     }});
  return calls;
}

}  // namespace

std::vector<Case> trace_cases(const Settings& settings) {
  const DeviceSet devices = open_devices(settings.devices);
  const bool gpu = devices.master().kind() == PlatformKind::cuda, several = devices.size() > 1;
  const std::int64_t rows = settings.quick ? 1 << 12 : gpu ? 1 << 22 : 1 << 17;
  std::vector<Case> cases;
  const auto add = [&](const std::string& place, const std::shared_ptr<World>& world,
                       const std::vector<Call>& calls) {
    for (const Call& call : calls) {
      Case row;
      row.name = place + "-" + call.name;
      row.devices = devices.spec();
      row.work = fmt::format("{}, {} random rows in its bounds, on the master{}", place, rows,
                             several ? "; direct; one: pipelined" : "");
      row.units = static_cast<double>(rows);
      const auto timed = [world, call](DispatchMode mode) {
        return [=] {
          const auto start = std::chrono::steady_clock::now();
          const DispatchReport report = call.run(*world, mode);
          const double seconds =
              std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
          if (mode == DispatchMode::automatic) world->chosen = report.mode;
          return seconds;
        };
      };
      row.all = timed(several ? DispatchMode::direct : DispatchMode::automatic);
      if (several) {
        row.mode = "direct";
        row.one = timed(DispatchMode::pipelined);
        row.note_after = [world, choose = timed(DispatchMode::automatic)] {
          const double seconds = choose();
          return fmt::format("with both known the model chose {}: {:.3f} ms", world->chosen, seconds * 1e3);
        };
      } else {
        row.mode_after = [world] { return world->chosen; };
      }
      cases.push_back(row);
    }
  };
  const int triangles = settings.quick ? 1 << 14 : 1 << 21;
  add("cloud", std::make_shared<World>(devices, cloud(triangles), rows), calls_on_rays());
  add("plane", std::make_shared<World>(devices, light_plane(), rows), calls_on_rays());
  const auto world = std::make_shared<World>(devices, scene_asked_for(settings), rows);
  const std::string name =
      settings.scene.empty() ? "city" : std::filesystem::path(settings.scene).stem().string();
  add(name, world, calls_on_rays());
  add(name, world, calls_on_segments());
  add(name, world, calls_on_edges());
  return cases;
}

}  // namespace shardwise::bench
