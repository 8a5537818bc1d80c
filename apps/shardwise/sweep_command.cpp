// shardwise sweep: many coverage runs as jobs, kept and resumed.

#include <fmt/core.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "command.hpp"
#include "job_options.hpp"
#include "progress.hpp"
#include "rank_arguments.hpp"
#include "ranks.hpp"
#include "report_file.hpp"
#include "run_parameters.hpp"
#include "shardwise/runtime/parse.hpp"
#include "shardwise/shard/hash.hpp"
#include "sweep.hpp"
#include "table.hpp"

namespace shardwise::program {
namespace {

constexpr std::int64_t kSchema = 1;

/// What is wrong with a scene is said with the first run that wants it.
std::shared_ptr<SweepScene> load_scene(const std::string& plan, const SweepRun& run) {
  try {
    return std::make_shared<SweepScene>(run.text.scene, run.text.scene_options);
  } catch (const Error& error) {
    if (error.error_class() != ErrorClass::usage && error.error_class() != ErrorClass::data) throw;
    throw_data(fmt::format("{}:{}: run '{}': {}", plan, run.line, run.name, error.what()));
  }
}

/// What decides bits besides parameters: who traces. `strict` gives the same everywhere.
std::string backend_of(const DeviceSet& devices, const CoverageRequest& request) {
  if (request.tracer == TracerChoice::bvh) return "bvh";
  std::set<std::string> kinds;
  for (int d = 0; d < devices.size(); ++d) {
    const bool host = devices[d].kind() != PlatformKind::cuda;
#if SHARDWISE_WITH_EMBREE
    kinds.insert(host ? "host-embree" : "cuda");
#else
    kinds.insert(host ? "host-bvh" : "cuda");
#endif
  }
  std::string text;
  for (const std::string& kind : kinds) text += (text.empty() ? "" : "+") + kind;
  return text;
}

std::string digest_of(const std::string& text) {
  return blake3_hex(text.data(), text.size());
}

int dry_run(const SweepText& text, const std::vector<SweepItem>& items) {
  std::vector<std::vector<std::string>> rows{{"run", "rays", "cells", "grids", "kept"}};
  Json list = Json::array();
  std::set<std::string> to_compute;
  std::filesystem::path cache = text.cache;
  if (cache.empty() && !text.folder.empty()) cache = std::filesystem::path(text.folder) / "cache";
  for (const SweepItem& item : items) {
    const CoverageOptions& o = item.request.options;
    const bool is_kept = !cache.empty() && SweepCache::has(cache, item.key);
    if (!is_kept) to_compute.insert(item.key);
    rows.push_back({item.run.name, short_count(static_cast<double>(coverage_lanes(o))),
                    fmt::format("{} x {}", o.grid.resolution0, o.grid.resolution1), human_bytes(item.bytes()),
                    is_kept ? "yes" : ""});
    list.push_back({{"run", item.run.name},
                    {"key", item.key},
                    {"lanes", coverage_lanes(o)},
                    {"bytes", item.bytes()},
                    {"kept", is_kept}});
  }
  const Json report = {{"schema", kSchema}, {"command", "sweep --dry-run"}, {"runs", list}};
  OutputSet outputs;
  stage_json(outputs, text.json, report);
  outputs.commit();
  write_stdout(
      text.json == "-"
          ? json_text(report)
          : fmt::format("plan of {} map{}, {} to compute, nothing was run\n\n{}\nTo compute, {}leave "
                        "out --dry-run.\n",
                        items.size(), items.size() == 1 ? "" : "s", to_compute.size(), table_text(rows),
                        text.folder.empty() ? "give -o DIR and " : ""));
  return 0;
}

int run(const SweepText& text) {
  if (text.plan.empty()) throw_usage("sweep needs a plan; see 'shardwise sweep --help'");
  if (text.folder.empty() && !text.dry_run) throw_usage("sweep needs a folder for its results; give -o DIR");
  if (!text.json.empty() && is_first_rank()) check_output(text.json, "--json");
  std::vector<SweepRun> runs = read_sweep_plan(text.plan);
  const DeviceSet devices = open(text.devices);
  JobOptions options = job_options_of(text, devices.size());
  std::map<std::string, std::shared_ptr<const SweepScene>> scenes;
  std::vector<SweepItem> items;
  for (SweepRun& run : runs) {
    const SceneFileOptions& o = run.text.scene_options;
    // Names of files may hold any bytes, which a text in JSON may not.
    const std::string key =
        Json{digest_of(run.text.scene), o.material, digest_of(o.materials), o.defects, o.up, o.unit, o.origin,
             o.strict_materials}
            .dump();
    std::shared_ptr<const SweepScene>& scene = scenes[key];
    if (!scene) {
      std::shared_ptr<SweepScene> loaded = load_scene(text.plan, run);
      loaded->key = key;
      scene = std::move(loaded);
    }
    const std::string backend = backend_of(devices, run.request);
    items.push_back(make_item(std::move(run), scene, backend));
  }
  std::string contents;  // whatever traces: that is each rank's own affair
  for (const SweepItem& item : items)
    contents +=
        item.run.name + '\0' + sweep_key(item.scene->file_digests, canonical_parameters(item.run), "");
  require_same_contents(fmt::format("the plan '{}'", text.plan), contents);
  if (text.dry_run) return is_first_rank() ? dry_run(text, items) : 0;
  return Sweep(text, std::move(items), devices, std::move(options)).run();
}

}  // namespace

void add_sweep(Commands& commands, CLI::App& root) {
  const auto text = std::make_shared<SweepText>();
  CLI::App* app = add_command(commands, root, "sweep", "Many coverage runs of a plan, kept and resumed",
                              "shardwise sweep plan.toml -o maps --devices host:2");
  app->add_option("plan", text->plan, "TOML: [defaults] and [[run]] with options of coverage, lists expand")
      ->type_name("PLAN.toml");
  add_job_options(*app, *text);
  app->add_option("--cache", text->cache, "Folder of kept results, for several sweeps (DIR/cache)")
      ->type_name("DIR")
      ->group("Output");
  commands.actions[app] = [text] { return run(*text); };
  commands.on_all_ranks.insert(app);
}

}  // namespace shardwise::program
