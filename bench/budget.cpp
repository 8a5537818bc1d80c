#include "bench/budget.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <memory>

#include "bench/meshes.hpp"
#include "dispatch/row_dispatcher.hpp"
#include "runtime/system_memory.hpp"
#include "shardwise/rays/generators.hpp"
#include "shardwise/rays/reducers.hpp"
#include "shardwise/rays/reflections.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::bench {

namespace {

constexpr std::uint64_t budget_bytes = 64ull << 20;

struct Peaks {
  std::uint64_t counted = 0, system = 0;
};

/// A scene on one device, and what its last call used above it.
struct World {
  explicit World(const DeviceSet& devices) : scene(devices, cloud(1 << 12)) { scene.build(); }

  ReflectionOptions options() const {
    ReflectionOptions options;
    options.max_bounces = 2;
    options.fields = ReflectionFields::none;
    options.memory_bytes = budget_bytes;
    return options;
  }

  double run(const RowSource& rays, RowSink sink) {
    ReflectionOptions reflections = options();
    reflections.sink = std::move(sink);
    Device& device = scene.devices().master();
    device.memory(MemoryUse::work).reset_peak();
    const std::uint64_t before = start_system_peak(device);
    const auto start = std::chrono::steady_clock::now();
    last = trace_reflections(scene, rays, reflections).get().dispatch;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    peaks = {last.devices.front().peak_bytes, system_peak(device) - before};
    return seconds;
  }

  std::string note() const {
    return fmt::format(
        "budget {} bytes, counted peak {} ({:.3f}), by the system {} ({:.3f} of the counted); {} chunks "
        "of {} rows",
        budget_bytes, peaks.counted, static_cast<double>(peaks.counted) / budget_bytes, peaks.system,
        static_cast<double>(peaks.system) / static_cast<double>(peaks.counted), last.chunk_count,
        last.chunk_rows);
  }

  Scene scene;
  DispatchReport last;
  Peaks peaks;
};

/// Rays in host memory, all touched.
struct HostRays {
  explicit HostRays(std::int64_t rows)
      : origins(static_cast<std::size_t>(rows)), directions(static_cast<std::size_t>(rows)) {
    const DeviceSet host = open_devices("host:1");
    const auto stream = host.master().create_stream("rays");
    Operation make;
    make.name = "make rays";
    make.body = [&](LaunchContext& context) {
      RowLaunch launch;
      launch.count = rows;
      launch.outputs[0] = origins.data();
      launch.outputs[1] = directions.data();
      random_rays(rows, {-1, -1, -1}, {1, 1, 1}, 7).make(context, launch);
    };
    stream->enqueue(std::move(make));
    stream->synchronize();
  }
  Rays batch() const {
    Rays rays;
    rays.origins = origins;
    rays.directions = directions;
    return rays;
  }
  std::vector<Vec3f> origins, directions;
};

/// Why the same batch in the master's memory does not fit.
std::string refusal(World& world, std::int64_t rows) {
  Buffer<Vec3f> origins(*world.scene.executor().default_context().streams.front(),
                        static_cast<std::uint64_t>(rows), "origins");
  Rays rays;
  rays.origins = rays.directions = {origins.data(), static_cast<std::size_t>(rows)};
  try {
    (void)trace_reflections(world.scene, rays, world.options());
  } catch (const Error& error) {
    return error.what();
  }
  throw Error(ErrorClass::internal, "bench budget: a batch above the budget was not refused");
}

}  // namespace

std::vector<Case> budget_cases(const Settings& settings) {
  const DeviceSet devices = open_devices(settings.devices).first();
  const std::int64_t rows = settings.quick ? 2'000'000 : 50'000'000;
  const auto world = std::make_shared<World>(devices);
  const auto host_rays = std::make_shared<HostRays>(rows);
  const RowGenerator rays = random_rays(rows, {-1, -1, -1}, {1, 1, 1}, 7);
  const auto seen = std::make_shared<std::atomic<std::int64_t>>(0);
  const RowHook count = [seen](const RowChunk& chunk) { *seen += chunk.count; };

  std::vector<Case> cases;
  const auto add = [&](const char* name, std::string text, std::function<double()> run) {
    Case row;
    row.name = name;
    row.work = fmt::format("{} rays, 2 reflections, reduced; {}", rows, text);
    row.devices = devices.spec();
    row.units = static_cast<double>(rows);
    row.all = std::move(run);
    row.mode_after = [world] { return world->last.mode; };
    row.note_after = [world] { return world->note(); };
    cases.push_back(row);
  };
  add("generated-offload", "made on the device, offloaded", [=] {
    *seen = 0;
    const double seconds = world->run(generated(rays), offload(count));
    if (*seen != rows) throw Error(ErrorClass::internal, "bench budget: rows were lost");
    return seconds;
  });
  add("generated-reduce", "made on the device, reduced",
      [=] { return world->run(generated(rays), reduce(sum_of_column(ReflectionColumns::t, 2, 16))); });
  add("on-host-offload", "from host memory, offloaded; on the master: " + refusal(*world, rows),
      [=] { return world->run(on_host(host_rays->batch()), offload(count)); });
  return cases;
}

}  // namespace shardwise::bench
