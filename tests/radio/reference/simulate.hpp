#pragma once
// A whole coverage map by a plain serial loop over coverage_lane: what the library call must reproduce.

#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

#include "radio/coverage_kernel.hpp"
#include "radio/coverage_setup.hpp"
#include "reference/brute_tracer.hpp"
#include "reference/test_scene.hpp"

namespace shardwise::test {

struct SimulateOptions {
  struct Source {
    Vec3d position;
    double gain = 1;
  };
  std::vector<Source> transmitters;
  int axis = 2;
  double position = 1.5, min0 = 0, max0 = 1, min1 = 0, max1 = 1;
  std::int64_t resolution0 = 1, resolution1 = 1;
  double frequency_hz = 3.5e9;
  std::int64_t samples = 100000;
  int passes = 1;
  int bounces = 0;
  bool line_of_sight = true;
  bool slab_walls = false;
  Vec3d polarization{0, 0, 1};
  std::uint64_t seed = 1;

  double cell_area() const {
    return (max0 - min0) / static_cast<double>(resolution0) *
           ((max1 - min1) / static_cast<double>(resolution1));
  }
  double wavelength() const { return speed_of_light / frequency_hz; }
};

struct SimulateResult {
  std::vector<double> gain;            ///< [cells]
  std::vector<double> standard_error;  ///< [cells]; empty with one pass
  std::vector<std::int64_t> crossings;
  std::vector<std::array<std::complex<double>, 3>> field;  ///< [cells]; where asked for
  std::int64_t segments = 0, overflow = 0, lanes = 0;
};

/// Holds the tables that CoverageParams points into.
struct SimulateSetup {
  std::vector<SurfaceMaterial> materials;
  std::vector<LaunchTransmitter> transmitters;
  std::vector<LaunchRotation> rotations;
  CoverageParams params;
  std::int64_t rays = 0, lanes = 0;

  SimulateSetup(const TestScene& scene, const SimulateOptions& options)
      : materials(scene.materials(options.frequency_hz)),
        rotations(launch_rotations(options.seed, options.passes, options.transmitters.size())) {
    for (const auto& source : options.transmitters)
      transmitters.push_back(launch_transmitter(source.position, source.gain));
    rays = rays_per_pass(options.samples, options.passes);
    lanes = rays * options.passes * static_cast<std::int64_t>(transmitters.size());
    params.scene = scene.view();
    params.launch.rays_per_pass = static_cast<std::uint64_t>(rays);
    params.launch.transmitter_count = transmitters.size();
    params.launch.transmitters = transmitters.data();
    params.launch.rotations = rotations.data();
    params.launch.polarization = make_polarization(options.polarization);
    params.grid = make_grid_view(options.axis, options.position, options.min0, options.max0, options.min1,
                                 options.max1, options.resolution0, options.resolution1);
    params.materials = materials.data();
    params.material_count = static_cast<std::int32_t>(materials.size());
    params.bounces = options.bounces;
    params.line_of_sight = options.line_of_sight;
    params.slab_walls = options.slab_walls;
    params.inverse_wavelength = 1 / options.wavelength();
    params.inverse_diagonal = 1 / static_cast<double>(params.scene.diagonal);
  }
  SimulateSetup(const SimulateSetup&) = delete;
  SimulateSetup& operator=(const SimulateSetup&) = delete;
};

template <bool Fields, class Tracer>
SimulateResult simulate_with(const TestScene& scene, const SimulateOptions& options, const Tracer& tracer) {
  const SimulateSetup setup(scene, options);
  const std::uint64_t cells = setup.params.grid.cell_count();
  const auto passes = static_cast<std::uint64_t>(options.passes);
  std::vector<ExactCell> grid(cells * passes, ExactCell{});
  std::vector<ExactSum> fields(Fields ? cells * passes * 6 : 0, ExactSum{});
  double largest = 0;
  for (const auto& source : options.transmitters) largest = std::max(largest, source.gain);

  ExactSink<Fields> sink;
  sink.window = {cells, 0};
  sink.cells = grid.data();
  sink.fields = fields.data();
  sink.scale = exact_scale(power_bound(largest, setup.materials, options.bounces));
  sink.field_scale = exact_scale(field_bound(largest, setup.materials, options.bounces));
  SimulateResult result;
  result.lanes = setup.lanes;
  for (std::int64_t lane = 0; lane < setup.lanes; ++lane) {
    const LaneCounters counters = coverage_lane(setup.params, tracer, sink, static_cast<std::uint64_t>(lane));
    result.segments += counters.segments;
    result.overflow += counters.overflow;
  }

  const std::int64_t rays = setup.rays * options.passes;
  const double factor = power_factor(options.wavelength(), rays, options.cell_area()) / sink.scale;
  const double field_unit =
      field_factor(options.wavelength(), rays, options.cell_area(), setup.params.scene.diagonal) /
      sink.field_scale;
  for (std::uint64_t cell = 0; cell < cells; ++cell) {
    ExactCell sum{};
    double squares = 0, mean = 0;
    for (std::uint64_t pass = 0; pass < passes; ++pass) {
      const ExactCell part = grid[pass * cells + cell];
      merge(sum, part);
      mean += to_double(part) / static_cast<double>(passes);
    }
    for (std::uint64_t pass = 0; pass < passes; ++pass) {
      const double off = to_double(grid[pass * cells + cell]) - mean;
      squares += off * off;
    }
    result.gain.push_back(to_double(sum) * factor);
    result.crossings.push_back(sum.count);
    if (passes > 1) {  // of the mean of `passes` estimates, each with passes times the weight
      const double p = static_cast<double>(passes);
      result.standard_error.push_back(std::sqrt(squares / (p * (p - 1))) * p * factor);
    }
    if constexpr (Fields) {
      std::array<std::complex<double>, 3> field;
      for (int k = 0; k < 3; ++k) {
        ExactSum re{}, im{};
        for (std::uint64_t pass = 0; pass < passes; ++pass) {
          merge(re, fields[(pass * cells + cell) * 6 + 2 * k]);
          merge(im, fields[(pass * cells + cell) * 6 + 2 * k + 1]);
        }
        field[k] = {to_double(re) * field_unit, to_double(im) * field_unit};
      }
      result.field.push_back(field);
    }
  }
  return result;
}

inline SimulateResult simulate(const TestScene& scene, const SimulateOptions& options, bool fields = false) {
  const BruteTracer tracer(scene.view());
  return fields ? simulate_with<true>(scene, options, tracer) : simulate_with<false>(scene, options, tracer);
}

}  // namespace shardwise::test
