// shardwise sweep: many coverage runs as jobs, kept and resumed.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "command.hpp"
#include "job_options.hpp"
#include "log.hpp"
#include "npy.hpp"
#include "picture.hpp"
#include "progress.hpp"
#include "rank_arguments.hpp"
#include "rank_work.hpp"
#include "ranks.hpp"
#include "run_folder.hpp"
#include "shardwise/runtime/parse.hpp"
#include "shardwise/shard/hash.hpp"
#include "shared_work.hpp"
#include "signals.hpp"
#include "sweep_picture.hpp"
#include "sweep_run.hpp"
#include "table.hpp"

namespace shardwise::program {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kSchema = 1;

struct SweepText : JobText {
  std::string plan, cache;
};

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

/// How long a unit of work took on a scene, as earlier runs in the folder found out.
class CostBook {
 public:
  explicit CostBook(fs::path file) : file_(std::move(file)) {
    const Json json = Json::parse(read_if_there(file_).value_or(""), nullptr, false);
    if (!json.is_object() || !json.contains("schema") || json["schema"] != kSchema || !json.contains("ns"))
      return;
    for (const auto& [scene, ns] : json["ns"].items())
      if (ns.is_number() && ns.get<double>() > 0) ns_[scene] = ns.get<double>();
  }
  /// Nanoseconds of a unit; of an unknown scene the mean of the others, of none 1.
  double ns(const std::string& scene) const {
    if (const auto found = ns_.find(scene); found != ns_.end()) return found->second;
    double sum = 0;
    for (const auto& [name, value] : ns_) sum += value;
    return ns_.empty() ? 1 : sum / static_cast<double>(ns_.size());
  }
  void learn(const std::string& scene, double seen) {
    double& value = ns_[scene];
    value = value > 0 ? (value + seen) / 2 : seen;
  }
  void write() const {
    Json ns = Json::object();
    for (const auto& [scene, value] : ns_) ns[scene] = value;
    write_by_rename(file_, json_text({{"schema", kSchema}, {"ns", ns}}));
  }

 private:
  fs::path file_;
  std::map<std::string, double> ns_;
};

std::string digest_of(const std::string& text) {
  return blake3_hex(text.data(), text.size());
}

std::string digest_of_files(const SweepScene& scene) {
  Blake3 hasher;
  for (const std::string& digest : scene.file_digests) hasher.update(digest);
  return hasher.hex().substr(0, 16);
}

/// What became of one run.
struct RunState {
  enum class How { open, from_cache, computed, elsewhere, failed } how = How::open;
  std::string device, error;
  double run_s = 0;
  Json facts;
};

const char* to_string(RunState::How how) {
  switch (how) {
    case RunState::How::open:
      return "open";
    case RunState::How::from_cache:
      return "cached";
    case RunState::How::computed:
      return "computed";
    case RunState::How::elsewhere:
      return "elsewhere";
    case RunState::How::failed:
      return "failed";
  }
  return "?";
}

class Sweep {
 public:
  Sweep(const SweepText& text, std::vector<SweepItem> items, const DeviceSet& devices, JobOptions options)
      : text_(text),
        items_(std::move(items)),
        devices_(devices),
        options_(std::move(options)),
        folder_(open_folder_together(text.folder, "sweep", text.join)),
        cache_(text.cache.empty() ? folder_->path() / "cache" : fs::path(text.cache)),
        costs_(folder_->path() / ".shardwise" / "costs.json"),
        states_(items_.size()),
        scenes_("scenes") {}

  int run();

 private:
  using Indices = std::vector<std::size_t>;
  bool take_from_cache(std::size_t first, RunState::How how);
  Job make_job(std::size_t index);
  std::uint64_t cost_of(std::size_t index) const;
  void on_result(std::size_t index, const JobResult& result);
  void finish_unit(std::size_t first, RunState state, const SweepEntry* entry);
  Indices wait_for_others(const Indices& undecided);
  void write_folder(const SweepItem& item, const SweepEntry& entry) const;
  std::string table() const;
  void write_overview();
  int finish();

  const SweepText& text_;
  std::vector<SweepItem> items_;
  DeviceSet devices_;
  JobOptions options_;
  std::unique_ptr<RunFolder> folder_;
  SweepCache cache_;
  CostBook costs_;
  std::vector<RunState> states_;
  SweepScenes scenes_;
  std::map<std::string, Indices> units_;  ///< runs by key: those of one key are computed once
  std::vector<std::string> damaged_;
  FolderProblem folder_problem_;
  JobReport report_;
};

void Sweep::write_folder(const SweepItem& item, const SweepEntry& entry) const {
  const fs::path place = folder_->path() / item.run.name;
  fs::create_directories(place);
  for (const auto& [name, bytes] : entry.files)
    if (read_if_there(place / name) != bytes) write_by_rename(place / name, bytes);
}

void Sweep::finish_unit(std::size_t first, RunState state, const SweepEntry* entry) {
  for (const std::size_t index : units_.at(items_[first].key)) {
    states_[index] = state;
    if (!entry) continue;
    states_[index].facts = entry->facts;
    write_folder(items_[index], *entry);
  }
}

bool Sweep::take_from_cache(std::size_t first, RunState::How how) {
  const SweepItem& item = items_[first];
  const SweepCache::Found found = cache_.find(item.key);
  if (found.state == SweepCache::State::damaged) {
    if (std::ranges::find(damaged_, item.run.name) == damaged_.end()) {
      log_warning(fmt::format("the kept result of run '{}' is damaged ({}); computing it again",
                              item.run.name, item.key.substr(0, 16)));
      damaged_.push_back(item.run.name);
    }
    return false;
  }
  if (found.state != SweepCache::State::good) return false;
  RunState state;
  state.how = how;
  finish_unit(first, state, &found.entry);
  return true;
}

std::uint64_t Sweep::cost_of(std::size_t index) const {
  const SweepItem& item = items_[index];
  return static_cast<std::uint64_t>(
      std::clamp(item.work() * costs_.ns(digest_of_files(*item.scene)), 1.0, 1e15));
}

Job Sweep::make_job(std::size_t index) {
  const SweepItem& item = items_[index];
  Job job;
  job.id = item.run.name;
  job.key = item.scene->key;
  job.cost = cost_of(index);
  job.bytes = item.bytes();
  job.admit = [this, index] {
    const std::string& key = items_[index].key;
    return folder_problem_.admits(
        [&] { return folder_->claim(key) && cache_.find(key).state != SweepCache::State::good; });
  };
  job.program = JobProgram::native(
      "coverage",
      [this, index](JobContext& context) { context.set_value(compute(items_[index], scenes_, context)); },
      true);
  return job;
}

void Sweep::on_result(std::size_t index, const JobResult& result) {
  const SweepItem& item = items_[index];
  RunState state;
  state.device = result.device;
  state.run_s = result.run_s;
  if (result.status == JobStatus::done) {
    const auto computed = std::any_cast<std::shared_ptr<SweepResult>>(result.value);
    const SweepEntry entry = entry_of(item, *computed);
    // The cache first: with it the run is done, for others too.
    cache_.keep(item.key, entry);
    state.how = RunState::How::computed;
    finish_unit(index, state, &entry);
    costs_.learn(digest_of_files(*item.scene), computed->run.seconds * 1e9 / item.work());
    costs_.write();
  } else if (result.status == JobStatus::failed && result.error->error_class != ErrorClass::interrupted) {
    state.how = RunState::How::failed;
    state.error = result.error->message;
    log_warning(state.error);
    finish_unit(index, state, nullptr);
  }
  folder_->give_up(item.key);
}

Sweep::Indices Sweep::wait_for_others(const Indices& undecided) {
  return wait_for_units(
      undecided, "runs",
      [this](std::size_t index) { return take_from_cache(index, RunState::How::elsewhere); },
      [this](std::size_t index) { return folder_->owner_of(items_[index].key).has_value(); });
}

int Sweep::run() {
  for (std::size_t i = 0; i < items_.size(); ++i) units_[items_[i].key].push_back(i);
  Indices todo;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (units_.at(items_[i].key).front() != i) continue;
    if (!take_from_cache(i, RunState::How::from_cache)) todo.push_back(i);
  }
  std::vector<std::uint64_t> costs;
  for (std::size_t i = 0; i < items_.size(); ++i) costs.push_back(cost_of(i));
  Indices left = todo;  // nobody is known to have done
  todo = units_of_this_rank(todo, costs, devices_.size());
  if (!left.empty()) {
    Indices running;
    Progress progress("sweep", "runs");
    JobExecutor* executor = nullptr;
    JobOptions options = options_;
    options.on_result = [&](std::size_t i, const JobResult& result) { on_result(running[i], result); };
    options.progress = [&](std::size_t done, std::size_t total) {
      progress.update(static_cast<std::int64_t>(done), static_cast<std::int64_t>(total));
      if (stop_requested()) executor->cancel();
      folder_problem_.throw_if_any();
    };
    JobExecutor jobs(devices_, std::move(options));
    executor = &jobs;
    bool first_round = true;
    while (!left.empty()) {
      running = todo;
      std::vector<Job> batch;
      for (const std::size_t index : running) batch.push_back(make_job(index));
      if (!batch.empty()) {
        run_or_cancel(jobs, std::move(batch));
        const JobReport round = settled_report(jobs);
        for (const std::string& note : round.notes) log_warning(note);
        if (std::exchange(first_round, false)) report_ = round;
      }
      std::erase_if(left, [this](std::size_t index) { return states_[index].how != RunState::How::open; });
      const bool failed = std::ranges::any_of(
          states_, [](const RunState& state) { return state.how == RunState::How::failed; });
      if (stop_requested() || (text_.fail_fast && failed)) break;
      todo = left = wait_for_others(left);
    }
  }
  return finish();
}

std::string Sweep::table() const {
  std::string csv = "run,status,device,run_s,covered_fraction,median_gain_db,max_gain_db,digest,key,error\n";
  const auto number = [](const Json& facts, const char* name) {
    return facts.is_object() && facts[name].is_number() ? fmt::format("{:.6g}", facts[name].get<double>())
                                                        : "";
  };
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const RunState& state = states_[i];
    csv +=
        fmt::format("{},{},{},{:.6f},{},{},{},{},{},{}\n", csv_field(items_[i].run.name),
                    to_string(state.how), state.device, state.run_s, number(state.facts, "covered_fraction"),
                    number(state.facts, "median_gain_db"), number(state.facts, "max_gain_db"),
                    state.facts.is_object() ? state.facts.value("digest", "") : "", items_[i].key,
                    csv_field(state.error));
  }
  return csv;
}

void Sweep::write_overview() {
  if (!pictures_built()) return;
  std::vector<OverviewPanel> panels;
  std::vector<std::vector<double>> maps;
  constexpr std::size_t most = 400;
  for (std::size_t i = 0; i < items_.size() && panels.size() < most; ++i) {
    if (!states_[i].facts.is_object()) continue;
    NpyArray map = read_npy((folder_->path() / items_[i].run.name / "map.npy").string());
    OverviewPanel panel;
    panel.title = items_[i].run.name;
    panel.columns = states_[i].facts.at("columns").get<std::int64_t>();
    panel.rows = states_[i].facts.at("rows").get<std::int64_t>();
    const auto cells = static_cast<std::size_t>(panel.columns * panel.rows);
    // NpyArray has its first index fastest: [rows, columns] in C order comes transposed. Maps of each
    // transmitter are added up.
    const std::size_t layers = map.values.size() / cells;
    std::vector<double> gain(cells);
    for (std::size_t row = 0; row < static_cast<std::size_t>(panel.rows); ++row)
      for (std::size_t column = 0; column < static_cast<std::size_t>(panel.columns); ++column)
        for (std::size_t layer = 0; layer < layers; ++layer)
          gain[row * static_cast<std::size_t>(panel.columns) + column] +=
              map.values[layer + layers * (row + static_cast<std::size_t>(panel.rows) * column)];
    maps.push_back(std::move(gain));
    panels.push_back(std::move(panel));
  }
  for (std::size_t i = 0; i < panels.size(); ++i) panels[i].gain = maps[i];
  if (panels.empty()) return;
  const std::string title = fmt::format("{}: {} of {} runs", fs::path(text_.plan).filename().string(),
                                        panels.size(), items_.size());
  write_by_rename(folder_->path() / "overview.png", overview_png(title, panels));
}

int Sweep::finish() {
  std::map<RunState::How, std::size_t> count;
  for (const RunState& state : states_) ++count[state.how];
  using How = RunState::How;
  if (is_first_rank()) write_by_rename(folder_->path() / "runs.csv", table());
  const std::size_t good = count[How::computed] + count[How::from_cache] + count[How::elsewhere];
  if (stop_requested()) {
    set_stop_remark(fmt::format("{} of {} runs are done and kept in '{}'; the same command does the rest",
                                good, items_.size(), text_.folder));
    throw Error(ErrorClass::interrupted, "sweep: stopped");
  }
  std::uint64_t built = 0;
  for (const JobDeviceReport& device : report_.devices) built += device.cache_misses;
  const Json of_ranks = has_ranks() ? gather_rank_reports({{"runs", count[How::computed]},
                                                           {"scenes_built", built},
                                                           {"devices", job_devices_json(report_)}})
                                    : Json();
  if (!is_first_rank()) return good == items_.size() ? 0 : 1;
  write_overview();
  Json report = {{"schema", kSchema},
                 {"command", "sweep"},
                 {"runs", items_.size()},
                 {"computed", count[How::computed]},
                 {"from_cache", count[How::from_cache]},
                 {"elsewhere", count[How::elsewhere]},
                 {"failed", count[How::failed]},
                 {"cancelled", count[How::open]},
                 {"damaged", damaged_},
                 {"scenes_built", built},
                 {"devices", job_devices_json(report_)},
                 {"makespan_s", report_.makespan_s},
                 {"lower_bound_s", report_.lower_bound_s}};
  if (has_ranks()) report["ranks"] = of_ranks;
  OutputSet outputs;
  stage_json(outputs, text_.json, report);
  outputs.commit();
  if (text_.json == "-") {
    write_stdout(json_text(report));
  } else {
    std::string text = fmt::format(
        "{} runs: {} computed, {} from the cache, {} by other processes, {} failed\n", items_.size(),
        count[How::computed], count[How::from_cache], count[How::elsewhere], count[How::failed]);
    if (has_ranks()) text += "\n" + rank_table(of_ranks, "runs");
    if (!report_.devices.empty())
      text += fmt::format("\n{}\n{}; scenes were built {} times\n", job_devices_text(report_),
                          makespan_text(report_), built);
    write_stdout(text + fmt::format("table: {}\n", (folder_->path() / "runs.csv").string()));
  }
  if (good == items_.size()) return 0;
  log_error(fmt::format("{} of {} runs failed{}; the same command tries them again", count[How::failed],
                        items_.size(),
                        count[How::open] > 0 ? fmt::format(", {} were cancelled", count[How::open]) : ""));
  return 1;
}

int dry_run(const SweepText& text, const std::vector<SweepItem>& items) {
  std::vector<std::vector<std::string>> rows{{"run", "rays", "cells", "grids"}};
  Json list = Json::array();
  for (const SweepItem& item : items) {
    const CoverageOptions& o = item.request.options;
    rows.push_back({item.run.name, short_count(static_cast<double>(coverage_lanes(o))),
                    fmt::format("{} x {}", o.grid.resolution0, o.grid.resolution1),
                    human_bytes(item.bytes())});
    list.push_back(
        {{"run", item.run.name}, {"key", item.key}, {"lanes", coverage_lanes(o)}, {"bytes", item.bytes()}});
  }
  const Json report = {{"schema", kSchema}, {"command", "sweep --dry-run"}, {"runs", list}};
  OutputSet outputs;
  stage_json(outputs, text.json, report);
  outputs.commit();
  write_stdout(text.json == "-"
                   ? json_text(report)
                   : fmt::format("plan of {} maps, nothing was run\n\n{}\nTo compute them, leave out "
                                 "--dry-run.\n",
                                 items.size(), table_text(rows)));
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
      auto loaded = std::make_shared<SweepScene>(run.text.scene, o);
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
