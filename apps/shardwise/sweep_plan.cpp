#include "sweep_plan.hpp"

#include <fmt/core.h>

#include "shardwise/runtime/error.hpp"

#if defined(SHARDWISE_WITH_TOML)

#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "coverage_picture.hpp"
#include "log.hpp"
#include "run_folder.hpp"
#include "scene/file_util.hpp"
#include "shardwise/runtime/parse.hpp"
#include "signals.hpp"

namespace shardwise::program {
namespace {

namespace fs = std::filesystem;

/// A key of the plan and the option it stands for. The order is that of products.
struct Key {
  const char* name;
  bool is_flag = false;
  bool is_path = false;
};
constexpr Key kKeys[] = {{"scene", false, true},
                         {"tx"},
                         {"frequency"},
                         {"samples"},
                         {"passes"},
                         {"bounces"},
                         {"polarization"},
                         {"walls"},
                         {"height"},
                         {"plane"},
                         {"area"},
                         {"cell"},
                         {"seed"},
                         {"accumulation"},
                         {"tracer"},
                         {"strict", true},
                         {"per-tx", true},
                         {"material"},
                         {"materials", false, true},
                         {"strict-materials", true},
                         {"defects"},
                         {"up"},
                         {"unit"},
                         {"origin"}};
/// Options of coverage that a sweep decides itself.
constexpr const char* kDecided[] = {"png",          "map",
                                    "error-map",    "count-map",
                                    "json",         "trace",
                                    "lanes",        "partial",
                                    "checkpoint",   "checkpoint-every",
                                    "resume",       "verify",
                                    "dry-run",      "target-error",
                                    "devices",      "allow-mixed",
                                    "require-peer", "share-gpus",
                                    "sim-seed",     "sim-faults",
                                    "weights",      "calibration",
                                    "chunk",        "memory",
                                    "min-rows",     "on-device-failure",
                                    "deadline"};
/// Options that coverage refuses by name.
constexpr const char* kLater[] = {"diffraction", "coherent", "mode"};

constexpr int most_runs = 100'000;

/// One value of a key: the texts of one option (several for tx).
struct Value {
  std::vector<std::string> texts;
  std::string label;  ///< for names
  int line = 0;
};

/// A table of the plan: for each key its values.
using Table = std::map<std::string, std::vector<Value>>;

class PlanReader {
 public:
  explicit PlanReader(const std::string& path) : path_(path), folder_(fs::path(path).parent_path()) {}

  std::vector<SweepRun> read() {
    const std::string text = read_whole_file(path_, "sweep plan");
    toml::table plan;
    try {
      plan = toml::parse(text, path_);
    } catch (const toml::parse_error& error) {
      throw_data(fmt::format("{}:{}: no TOML: {}", path_, error.source().begin.line, error.description()));
    }
    Table defaults;
    const toml::array* runs = nullptr;
    for (const auto& [key_view, node] : plan) {
      const std::string key(key_view.str());
      if (key == "defaults" && node.is_table()) {
        defaults = read_table(*node.as_table(), nullptr);
      } else if (key == "run" && node.is_array_of_tables()) {
        runs = node.as_array();
      } else if (key == "schema") {
        if (node.value<std::int64_t>() != 1) refuse(node, "'schema' is not 1; this version reads schema 1");
      } else if (key == "run") {
        refuse(node, "'run' is one table; write [[run]], of which there may be several");
      } else if (key == "defaults") {
        refuse(node, "'defaults' is no table; write [defaults]");
      } else {
        unknown(node, key, {"defaults", "run", "schema"}, "; write [defaults] and [[run]]");
      }
    }
    if (!runs || runs->empty()) throw_data(fmt::format("{}: there is no [[run]]; write one", path_));
    std::vector<SweepRun> result;
    for (const toml::node& node : *runs) expand(*node.as_table(), defaults, result);
    std::map<std::string, int> lines;
    for (const SweepRun& run : result) {
      const auto [first, fresh] = lines.emplace(run.name, run.line);
      if (!fresh)
        throw_data(fmt::format("{}:{}: the run '{}' is that of line {}, too; give one of the tables a name",
                               path_, run.line, run.name, first->second));
    }
    return result;
  }

 private:
  [[noreturn]] void refuse(const toml::node& node, const std::string& problem) const {
    throw_data(fmt::format("{}:{}: {}", path_, node.source().begin.line, problem));
  }
  [[noreturn]] void unknown(const toml::node& node, const std::string& key,
                            const std::vector<std::string>& known, const std::string& otherwise) const {
    const std::string near = nearest_word(key, known);
    refuse(node, fmt::format("unknown key '{}'{}", key,
                             near.empty() ? otherwise : fmt::format("; did you mean '{}'?", near)));
  }

  std::string scalar_text(const toml::node& node, const std::string& key) const {
    if (const auto text = node.as_string()) return text->get();
    if (const auto number = node.as_integer()) return fmt::format("{}", number->get());
    if (const auto number = node.as_floating_point()) return fmt::format("{}", number->get());
    if (const auto flag = node.as_boolean()) return flag->get() ? "true" : "false";
    refuse(node, fmt::format("'{}' is neither a text, a number nor a list of them", key));
  }

  Value value_of(const toml::node& node, const Key& key) const {
    Value value;
    value.line = static_cast<int>(node.source().begin.line);
    if (const toml::array* list = node.as_array()) {
      if (std::string(key.name) != "tx")
        refuse(node,
               fmt::format("'{}' is a list of lists, which only tx may be (several transmitters of one run)",
                           key.name));
      if (list->empty()) refuse(node, "a run has no transmitter; list one");
      for (const toml::node& entry : *list) value.texts.push_back(scalar_text(entry, key.name));
    } else {
      value.texts = {scalar_text(node, key.name)};
    }
    for (const std::string& text : value.texts) value.label += (value.label.empty() ? "" : "+") + text;
    if (key.is_path) {
      if (value.texts[0].empty()) refuse(node, fmt::format("'{}' is empty; name a file", key.name));
      value.label = fs::path(value.texts[0]).replace_extension().string();
      const std::string given = value.texts[0];
      if (fs::path(given).is_relative()) value.texts[0] = (folder_ / given).string();
      if (!fs::exists(value.texts[0]))
        refuse(node, fmt::format("'{}' names '{}', which does not exist; paths are relative to the plan",
                                 key.name, given));
    }
    return value;
  }

  Table read_table(const toml::table& table, std::string* name) const {
    Table result;
    for (const auto& [key_view, node] : table) {
      std::string key(key_view.str());
      std::replace(key.begin(), key.end(), '_', '-');
      if (key == "name" && name) {
        if (!node.is_string()) refuse(node, "'name' is not a text");
        *name = node.as_string()->get();
        continue;
      }
      const auto* const found = std::find_if(std::begin(kKeys), std::end(kKeys),
                                             [&](const Key& known) { return key == known.name; });
      if (found == std::end(kKeys)) {
        if (std::find(std::begin(kDecided), std::end(kDecided), key) != std::end(kDecided))
          refuse(node, fmt::format("'{}' is not a run's: sweep decides it; leave it out", key));
        if (std::find(std::begin(kLater), std::end(kLater), key) != std::end(kLater))
          refuse(node, fmt::format("'{}' is not in this version; leave it out", key));
        std::vector<std::string> known;
        for (const Key& each : kKeys) known.emplace_back(each.name);
        if (name) known.emplace_back("name");
        unknown(node, key, known, "; options of coverage are known");
      }
      if (result.contains(key))
        refuse(node, fmt::format("'{}' is given twice, with '_' and with '-'; remove one", key));
      std::vector<Value>& values = result[key];
      if (const toml::array* list = node.as_array()) {
        if (list->empty()) refuse(node, fmt::format("'{}' is an empty list; give a value", key));
        for (const toml::node& entry : *list) values.push_back(value_of(entry, *found));
      } else {
        values.push_back(value_of(node, *found));
      }
    }
    return result;
  }

  static std::string cleaned(const std::string& text) {
    std::string result;
    for (const char c : text)
      result += std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '+' ? c : '_';
    return result;
  }

  /// Entries of one list that would give their runs one name.
  void check_entries(const char* key, const std::vector<Value>& list) const {
    std::map<std::string, std::size_t> seen;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto [first, fresh] = seen.emplace(cleaned(list[i].label), i);
      if (fresh) continue;
      const Value& other = list[first->second];
      const std::string place = fmt::format("{}:{}: '{}'", path_, list[i].line, key);
      if (other.texts == list[i].texts)
        throw_data(fmt::format("{} lists '{}' twice, as entries {} and {}; remove one", place, list[i].label,
                               first->second + 1, i + 1));
      throw_data(fmt::format(
          "{}: entries {} ('{}') and {} ('{}') give their runs one name; put one into a [[run]] of "
          "its own, with a name",
          place, first->second + 1, other.texts[0], i + 1, list[i].texts[0]));
    }
  }

  void expand(const toml::table& table, const Table& defaults, std::vector<SweepRun>& result) const {
    std::string name;
    Table values = read_table(table, &name);
    for (const auto& [key, list] : defaults) values.emplace(key, list);
    const int line = static_cast<int>(table.source().begin.line);
    if (!values.contains("scene"))
      throw_data(
          fmt::format("{}:{}: this [[run]] has no 'scene'; name a file, here or in [defaults]", path_, line));
    std::vector<std::pair<const Key*, const std::vector<Value>*>> axes;
    for (const Key& key : kKeys)
      if (const auto found = values.find(key.name); found != values.end())
        axes.emplace_back(&key, &found->second);
    for (const auto& [key, list] : axes) check_entries(key->name, *list);
    double product = 1;
    for (const auto& axis : axes) product *= static_cast<double>(axis.second->size());
    if (static_cast<double>(result.size()) + product > most_runs)
      throw_data(
          fmt::format("{}:{}: the lists of this table multiply to {:.6g} runs, with those before it over {}; "
                      "shorten them, or divide the plan",
                      path_, line, product, most_runs));
    std::vector<std::size_t> at(axes.size());
    while (true) {
      throw_if_stopped();
      SweepRun run;
      run.line = line;
      run.name = name;
      std::vector<std::string> arguments{"sweep"};
      for (std::size_t a = 0; a < axes.size(); ++a) {
        const Key& key = *axes[a].first;
        const Value& value = (*axes[a].second)[at[a]];
        const bool names_scene = std::string(key.name) == "scene";
        const bool varies = axes[a].second->size() > 1;
        // The scene begins the name of a table that has none: by its whole path where there are several.
        if (names_scene && name.empty())
          run.name = cleaned(varies ? value.label : fs::path(value.label).filename().string());
        else if (varies)
          run.name += fmt::format("{}{}{}", run.name.empty() ? "" : "-",
                                  names_scene ? "" : std::string(key.name) + "_", cleaned(value.label));
        if (names_scene) {
          arguments.push_back(value.texts[0]);
        } else if (key.is_flag) {
          if (value.texts[0] != "true" && value.texts[0] != "false")
            throw_data(fmt::format("{}:{}: '{}' is '{}'; write true or false", path_, line, key.name,
                                   value.texts[0]));
          if (value.texts[0] == "true") arguments.push_back(std::string("--") + key.name);
        } else {
          for (const std::string& text : value.texts)
            arguments.push_back(fmt::format("--{}={}", key.name, text));
        }
      }
      check(run, arguments);
      result.push_back(std::move(run));
      std::size_t a = axes.size();
      while (a > 0 && ++at[a - 1] == axes[a - 1].second->size()) at[--a] = 0;
      if (a == 0) return;
    }
  }

  void check(SweepRun& run, std::vector<std::string>& arguments) const {
    const std::string place = fmt::format("{}:{}: run '{}'", path_, run.line, run.name);
    check_unit_name(run.name, place + ": the name");
    CLI::App app;
    add_coverage_options(app, run.text);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    try {
      app.parse(static_cast<int>(pointers.size()), pointers.data());
      run.request = check_request(run.text);
    } catch (const CLI::ParseError& error) {
      throw_data(fmt::format("{}: {}", place, error.what()));
    } catch (const Error& error) {
      throw_data(fmt::format("{}: {}", place, error.what()));
    }
  }

  std::string path_;
  fs::path folder_;
};

}  // namespace

std::vector<SweepRun> read_sweep_plan(const std::string& path) {
  return PlanReader(path).read();
}

}  // namespace shardwise::program

#else

namespace shardwise::program {

std::vector<SweepRun> read_sweep_plan(const std::string& path) {
  throw_usage(fmt::format(
      "sweep '{}': this build cannot read TOML; install libtomlplusplus-dev and configure again", path));
}

}  // namespace shardwise::program

#endif

namespace shardwise::program {

Json canonical_parameters(const SweepRun& run) {
  const CoverageRequest& r = run.request;
  const CoverageOptions& o = r.options;
  const SceneFileOptions& scene = run.text.scene_options;
  const auto height = [](const Height& h) { return Json{static_cast<int>(h.above), h.metres}; };
  Json sites = Json::array();
  for (const Site& site : r.sites) sites.push_back({site.x, site.y, height(site.z)});
  Json area = nullptr;
  if (r.area) area = {r.area->min0, r.area->min1, r.area->max0, r.area->max1};
  return {{"tx", sites},
          {"frequency_hz", o.frequency_hz},
          {"samples", o.samples},  // 0: found from scene and map
          {"passes", o.passes},
          {"bounces", o.bounces},
          {"polarization", {o.polarization.x, o.polarization.y, o.polarization.z}},
          {"walls", r.walls},
          {"height", height(r.height)},
          {"plane", {r.axis, r.position}},
          {"cell", r.cell},
          {"area", area},
          {"seed", o.seed},
          {"accumulation", to_string(o.accumulation)},
          {"per_tx", o.per_transmitter},
          {"material", scene.material},
          {"defects", scene.defects},
          {"up", scene.up},
          {"unit", scene.unit},
          {"origin", scene.origin}};
}

}  // namespace shardwise::program
