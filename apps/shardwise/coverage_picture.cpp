#include "coverage_picture.hpp"

#include <fmt/core.h>

#include <cstddef>
#include <filesystem>
#include <utility>

#include "progress.hpp"

namespace shardwise::program {
namespace {

/// The hittable triangles of every shape.
std::vector<TriangleSoup> triangles_by_shape(const SceneModel& model) {
  const SceneGeometry& geometry = model.geometry();
  std::vector<TriangleSoup> shapes(static_cast<std::size_t>(model.num_meshes()));
  for (std::size_t i = 0; i < geometry.faces.size(); ++i) {
    if (!geometry.hittable[i]) continue;
    const Face& face = geometry.faces[i];
    const auto corner = [&](int k) {
      return geometry.vertices[static_cast<std::size_t>(face[static_cast<std::size_t>(k)])];
    };
    shapes[static_cast<std::size_t>(geometry.shape_id[i])].push_back({corner(0), corner(1), corner(2)});
  }
  return shapes;
}

/// "3.5 GHz".
std::string spaced_frequency(double hertz) {
  for (const auto& [size, unit] : {std::pair{1e9, "GHz"}, std::pair{1e6, "MHz"}, std::pair{1e3, "kHz"}}) {
    if (hertz >= size) return fmt::format("{:g} {}", hertz / size, unit);
  }
  return fmt::format("{:g} Hz", hertz);
}

}  // namespace

std::vector<Segment> scene_outlines(const SceneModel& model, int axis) {
  return outlines(triangles_by_shape(model), axis);
}

std::string scene_title(const std::string& scene_path) {
  return std::filesystem::path(scene_path).stem().string();
}

Picture coverage_picture(const CoverageReport& report, std::vector<Segment> outlines,
                         const std::string& title) {
  const CoverageRequest& request = *report.request;
  const CoverageGrid& grid = report.grid;
  const int first = grid.axis == 0 ? 1 : 0, second = grid.axis == 2 ? 1 : 2;
  const char* const names = "xyz";
  const std::size_t transmitters = request.options.transmitters.size();

  Picture picture;
  picture.title = fmt::format("Path gain: {}, {}, {}", title, spaced_frequency(request.options.frequency_hz),
                              mechanisms_text(request.options));
  picture.subtitle = fmt::format(
      "{} transmitter{} of {} rays{}; cells of {:g} m at {} = {:g} m", transmitters,
      transmitters == 1 ? "" : "s", short_count(static_cast<double>(request.options.samples)),
      request.pieces.has_window
          ? fmt::format(" (lanes {} to {} alone)", request.pieces.first_lane, request.pieces.end_lane)
          : "",
      request.cell, names[grid.axis], grid.position + request.origin_shift[grid.axis]);
  picture.x_label = fmt::format("{} (m)", names[first]);
  picture.y_label = fmt::format("{} (m)", names[second]);
  picture.value_label = "path gain (dB)";
  const double shift_x = request.origin_shift[first], shift_y = request.origin_shift[second];
  picture.min_x = grid.min0 + shift_x;
  picture.max_x = grid.max0 + shift_x;
  picture.min_y = grid.min1 + shift_y;
  picture.max_y = grid.max1 + shift_y;
  picture.columns = grid.resolution0;
  picture.rows = grid.resolution1;
  picture.gain = report.result->gain;
  picture.crossings = report.result->crossings;
  picture.outlines = std::move(outlines);
  for (Segment& segment : picture.outlines) {
    segment = {segment.x0 + shift_x, segment.y0 + shift_y, segment.x1 + shift_x, segment.y1 + shift_y};
  }
  for (std::size_t i = 0; i < transmitters; ++i) {
    const Vec3d& position = request.options.transmitters[i].position;
    picture.markers.push_back({position[first] + shift_x, position[second] + shift_y,
                               transmitters == 1 ? std::string("tx") : fmt::format("tx {}", i)});
  }
  return picture;
}

}  // namespace shardwise::program
