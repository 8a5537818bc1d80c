// Calibrated weights in a file.

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "shardwise/dispatch/calibrate.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

namespace {

using Json = nlohmann::json;

constexpr int known_schema = 1;

/// What makes costs differ from one build to another.
std::string build_text() {
#ifdef NDEBUG
  const char* assertions = "without assertions";
#else
  const char* assertions = "with assertions";
#endif
  return fmt::format("{} {} {}", SHARDWISE_VERSION, __VERSION__, assertions);
}

/// What makes costs differ from one machine to another: model and identity; names alone mean little.
Json devices_json(const DeviceSet& devices) {
  Json list = Json::array();
  for (int d = 0; d < devices.size(); ++d) {
    const DeviceInfo& info = devices[d].info();
    list.push_back(
        {{"name", info.name}, {"model", info.model}, {"uuid", info.uuid}, {"threads", info.threads}});
  }
  return list;
}

}  // namespace

void save_calibration(const std::string& path, const DeviceSet& devices,
                      const std::vector<CalibrationRecord>& records) {
  Json list = Json::array();
  for (const CalibrationRecord& record : records) {
    Json trials = Json::array();
    for (const CalibrationTrial& trial : record.trials)
      trials.push_back({{"name", trial.name},
                        {"weights", trial.weights},
                        {"predicted_s", trial.predicted_s},
                        {"seconds", trial.seconds},
                        {"gain", trial.gain},
                        {"sure_gain", trial.sure_gain},
                        {"mode", trial.mode}});
    Json costs = Json::array();
    for (const DeviceRowCost& cost : record.costs)
      costs.push_back({{"compute_s", cost.compute_s}, {"in_s", cost.in_s}, {"out_s", cost.out_s}});
    list.push_back({{"operation", record.operation},
                    {"rows", record.rows},
                    {"chosen", record.chosen},
                    {"weights", record.weights},
                    {"near_crossover", record.near_crossover},
                    {"costs", costs},
                    {"fixed_s", record.fixed_s},
                    {"trials", trials}});
  }
  const Json json = {{"schema", known_schema},
                     {"build", build_text()},
                     {"devices", devices_json(devices)},
                     {"operations", list}};
  std::ofstream file(path, std::ios::binary);
  if (!(file << json.dump(2) << '\n') || !file.flush())
    throw Error(ErrorClass::io, fmt::format("calibration: cannot write '{}'", path));
}

OperationWeights load_calibration(const std::string& path, const DeviceSet& devices) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_data(fmt::format("calibration: '{}' cannot be read; check its name", path));
  OperationWeights weights;
  try {
    const Json json = Json::parse(file);
    if (json.at("schema").get<int>() != known_schema)
      throw_data(fmt::format("calibration: '{}' has schema {}, this build reads {}; calibrate again", path,
                             json.at("schema").dump(), known_schema));
    if (json.at("build").get<std::string>() != build_text())
      throw_usage(fmt::format("calibration: '{}' was made by another build ({}, this is {}); calibrate again",
                              path, json.at("build").get<std::string>(), build_text()));
    if (json.at("devices") != devices_json(devices))
      throw_usage(
          fmt::format("calibration: '{}' was made with other devices ({}, these are {}); calibrate again",
                      path, json.at("devices").dump(), devices_json(devices).dump()));
    for (const Json& entry : json.at("operations")) {
      std::vector<double> split = entry.at("weights").get<std::vector<double>>();
      if (split.size() != static_cast<std::size_t>(devices.size()))
        throw_data(fmt::format("calibration: '{}' has {} weights of '{}' for {} devices; calibrate again",
                               path, split.size(), entry.at("operation").get<std::string>(), devices.size()));
      weights[entry.at("operation").get<std::string>()] = std::move(split);
    }
  } catch (const Json::exception& error) {
    throw_data(fmt::format("calibration: '{}' is damaged ({}); calibrate again", path, error.what()));
  }
  return weights;
}

}  // namespace shardwise
