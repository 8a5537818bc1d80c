#include "radio/coverage_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "radio/coverage_call.hpp"
#include "scene/replica.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

namespace {

/// What the alignment of a chunk's arrays may cost: two sets of six for rows, and five for what is staged.
std::uint64_t packing_bytes(const CoverageRequest& r) {
  return ((r.rows ? 2 * 6 : 0) + (r.accumulation == Accumulation::ordered ? 5 : 0)) * PackedMemory::alignment;
}

template <class... Args>
void require(bool good, const CoverageRequest& request, fmt::format_string<Args...> text, Args&&... args) {
  if (!good) throw_usage(request.operation + ": " + fmt::format(text, std::forward<Args>(args)...));
}

void check_common(const CoverageRequest& r) {
  require(std::isfinite(r.frequency_hz) && r.frequency_hz > 0, r,
          "frequency must be a positive number of hertz (got {}); write 3.5GHz, say", r.frequency_hz);
  require(r.bounces >= 0 && r.bounces <= 1000, r, "bounces must be 0 to 1000 (got {})", r.bounces);
  require(r.bounces > 0 || r.line_of_sight, r, "nothing to count: no bounces and no line of sight");
  require(r.lane_count >= -1, r, "lane_count must be -1 for the rest, or not negative (got {})",
          r.lane_count);
}

/// What both public calls ask for under the same names, checked.
template <class Options>
void take_common(const Options& options, CoverageRequest& r) {
  r.grid = options.grid;
  r.frequency_hz = options.frequency_hz;
  r.bounces = options.bounces;
  r.line_of_sight = options.line_of_sight;
  r.field = options.field;
  r.slab_walls = options.slab_walls;
  r.accumulation = options.accumulation;
  r.lane_offset = options.lane_offset;
  r.lane_count = options.lane_count;
  r.split = options.split;
  r.progress = options.progress;
  r.cancel = options.cancel;
  check_common(r);
}

}  // namespace

std::int64_t coverage_lanes(const CoverageOptions& options) {
  return static_cast<std::int64_t>(options.passes) * static_cast<std::int64_t>(options.transmitters.size()) *
         rays_per_pass(options.samples, options.passes);
}

CoverageRequest request_of(const CoverageOptions& options) {
  CoverageRequest r;
  r.operation = "coverage";
  r.passes = options.passes;
  take_common(options, r);

  require(!options.transmitters.empty(), r, "no transmitter; give at least one");
  require(options.passes >= 1 && options.passes <= 4096, r, "passes must be 1 to 4096 (got {})",
          options.passes);
  require(options.samples >= 1 && options.samples <= (std::int64_t{1} << 40), r,
          "samples must be 1 to 2^40 (got {})", options.samples);
  require(options.samples >= options.passes, r,
          "samples ({}) must not be fewer than passes ({}): every pass launches at least one ray; raise "
          "samples or lower passes",
          options.samples, options.passes);
  for (std::size_t i = 0; i < options.transmitters.size(); ++i) {
    const Transmitter& tx = options.transmitters[i];
    require(is_finite(tx.position) && is_finite(to_float(tx.position)), r,
            "transmitter {} has a position that is not finite ({}, {}, {})", i, tx.position.x, tx.position.y,
            tx.position.z);
    require(std::isfinite(tx.gain) && tx.gain > 0, r, "transmitter {} has the gain {}; it must be positive",
            i, tx.gain);
    r.largest_gain = i == 0 ? tx.gain : std::max(r.largest_gain, tx.gain);
    r.transmitters.push_back(launch_transmitter(tx.position, tx.gain));
  }
  r.per_transmitter = options.per_transmitter;
  r.sums = options.sums;
  require(!r.sums || r.accumulation == Accumulation::exact, r,
          "sums are handed back with exact accumulation alone; the others depend on the split");
  require(!r.sums || !r.field, r, "sums are handed back without the field; leave one of them out");
  r.polarization = make_polarization(options.polarization);
  r.rays_per_pass = rays_per_pass(options.samples, options.passes);
  r.total_lanes = coverage_lanes(options);
  r.rotations = launch_rotations(options.seed, options.passes, options.transmitters.size());
  r.solid_angle_per_ray =
      4 * std::numbers::pi / (static_cast<double>(r.rays_per_pass) * static_cast<double>(options.passes));
  return r;
}

CoverageRequest request_of(const RayRows& rows, const AccumulateOptions& options) {
  CoverageRequest r;
  r.operation = "accumulate_reflections";
  take_common(options, r);

  const std::size_t n = rows.origins.size();
  const auto rows_or = [&](std::size_t size, std::size_t other, const char* name, const char* shape) {
    require(size == n || size == other, r, "{} must match the ray batch size: {} rows, got {}", name, shape,
            size);
  };
  require(rows.directions.size() == n, r,
          "directions must match the ray batch size ({} origins, {} directions)", n, rows.directions.size());
  rows_or(rows.tmax.size(), 0, "tmax", "N or none");
  rows_or(rows.active.size(), 0, "active", "N or none");
  require(rows.transmitters.size() == n || rows.transmitters.size() <= 1, r,
          "transmitters must match the ray batch size: N, 1 or 0 rows, got {} for {} rays",
          rows.transmitters.size(), n);
  require(rows.polarizations.size() == n || rows.polarizations.size() == 1, r,
          "polarizations must match the ray batch size: N rows or 1, got {} for {} rays",
          rows.polarizations.size(), n);
  require(std::isfinite(options.solid_angle_per_ray) && options.solid_angle_per_ray > 0, r,
          "solid_angle_per_ray must be positive (got {}); 4 pi / rays of the whole launch for a full sphere",
          options.solid_angle_per_ray);
  r.rows = rows;
  r.total_lanes = static_cast<std::int64_t>(n);
  r.rays_per_pass = std::max<std::int64_t>(r.total_lanes, 1);
  r.solid_angle_per_ray = options.solid_angle_per_ray;
  return r;
}

std::pair<std::int64_t, std::int64_t> CoveragePlan::grids_of(Window w) const {
  if (w.empty()) return {0, 0};
  const std::int64_t lanes_per_grid =
      request.rays_per_pass *
      (request.per_transmitter
           ? 1
           : std::max<std::int64_t>(1, static_cast<std::int64_t>(request.transmitters.size())));
  const std::int64_t first = w.begin / lanes_per_grid, last = (w.end() - 1) / lanes_per_grid;
  return {first, last - first + 1};
}

std::pair<std::int64_t, std::int64_t> CoveragePlan::master_grids() const {
  const auto [first, count] = grids_of(request.held ? request.held_lanes : window);
  const std::int64_t whole = grids_per_pass();
  const std::int64_t begin = first / whole * whole;
  const std::int64_t end = (first + std::max<std::int64_t>(count, 1) + whole - 1) / whole * whole;
  return {begin, end - begin};
}

FinishTarget finish_constants(const CoverageRequest& r, double scale) {
  const double per_length = speed_of_light / r.frequency_hz / (4 * std::numbers::pi),
               density = r.solid_angle_per_ray / r.grid.cell_area();
  FinishTarget constants{};
  constants.cell_count = r.grid.cell_count();
  constants.passes = r.passes;
  constants.factor = per_length * per_length * density / scale;
  constants.pass_factor = constants.factor * r.passes;
  return constants;
}

bool is_sum_scale(double scale) {
  int exponent = 0;
  return std::isfinite(scale) && std::frexp(scale, &exponent) == 0.5;
}

std::uint64_t CoveragePlan::cell_bytes() const {
  return request.accumulation == Accumulation::exact ? sizeof(ExactCell) : sizeof(FastCell);
}

std::uint64_t CoveragePlan::field_bytes() const {
  if (!request.field) return 0;
  return 6 * (request.accumulation == Accumulation::exact ? sizeof(ExactSum) : sizeof(double));
}

CoveragePlan plan_coverage(const Scene& scene, CoverageRequest request) {
  scene.require_ready(request.operation);
  CoveragePlan plan;
  plan.request = std::move(request);
  const CoverageRequest& r = plan.request;
  const SceneGeometry& geometry = scene.model().geometry();
  try {
    plan.window = lane_window(r.lane_offset, r.lane_count, r.total_lanes);
  } catch (const std::invalid_argument& error) {
    throw_usage(r.operation + ": " + error.what());
  }
  const CoverageGrid& g = r.grid;
  plan.grid =
      make_grid_view(g.axis, g.position, g.min0, g.max0, g.min1, g.max1, g.resolution0, g.resolution1);
  const std::int64_t grids = static_cast<std::int64_t>(r.passes) * r.grids_per_pass();
  const std::int64_t slots = plan.cell_count() * grids;
  require(slots < (std::int64_t{1} << 32), r,
          "the map has {} cells in {} passes{}; at most 2^32 together: use larger cells", plan.cell_count(),
          r.passes, r.per_transmitter ? fmt::format(" of {} transmitters", r.transmitters.size()) : "");
  require(exact_limits_hold(1, r.total_lanes * (r.bounces + 1)) && r.total_lanes < (std::int64_t{1} << 42), r,
          "{} lanes of {} legs are more than 2^42 contributions; lower samples", r.total_lanes,
          r.bounces + 1);

  for (const MaterialAtFrequency& m : scene.model().evaluate_materials(r.frequency_hz, &plan.warnings))
    plan.materials.push_back(make_surface_material(m.eta_r, m.perfect_conductor ? INFINITY : m.sigma, m.mu_r,
                                                   m.thickness, m.gain, r.frequency_hz));
  plan.scale = exact_scale(power_bound(r.largest_gain, plan.materials, r.bounces));
  plan.field_scale = exact_scale(field_bound(r.largest_gain, plan.materials, r.bounces));
  const double span0 = g.max0 - g.min0, span1 = g.max1 - g.min1;
  plan.diagonal = geometry.diagonal > 0 ? geometry.diagonal : std::sqrt(span0 * span0 + span1 * span1);

  const bool exact = r.accumulation == Accumulation::exact;
  const double per_length = speed_of_light / r.frequency_hz / (4 * std::numbers::pi),
               density = r.solid_angle_per_ray / g.cell_area();
  plan.constants = finish_constants(r, exact ? plan.scale : 1.0);
  plan.constants.field_factor = per_length * density * plan.diagonal / (exact ? plan.field_scale : 1.0);
  plan.with_standard_error =
      r.passes > 1 && (r.held_given ? r.held_lanes : plan.window).count == r.total_lanes;

  LaneCosts costs;
  costs.operation = r.operation;
  const std::uint64_t legs = static_cast<std::uint64_t>(r.bounces) + 1;
  if (r.accumulation == Accumulation::ordered) {
    costs.lane_bytes += legs * (sizeof(StagedSlot) + (r.field ? sizeof(FieldSample) : 0));
    costs.cap_lanes = ((std::int64_t{1} << 31) - 1) / static_cast<std::int64_t>(legs);
    costs.cap_reason = "a launch stages at most 2^31 - 1 contributions";
    // Keys, their order, both twice, and the sort's scratch, which is about one more pair.
    if (scene.devices().master().kind() == PlatformKind::cuda) costs.lane_bytes += legs * 25;
  } else {
    costs.cap_lanes = exact_max_between_normalize / static_cast<std::int64_t>(legs);
    costs.cap_reason = "an exact cell takes at most 2^31 - 2 contributions between two normalisations";
  }
  // A launch at least this often: progress and cancelling need it, and at this size it costs nothing.
  if (costs.cap_lanes > (std::int64_t{1} << 26) && (r.progress || r.cancel)) {
    costs.cap_lanes = std::int64_t{1} << 26;
    costs.cap_reason = "a launch of at most 2^26 lanes, so that progress shows and a cancel is heard";
  }
  if (r.rows) {
    const std::uint64_t row_bytes = 2 * sizeof(Vec3f) + (r.rows->tmax.empty() ? 0 : sizeof(float)) +
                                    (r.rows->active.empty() ? 0 : 1) +
                                    (r.rows->transmitters.size() > 1 ? sizeof(Vec3f) : 0) +
                                    (r.rows->polarizations.size() > 1 ? sizeof(Vec3f) : 0);
    // Two chunks of rows are resident, but contributions are staged for one.
    const bool staged = r.accumulation == Accumulation::ordered;
    costs.resident_chunks = staged ? 1 : 2;
    costs.lane_bytes += staged ? 2 * row_bytes : row_bytes;
  }
  const std::uint64_t pass_bytes = plan.grid_cell_bytes() + plan.grid_field_bytes();
  costs.partial_bytes = pass_bytes;
  CoverageTables layout;
  lay_out(plan, layout);
  const std::uint64_t tables = layout.memory.size() + sizeof(CoverageCounters) + packing_bytes(r);
  const bool several = scene.devices().size() > 1;
  costs.fixed_bytes = [&, pass_bytes, tables, several](int device, Window shard) -> std::uint64_t {
    const auto held =
        static_cast<std::uint64_t>(device == 0 ? plan.master_grids().second : plan.grids_of(shard).second);
    const std::uint64_t merging = device == 0 ? plan.result_bytes() + (several ? pass_bytes : 0) : 0;
    return held * pass_bytes + tables + merging;
  };
  plan.lanes = plan_lanes(scene.devices(), plan.window, r.split, costs, scene.retired());
  return plan;
}

}  // namespace shardwise
