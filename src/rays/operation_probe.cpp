// Random rows for every operation on rows.

#include <fmt/format.h>

#include <array>
#include <memory>

#include "dispatch/row_operation.hpp"
#include "shardwise/dispatch/operation_table.hpp"
#include "shardwise/rays/calibrate.hpp"
#include "shardwise/rays/camera.hpp"
#include "shardwise/rays/generators.hpp"
#include "shardwise/rays/intersect.hpp"
#include "shardwise/rays/nearest_edge.hpp"
#include "shardwise/rays/penetration.hpp"
#include "shardwise/rays/reflections.hpp"
#include "shardwise/rays/visible.hpp"
#include "shardwise/runtime/copy.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"

namespace shardwise {

namespace {

constexpr std::uint64_t probe_seed = 7;

/// What to run: a family and its shape, as text and, where the family counts something, as a number.
struct ProbeShape {
  std::string family, shape;
  int number = 0;
  std::string name() const { return shape.empty() ? family : family + ":" + shape; }
};

bool is_counted(const std::string& family) {
  return family == "nearest_edges" || family == "visible_chain" || family == "trace_reflections" ||
         family == "segment_penetration";
}

ProbeShape shape_of(const std::string& operation) {
  require_operation(operation, "calibrate");
  const OperationEntry& entry = *find_operation(operation);
  ProbeShape shape{entry.family, entry.shape, 0};
  if (entry.operation_class != OperationClass::rows)
    throw_usage(
        fmt::format("calibrate: '{}' is no operation on rows and has no built-in probe; calibrate it with a "
                    "call of its own",
                    operation));
  const bool given = operation.size() > shape.family.size();
  if (given) shape.shape = operation.substr(shape.family.size() + 1);
  if (is_counted(shape.family)) {
    const int least = shape.family == "visible_chain" ? 2 : shape.family == "segment_penetration" ? 0 : 1;
    const int most = shape.family == "nearest_edges" ? 16 : 1000;
    shape.number = static_cast<int>(
        parse_whole(shape.shape, fmt::format("calibrate: '{}': its shape", operation), least, most));
    return shape;
  }
  if (!given && shape.family == "intersect") shape.shape = "full";
  std::vector<std::string> known;
  for (const OperationEntry& other : operation_table())
    if (shape.family == other.family) known.push_back(other.shape);
  for (const std::string& one : known)
    if (shape.shape == one) return shape;
  throw_usage(fmt::format("calibrate: '{}' has no shape '{}'{}", shape.family, shape.shape,
                          known.front().empty() ? fmt::format("; write '{}'", shape.family)
                                                : fmt::format("; there are {}", fmt::join(known, ", "))));
}

/// Columns in the first device's memory.
class ProbeRows {
 public:
  ProbeRows(Scene& scene, std::int64_t rows, int points_a_row) : rows_(rows) {
    Stream& stream = *scene.executor().default_context().streams.front();
    const auto size = static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(points_a_row);
    points_ = Buffer<Vec3f>(stream, size, "probe points");
    directions_ = Buffer<Vec3f>(stream, size, "probe directions");
    const Bounds bounds = scene.model().geometry().bounds;
    Operation make;
    make.name = "make probe rows";
    make.items = static_cast<std::int64_t>(size);
    make.accesses = {points_.writes(), directions_.writes()};
    make.body = [points = points_.data(), directions = directions_.data(),
                 rays = random_rays(static_cast<std::int64_t>(size), bounds.low, bounds.high, probe_seed)](
                    LaunchContext& context) {
      RowLaunch launch;
      launch.count = rays.rows;
      launch.outputs[0] = points;
      launch.outputs[1] = directions;
      rays.make(context, launch);
    };
    stream.enqueue(std::move(make));
    stream.synchronize();
  }
  /// From -1 to 1 of an edge's direction, for every row.
  void add_ranges(Scene& scene) {
    Stream& stream = *scene.executor().default_context().streams.front();
    const auto size = static_cast<std::size_t>(rows_);
    const std::vector<float> low(size, -1.0f), high(size, 1.0f);
    t_min_ = Buffer<float>(stream, size, "probe t_min");
    t_max_ = Buffer<float>(stream, size, "probe t_max");
    stream.enqueue(copy_operation("t_min", t_min_.data(), low.data(), t_min_.bytes(), {t_min_.writes()}));
    stream.enqueue(copy_operation("t_max", t_max_.data(), high.data(), t_max_.bytes(), {t_max_.writes()}));
    stream.synchronize();
  }
  std::span<const Vec3f> points(int which, int count = 1) const {
    return {points_.data() + which * rows_, static_cast<std::size_t>(count * rows_)};
  }
  std::span<const Vec3f> directions() const { return {directions_.data(), static_cast<std::size_t>(rows_)}; }
  /// Any finite number is a sample.
  std::span<const Vec2f> samples() const {
    return {reinterpret_cast<const Vec2f*>(directions_.data()), static_cast<std::size_t>(rows_)};
  }
  std::span<const float> t_min() const { return {t_min_.data(), static_cast<std::size_t>(rows_)}; }
  std::span<const float> t_max() const { return {t_max_.data(), static_cast<std::size_t>(rows_)}; }
  Rays rays() const {
    Rays batch;
    batch.origins = points(0);
    batch.directions = directions();
    return batch;
  }

 private:
  std::int64_t rows_;
  Buffer<Vec3f> points_, directions_;
  Buffer<float> t_min_, t_max_;
};

template <class Options>
Options with(const RowOptions& row_options) {
  Options options;
  static_cast<RowOptions&>(options) = row_options;
  return options;
}

DispatchReport run(Scene& scene, const ProbeShape& shape, const ProbeRows& rows, const RowOptions& how) {
  const std::string& family = shape.family;
  if (family == "intersect") {
    auto options = with<IntersectOptions>(how);
    options.fields = shape.shape == "full" ? IntersectFields::all : IntersectFields::none;
    return intersect(scene, rows.rays(), options).get().dispatch;
  }
  if (family == "trace_reflections") {
    auto options = with<ReflectionOptions>(how);
    options.max_bounces = shape.number;
    return trace_reflections(scene, rows.rays(), options).get().dispatch;
  }
  if (family == "visible") {
    const Segments segments{rows.points(0), rows.points(1), {}, {}};
    return visible(scene, segments, with<VisibleOptions>(how)).get().dispatch;
  }
  if (family == "visible_pair") {
    const SegmentPairs pairs{rows.points(0), rows.points(1), rows.points(2), {}, {}};
    return visible_pair(scene, pairs, with<VisiblePairOptions>(how)).get().dispatch;
  }
  if (family == "visible_edge") {
    const EdgeSegments edges{
        rows.points(0), rows.points(1), rows.directions(), rows.t_min(), rows.t_max(), {}, {}};
    return visible_edge(scene, edges, with<VisibleEdgeOptions>(how)).get().dispatch;
  }
  if (family == "visible_chain") {
    auto options = with<VisibleChainOptions>(how);
    options.points_per_chain = shape.number;
    return visible_chain(scene, Chains{rows.points(0, shape.number), {}, {}, {}}, options).get().dispatch;
  }
  if (family == "segment_penetration") {
    auto options = with<PenetrationOptions>(how);
    options.hit_capacity = shape.number;
    return segment_penetration(scene, PenetrationSegments{rows.points(0), rows.points(1), {}}, options)
        .get()
        .dispatch;
  }
  if (family == "nearest_edge" && shape.shape == "ray")
    return nearest_edge_of_rays(scene, rows.rays(), with<RowCallOptions>(how)).get().dispatch;
  if (family == "nearest_edge")
    return nearest_edge_of_points(scene, Points{rows.points(0), {}}, with<NearestEdgeOptions>(how))
        .get()
        .dispatch;
  if (family == "nearest_edges") {
    auto options = with<NearestEdgesOptions>(how);
    options.k = shape.number;
    return nearest_edges(scene, Points{rows.points(0), {}}, options).get().dispatch;
  }
  if (family == "sample_ray")
    return sample_ray(scene, Camera{}, Samples{rows.samples(), {}}, with<RowCallOptions>(how)).get().dispatch;
  if (family == "sample_to_world")
    return sample_to_world(scene, Camera{}, Samples{rows.samples(), {}}, with<SampleToWorldOptions>(how))
        .get()
        .dispatch;
  if (family == "world_to_sample")
    return world_to_sample(scene, Camera{}, WorldPointBatch{rows.points(0)}, with<RowCallOptions>(how))
        .get()
        .dispatch;
  throw Error(ErrorClass::internal,
              fmt::format("calibrate: '{}' has no built-in probe; report this", family));
}

}  // namespace

CalibrationCall operation_probe(Scene& scene, const std::string& operation, std::int64_t rows) {
  const ProbeShape shape = shape_of(operation);
  if (rows < 1) throw_usage(fmt::format("calibrate: {} rows for '{}'; give at least 1", rows, operation));
  scene.require_ready("calibrate");
  const int points = shape.family == "visible_chain" ? shape.number : 3;
  const auto probe = std::make_shared<ProbeRows>(scene, rows, points);
  if (shape.family == "visible_edge") probe->add_ranges(scene);
  return [&scene, shape, probe](const RowOptions& options) { return run(scene, shape, *probe, options); };
}

std::string exact_operation(const std::string& operation) {
  return shape_of(operation).name();
}

CalibrationRecord calibrate(Scene& scene, const std::string& operation, std::int64_t rows,
                            const CalibrateOptions& options) {
  return calibrate(scene.devices(), exact_operation(operation), rows, operation_probe(scene, operation, rows),
                   options);
}

}  // namespace shardwise
