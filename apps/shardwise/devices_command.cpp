// shardwise devices: what there is to compute on.

#include <fmt/core.h>

#include <memory>

#include "command.hpp"
#include "device_options.hpp"
#include "report_file.hpp"
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

int run(const Options& options) {
  if (!options.json.empty()) check_output(options.json, "--json");
  const DeviceSet devices = open(options.devices);
  Json list = Json::array();
  for (int i = 0; i < devices.size(); ++i) list.push_back(device_json(devices[i]));
  const Json report = {{"schema", 1},
                       {"command", "devices"},
                       {"build", build_json()},
                       {"cores", available_cores()},
                       {"memory_bytes", available_memory()},
                       {"devices", list},
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
  CLI::App* app = add_command(commands, root, "devices", "List the devices: name, model, memory, threads",
                              "shardwise devices --devices host:2");
  add_device_options(*app, options->devices);
  app->add_option("--json", options->json, "Write the list as JSON ('-': to standard output, alone)")
      ->type_name("FILE");
  commands.actions[app] = [options] { return run(*options); };
}

}  // namespace shardwise::program
