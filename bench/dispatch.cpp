#include "bench/dispatch.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <random>

#include "dispatch/row_dispatcher.hpp"
#include "shardwise/rays/generators.hpp"
#include "shardwise/rays/intersect.hpp"
#include "shardwise/rays/reducers.hpp"
#include "shardwise/rays/reflections.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise::bench {

namespace {

/// `count` small triangles in a cube of side 2, corners up to 0.005 from each other on each axis.
SceneModel cloud(int count) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> place(-1, 1), offset(-0.005f, 0.005f);
  Mesh mesh;
  mesh.name = "cloud";
  for (int i = 0; i < count; ++i) {
    const Vec3f middle{place(random), place(random), place(random)};
    const auto first = static_cast<std::int32_t>(mesh.vertices.size());
    for (int corner = 0; corner < 3; ++corner)
      mesh.vertices.push_back(middle + Vec3f{offset(random), offset(random), offset(random)});
    mesh.faces.push_back({first, first + 1, first + 2});
  }
  SceneModel model;
  model.add_mesh(std::move(mesh));
  return model;
}

/// A plane of 16 x 12 vertices: almost nothing to trace, so that moving rows is what counts.
SceneModel light_plane() {
  Mesh mesh;
  mesh.name = "plane";
  constexpr int columns = 16, rows = 12;
  for (int y = 0; y < rows; ++y)
    for (int x = 0; x < columns; ++x)
      mesh.vertices.push_back({-1 + 2 * static_cast<float>(x) / (columns - 1),
                               -1 + 2 * static_cast<float>(y) / (rows - 1), 0.1f});
  for (int y = 0; y + 1 < rows; ++y)
    for (int x = 0; x + 1 < columns; ++x) {
      const std::int32_t i = y * columns + x;
      mesh.faces.push_back({i, i + 1, i + columns});
      mesh.faces.push_back({i + 1, i + columns + 1, i + columns});
    }
  SceneModel model;
  model.add_mesh(std::move(mesh));
  return model;
}

/// A scene on devices, and random rays in its master's memory.
struct World {
  World(const DeviceSet& devices, const SceneModel& model, std::int64_t rows)
      : scene(devices, model), count(rows) {
    scene.build();
    Stream& stream = *scene.executor().default_context().streams.front();
    const auto size = static_cast<std::uint64_t>(rows);
    origins = Buffer<Vec3f>(stream, size, "origins");
    directions = Buffer<Vec3f>(stream, size, "directions");
    Operation make;
    make.name = "make rays";
    make.accesses = {origins.writes(), directions.writes()};
    make.body = [this, generator = rays(count)](LaunchContext& context) {
      RowLaunch launch;
      launch.count = count;
      launch.outputs[0] = origins.data();
      launch.outputs[1] = directions.data();
      generator.make(context, launch);
    };
    stream.enqueue(std::move(make));
    stream.synchronize();
  }
  static RowGenerator rays(std::int64_t rows) { return random_rays(rows, {-1, -1, -1}, {1, 1, 1}, 7); }
  Rays batch() const {
    Rays batch;
    batch.origins = {origins.data(), static_cast<std::size_t>(count)};
    batch.directions = {directions.data(), static_cast<std::size_t>(count)};
    return batch;
  }
  Scene scene;
  std::int64_t count;
  Buffer<Vec3f> origins, directions;
  DispatchReport last;
};

enum class Call { intersect_full, intersect_reduced, reflections };

/// Seconds of one call, from here until its result is there. `made`: rows that the devices make and reduce;
/// 0: the rays in the master's memory, and all columns.
double run(World& world, Call call, std::int64_t made, DispatchMode mode) {
  const RowSource source = made > 0 ? generated(World::rays(made)) : on_master(world.batch());
  const auto configure = [&](auto& options) {
    options.mode = mode;
    if (made > 0) options.sink = reduce(sum_of_column(call == Call::reflections ? 1 : 0, 1, 16));
  };
  const auto start = std::chrono::steady_clock::now();
  if (call == Call::reflections) {
    ReflectionOptions options;
    options.max_bounces = 4;
    configure(options);
    world.last = trace_reflections(world.scene, source, options).get().dispatch;
  } else {
    IntersectOptions options;
    if (call == Call::intersect_reduced) options.fields = IntersectFields::none;
    configure(options);
    world.last = intersect(world.scene, source, options).get().dispatch;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// What the last call cost above the slower of computing and moving, for people.
std::string outcome(const World& world) {
  const DispatchReport& report = world.last;
  double slowest = 0;
  for (const DeviceReport& device : report.devices) slowest = std::max(slowest, device.compute_s);
  return fmt::format("last call: {}; {}; device time {:.3f} ms, slowest device {:.3f} ms, above it {:.3f} ms",
                     report.mode, report.reason, report.measured_s * 1e3, slowest * 1e3,
                     (report.measured_s - slowest) * 1e3);
}

}  // namespace

std::vector<Case> dispatch_cases(const Settings& settings) {
  const DeviceSet devices = open_devices(settings.devices);
  const bool gpu = devices.master().kind() == PlatformKind::cuda;
  const std::int64_t rays = settings.quick ? 1 << 16 : gpu ? 1 << 22 : 1 << 19;
  const std::int64_t many = settings.quick ? 1 << 18 : gpu ? 1 << 26 : 1 << 22;
  struct Place {
    std::string text;
    std::shared_ptr<World> all, one;
  };
  const auto place = [&](std::string text, const SceneModel& model) {
    return Place{std::move(text), std::make_shared<World>(devices, model, rays),
                 std::make_shared<World>(devices.first(), model, rays)};
  };
  const int triangles = settings.quick ? 1 << 14 : 1 << 21;
  const Place heavy = place(fmt::format("cloud of {} triangles", triangles), cloud(triangles));
  const Place light = place("plane of 192 vertices", light_plane());
  std::vector<Case> cases;
  const auto add = [&](std::string name, const Place& where, Call call, std::int64_t made,
                       DispatchMode mode) {
    Case row;
    row.name = std::move(name);
    row.devices = devices.spec();
    row.work =
        fmt::format("{}, {} random rays; one: the first device alone", where.text, made > 0 ? made : rays);
    row.units = static_cast<double>(made > 0 ? made : rays);
    row.all = [=, world = where.all] { return run(*world, call, made, mode); };
    row.one = [=, world = where.one] { return run(*world, call, made, DispatchMode::automatic); };
    row.mode_after = [world = where.all] { return world->last.mode; };
    row.note_after = [world = where.all] { return outcome(*world); };
    cases.push_back(row);
  };
  add("cloud-full", heavy, Call::intersect_full, 0, DispatchMode::automatic);
  add("cloud-reflections-4", heavy, Call::reflections, 0, DispatchMode::automatic);
  add("light-full", light, Call::intersect_full, 0, DispatchMode::automatic);
  add("light-generate-reduce", light, Call::intersect_reduced, many, DispatchMode::automatic);
  if (devices.size() > 1)
    for (const DispatchMode mode : {DispatchMode::pipelined, DispatchMode::direct, DispatchMode::sharded}) {
      add(std::string("cloud-full-") + to_string(mode), heavy, Call::intersect_full, 0, mode);
      add(std::string("cloud-reflections-4-") + to_string(mode), heavy, Call::reflections, 0, mode);
      add(std::string("light-full-") + to_string(mode), light, Call::intersect_full, 0, mode);
    }
  return cases;
}

}  // namespace shardwise::bench
