#include "coverage_request.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "command.hpp"
#include "output_file.hpp"
#include "picture.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"
#include "values.hpp"

namespace shardwise::program {
namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t most_cells = std::int64_t{1} << 28;

void read_plane(const CoverageText& text, CoverageRequest& request) {
  if (!text.plane.empty() && !text.height.empty()) {
    throw_usage(
        fmt::format("--height '{}' and --plane '{}' both place the map; give one", text.height, text.plane));
  }
  if (text.plane.empty()) {
    request.height = parse_height("--height", text.height.empty() ? "1.5" : text.height);
    return;
  }
  if (text.plane.size() < 3 || text.plane[1] != '=' || text.plane[0] < 'x' || text.plane[0] > 'z') {
    throw_usage(fmt::format("--plane is x=.., y=.. or z=.. in metres (found '{}')", text.plane));
  }
  request.axis = text.plane[0] - 'x';
  const Height position = parse_height("--plane", text.plane.substr(2));
  if (position.above != Height::Above::zero) {
    throw_usage(
        fmt::format("--plane '{}': planes are absolute; give metres, or --height ground+1.5 for a map over "
                    "the ground",
                    text.plane));
  }
  request.position = position.metres;
  request.height = position;
}

/// "0.5dB" or "0.5".
double read_decibels(const std::string& option, const std::string& text) {
  const std::string number = text.ends_with("dB") ? text.substr(0, text.size() - 2) : text;
  const double value = parse_number(number, option);
  if (!(value > 0)) throw_usage(fmt::format("{} must be above zero (found '{}')", option, text));
  return value;
}

void read_lanes(const std::string& text, PieceRequest& pieces) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || text.find(':', colon + 1) != std::string::npos) {
    throw_usage(fmt::format(
        "--lanes is A:B, the lanes from A up to, and without, B (found '{}'); 'coverage --dry-run' "
        "says how many there are",
        text));
  }
  pieces.has_window = true;
  if (colon > 0) pieces.first_lane = count_value("--lanes", text.substr(0, colon), 0, most);
  if (colon + 1 < text.size()) pieces.end_lane = count_value("--lanes", text.substr(colon + 1), 1, most);
  if (pieces.end_lane >= 0 && pieces.first_lane >= pieces.end_lane) {
    throw_usage(fmt::format("--lanes is empty ('{}'); give A below B", text));
  }
}

void read_pieces(const CoverageText& text, CoverageRequest& request) {
  PieceRequest& pieces = request.pieces;
  if (!text.lanes.empty()) read_lanes(text.lanes, pieces);
  pieces.partial = text.partial;
  pieces.resume = text.resume;
  pieces.checkpoint = text.checkpoint.empty() ? text.resume : text.checkpoint;
  pieces.checkpoint_every_s = positive_value("--checkpoint-every", text.checkpoint_every);
  if (!text.target_error.empty()) {
    pieces.target_error_db = read_decibels("--target-error", text.target_error);
    if (!text.lanes.empty() || !text.partial.empty()) {
      throw_usage(fmt::format(
          "--target-error and {} exclude each other: how many lanes there are is known at the end "
          "alone; leave one out",
          text.lanes.empty() ? "--partial" : "--lanes"));
    }
    if (request.options.passes < 2) {
      throw_usage("--target-error needs at least two passes (found --passes 1); raise --passes");
    }
  }
  if (pieces.wanted() && request.options.accumulation != Accumulation::exact) {
    const char* option = !text.lanes.empty()        ? "--lanes"
                         : !text.partial.empty()    ? "--partial"
                         : !text.checkpoint.empty() ? "--checkpoint"
                         : !text.resume.empty()     ? "--resume"
                                                    : "--target-error";
    throw_usage(
        fmt::format("{} needs --accumulation exact (found '{}'): other sums depend on how they were cut",
                    option, text.accumulation));
  }
  if (pieces.has_window && !text.error_map.empty()) {
    throw_usage(
        "--error-map needs all lanes; leave it out of a run with --lanes, and give it to 'shardwise merge'");
  }
}

Vec3d read_polarization(const std::string& text) {
  if (text == "v") return {0, 0, 1};
  if (text == "h") return {0, 1, 0};
  if (text.find(',') == std::string::npos) word_value("--polarization", text, {"v", "h", "x,y,z"});
  const Vec3d vector = point_value("--polarization", text);
  if (!(length(vector) > 0)) throw_usage(fmt::format("--polarization must not be zero (found '{}')", text));
  return normalized(vector);
}

}  // namespace

void add_map_outputs(CLI::App& app, CoverageFiles& files) {
  const auto add = [&app](const char* name, std::string& target, const char* help) {
    app.add_option(name, target, help)->type_name("FILE")->group("Output");
  };
  add("--png", files.png, "Picture of the map, with a world file beside it");
  add("--map", files.map, "Linear path gain, NPY, float64 [rows, columns], row 0 at the smallest y");
  add("--error-map", files.error_map, "Standard errors of the gains, NPY, float64");
  add("--count-map", files.count_map, "Crossings per cell, NPY, int64");
  add("--json", files.json, "Report as JSON ('-': to standard output, alone)");
}

void add_coverage_options(CLI::App& app, CoverageText& text) {
  const auto add = [&app](const std::string& name, std::string& target, const std::string& help,
                          const char* type, const char* group) {
    app.add_option(name, target, help)->type_name(type)->group(group);
  };
  add("scene", text.scene, kSceneHelp, "SCENE", "Scene");
  add_scene_options(app, text.scene_options);

  app.add_option("--tx", text.transmitters,
                 "A transmitter, metres; z may be roof+3 or ground+1.5; repeat for more")
      ->type_name("X,Y,Z")
      ->allow_extra_args(false)
      ->group("Radio");
  add("--frequency", text.frequency, "Carrier (3.5GHz)", "F", "Radio");
  add("--samples", text.samples, "Rays per transmitter, or auto: 16 crossings at the farthest corner (auto)",
      "N", "Radio");
  add("--passes", text.passes, "Independent estimates; the error map needs two (8)", "N", "Radio");
  add("--bounces", text.bounces, "Most reflections of a path (3)", "N", "Radio");
  add("--polarization", text.polarization, "v (+z), h (+y) or a vector x,y,z (v)", "P", "Radio");
  add("--walls", text.walls, "half-space, or slab: of the material's thickness (half-space)", "W", "Radio");
  add("--seed", text.seed, "Seed of the rays' turns (1)", "N", "Radio");
  add("--accumulation", text.accumulation, "fast, ordered or exact (exact)", "A", "Radio");
  add("--target-error", text.target_error,
      "Add passes until the median error of cells with 16 crossings is below: 0.5dB", "E", "Radio");

  add("--cell", text.cell, "Edge of a cell, metres (5)", "M", "Map");
  add("--height", text.height, "z of the map, metres, or ground+1.5 where the ground is flat (1.5)", "Z",
      "Map");
  add("--plane", text.plane, "The map's plane instead: x=.., y=.. or z=..", "P", "Map");
  add("--area", text.area, "x0,y0,x1,y1 in metres (the scene's bounds); in the plane's axes", "A", "Map");

  add_map_outputs(app, text);
  add("--trace", text.trace, "Copies and launches as a Chrome trace", "FILE", "Output");
  app.add_flag("--per-tx", text.per_tx, "A map of each transmitter: arrays are [transmitters, rows, columns]")
      ->group("Output");
  app.add_flag("--verify", text.verify, "Repeat on one device and compare; exit 1 where they differ")
      ->group("Output");
  app.add_flag("--dry-run", text.dry_run, "Plan and estimate; run nothing")->group("Output");

  add("--lanes", text.lanes, "Only the lanes from A up to, and without, B", "A:B", "Pieces");
  add("--partial", text.partial, "Exact sums of the lanes done, for 'shardwise merge'", "FILE", "Pieces");
  add("--checkpoint", text.checkpoint, "Keep what is done in this file while running", "FILE", "Pieces");
  add("--checkpoint-every", text.checkpoint_every, "Seconds between two writes of it (60)", "S", "Pieces");
  add("--resume", text.resume,
      "Go on from a checkpoint or partial; it is the checkpoint, too, unless that is given", "FILE",
      "Pieces");

  add_device_options(app, text.devices);
  add_split_options(app, text.devices);
  app.add_flag("--strict", text.strict,
               "Hits by the same code on every device: host and CUDA give the same bits")
      ->group("Devices");
  add("--tracer", text.tracer, "auto, bvh or embree: what answers on host devices (auto)", "NAME", "Devices");
  add_refused(app, {"--diffraction", "--coherent"});
}

CoverageRequest check_request(const CoverageText& text) {
  CoverageRequest request;
  CoverageOptions& options = request.options;
  if (text.scene.empty()) throw_usage("coverage needs a scene file; see 'shardwise coverage --help'");
  if (text.transmitters.empty()) throw_usage("coverage needs a transmitter; give --tx x,y,z");
  for (const std::string& transmitter : text.transmitters) {
    const Site site = parse_site("--tx", transmitter);
    request.sites.push_back(site);
    options.transmitters.push_back({{site.x, site.y, site.z.metres}, 1});
  }
  options.frequency_hz = parse_frequency(text.frequency, "--frequency");
  request.frequency = frequency_text(options.frequency_hz);
  options.samples = text.samples == "auto" ? 0 : count_value("--samples", text.samples, 1, most);
  options.passes = static_cast<int>(count_value("--passes", text.passes, 1, 1024));
  options.bounces = static_cast<int>(count_value("--bounces", text.bounces, 0, 1000));
  options.polarization = read_polarization(text.polarization);
  request.polarization = text.polarization;
  request.walls = word_value("--walls", text.walls, {"half-space", "slab"});
  options.slab_walls = request.walls == "slab";
  options.seed = static_cast<std::uint64_t>(parse_whole(text.seed, "--seed", 0, most));
  options.accumulation = accumulation_of(text.accumulation);
  const std::string tracer = word_value("--tracer", text.tracer, {"auto", "bvh", "embree"});
  if (text.strict && tracer == "embree") {
    throw_usage("--strict and --tracer embree exclude each other; leave one out");
  }
  request.tracer = text.strict || tracer == "bvh" ? TracerChoice::bvh
                   : tracer == "embree"           ? TracerChoice::embree
                                                  : TracerChoice::automatic;
  request.cell = positive_value("--cell", text.cell);
  read_plane(text, request);
  options.per_transmitter = text.per_tx;
  read_pieces(text, request);
  if (!text.error_map.empty() && options.passes < 2) {
    throw_usage("--error-map needs at least two passes (found --passes 1); raise --passes");
  }
  if (!text.area.empty()) {
    const auto area = parse_tuple(text.area, "--area", {"x0", "y0", "x1", "y1"});
    request.area = Area{area[0], area[1], area[2], area[3]};
    if (!(area[0] < area[2]) || !(area[1] < area[3])) {
      throw_usage(fmt::format("--area is empty ('{}'); give x0 < x1 and y0 < y1", text.area));
    }
  }
  return request;
}

void check_outputs(const CoverageFiles& files, int axis, const std::string& checkpoint) {
  if (!files.png.empty() && !pictures_built()) {
    throw_usage(
        "--png: this build has no pictures; install libcairo2-dev and pkg-config and configure again");
  }
  const std::string world_file = files.png.empty() || axis != 2 ? "" : world_file_name(files.png);
  for (const auto& [path, option] : {std::pair{files.png, "--png"},
                                     {files.map, "--map"},
                                     {files.error_map, "--error-map"},
                                     {files.count_map, "--count-map"},
                                     {files.json, "--json"},
                                     {files.trace, "--trace"},
                                     {files.partial, "--partial"},
                                     {checkpoint == files.partial ? "" : checkpoint, "--checkpoint"}}) {
    if (path == "-" && std::string(option) != "--json") {
      throw_usage(fmt::format("{} cannot go to standard output ('-'); give a file name", option));
    }
    if (path.empty()) continue;
    check_output(path, option);
    // The one output that no argument names, so that check_file_arguments() has not seen it.
    if (path == world_file)
      throw_usage(fmt::format("{} and the world file of --png name the same file ('{}')", option, path));
  }
  if (!world_file.empty()) check_output(world_file, "the world file of --png");
}

void place_request(CoverageRequest& request, const Surfaces& surfaces, const Vec3d& origin_shift) {
  CoverageOptions& options = request.options;
  request.origin_shift = origin_shift;
  for (std::size_t i = 0; i < request.sites.size(); ++i)
    options.transmitters[i].position = place_site("--tx", request.sites[i], surfaces, origin_shift);
  request.position -= origin_shift[request.axis];
  if (request.area) {
    const int first = request.axis == 0 ? 1 : 0, second = request.axis == 2 ? 1 : 2;
    request.area->min0 -= origin_shift[first];
    request.area->max0 -= origin_shift[first];
    request.area->min1 -= origin_shift[second];
    request.area->max1 -= origin_shift[second];
  }
  const Bounds& bounds = surfaces.bounds();
  options.grid = make_grid(request, bounds);
  if (request.axis == 2) {
    const CoverageGrid& grid = options.grid;
    request.position = place_map("--height", request.height, {grid.min0, grid.min1, grid.max0, grid.max1},
                                 surfaces, origin_shift);
    options.grid.position = request.position;
  }
  if (options.samples == 0) options.samples = automatic_samples(request, options.grid);
  PieceRequest& pieces = request.pieces;
  if (!pieces.has_window) return;
  const std::int64_t lanes = coverage_lanes(options);
  if (pieces.end_lane < 0) pieces.end_lane = lanes;
  if (pieces.end_lane > lanes || pieces.first_lane >= pieces.end_lane) {
    throw_usage(fmt::format(
        "--lanes {}:{} is not inside the run, which has {} lanes; 'coverage --dry-run' says how many",
        pieces.first_lane, pieces.end_lane, lanes));
  }
  options.lane_offset = pieces.first_lane;
  options.lane_count = pieces.end_lane - pieces.first_lane;
}

std::int64_t lanes_of(const CoverageRequest& request) {
  const CoverageOptions& options = request.options;
  return options.lane_count < 0 ? coverage_lanes(options) - options.lane_offset : options.lane_count;
}

CoverageGrid make_grid(const CoverageRequest& request, const Bounds& bounds) {
  const int first = request.axis == 0 ? 1 : 0, second = request.axis == 2 ? 1 : 2;
  const Area area = request.area.value_or(
      Area{bounds.low[first], bounds.low[second], bounds.high[first], bounds.high[second]});
  // 1e-9 of a cell more than a whole number is rounding, not another column.
  const auto cells = [&request](double low, double high) {
    return std::max(1.0, std::ceil((high - low) / request.cell - 1e-9));
  };
  const double columns = cells(area.min0, area.max0), rows = cells(area.min1, area.max1);
  if (!(columns * rows <= static_cast<double>(most_cells))) {
    throw_usage(fmt::format(
        "--cell {} cuts the area of {:.6g} x {:.6g} m into {:.6g} cells, over {}; raise --cell or "
        "give a smaller --area",
        request.cell, area.max0 - area.min0, area.max1 - area.min1, columns * rows, most_cells));
  }
  CoverageGrid grid;
  grid.axis = request.axis;
  grid.position = request.position;
  grid.min0 = area.min0;
  grid.max0 = area.min0 + columns * request.cell;
  grid.min1 = area.min1;
  grid.max1 = area.min1 + rows * request.cell;
  grid.resolution0 = static_cast<std::int64_t>(columns);
  grid.resolution1 = static_cast<std::int64_t>(rows);
  return grid;
}

std::int64_t automatic_samples(const CoverageRequest& request, const CoverageGrid& grid) {
  constexpr double fewest = 1e6, largest = 1e9, crossings = 16;
  const int first = grid.axis == 0 ? 1 : 0, second = grid.axis == 2 ? 1 : 2;
  double needed = fewest;
  for (const Transmitter& transmitter : request.options.transmitters) {
    const double d0 = std::max(std::abs(transmitter.position[first] - grid.min0),
                               std::abs(transmitter.position[first] - grid.max0));
    const double d1 = std::max(std::abs(transmitter.position[second] - grid.min1),
                               std::abs(transmitter.position[second] - grid.max1));
    const double up = std::abs(transmitter.position[grid.axis] - grid.position);
    const double r = std::sqrt(d0 * d0 + d1 * d1 + up * up);
    // cos(theta) = up / r; a transmitter in the plane needs more than any number.
    const double rays = crossings * 4 * std::numbers::pi * r * r * r / (grid.cell_area() * up);
    needed = std::max(needed, std::isfinite(rays) ? rays : largest);
  }
  return static_cast<std::int64_t>(std::ceil(std::min(needed, largest)));
}

std::string mechanisms_text(const CoverageOptions& options) {
  std::string text = options.line_of_sight ? "line of sight" : "";
  if (options.bounces > 0) {
    text += fmt::format("{}{} reflection{}", text.empty() ? "" : " + ", options.bounces,
                        options.bounces == 1 ? "" : "s");
  }
  return text;
}

}  // namespace shardwise::program
