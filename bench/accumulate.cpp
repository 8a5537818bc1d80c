#include "bench/accumulate.hpp"

#include <fmt/format.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <chrono>
#include <filesystem>
#include <memory>

#include "bench/bare_embree.hpp"
#include "bench/meshes.hpp"
#include "bench/timing.hpp"
#include "radio/coverage_paths.hpp"
#include "radio/coverage_plan.hpp"
#include "scene/bvh8_kernel.hpp"
#include "scene/replica.hpp"

namespace shardwise::bench {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A scene on devices and a coverage call on it.
struct Work {
  Work(const DeviceSet& devices, const SceneModel& model, TracerChoice tracer, CoverageOptions o)
      : scene(devices, model, {tracer}), options(std::move(o)) {
    scene.build();
  }
  double run() {
    const auto start = std::chrono::steady_clock::now();
    segments = coverage(scene, options).get().segments;
    return seconds_since(start);
  }
  Scene scene;
  CoverageOptions options;
  std::int64_t segments = 0;
};

std::function<double()> runs(const std::shared_ptr<Work>& work) {
  return [work] { return work->run(); };
}

#if SHARDWISE_WITH_EMBREE

/// Notes what it is asked, and answers: for coverage_lane() and for CoveragePaths.
struct RecordingTracer {
  BvhTracer tracer;
  std::vector<TraceRay>* rays;
  Hit closest(Vec3f o, Vec3f d, float t_min, float t_max) const {
    rays->push_back({o, d, t_min, t_max});
    return tracer.closest(o, d, t_min, t_max);
  }
  void closest(const RayBatch& batch, int count, float t_min, HitBatch& hits) const {
    closest_one_by_one(*this, tracer.scene, batch, count, t_min, hits);
  }
};

struct NoSink {
  static constexpr bool wants_fields = false;
  void begin(std::uint64_t) {}
  void prefetch(std::uint32_t, std::int64_t) const {}
  bool add(std::uint64_t, std::uint32_t, int, std::int64_t, float, const FieldSample&) { return true; }
};

enum class Order { by_lane, as_traced };

/// Every segment of the call: lane after lane, or in the order in which the host traces them.
std::vector<TraceRay> record_segments(const Work& work, Order order) {
  const CoveragePlan plan = plan_coverage(work.scene, request_of(work.options));
  const CoverageRequest& r = plan.request;
  CoverageParams params;
  params.scene = work.scene.replica(0).view();
  params.grid = plan.grid;
  params.materials = plan.materials.data();
  params.material_count = static_cast<std::int32_t>(plan.materials.size());
  params.bounces = r.bounces;
  params.launch.rays_per_pass = static_cast<std::uint64_t>(r.rays_per_pass);
  params.launch.transmitters = r.transmitters.data();
  params.launch.transmitter_count = r.transmitters.size();
  params.launch.rotations = r.rotations.data();
  params.launch.polarization = r.polarization;
  std::vector<TraceRay> rays;
  NoSink sink;
  const RecordingTracer tracer{BvhTracer{params.scene}, &rays};
  if (order == Order::as_traced) {
    CoveragePaths<RecordingTracer, NoSink>(params, tracer, sink).run(0, plan.window.count);
    return rays;
  }
  for (std::int64_t lane = 0; lane < plan.window.count; ++lane)
    coverage_lane(params, tracer, sink, static_cast<std::uint64_t>(lane));
  return rays;
}

/// Seconds of `pass` over all rays in blocks, on this many threads. Its hits are counted, so that they are
/// computed.
template <class Pass>
std::function<double()> over_blocks(std::shared_ptr<const std::vector<TraceRay>> rays, int threads,
                                    Pass pass) {
  auto arena = std::make_shared<tbb::task_arena>(threads);
  const auto hits = std::make_shared<std::atomic<std::size_t>>(0);
  return [rays, arena, pass, hits] {
    const auto start = std::chrono::steady_clock::now();
    arena->execute([&] {
      constexpr std::size_t block = 4096;
      tbb::parallel_for(std::size_t{0}, (rays->size() + block - 1) / block, [&](std::size_t i) {
        const std::size_t first = i * block;
        *hits += pass(std::span<const TraceRay>(*rays).subspan(first, std::min(block, rays->size() - first)));
      });
    });
    return seconds_since(start);
  };
}

void add_host_peers(std::vector<Case>& cases, const Case& base, const std::shared_ptr<Work>& work,
                    int threads) {
  using Rays = std::shared_ptr<const std::vector<TraceRay>>;
  const auto record = [&](Order order) {
    return std::make_shared<const std::vector<TraceRay>>(record_segments(*work, order));
  };
  const Rays rays = record(Order::by_lane), traced = record(Order::as_traced);
  const SceneView view = work->scene.replica(0).view();
  for (const auto& [flags, name, text] :
       {std::tuple{RTC_SCENE_FLAG_ROBUST, "against-embree", "robust"},
        std::tuple{RTC_SCENE_FLAG_NONE, "against-embree-fast", "default"}}) {
    const auto scene = std::make_shared<BareScene>(view, flags);
    Case row = base;
    row.name = name;
    row.work = fmt::format("{}; one: a bare loop of rtcIntersect1 ({} scene) over the same {} segments",
                           base.work, text, rays->size());
    row.units = static_cast<double>(rays->size());
    row.all = runs(work);
    row.one = over_blocks(rays, threads, [scene, work](std::span<const TraceRay> block) {
      return bare_loop(scene->native(), block);
    });
    cases.push_back(row);

    row.name = std::string(name) + "-same-order";
    row.work += ", in the order in which the operation traces them";
    row.one = over_blocks(traced, threads, [scene, work](std::span<const TraceRay> block) {
      return bare_loop(scene->native(), block);
    });
    cases.push_back(row);

    row.name = std::string("body-") + name;
    row.one = over_blocks(rays, threads, [scene, work](std::span<const TraceRay> block) {
      return bare_loop(scene->native(), block);
    });
    row.work = fmt::format("closest hits of those {} segments by the BVH body; one: rtcIntersect1 ({} scene)",
                           rays->size(), text);
    row.all = over_blocks(rays, threads, [view, work](std::span<const TraceRay> block) {
      const BvhTracer tracer{view};
      std::size_t hits = 0;
      for (const TraceRay& ray : block) hits += tracer.closest(ray.o, ray.d, ray.t_min, ray.t_max).valid();
      return hits;
    });
    cases.push_back(row);
  }
}

#endif  // SHARDWISE_WITH_EMBREE

}  // namespace

std::vector<Case> accumulate_cases(const Settings& settings) {
  const DeviceSet devices = open_devices(settings.devices);
  const bool gpu = devices.master().kind() == PlatformKind::cuda;
  const SceneModel model = scene_asked_for(settings);
  const std::int64_t samples = settings.quick ? 100'000 : gpu ? 100'000'000 : 2'000'000;
  CoverageOptions options = map_of_scene(model, settings, samples);
  options.split.min_rows_per_device = 0;

  const auto exact = std::make_shared<Work>(devices, model, TracerChoice::automatic, options);
  exact->run();

  Case base;
  base.devices = devices.spec();
  base.mode = devices.size() > 1 ? "sharded" : "master";
  base.units = static_cast<double>(exact->segments);
  base.work =
      fmt::format("{}, {} rays, {} bounces, {} x {} cells",
                  settings.scene.empty() ? "city" : std::filesystem::path(settings.scene).stem().string(),
                  samples, options.bounces, options.grid.resolution0, options.grid.resolution1);
  std::vector<Case> cases;
  if (devices.size() > 1) {
    Case row = base;
    row.name = "devices";
    row.work += "; one: the first device alone";
    row.all = runs(exact);
    row.one = runs(std::make_shared<Work>(devices.first(), model, TracerChoice::automatic, options));
    cases.push_back(row);
  }
  for (const auto& [accumulation, name] :
       {std::pair{Accumulation::fast, "fast"}, std::pair{Accumulation::ordered, "ordered"}}) {
    options.accumulation = accumulation;
    Case row = base;
    row.name = std::string("exact-against-") + name;
    row.work += std::string("; one: accumulation = ") + name;
    row.all = runs(exact);
    row.one = runs(std::make_shared<Work>(devices, model, TracerChoice::automatic, options));
    cases.push_back(row);
  }
  options.accumulation = Accumulation::exact;
  if (!gpu) {
    Case row = base;
    row.name = "default-against-strict";
    row.work += "; one: the BVH on every device (strict)";
    row.all = runs(exact);
    row.one = runs(std::make_shared<Work>(devices, model, TracerChoice::bvh, options));
    cases.push_back(row);
#if SHARDWISE_WITH_EMBREE
    int threads = 0;
    for (int d = 0; d < devices.size(); ++d) threads += devices[d].info().threads;
    add_host_peers(cases, base, exact, threads);
#endif
  }
  return cases;
}

}  // namespace shardwise::bench
