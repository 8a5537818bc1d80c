#include "bench/scaling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "bench/meshes.hpp"
#include "shardwise/grid/prepared_operator.hpp"
#include "shardwise/radio/coverage.hpp"
#include "shardwise/rays/generators.hpp"
#include "shardwise/rays/intersect.hpp"
#include "shardwise/rays/reducers.hpp"
#include "shardwise/rays/reflections.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/sim.hpp"
#include "shardwise/runtime/sim_topology.hpp"

namespace shardwise::bench {

namespace {

/// A scene on simulated devices that compute nothing: their times are what counts.
Scene dry_scene(const SimTopology& machine) {
  OpenOptions options;
  auto topology = std::make_shared<SimTopology>(machine);
  topology->dry = true;
  options.sim_topology = topology;
  // What costs so much a row was measured on other scenes; here any will do.
  SceneModel model = cloud(1000);
  Scene scene(open_devices(fmt::format("sim:{}", machine.devices.size()), options), std::move(model),
              SceneOptions{TracerChoice::bvh});
  scene.build();
  return scene;
}

/// Virtual seconds of a call, as its master's caller sees them.
template <class Call>
double virtual_seconds(Scene& scene, const Call& call) {
  Stream& stream = *scene.executor().default_context().streams.front();
  stream.synchronize();
  const Event begin = stream.record_timed();
  call();
  const Event end = stream.record_timed();
  stream.synchronize();
  return seconds_between(begin, end);
}

struct Work {
  std::string name, text;
  double units = 0;
  /// Runs it, after whatever it has to learn; gives seconds and the mode.
  std::function<std::pair<double, std::string>(Scene&)> run;
};

/// A call on rows: the first ones learn what it costs, as those of a real program do.
template <class Call>
std::pair<double, std::string> settled(Scene& scene, const Call& call) {
  double seconds = 0;
  std::string mode;
  for (int i = 0; i < 4; ++i) seconds = virtual_seconds(scene, [&] { mode = call(); });
  return {seconds, mode};
}

/// The floor on remote shards is off: what more devices bring is the question, also where it is little.
std::vector<Work> works(bool quick) {
  const std::int64_t rows = quick ? 1 << 20 : 1 << 22, made = quick ? 1 << 22 : 1 << 26;
  // Never read: nothing is computed.
  const auto rays = [](std::int64_t count) {
    Rays batch;
    static const Vec3f nothing{};
    batch.origins = {&nothing, static_cast<std::size_t>(count)};
    batch.directions = {&nothing, static_cast<std::size_t>(count)};
    return batch;
  };
  std::vector<Work> list;
  list.push_back(
      {"intersect", fmt::format("{} rays, full record, from and to the first device's memory", rows),
       static_cast<double>(rows), [rays, rows](Scene& scene) {
         scene.require_face_data("bench scaling");
         IntersectOptions options;
         options.min_rows_per_device = 0;
         return settled(scene, [&] { return intersect(scene, rays(rows), options).get().dispatch.mode; });
       }});
  list.push_back(
      {"reflections", fmt::format("{} rays, 4 reflections, from and to the first device's memory", rows),
       static_cast<double>(rows), [rays, rows](Scene& scene) {
         scene.require_face_data("bench scaling");
         ReflectionOptions options;
         options.max_bounces = 4;
         options.min_rows_per_device = 0;
         return settled(scene,
                        [&] { return trace_reflections(scene, rays(rows), options).get().dispatch.mode; });
       }});
  list.push_back(
      {"generated",
       fmt::format("{} rays, made, traced and added up on the device that has them: nothing is copied", made),
       static_cast<double>(made), [made](Scene& scene) {
         IntersectOptions options;
         options.fields = IntersectFields::none;
         options.min_rows_per_device = 0;
         options.sink = reduce(sum_of_column(IntersectColumns::t, 1, 16));
         const RowSource source = generated(random_rays(made, {-1, -1, -1}, {1, 1, 1}, 7));
         return settled(scene, [&] { return intersect(scene, source, options).get().dispatch.mode; });
       }});
  const std::int64_t samples = quick ? 10'000'000 : 100'000'000;
  list.push_back(
      {"coverage",
       fmt::format("map of {} rays, 3 reflections, 369 x 302 cells, 8 passes, exact sums", samples),
       static_cast<double>(samples), [samples](Scene& scene) {
         CoverageOptions options;
         options.transmitters = {{{0, 0, 0.5}, 1}};
         options.grid = {2, 0.1, -1, 1, -1, 1, 369, 302};
         options.samples = samples;
         options.split.min_rows_per_device = 0;
         std::string mode;
         const double seconds =
             virtual_seconds(scene, [&] { mode = coverage(scene, options).get().dispatch.mode; });
         return std::pair{seconds, mode};
       }});
  list.push_back({"laplacian", "512^3 cells in double, slabs, the exchange behind the inner cells",
                  512. * 512 * 512, [](Scene& scene) {
                    const DeviceSet& devices = scene.devices();
                    const Blocks blocks(
                        CartesianGrid(GridSpec{{0, 0, 0}, {1, 1, 1}, {512, 512, 512}, {}, {}}),
                        LocalDevices{devices});
                    PreparedOperator<double> operation(laplacian(blocks.grid()), blocks);
                    Field<double> u(blocks, "u"), v(blocks, "v");
                    constexpr int calls = 8;
                    double begin = 0;
                    for (int i = 0; i <= calls; ++i) {
                      operation.apply(v, u);
                      if (i > 0) continue;
                      blocks.synchronize();
                      begin = devices.sim_world()->virtual_time();
                    }
                    blocks.synchronize();
                    return std::pair{(devices.sim_world()->virtual_time() - begin) / calls,
                                     std::string(devices.size() > 1 ? "slabs" : "master")};
                  }});
  return list;
}

}  // namespace

std::vector<Case> scaling_cases(const Settings& settings) {
  std::string machine = settings.devices.empty() ? "sim:h200" : settings.devices;
  const std::vector<std::string>& known = sim_machines();
  const std::string name = machine.starts_with("sim:") ? machine.substr(4) : "";
  if (std::find(known.begin(), known.end(), name) == known.end())
    throw_usage(
        fmt::format("bench scaling: --devices '{}' names no machine that it can give 1 to 64 devices; write "
                    "sim:{}, without "
                    "a number",
                    machine, fmt::join(known, " or sim:")));
  machine = name;
  std::vector<Case> cases;
  for (const Work& work : works(settings.quick))
    for (int count = 1; count <= (settings.quick ? 8 : 64); count *= 2) {
      const auto seconds_on = [work, machine](int devices) {
        Scene scene = dry_scene(sim_preset(fmt::format("{}x{}", devices, machine)));
        return work.run(scene);
      };
      const auto mode = std::make_shared<std::string>();
      Case entry;
      entry.name = fmt::format("{}-{}", work.name, count);
      entry.work = work.text;
      entry.devices = fmt::format("sim:{}x{}", count, machine);
      entry.units = work.units;
      entry.all = [seconds_on, count, mode] {
        const auto [seconds, used] = seconds_on(count);
        *mode = used;
        return seconds;
      };
      entry.one = [seconds_on] { return seconds_on(1).first; };
      entry.mode_after = [mode] { return *mode; };
      cases.push_back(std::move(entry));
    }
  return cases;
}

}  // namespace shardwise::bench
