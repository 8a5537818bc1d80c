#include "coverage_outputs.hpp"

#include <utility>

#include "coverage_picture.hpp"
#include "npy.hpp"

namespace shardwise::program {

void stage_maps(OutputSet& outputs, const CoverageFiles& files, const CoverageReport& report,
                std::vector<Segment> outlines, const std::string& title) {
  const CoverageResult& result = *report.result;
  const CoverageOptions& options = report.request->options;
  std::vector<std::int64_t> shape{report.grid.resolution1, report.grid.resolution0};
  const bool each = options.per_transmitter;
  if (each) shape.insert(shape.begin(), static_cast<std::int64_t>(options.transmitters.size()));
  if (!files.map.empty())
    outputs.stage(files.map, npy_bytes(each ? result.transmitter_gain : result.gain, shape));
  if (!files.error_map.empty())
    outputs.stage(files.error_map,
                  npy_bytes(each ? result.transmitter_standard_error : result.standard_error, shape));
  if (!files.count_map.empty())
    outputs.stage(files.count_map, npy_bytes(each ? result.transmitter_crossings : result.crossings, shape));
  if (!files.png.empty()) {
    const Picture picture = coverage_picture(report, std::move(outlines), title);
    outputs.stage(files.png, picture_png(picture));
    if (report.grid.axis == 2) outputs.stage(world_file_name(files.png), world_file(picture));
  }
  stage_json(outputs, files.json, coverage_json(report));
}

}  // namespace shardwise::program
