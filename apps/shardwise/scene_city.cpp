#include "scene_city.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <limits>
#include <memory>

#include "output_file.hpp"
#include "report_file.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"
#include "shardwise/scene/city.hpp"
#include "signals.hpp"
#include "values.hpp"

namespace shardwise::program {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string directory, blocks = "8x8", seed = "1", json;
};

CityOptions city_options(const Options& options) {
  CityOptions city;
  const std::size_t cross = options.blocks.find('x');
  if (cross == std::string::npos) {
    throw_usage(fmt::format("--blocks is COLUMNSxROWS, such as 8x8 (found '{}')", options.blocks));
  }
  city.blocks_x = static_cast<int>(count_value("--blocks", options.blocks.substr(0, cross), 1, 200));
  city.blocks_y = static_cast<int>(count_value("--blocks", options.blocks.substr(cross + 1), 1, 200));
  city.seed = static_cast<std::uint64_t>(
      parse_whole(options.seed, "--seed", 0, std::numeric_limits<std::int64_t>::max()));
  return city;
}

/// A folder that we make and that vanishes again unless it is kept.
class FreshFolder {
 public:
  explicit FreshFolder(fs::path target)
      : target_(std::move(target)),
        work_(target_.string() + fmt::format(".part-{}", static_cast<long>(getpid()))) {}
  ~FreshFolder() {
    std::error_code ignored;
    if (!kept_) fs::remove_all(work_, ignored);
  }
  const fs::path& work() const { return work_; }
  void keep() {
    std::error_code error;
    fs::rename(work_, target_, error);
    if (error) {
      throw Error(ErrorClass::io, fmt::format("cannot move the city to '{}' ({}); nothing was left behind",
                                              target_.string(), error.message()));
    }
    kept_ = true;
  }

 private:
  fs::path target_, work_;
  bool kept_ = false;
};

int run(const Options& options) {
  if (options.directory.empty()) throw_usage("'scene city' needs a folder to write to; give -o DIR");
  CityOptions city = city_options(options);
  city.cancel = &stop_requested();
  std::string name = options.directory;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  const fs::path directory(name);
  std::error_code ignored;
  const bool exists = fs::exists(directory, ignored);
  if (exists && !fs::is_directory(directory, ignored)) {
    throw_usage(fmt::format("-o: '{}' is a file, not a folder; choose another name", name));
  }
  check_output((exists ? directory / "city.xml" : directory).string(), "-o");
  if (!options.json.empty()) check_output(options.json, "--json");

  CityReport report;
  if (exists) {
    report = write_city(directory, city);  // the XML comes last: a folder without it holds no scene yet
  } else {
    FreshFolder folder(directory);
    report = write_city(folder.work(), city);
    throw_if_stopped();
    folder.keep();
  }
  const std::string file = (directory / report.scene_file.filename()).string();
  const Json json = {{"schema", 1},
                     {"command", "scene city"},
                     {"file", file},
                     {"blocks", {city.blocks_x, city.blocks_y}},
                     {"seed", city.seed},
                     {"buildings", report.buildings},
                     {"shapes", report.shapes},
                     {"triangles", report.triangles},
                     {"highest_m", report.highest_m},
                     {"size_m", {report.size_x_m, report.size_y_m}}};
  OutputSet outputs;
  stage_json(outputs, options.json, json);
  outputs.commit();
  write_stdout(
      options.json == "-"
          ? json_text(json)
          : fmt::format("{}: {} buildings up to {:.1f} m, {:.0f} x {:.0f} m, {} shapes, {} triangles\n", file,
                        report.buildings, report.highest_m, report.size_x_m, report.size_y_m, report.shapes,
                        report.triangles));
  return 0;
}

}  // namespace

void add_scene_city(Commands& commands, CLI::App& scene) {
  const auto options = std::make_shared<Options>();
  CLI::App* app =
      add_command(commands, scene, "city", "Write a generated city: Mitsuba XML, binary PLY, ITU materials",
                  "shardwise scene city -o city --blocks 8x8 --seed 1");
  app->add_option("-o,--output", options->directory, "The folder to write to")->type_name("DIR");
  app->add_option("--blocks", options->blocks, "Blocks of buildings, columns x rows (8x8)")->type_name("AxB");
  app->add_option("--seed", options->seed, "The same seed gives the same city (1)")->type_name("N");
  app->add_option("--json", options->json, "Write what was made as JSON ('-': to standard output, alone)")
      ->type_name("FILE");
  commands.actions[app] = [options] { return run(*options); };
}

}  // namespace shardwise::program
