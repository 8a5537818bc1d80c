// shardwise bench: runs a benchmark, prints its rows, compares with a baseline.

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "bench/runner.hpp"
#include "command.hpp"
#include "device_options.hpp"
#include "progress.hpp"
#include "prompt_stop.hpp"
#include "report_file.hpp"
#include "scene/file_util.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"
#include "signals.hpp"
#include "table.hpp"
#include "values.hpp"

namespace shardwise::program {
namespace {

/// A row is worse than the baseline where its speed falls below this share of it.
constexpr double least_share = 0.98;

struct Options {
  std::string name, devices, scene, repeat, baseline, json;
  std::vector<std::string> only;
  bool quick = false;
};

Json spread_json(const bench::Spread& spread) {
  return {{"min", spread.min}, {"median", spread.median}};
}

Json row_json(const bench::Row& row) {
  return {{"name", row.name},
          {"work", row.note.empty() ? row.work : row.work + "; " + row.note},
          {"devices", row.devices},
          {"mode", row.mode},
          {"one_s", row.has_one ? spread_json(row.one) : Json(nullptr)},
          {"all_s", spread_json(row.all)},
          {"ratio", row.has_one ? Json(row.ratio) : Json(nullptr)},
          {"per_unit_ns", row.per_unit_ns > 0 ? Json(row.per_unit_ns) : Json(nullptr)},
          {"limit", row.limit.empty() ? Json(nullptr) : Json(row.limit)},
          {"share_of_limit", row.share_of_limit > 0 ? Json(row.share_of_limit) : Json(nullptr)}};
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

Json machine_json() {
  return {{"cpu", cpu_model()}, {"cores", available_cores()}, {"memory_bytes", available_memory()}};
}

Json read_baseline(const std::string& path) {
  Json baseline = Json::parse(read_whole_file(path, "--baseline"), nullptr, false);
  const auto is_row = [](const Json& row) {
    const auto is_text = [&](const char* key) { return row.contains(key) && row[key].is_string(); };
    return row.is_object() && is_text("name") && is_text("devices") && is_text("work") &&
           row.contains("all_s") && row["all_s"].is_object() && row["all_s"].contains("min") &&
           row["all_s"]["min"].is_number();
  };
  if (baseline.is_discarded() || !baseline.is_object() || !baseline.contains("rows") ||
      !baseline["rows"].is_array() || !std::ranges::all_of(baseline["rows"], is_row)) {
    throw_data(
        fmt::format("--baseline: '{}' is not a report of 'shardwise bench'; write one with --json", path));
  }
  return baseline;
}

/// The baseline's least time for the row, 0 where it has no such row. Notes behind the work are not compared.
double baseline_seconds(const Json& baseline, const bench::Row& row) {
  for (const Json& old : baseline["rows"]) {
    const auto work = old["work"].get<std::string>();
    if (old["name"] == row.name && old["devices"] == row.devices &&
        (work == row.work || work.starts_with(row.work + "; ")))
      return old["all_s"]["min"].get<double>();
  }
  return 0;
}

/// The table, what its columns are, and what its rows are: those of one work on more and more devices
/// together.
std::string rows_text(const std::vector<bench::Row>& rows) {
  const bool any_one = std::ranges::any_of(rows, &bench::Row::has_one),
             any_unit = std::ranges::any_of(rows, [](const bench::Row&row) { return row.per_unit_ns > 0; }),
             any_limit = std::ranges::any_of(rows, [](const bench::Row&row) { return !row.limit.empty(); });
  std::vector<std::vector<std::string>> table{{"row", "devices", "mode", "all", "median"}};
  const auto add = [](std::vector<std::string>& line, bool wanted, std::vector<std::string> more) {
    if (wanted) line.insert(line.end(), more.begin(), more.end());
  };
  add(table[0], any_one, {"one", "median", "ratio"});
  add(table[0], any_unit, {"ns/unit"});
  add(table[0], any_limit, {"limit", "of limit"});
  for (const bench::Row& row : rows) {
    std::vector<std::string> line{row.name, row.devices, row.mode, short_time(row.all.min),
                                  short_time(row.all.median)};
    add(line, any_one,
        {row.has_one ? short_time(row.one.min) : "-", row.has_one ? short_time(row.one.median) : "-",
         row.has_one ? fmt::format("{:.3f}", row.ratio) : "-"});
    add(line, any_unit, {row.per_unit_ns > 0 ? fmt::format("{:.4g}", row.per_unit_ns) : "-"});
    add(line, any_limit,
        {row.limit.empty() ? "-" : row.limit,
         row.share_of_limit > 0 ? fmt::format("{:.3f}", row.share_of_limit) : "-"});
    table.push_back(std::move(line));
  }
  std::string text = table_text(table) + "\nall: the least time on the devices of the row, then the median";
  if (any_one)
    text +=
        "; one: the same on one of them, or what the row names below; ratio: one / all, how many times as "
        "fast";
  if (any_unit) text += "; ns/unit: of all, for one ray, row or cell";
  if (any_limit) text += "; of limit: the share that is reached of what the limit alone would allow";
  text += "\n\nwhat was run:\n";
  for (std::size_t i = 0; i < rows.size();) {
    std::string names = rows[i].name;
    std::size_t next = i + 1;
    for (; next < rows.size() && rows[next].work == rows[i].work; ++next) names += ", " + rows[next].name;
    text += fmt::format("  {}: {}\n", names, rows[i].work);
    const std::size_t first = i;
    for (; i < next; ++i)
      if (!rows[i].note.empty())
        text +=
            fmt::format("    measured{}: {}\n", next - first > 1 ? " by " + rows[i].name : "", rows[i].note);
  }
  return text;
}

int run(const Options& options) {
  std::vector<std::string> names;
  for (const bench::Benchmark& benchmark : bench::benchmarks()) names.push_back(benchmark.name);
  const bench::Benchmark* chosen = nullptr;
  for (const bench::Benchmark& benchmark : bench::benchmarks()) {
    if (benchmark.name == options.name) chosen = &benchmark;
  }
  if (!chosen) {
    const std::string near = nearest_word(options.name, names);
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
    throw_usage(options.name.empty()
                    ? fmt::format("bench needs the name of a benchmark; there is: {}", known)
                    : fmt::format("unknown benchmark '{}'; {}", options.name,
                                  near.empty() ? "there is: " + known : "did you mean '" + near + "'?"));
  }
  if (!options.scene.empty() && !chosen->takes_scene)
    throw_usage(
        fmt::format("--scene: 'bench {}' has work of its own and takes none; leave it out", options.name));
  if (!options.json.empty()) check_output(options.json, "--json");
  const Json baseline = options.baseline.empty() ? Json() : read_baseline(options.baseline);

  bench::Settings settings;
  settings.devices = options.devices;
  settings.scene = options.scene;
  settings.quick = options.quick;
  settings.repeat = options.repeat.empty()
                        ? (options.quick ? 3 : 7)
                        : static_cast<int>(count_value("--repeat", options.repeat, 1, 100000));
  settings.cancel = &stop_requested();
  std::vector<bench::Row> rows;
  std::string rows_known;
  {
    // Until there is something to write. What the cases hold is large, and given back behind it.
    const PromptStop prompt_stop;
    for (const bench::Case& work : chosen->make(settings)) {
      rows_known += (rows_known.empty() ? "" : ", ") + work.name;
      if (!options.only.empty() && std::ranges::find(options.only, work.name) == options.only.end()) continue;
      log_note(fmt::format("bench {}: {} on {}", chosen->name, work.name, work.devices));
      rows.push_back(bench::run_case(work, settings));
    }
  }

  if (rows.empty())
    throw_usage(fmt::format("--only: no row of '{}' is called so; there is: {}", chosen->name, rows_known));

  std::string fallen;
  Json row_list = Json::array();
  for (const bench::Row& row : rows) {
    Json entry = row_json(row);
    if (!options.baseline.empty()) {
      const double before = baseline_seconds(baseline, row);
      const double share = before / row.all.min;
      entry["share_of_baseline"] = before > 0 ? Json(share) : Json(nullptr);
      if (before == 0) log_warning(fmt::format("'{}' on {} is not in the baseline", row.name, row.devices));
      if (before > 0 && share < least_share) {
        fallen +=
            fmt::format("{}{} on {} ({:.3f})", fallen.empty() ? "" : ", ", row.name, row.devices, share);
      }
    }
    row_list.push_back(entry);
  }
  const Json report = {{"schema", 1},
                       {"command", "bench"},
                       {"name", chosen->name},
                       {"machine", machine_json()},
                       {"build", build_json()},
                       {"repeat", settings.repeat},
                       {"quick", settings.quick},
                       {"rows", row_list}};
  OutputSet outputs;
  stage_json(outputs, options.json, report);
  outputs.commit();
  if (options.json == "-") {
    write_stdout(json_text(report));
  } else {
    write_stdout(fmt::format("{}: {}\n{}, {} cores, commit {}\n\n{}", chosen->name, chosen->description,
                             cpu_model(), available_cores(), report["build"]["commit"].get<std::string>(),
                             rows_text(rows)));
  }
  if (!fallen.empty()) {
    log_error(
        fmt::format("slower than {} of the baseline: {}; see '{}'", least_share, fallen, options.baseline));
    return 1;
  }
  return 0;
}

}  // namespace

void add_bench(Commands& commands, CLI::App& root) {
  const auto options = std::make_shared<Options>();
  CLI::App* app = add_command(commands, root, "bench", "Run the benchmarks that the documentation quotes",
                              "shardwise bench accumulate --devices host:2x1 --json bench.json");
  std::string known;
  for (const bench::Benchmark& benchmark : bench::benchmarks()) {
    known += fmt::format("{}{}: {}", known.empty() ? "" : "; ", benchmark.name, benchmark.description);
  }
  app->add_option("name", options->name, known)->type_name("NAME");
  app->add_option("--devices", options->devices, "The devices, as for coverage")->type_name("SPEC");
  app->add_option("--scene", options->scene, "A scene in place of the benchmark's own")->type_name("FILE");
  app->add_option("--repeat", options->repeat, "Rounds (7; 3 with --quick)")->type_name("N");
  app->add_option("--only", options->only, "Rows by name, in place of all")->type_name("ROW")->delimiter(',');
  app->add_flag("--quick", options->quick, "Little work: a smoke run");
  app->add_option("--baseline", options->baseline,
                  "An earlier report; exit 1 where a row falls below 0.98 of it")
      ->type_name("FILE");
  app->add_option("--json", options->json, "Write the report as JSON ('-': to standard output, alone)")
      ->type_name("FILE");
  commands.actions[app] = [options] { return run(*options); };
}

}  // namespace shardwise::program
