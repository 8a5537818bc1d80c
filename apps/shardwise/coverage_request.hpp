#pragma once
// What `shardwise coverage` was asked for: the texts of its options, and the checked request they make.
// Everything that can be checked without the scene is checked here, before anything is read.

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "device_options.hpp"
#include "scene_options.hpp"
#include "shardwise/radio/coverage.hpp"

namespace shardwise::program {

/// As typed.
struct CoverageText {
  std::string scene;
  std::vector<std::string> transmitters;
  std::string frequency = "3.5GHz", samples = "auto", passes = "8", bounces = "3", polarization = "v",
              walls = "half-space", tracer = "auto", cell = "5", height, plane, area, seed = "1",
              accumulation = "exact";
  std::string png, map, error_map, count_map, json, trace;
  bool strict = false, verify = false, dry_run = false;
  DeviceOptions devices;
  SceneFileOptions scene_options;
};

void add_coverage_options(CLI::App& app, CoverageText& text);

struct Area {
  double min0, min1, max0, max1;
};

struct CoverageRequest {
  CoverageOptions options;  ///< without grid and split; samples 0 where they are to be found (auto)
  int axis = 2;
  double position = 1.5;
  double cell = 5;
  std::optional<Area> area;
  TracerChoice tracer = TracerChoice::automatic;
  Vec3d origin_shift;  ///< the scene's: positions above plus this are the user's (after to_scene_frame())
  std::string polarization, walls, frequency;  ///< as the report and the title say them
};

/// Throws usage errors.
CoverageRequest check_request(const CoverageText& text);

/// From the file's coordinates, in which users speak, to the scene's.
void to_scene_frame(CoverageRequest& request, Vec3d origin_shift);

/// Every output of the command can be written, no two are the same file, and pictures are built if one is
/// asked for.
void check_outputs(const CoverageText& text, const CoverageRequest& request);

/// The grid of the request: columns = ceil(width / cell), grown to whole cells from the lower left corner.
/// The default area is the scene's bounds. Throws a usage error where it has more than 2^28 cells.
CoverageGrid make_grid(const CoverageRequest& request, const Bounds& bounds);

/// Rays per transmitter for 16 crossings in a line-of-sight cell at the corner of the map farthest from a
/// transmitter: a cell of area A seen at distance r under the angle theta from its normal takes the share A
/// cos(theta) / (4 pi r^2) of the rays. Between 1 M and 1 G.
std::int64_t automatic_samples(const CoverageRequest& request, const CoverageGrid& grid);

/// "line of sight + 3 reflections".
std::string mechanisms_text(const CoverageOptions& options);

}  // namespace shardwise::program
