// Calibrated weights in a file.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>

#include "runtime/small_file.hpp"
#include "shardwise/dispatch/calibrate.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/sim.hpp"
#include "shardwise/runtime/sim_topology.hpp"
#include "shardwise/shard/hash.hpp"
#include "shardwise/shard/weights.hpp"

namespace shardwise {

// What of a record is in a file, for both ways: keys are the fields' names.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceRowCost, compute_s, direct_s, direct_alone_s, in_s, out_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CalibrationTrial, name, weights, predicted_s, seconds, median_s, gain,
                                   sure_gain, mode)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CalibrationRecord, operation, rows, chosen, weights, near_crossover, costs,
                                   fixed_s, master_fixed_s, trials)

namespace {

using Json = nlohmann::json;

constexpr int known_schema = 2;

/// What makes costs differ from one build to another.
std::string build_text() {
#ifdef NDEBUG
  const char* assertions = "without assertions";
#else
  const char* assertions = "with assertions";
#endif
  return fmt::format("{} {} {}", SHARDWISE_VERSION, __VERSION__, assertions);
}

/// Of a simulated machine: everything that decides what its work costs.
std::string machine_digest(const SimTopology& machine) {
  std::string text;
  for (const SimDeviceModel& device : machine.devices)
    text += fmt::format("device {} {} {} {}\n", device.memory_bytes, device.speed, device.launch_s,
                        device.memory_bytes_per_s);
  for (const SimLink& link : machine.links)
    text += fmt::format("link {} {} {} {} {} {}\n", fmt::join(link.from, ","), fmt::join(link.to, ","),
                        link.bytes_per_s, link.latency_s, static_cast<int>(link.sharing), link.peer);
  text += fmt::format("flat {} {}\n", machine.flat_latency_s, machine.flat_bytes_per_s);
  for (const auto& [operation, ns] : machine.ns_per_item) text += fmt::format("item {} {}\n", operation, ns);
  return Blake3().update(text).hex().substr(0, 12);
}

/// What makes costs differ from one machine to another: model and identity; names alone mean little.
Json devices_json(const DeviceSet& devices) {
  Json list = Json::array();
  const SimWorld* world = devices.sim_world();
  const std::string machine = world ? " of machine " + machine_digest(world->topology()) : "";
  for (int d = 0; d < devices.size(); ++d) {
    const DeviceInfo& info = devices[d].info();
    list.push_back({{"name", info.name},
                    {"model", info.model},
                    {"uuid", info.uuid + machine},
                    {"threads", info.threads}});
  }
  return list;
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

/// A whole number as JSON writes one; of others the library takes what is left of them.
void check_whole(const Json& json, const char* key, const std::string& path) {
  if (const Json& value = json.at(key); !value.is_number_integer())
    throw_data(fmt::format("calibration: '{}': '{}' is {}, no whole number; calibrate again", path, key,
                           value.dump()));
}

/// Records that contradict each other or mean nothing.
void check_operations(const std::vector<CalibrationRecord>& records, const std::string& path) {
  std::set<std::string> names;
  for (const CalibrationRecord& record : records) {
    if (record.rows < 1)
      throw_data(fmt::format("calibration: '{}': 'rows' of '{}' is {}, not at least 1; calibrate again", path,
                             record.operation, record.rows));
    if (!names.insert(record.operation).second)
      throw_data(fmt::format("calibration: '{}' has '{}' twice; calibrate again", path, record.operation));
  }
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
  const Json json = {{"schema", known_schema},
                     {"build", build_text()},
                     {"devices", devices_json(devices)},
                     {"operations", records}};
  return json.dump(2) + '\n';
}

void save_calibration(const std::string& path, const DeviceSet& devices,
                      const std::vector<CalibrationRecord>& records) {
  replace_small_file(path, calibration_json(devices, records), "calibration");
}

std::vector<CalibrationRecord> read_calibration(const std::string& path, const DeviceSet& devices) {
  const std::string text = read_small_file(path, "calibration", "check its name");
  std::vector<CalibrationRecord> records;
  try {
    const Json json = Json::parse(text);
    check_whole(json, "schema", path);
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
    for (const Json& record : json.at("operations")) check_whole(record, "rows", path);
    json.at("operations").get_to(records);
    check_operations(records, path);
    for (const CalibrationRecord& record : records) check_weights(record, devices, path);
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
