#include "coverage_ranks.hpp"

#include <algorithm>
#include <cstddef>

#include "coverage_report.hpp"
#include "log.hpp"
#include "ranks.hpp"
#include "shardwise/scene/scene_io.hpp"

namespace shardwise::program {
namespace {

/// What rank 0 announces. Passes and samples change where --target-error adds some.
struct Announcement {
  std::int64_t lane_offset = 0, lane_count = 0;  ///< no lanes: it is over
  std::int64_t samples = 0, passes = 0;
  std::int64_t sums = 0;  ///< 1: pieces that rank 0 adds up; 0: a map
};

constexpr const char* piece_step = "coverage: the next piece";

}  // namespace

SceneModel load_scene_together(const std::string& path, const SceneFileOptions& options,
                               std::vector<std::string>* remarks) {
  if (!has_ranks()) return load_scene(path, options, remarks);
  std::string bytes;
  if (is_first_rank()) {
    SceneModel model = load_scene(path, options, remarks);
    bytes = format_swscene(model);
    ranks().broadcast(bytes, 0, "scene");
    return model;
  }
  ranks().broadcast(bytes, 0, "scene");
  return parse_swscene(bytes, path, model_options_of(options));
}

CoverageRun run_piece_on_ranks(CoverageRunner& runner, const CoverageOptions& call,
                               const ProgressFunction& progress) {
  Announcement next{call.lane_offset, call.lane_count, call.samples, call.passes, call.sums ? 1 : 0};
  ranks().broadcast_value(next, 0, piece_step);
  return runner.run_on_ranks(call, progress);
}

DispatchReport serve_pieces(CoverageRunner& runner, const CoverageOptions& options) {
  DispatchReport total;
  CoverageOptions call = options;
  for (;;) {
    Announcement next;
    ranks().broadcast_value(next, 0, piece_step);
    if (next.lane_count == 0) return total;
    call.lane_offset = next.lane_offset;
    call.lane_count = next.lane_count;
    call.samples = next.samples;
    call.passes = static_cast<int>(next.passes);
    call.sums = next.sums != 0;
    add_dispatch(total, runner.run_on_ranks(call, {}).result.dispatch);
  }
}

void end_pieces() {
  Announcement over;
  ranks().broadcast_value(over, 0, piece_step);
}

Json gather_coverage_reports(const DispatchReport& mine, const std::string& transport) {
  std::int64_t lanes = 0;
  for (const DeviceReport& device : mine.devices) lanes += device.lanes;
  Json entry = {{"lanes", lanes}, {"mode", mine.mode}, {"devices", devices_json(mine)}};
  if (!transport.empty()) entry["transport"] = transport;
  return gather_rank_reports(entry);
}

void add_dispatch(DispatchReport& total, const DispatchReport& call) {
  if (total.devices.empty()) {
    total = call;
    return;
  }
  total.chunk_count += call.chunk_count;
  total.failures.insert(total.failures.end(), call.failures.begin(), call.failures.end());
  for (std::size_t i = 0; i < total.devices.size(); ++i) {
    DeviceReport& device = total.devices[i];
    const DeviceReport& more = call.devices.at(i);
    device.lanes += more.lanes;
    device.busy_s += more.busy_s;
    device.idle_s += more.idle_s;
    device.bytes_in += more.bytes_in;
    device.bytes_out += more.bytes_out;
    device.peak_bytes = std::max(device.peak_bytes, more.peak_bytes);
  }
}

}  // namespace shardwise::program
