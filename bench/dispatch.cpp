#include "bench/dispatch.hpp"

#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "bench/meshes.hpp"
#include "dispatch/row_dispatcher.hpp"
#include "shardwise/rays/generators.hpp"
#include "shardwise/rays/intersect.hpp"
#include "shardwise/rays/reducers.hpp"
#include "shardwise/rays/reflections.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise::bench {

namespace {

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
  DispatchReport last;      ///< of the last call
  DispatchReport measured;  ///< of the last call whose operations were timed
  std::vector<double> times;
  std::vector<CallStamps> stamps;  ///< of the same calls
  std::string first;               ///< how the first calls were spread, for people
};

enum class Call { intersect_full, intersect_reduced, reflections };

/// How a call was spread: mode, then rows and measured launches of each device.
std::string spread_of(const DispatchReport& report) {
  std::string text = report.mode;
  for (const DeviceReport& device : report.devices)
    text += fmt::format(" {} in {:.3f} ms", device.lanes, device.compute_s * 1e3);
  return text;
}

/// Seconds of one call, from here until its result is there. `made`: rows that the devices make and reduce;
/// 0: the rays in the master's memory, and all columns.
double run(World& world, Call call, std::int64_t made, DispatchMode mode, std::int64_t chunk = 0,
           const RowSink& sink = {}) {
  const RowSource source = made > 0 ? generated(World::rays(made)) : on_master(world.batch());
  const auto configure = [&](auto& options) {
    options.mode = mode;
    options.chunk_rows = chunk;
    options.sink = sink;
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
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  world.times.push_back(seconds);
  world.stamps.push_back(world.scene.rows().last_stamps());
  if (world.times.size() <= 3) world.first += (world.first.empty() ? "" : "; ") + spread_of(world.last);
  if (world.last.devices.front().compute_s > 0) world.measured = world.last;
  return seconds;
}

/// The time of one device over that of each call from the second on, for people.
std::string shares(const World& all, const World& one) {
  std::vector<double> alone(one.times.begin() + 1, one.times.end());
  const double median = spread(alone).median;
  std::string text;
  for (std::size_t i = 1; i < all.times.size(); ++i) text += fmt::format(" {:.3f}", median / all.times[i]);
  return text;
}

/// Median microseconds of each step of the processor, over the calls from the second on, for people.
std::string steps(const World& world) {
  const auto median = [&](auto seconds_of) {
    std::vector<double> all;
    for (std::size_t i = 1; i < world.stamps.size(); ++i) all.push_back(seconds_of(world.stamps[i]));
    return spread(all).median * 1e6;
  };
  using S = CallStamps;
  return fmt::format(
      "plan {:.0f}, allocate {:.0f}, graph {:.0f}, launch {:.0f} (together {:.0f}), then tail {:.0f}, wait "
      "{:.0f}, finish {:.0f}",
      median([](const S& s) { return s.plan_s; }), median([](const S& s) { return s.allocate_s; }),
      median([](const S& s) { return s.graph_s; }), median([](const S& s) { return s.launch_s; }),
      median([](const S& s) { return s.before_launch(); }), median([](const S& s) { return s.tail_s; }),
      median([](const S& s) { return s.wait_s; }), median([](const S& s) { return s.finish_s; }));
}

/// What the last call cost above the slower of computing and moving, for people.
std::string outcome(const World& world) {
  const DispatchReport& report = world.measured;
  double slowest = 0;
  for (const DeviceReport& device : report.devices) slowest = std::max(slowest, device.compute_s);
  return fmt::format(
      "first calls: {}; last measured call: {}; {}; device time {:.3f} ms, slowest device {:.3f} ms, above "
      "it {:.3f} ms",
      world.first, spread_of(report), report.reason, report.measured_s * 1e3, slowest * 1e3,
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
    row.note_after = [all = where.all, one = where.one] {
      const std::string note =
          outcome(*all) + "; processor, us: " + steps(*all) + "; of one device: " + steps(*one) +
          "; one device's median over each call from the second on:" + shares(*all, *one);
      for (const auto& world : {all, one}) {
        world->times.clear();
        world->stamps.clear();
        world->first.clear();
      }
      return note;
    };
    cases.push_back(row);
  };
  add("cloud-full", heavy, Call::intersect_full, 0, DispatchMode::automatic);
  add("cloud-reflections-4", heavy, Call::reflections, 0, DispatchMode::automatic);
  add("light-full", light, Call::intersect_full, 0, DispatchMode::automatic);
  add("light-generate-reduce", light, Call::intersect_reduced, many, DispatchMode::automatic);
  // One device in eight chunks: copies hide behind launches but for one chunk's.
  const auto add_chunks = [&](const char* name, const RowSink& sink) {
    Case row;
    row.name = name;
    row.devices = devices.first().spec();
    row.work = fmt::format("{}, {} random rays, full record, one device, 8 chunks", heavy.text, rays);
    row.units = static_cast<double>(rays);
    row.all = [=, world = heavy.one] {
      return run(*world, Call::intersect_full, 0, DispatchMode::automatic, rays / 8, sink);
    };
    row.mode_after = [world = heavy.one] { return world->last.mode; };
    row.note_after = [world = heavy.one] {
      world->times.clear();
      world->stamps.clear();
      world->first.clear();
      const DeviceReport& device = world->measured.devices.front();
      return fmt::format(
          "last call: compute {:.3f} ms, copies out {:.3f} ms in 8 chunks; compute + 1.15 of one copy = "
          "{:.3f} ms",
          device.compute_s * 1e3, device.copy_out_s * 1e3,
          (device.compute_s + 1.15 * device.copy_out_s / 8) * 1e3);
    };
    cases.push_back(row);
  };
  add_chunks("chunks-to-host", to_host());
  add_chunks("chunks-offload", offload([](const RowChunk&) {}));
  add_chunks("chunks-offload-host", offload([](const RowChunk&) {}, true));
  if (devices.size() > 1)
    for (const DispatchMode mode : {DispatchMode::pipelined, DispatchMode::direct, DispatchMode::sharded}) {
      add(std::string("cloud-full-") + to_string(mode), heavy, Call::intersect_full, 0, mode);
      add(std::string("cloud-reflections-4-") + to_string(mode), heavy, Call::reflections, 0, mode);
      add(std::string("light-full-") + to_string(mode), light, Call::intersect_full, 0, mode);
    }
  return cases;
}

}  // namespace shardwise::bench
