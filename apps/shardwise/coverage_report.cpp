#include "coverage_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "progress.hpp"
#include "ranks.hpp"
#include "shardwise/runtime/parse.hpp"
#include "shardwise/shard/hash.hpp"
#include "table.hpp"
#include "version.hpp"

namespace shardwise::program {
namespace {

constexpr std::int64_t enough_crossings = 16;

Json point_json(const Vec3d& point) {
  return {point.x, point.y, point.z};
}

Json dispatch_json(const DispatchReport& dispatch) {
  Json json{{"mode", dispatch.mode},
            {"reason", dispatch.reason},
            {"weights", dispatch.weights},
            {"source", dispatch.source},
            {"row_bytes", dispatch.row_bytes},
            {"budget_bytes", dispatch.budget_bytes},
            {"fixed_bytes", dispatch.fixed_bytes},
            {"resident_chunks", dispatch.resident_chunks},
            {"chunk_rows", dispatch.chunk_rows},
            {"chunk_count", dispatch.chunk_count},
            {"measured_row_bytes", number_or_null(dispatch.measured_row_bytes)}};
  for (const DeviceFailure& failure : dispatch.failures)
    json["failures"].push_back(
        {{"device", failure.device}, {"error", failure.error}, {"rerun", failure.rerun}});
  return json;
}

Json optional_json(const std::optional<double>& value) {
  return value ? number_or_null(*value) : Json(nullptr);
}

/// With a map of each transmitter also its digest and the cells it reaches.
Json transmitters_json(const CoverageRequest& request, const CoverageResult& result) {
  Json list = Json::array();
  const std::size_t cells = result.gain.size();
  for (const Transmitter& transmitter : request.options.transmitters) {
    Json entry = {{"position", point_json(transmitter.position + request.origin_shift)},
                  {"gain", transmitter.gain}};
    if (!result.transmitter_gain.empty()) {
      const auto first = static_cast<std::ptrdiff_t>(list.size() * cells);
      const auto begin = result.transmitter_crossings.begin() + first;
      entry["reached"] = std::count_if(begin, begin + static_cast<std::ptrdiff_t>(cells),
                                       [](std::int64_t count) { return count > 0; });
      entry["digest"] = blake3_hex(result.transmitter_gain.data() + first, cells * sizeof(double));
    }
    list.push_back(entry);
  }
  return list;
}

Json mechanisms_json(const CoverageOptions& options) {
  Json list = Json::array();
  if (options.line_of_sight) list.push_back("line_of_sight");
  if (options.bounces > 0) list.push_back(fmt::format("reflections:{}", options.bounces));
  return list;
}

Vec3d grid_origin(const CoverageGrid& grid) {
  Vec3d origin;
  origin.set(grid.axis, grid.position);
  origin.set(grid.axis == 0 ? 1 : 0, grid.min0);
  origin.set(grid.axis == 2 ? 1 : 2, grid.min1);
  return origin;
}

double db(double gain) {
  return 10 * std::log10(gain);
}

std::string db_text(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f} dB", *value) : "none";
}

}  // namespace

Json devices_json(const DispatchReport& dispatch) {
  Json list = Json::array();
  for (const DeviceReport& device : dispatch.devices) {
    list.push_back({{"name", device.name},
                    {"kind", device.kind},
                    {"lanes", device.lanes},
                    {"busy_s", device.busy_s},
                    {"idle_s", device.idle_s},
                    {"bytes_in", device.bytes_in},
                    {"bytes_out", device.bytes_out},
                    {"peak_bytes", device.peak_bytes}});
  }
  return list;
}

std::string digest_of(const std::vector<double>& values) {
  return Blake3().update(values.data(), values.size() * sizeof(double)).hex();
}

void summarize(CoverageReport& report) {
  const CoverageResult& result = *report.result;
  std::vector<double> gains;
  for (std::size_t i = 0; i < result.crossings.size(); ++i) {
    if (result.crossings[i] == 0) continue;
    ++report.reached;
    if (result.crossings[i] < enough_crossings) ++report.under_16;
    gains.push_back(result.gain[i]);
  }
  report.covered_fraction = static_cast<double>(report.reached) / static_cast<double>(result.gain.size());
  if (!gains.empty()) {
    std::ranges::sort(gains);
    const std::size_t middle = gains.size() / 2;
    const double median = gains.size() % 2 == 1 ? gains[middle] : (gains[middle - 1] + gains[middle]) / 2;
    report.max_gain_db = db(gains.back());
    report.median_gain_db = db(median);
  }
  report.digest = digest_of(result.gain);
  if (!result.standard_error.empty()) report.stderr_digest = digest_of(result.standard_error);
}

Json coverage_json(const CoverageReport& report) {
  const CoverageRequest& request = *report.request;
  const CoverageResult& result = *report.result;
  const Verification& verify = report.verification;
  Json json;
  json["schema"] = 1;
  json["command"] = report.command;
  json["version"] = build_facts().version + " " + build_facts().commit;
  json["scene"] = {{"triangles", report.scene.triangles},
                   {"shapes", report.scene.shapes},
                   {"materials", report.scene.materials},
                   {"defects", report.scene.defects},
                   {"origin_shift", {request.origin_shift.x, request.origin_shift.y}}};
  json["model"] = {{"mechanisms", mechanisms_json(request.options)},
                   {"antenna", "isotropic"},
                   {"walls", request.walls},
                   {"polarization", request.polarization}};
  json["transmitters"] = transmitters_json(request, result);
  json["frequency_hz"] = request.options.frequency_hz;
  json["devices"] = devices_json(result.dispatch);
  for (const Json& rank : report.ranks) {  // the first rank's are there already
    if (rank.at("rank") == 0) continue;
    for (const Json& device : rank.at("devices")) json["devices"].push_back(device);
  }
  json["dispatch"] = dispatch_json(result.dispatch);
  if (!report.ranks.is_null()) json["ranks"] = report.ranks;
  json["lanes"] = result.lanes;
  json["segments_traced"] = result.segments;
  json["seconds"] = report.seconds;
  if (report.virtual_s > 0) json["virtual_s"] = report.virtual_s;
  json["segments_per_second"] = number_or_null(static_cast<double>(result.segments) / report.seconds);
  json["cells"] = {{"open", report.census.open},
                   {"los", report.census.line_of_sight},
                   {"reached", report.reached},
                   {"under_16", report.under_16}};
  json["grid"] = {
      {"width", report.grid.resolution0},
      {"height", report.grid.resolution1},
      {"cell_m", request.cell},
      {"origin", point_json(grid_origin(report.grid) + request.origin_shift)},
      {"covered_fraction", report.covered_fraction},
      {"max_gain_db", optional_json(report.max_gain_db)},
      {"median_gain_db", optional_json(report.median_gain_db)},
      {"digest", report.digest},
      {"stderr_digest", report.stderr_digest.empty() ? Json(nullptr) : Json(report.stderr_digest)}};
  json["accumulation"] = to_string(request.options.accumulation);
  json["verify"] = {{"ran", verify.ran},
                    {"equal", verify.ran ? Json(verify.equal) : Json(nullptr)},
                    {"max_relative", verify.ran ? number_or_null(verify.max_relative) : Json(nullptr)}};
  json["warnings"] = report.warnings;
  if (request.pieces.has_window) {
    json["window"] = {{"begin", request.pieces.first_lane},
                      {"end", request.pieces.end_lane},
                      {"total", report.total_lanes}};
  }
  if (report.target) {
    json["target_error"] = {{"asked_db", report.target->asked_db},
                            {"reached_db", optional_json(report.target->reached_db)},
                            {"met", report.target->met},
                            {"passes", request.options.passes},
                            {"samples", request.options.samples}};
  }
  return json;
}

std::string coverage_text(const CoverageReport& report) {
  const CoverageRequest& request = *report.request;
  const CoverageResult& result = *report.result;
  std::string text = fmt::format(
      "{}, {}, {} transmitter{}\n{} x {} cells of {:g} m, {:.1f} % reached; gain: max {}, median {}\n\n",
      mechanisms_text(request.options), request.frequency, request.options.transmitters.size(),
      request.options.transmitters.size() == 1 ? "" : "s", report.grid.resolution0, report.grid.resolution1,
      request.cell, 100 * report.covered_fraction, db_text(report.max_gain_db),
      db_text(report.median_gain_db));
  if (request.pieces.has_window) {
    text += fmt::format("lanes {} to {} of {} alone: the map is their share\n\n", request.pieces.first_lane,
                        request.pieces.end_lane, report.total_lanes);
  }
  if (report.target) {
    text += fmt::format(
        "median error {}, asked for {:g} dB: {} passes, {} rays per transmitter\n\n",
        report.target->reached_db ? fmt::format("{:.3g} dB", *report.target->reached_db) : "unknown",
        report.target->asked_db, request.options.passes, count_text(request.options.samples));
  }
  if (!report.ranks.is_null()) text += rank_table(report.ranks, "lanes") + "\n";
  std::vector<std::vector<std::string>> rows{{"device", "lanes", "busy", "idle", "in", "out", "peak"}};
  for (const DeviceReport& device : result.dispatch.devices) {
    rows.push_back({device.name, count_text(device.lanes), short_time(device.busy_s),
                    short_time(device.idle_s), human_bytes(device.bytes_in), human_bytes(device.bytes_out),
                    human_bytes(device.peak_bytes)});
  }
  if (rows.size() > 1 && report.ranks.is_null()) text += table_text(rows) + "\n";
  text += fmt::format(
      "{} lanes, {} segments in {}{}, {} segments/s{}\ndigest {}\n",
      short_count(static_cast<double>(result.lanes)), short_count(static_cast<double>(result.segments)),
      short_time(report.seconds),
      report.virtual_s > 0 ? fmt::format(" of this machine's time ({} virtual)", short_time(report.virtual_s))
                           : "",
      short_count(static_cast<double>(result.segments) / report.seconds),
      result.dispatch.mode.empty() ? ""
                                   : fmt::format(" ({}: {})", result.dispatch.mode, result.dispatch.reason),
      report.digest);
  if (report.verification.ran) {
    text += fmt::format("verified on one device: {}, largest relative difference {:.3g}\n",
                        report.verification.equal ? "equal bits" : "other bits",
                        report.verification.max_relative);
  }
  return text;
}

}  // namespace shardwise::program
