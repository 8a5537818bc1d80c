// shardwise devices: what there is to compute on.

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "command.hpp"
#include "device_options.hpp"
#include "report_file.hpp"
#include "shardwise/dispatch/operation_table.hpp"
#include "shardwise/runtime/links.hpp"
#include "shardwise/runtime/parse.hpp"
#include "signals.hpp"
#include "table.hpp"
#include "version.hpp"

namespace shardwise::program {
namespace {

struct Options {
  DeviceOptions devices;
  std::string json;
};

Json device_json(Device& device) {
  const DeviceInfo& info = device.info();
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  return {{"name", info.name},
          {"kind", shardwise::to_string(info.kind)},
          {"model", text_or_null(info.model)},
          {"uuid", text_or_null(info.uuid)},
          {"bus_id", text_or_null(info.bus_id)},
          {"architecture", text_or_null(info.architecture)},
          {"memory_bytes", info.memory_bytes},
          {"free_bytes", device.free_memory()},
          {"threads", info.threads}};
}

Json link_json(const DeviceSet& devices, const DeviceLink& link) {
  return {{"from", devices[link.from].name()},
          {"to", devices[link.to].name()},
          {"path", to_string(link.path)},
          {"peer", link.peer},
          {"performance_rank", link.performance_rank < 0 ? Json(nullptr) : Json(link.performance_rank)},
          {"bytes", link.bytes},
          {"bytes_per_s", link.bytes_per_s},
          {"latency_s", link.latency_s}};
}

Json operation_json(const OperationEntry& entry) {
  const auto words = [](std::string_view text) {
    Json list = Json::array();
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(", "), text.size());
      list.push_back(std::string(text.substr(0, end)));
      text.remove_prefix(std::min(end + 2, text.size()));
    }
    return list;
  };
  const std::string shape = entry.shape;
  return {{"name", shape.empty() ? std::string(entry.family) : entry.family + (":" + shape)},
          {"class", entry.operation_class == OperationClass::rows ? "rows" : "lanes"},
          {"bytes_in", entry.bytes_in},
          {"bytes_out", entry.bytes_out},
          {"platforms", words(entry.platforms)},
          {"sinks", words(entry.sinks)}};
}

/// One row for each pair; host pairs are alike and get one for all.
std::string links_text(const DeviceSet& devices, const std::vector<DeviceLink>& links) {
  std::vector<std::vector<std::string>> rows{{"from", "to", "path", "peer access", "speed", "4 KiB"}};
  bool host_told = false;
  for (const DeviceLink& link : links) {
    const bool host =
        devices[link.from].kind() == PlatformKind::host && devices[link.to].kind() == PlatformKind::host;
    if (host && std::exchange(host_told, true)) continue;
    const bool all = host && links.size() > 1;
    rows.push_back({all ? "host" : devices[link.from].name(), all ? "host" : devices[link.to].name(),
                    to_string(link.path), link.peer ? "yes" : "no",
                    fmt::format("{:.1f} GB/s", link.bytes_per_s * 1e-9),
                    fmt::format("{:.1f} us", link.latency_s * 1e6)});
  }
  return table_text(rows);
}

int run(const Options& options) {
  if (!options.json.empty()) check_output(options.json, "--json");
  const DeviceSet devices = open(options.devices);
  LinkMeasurement measurement;
  measurement.cancel = &stop_requested();
  const std::vector<DeviceLink> links = measure_links(devices, measurement);
  Json list = Json::array(), link_list = Json::array();
  for (const DeviceLink& link : links) link_list.push_back(link_json(devices, link));
  for (int i = 0; i < devices.size(); ++i) list.push_back(device_json(devices[i]));
  Json operations = Json::array();
  for (const OperationEntry& entry : operation_table()) operations.push_back(operation_json(entry));
  const Json report = {{"schema", 1},
                       {"command", "devices"},
                       {"build", build_json()},
                       {"cores", available_cores()},
                       {"memory_bytes", available_memory()},
                       {"devices", list},
                       {"links", link_list},
                       {"operations", operations},
                       {"warnings", devices.warnings()}};
  OutputSet outputs;
  stage_json(outputs, options.json, report);
  outputs.commit();
  if (options.json == "-") {
    write_stdout(json_text(report));
    return 0;
  }
  std::vector<std::vector<std::string>> rows{
      {"device", "model", "architecture", "memory", "free", "threads", "uuid"}};
  for (int i = 0; i < devices.size(); ++i) {
    const DeviceInfo& info = devices[i].info();
    rows.push_back({info.name, info.model, info.architecture, human_bytes(info.memory_bytes),
                    human_bytes(devices[i].free_memory()), fmt::format("{}", info.threads),
                    info.uuid.empty() ? "none" : info.uuid});
  }
  std::string text = table_text(rows);
  text += "\n" + links_text(devices, links);
  text += fmt::format("\nthis process may use {} cores and {} of memory\n", available_cores(),
                      human_bytes(available_memory()));
  text += "built in:";
  std::string missing;
  for (const auto& [part, built] : build_facts().parts) (built ? text : missing) += " " + part;
  if (!missing.empty()) text += "\nnot built in:" + missing;
  write_stdout(text + "\n");
  return 0;
}

}  // namespace

void add_devices(Commands& commands, CLI::App& root) {
  const auto options = std::make_shared<Options>();
  CLI::App* app =
      add_command(commands, root, "devices",
                  "List the devices: name, model, memory, threads, and the links between them, measured",
                  "shardwise devices --devices host:2");
  add_device_options(*app, options->devices);
  app->add_option("--json", options->json, "Write the list as JSON ('-': to standard output, alone)")
      ->type_name("FILE");
  commands.actions[app] = [options] { return run(*options); };
}

}  // namespace shardwise::program
