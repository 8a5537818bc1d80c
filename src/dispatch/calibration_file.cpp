// Calibrated weights in a file.

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shardwise/dispatch/calibrate.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/shard/weights.hpp"

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

namespace {

Json trial_json(const CalibrationTrial& trial) {
  return {{"name", trial.name},           {"weights", trial.weights},   {"predicted_s", trial.predicted_s},
          {"seconds", trial.seconds},     {"median_s", trial.median_s}, {"gain", trial.gain},
          {"sure_gain", trial.sure_gain}, {"mode", trial.mode}};
}

CalibrationTrial trial_of(const Json& json) {
  CalibrationTrial trial;
  json.at("name").get_to(trial.name);
  json.at("weights").get_to(trial.weights);
  json.at("predicted_s").get_to(trial.predicted_s);
  json.at("seconds").get_to(trial.seconds);
  json.at("median_s").get_to(trial.median_s);
  json.at("gain").get_to(trial.gain);
  json.at("sure_gain").get_to(trial.sure_gain);
  json.at("mode").get_to(trial.mode);
  return trial;
}

Json record_json(const CalibrationRecord& record) {
  Json trials = Json::array(), costs = Json::array();
  for (const CalibrationTrial& trial : record.trials) trials.push_back(trial_json(trial));
  for (const DeviceRowCost& cost : record.costs)
    costs.push_back({{"compute_s", cost.compute_s},
                     {"direct_s", cost.direct_s},
                     {"in_s", cost.in_s},
                     {"out_s", cost.out_s}});
  return {{"operation", record.operation},
          {"rows", record.rows},
          {"chosen", record.chosen},
          {"weights", record.weights},
          {"near_crossover", record.near_crossover},
          {"costs", costs},
          {"fixed_s", record.fixed_s},
          {"master_fixed_s", record.master_fixed_s},
          {"trials", trials}};
}

CalibrationRecord record_of(const Json& json) {
  CalibrationRecord record;
  json.at("operation").get_to(record.operation);
  json.at("rows").get_to(record.rows);
  json.at("chosen").get_to(record.chosen);
  json.at("weights").get_to(record.weights);
  json.at("near_crossover").get_to(record.near_crossover);
  json.at("fixed_s").get_to(record.fixed_s);
  json.at("master_fixed_s").get_to(record.master_fixed_s);
  for (const Json& cost : json.at("costs"))
    record.costs.push_back({cost.at("compute_s").get<double>(), cost.at("direct_s").get<double>(),
                            cost.at("in_s").get<double>(), cost.at("out_s").get<double>()});
  for (const Json& trial : json.at("trials")) record.trials.push_back(trial_of(trial));
  return record;
}

/// "cuda:0 NVIDIA H200 GPU-1234".
std::string device_text(const Json& device) {
  const auto uuid = device.at("uuid").get<std::string>();
  return fmt::format("{} {}, {} threads{}{}", device.at("name").get<std::string>(),
                     device.at("model").get<std::string>(), device.at("threads").get<int>(),
                     uuid.empty() ? "" : ", ", uuid);
}

std::string devices_text(const Json& devices) {
  std::vector<std::string> texts;
  for (const Json& device : devices) texts.push_back(device_text(device));
  return fmt::format("{}", fmt::join(texts, "; "));
}

/// Weights that a call would refuse are a mistake of the file.
void check_weights(const CalibrationRecord& record, const DeviceSet& devices, const std::string& path) {
  const auto count = static_cast<std::size_t>(devices.size());
  if (record.weights.size() != count)
    throw_data(fmt::format("calibration: '{}' has {} weights of '{}' for {} devices; calibrate again", path,
                           record.weights.size(), record.operation, count));
  try {
    (void)Weights::from(record.weights, count);
  } catch (const std::invalid_argument& error) {
    throw_data(
        fmt::format("calibration: '{}', '{}': {}; calibrate again", path, record.operation, error.what()));
  }
}

}  // namespace

std::string calibration_json(const DeviceSet& devices, const std::vector<CalibrationRecord>& records) {
  Json list = Json::array();
  for (const CalibrationRecord& record : records) list.push_back(record_json(record));
  const Json json = {{"schema", known_schema},
                     {"build", build_text()},
                     {"devices", devices_json(devices)},
                     {"operations", list}};
  return json.dump(2) + '\n';
}

void save_calibration(const std::string& path, const DeviceSet& devices,
                      const std::vector<CalibrationRecord>& records) {
  std::ofstream file(path, std::ios::binary);
  if (!(file << calibration_json(devices, records)) || !file.flush())
    throw Error(ErrorClass::io, fmt::format("calibration: cannot write '{}'", path));
}

std::vector<CalibrationRecord> read_calibration(const std::string& path, const DeviceSet& devices) {
  std::ifstream file(path, std::ios::binary);
  // A folder opens, too, and is found out by reading.
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()))
    throw_data(fmt::format("calibration: '{}' cannot be read, or is empty; check its name", path));
  std::vector<CalibrationRecord> records;
  try {
    const Json json = Json::parse(text.str());
    if (json.at("schema").get<int>() != known_schema)
      throw_data(fmt::format("calibration: '{}' has schema {}, this build reads {}; calibrate again", path,
                             json.at("schema").dump(), known_schema));
    if (json.at("build").get<std::string>() != build_text())
      throw_usage(fmt::format("calibration: '{}' was made by another build ({}, this is {}); calibrate again",
                              path, json.at("build").get<std::string>(), build_text()));
    if (const Json here = devices_json(devices); json.at("devices") != here)
      throw_usage(
          fmt::format("calibration: '{}' was made with other devices ({}, these are {}); calibrate again",
                      path, devices_text(json.at("devices")), devices_text(here)));
    for (const Json& entry : json.at("operations")) {
      records.push_back(record_of(entry));
      check_weights(records.back(), devices, path);
    }
  } catch (const Json::exception& error) {
    throw_data(fmt::format("calibration: '{}' is damaged ({}); calibrate again", path, error.what()));
  }
  return records;
}

OperationWeights load_calibration(const std::string& path, const DeviceSet& devices) {
  OperationWeights weights;
  for (CalibrationRecord& record : read_calibration(path, devices))
    weights[record.operation] = std::move(record.weights);
  return weights;
}

}  // namespace shardwise
