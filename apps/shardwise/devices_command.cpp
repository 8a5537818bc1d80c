// shardwise devices: what there is to compute on.

#include <fmt/core.h>

#include <memory>
#include <utility>

#include "command.hpp"
#include "device_options.hpp"
#include "report_file.hpp"
#include "shardwise/runtime/links.hpp"
#include "shardwise/runtime/parse.hpp"
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
  const std::vector<DeviceLink> links = measure_links(devices);
  Json list = Json::array(), link_list = Json::array();
  for (const DeviceLink& link : links) link_list.push_back(link_json(devices, link));
  for (int i = 0; i < devices.size(); ++i) list.push_back(device_json(devices[i]));
  const Json report = {{"schema", 1},
                       {"command", "devices"},
                       {"build", build_json()},
                       {"cores", available_cores()},
                       {"memory_bytes", available_memory()},
                       {"devices", list},
                       {"links", link_list},
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
