#pragma once
// What `shardwise coverage` was asked for: the texts of its options, and the checked request they make.
// Everything that can be checked without the scene is checked here, before anything is read.

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "device_options.hpp"
#include "place.hpp"
#include "scene_options.hpp"
#include "shardwise/radio/coverage.hpp"

namespace shardwise::program {

/// Files that a map is written to, here and by `merge`; empty: not asked for.
struct CoverageFiles {
  std::string png, map, error_map, count_map, json, trace, partial;
};

/// As typed.
struct CoverageText : CoverageFiles {
  std::string scene;
  std::vector<std::string> transmitters;
  std::string frequency = "3.5GHz", samples = "auto", passes = "8", bounces = "3", polarization = "v",
              walls = "half-space", tracer = "auto", cell = "5", height, plane, area, seed = "1",
              accumulation = "exact";
  std::string lanes, checkpoint, resume, checkpoint_every = "60", target_error;
  bool strict = false, verify = false, dry_run = false, per_tx = false;
  DeviceOptions devices;
  SceneFileOptions scene_options;
};

/// --png, --map, --error-map, --count-map, --json.
void add_map_outputs(CLI::App& app, CoverageFiles& files);

void add_coverage_options(CLI::App& app, CoverageText& text);

/// A run in pieces: what of it is done here, and where it is kept.
struct PieceRequest {
  std::int64_t first_lane = 0, end_lane = -1;  ///< --lanes; -1: the rest
  bool has_window = false;
  std::string partial, checkpoint, resume;  ///< files; `checkpoint` is `resume` where only that is given
  double checkpoint_every_s = 60;
  std::optional<double> target_error_db;

  /// Whether sums are kept on the host, in place of one call that makes a map.
  bool wanted() const {
    return has_window || !partial.empty() || !checkpoint.empty() || !resume.empty() ||
           target_error_db.has_value();
  }
};

struct CoverageRequest {
  CoverageOptions options;  ///< without grid and split; samples 0 where they are to be found (auto)
  std::vector<Site> sites;  ///< of the transmitters, whose positions place_request() fills in
  Height height{Height::Above::zero, 1.5};
  int axis = 2;
  double position = 1.5;
  double cell = 5;
  std::optional<Area> area;
  TracerChoice tracer = TracerChoice::automatic;
  PieceRequest pieces;
  Vec3d origin_shift;  ///< the scene's, after place_request(): positions here plus this are the user's
  std::string polarization, walls, frequency;  ///< as the report and the title say them
};

/// Throws usage errors.
CoverageRequest check_request(const CoverageText& text);

/// Every output can be written, no two are the same file, and pictures are built if one is asked for. A
/// checkpoint may be the file that the run resumes from, or its partial.
void check_outputs(const CoverageFiles& files, int axis, const std::string& checkpoint = {});

/// From the file's coordinates, in which users speak, to the scene's, which are less by `origin_shift`: puts
/// transmitters and the map where the scene makes them stand, and finds the grid and the rays (auto).
/// Throws usage errors.
void place_request(CoverageRequest& request, const Surfaces& surfaces, const Vec3d& origin_shift);

/// Lanes of the run, or of its window.
std::int64_t lanes_of(const CoverageRequest& request);

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
