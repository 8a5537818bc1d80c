#pragma once
// Path-gain maps by launching rays: line of sight and specular reflections, added up on a plane.

#include <atomic>
#include <complex>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shardwise/dispatch/split_options.hpp"
#include "shardwise/numeric/accumulation.hpp"
#include "shardwise/numeric/vec3.hpp"
#include "shardwise/radio/coverage_grid.hpp"
#include "shardwise/radio/coverage_sums.hpp"
#include "shardwise/runtime/pending.hpp"
#include "shardwise/scene/scene.hpp"

namespace shardwise {

/// An isotropic transmitter. `gain` is linear.
struct Transmitter {
  Vec3d position;
  double gain = 1;
};

/// Reports how far a call has come; called on the waiting thread.
using ProgressFunction = std::function<void(std::int64_t lanes_done, std::int64_t lanes_total)>;

struct CoverageOptions {
  std::vector<Transmitter> transmitters;
  CoverageGrid grid;
  double frequency_hz = 3.5e9;
  std::int64_t samples = 1'000'000;  ///< rays per transmitter, all passes together
  int passes = 8;                    ///< independent estimates; the standard error needs two
  int bounces = 3;
  bool line_of_sight = true;     ///< count crossings before the first bounce
  bool field = false;            ///< also the complex field, averaged over each cell
  bool per_transmitter = false;  ///< also a map of each transmitter: as many times the memory
  bool sums = false;             ///< hand back exact sums in place of maps: `exact` alone, without `field`
  bool slab_walls = false;       ///< reflect from a slab of the material's thickness, not a half-space
  Vec3d polarization{0, 0, 1};   ///< of every transmitter; projected transverse to each ray
  std::uint64_t seed = 1;
  Accumulation accumulation = Accumulation::exact;
  std::int64_t lane_offset = 0;  ///< first lane of the window (coverage_lanes)
  std::int64_t lane_count = -1;  ///< lanes of the window; negative: the rest
  SplitOptions split;
  ProgressFunction progress;
  const std::atomic<bool>* cancel = nullptr;  ///< becomes true: wait() throws `interrupted`
};

struct CoverageResult {
  std::vector<double> gain;             ///< [cells] linear path gain, summed over transmitters
  std::vector<double> standard_error;   ///< [cells] of `gain`; empty with one pass, or a window of the lanes
  std::vector<std::int64_t> crossings;  ///< [cells]
  std::vector<std::complex<double>>
      field;  ///< [cells, 3] transfer field, summed over transmitters; empty unless asked for
  std::vector<double> transmitter_gain;            ///< [transmitters, cells] with per_transmitter, else empty
  std::vector<double> transmitter_standard_error;  ///< [transmitters, cells] likewise
  std::vector<std::int64_t> transmitter_crossings;  ///< [transmitters, cells] likewise
  CoverageSums sums;               ///< with CoverageOptions::sums; the maps above are empty then
  std::int64_t lanes = 0;          ///< of the window
  std::int64_t rays_per_pass = 0;  ///< N: lanes of one pass of one transmitter
  std::int64_t segments = 0;       ///< closest-hit queries made
  std::int64_t rejected = 0;       ///< lanes that were inactive (non-finite input)
  DispatchReport dispatch;
  std::vector<std::string> warnings;  ///< of materials outside their range
};

/// Total lanes of a call: passes x transmitters x N with N = ceil(samples / passes). A lane is one ray:
/// lane = (pass x transmitters + transmitter) x N + i.
std::int64_t coverage_lanes(const CoverageOptions& options);

/// Path gain on `options.grid`: each cell holds the sum over paths of |E|^2 of a unit-power isotropic
/// transmitter and a matched isotropic receiver, averaged over the cell. A crossing of the plane adds
/// W dOmega (lambda / 4 pi)^2 |E|^2 / (A cos): W the transmitter's gain, dOmega = 4 pi / rays, A the cell's
/// area, cos that of the angle to the plane's normal (Hoydis et al., "Sionna RT", 2023). The scene must be
/// built, and outlive the result's wait(). Throws before any device work: usage errors of the options, state
/// errors of the scene, budget errors of the plan. wait() throws what happens later.
Pending<CoverageResult> coverage(Scene& scene, const CoverageOptions& options);

}  // namespace shardwise
