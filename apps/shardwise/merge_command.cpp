// shardwise merge: parts of one coverage run become its map.

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "command.hpp"
#include "coverage_outputs.hpp"
#include "coverage_run.hpp"
#include "coverage_warnings.hpp"
#include "partial_file.hpp"
#include "run_parameters.hpp"
#include "shardwise/runtime/error.hpp"
#include "signals.hpp"

namespace shardwise::program {
namespace {

struct MergeText : CoverageFiles {
  std::vector<std::string> parts;
};

/// Two parts that hold the same lanes, by name.
void check_apart(const std::vector<std::string>& paths, const std::vector<std::vector<Window>>& windows,
                 const std::vector<Window>& added) {
  for (std::size_t i = 0; i < windows.size(); ++i)
    for (const Window& one : windows[i])
      for (const Window& other : added) {
        const std::int64_t begin = std::max(one.begin, other.begin), end = std::min(one.end(), other.end());
        if (begin < end)
          throw_data(fmt::format("'{}' and '{}' both hold the lanes {} to {}; leave one of them out",
                                 paths[i], paths[windows.size()], begin, end));
      }
}

/// All parts in one. Throws data errors that name the file.
PartialFile join(const std::vector<std::string>& paths) {
  PartialFile all = read_partial(paths.front());
  std::vector<std::vector<Window>> windows{all.sums.windows};
  for (std::size_t i = 1; i < paths.size(); ++i) {
    throw_if_stopped();
    const PartialFile part = read_partial(paths[i]);
    check_same_run(all.parameters, "'" + paths.front() + "'", part.parameters, "'" + paths[i] + "'");
    check_apart(paths, windows, part.sums.windows);
    try {
      merge(all.sums, part.sums);
    } catch (const Error& error) {
      throw_data(fmt::format("'{}' does not fit '{}': {}", paths[i], paths.front(), error.what()));
    }
    all.seconds += part.seconds;
    windows.push_back(part.sums.windows);
  }
  return all;
}

int run(const MergeText& text) {
  if (text.parts.empty()) throw_usage("merge needs the files of a run's parts; see 'shardwise merge --help'");
  PartialFile all = join(text.parts);
  JoinedRun joined = joined_run(all, text.parts.front());
  CoverageRequest& request = joined.request;
  if (request.pieces.target_error_db) {
    throw_data(fmt::format(
        "'{}' is a checkpoint of a run with --target-error, which knows at its end alone how many "
        "lanes it has; finish it with 'shardwise coverage ... --resume'",
        text.parts.front()));
  }
  check_outputs(text, request.axis);
  if (!text.error_map.empty() && request.options.passes < 2)
    throw_usage("--error-map needs a run of at least two passes (found one); leave it out");
  std::int64_t lanes = 0;
  try {
    lanes = coverage_lanes(request.options);
  } catch (const Error& error) {
    throw_data(fmt::format("'{}' is damaged: {}", text.parts.front(), error.what()));
  }
  const std::vector<Window> missing = gaps(all.sums.windows, {0, lanes});
  const bool wants_map = !text.map.empty() || !text.error_map.empty() || !text.count_map.empty() ||
                         !text.png.empty() || !text.json.empty();
  if (!missing.empty() && (wants_map || text.partial.empty())) {
    std::int64_t count = 0;
    for (const Window& gap : missing) count += gap.count;
    throw_data(fmt::format(
        "the parts leave {} of {} lanes out: {}; compute them with --lanes, or join what is there "
        "with --partial",
        count, lanes, windows_text(missing)));
  }

  OutputSet outputs;
  if (!text.partial.empty()) outputs.stage(text.partial, partial_bytes(all));
  if (!missing.empty()) {
    outputs.commit();
    write_stdout(fmt::format("'{}' holds {} of {} lanes; missing: {}\n", text.partial, all.sums.lanes(),
                             lanes, windows_text(missing)));
    return 0;
  }
  CoverageResult result;
  try {
    result = finish_coverage(request.options, all.sums);
  } catch (const Error& error) {
    throw_data(fmt::format("'{}' is damaged: {}", text.parts.front(), error.what()));
  }
  CoverageReport& report = joined.report;
  report.command = "merge";
  report.request = &request;
  report.result = &result;
  report.seconds = all.seconds;
  summarize(report);
  report.open_reached = open_cells_reached(result, request.options.transmitters.size(), all.is_open);
  for (const std::string& warning : report.warnings) log_warning(warning);
  for (const std::string& warning : result_warnings(report)) {
    log_warning(warning);
    report.warnings.push_back(warning);
  }
  stage_maps(outputs, text, report, std::move(all.outlines), joined.title);
  outputs.commit();
  write_stdout(text.json == "-" ? json_text(coverage_json(report)) : coverage_text(report));
  return 0;
}

}  // namespace

void add_merge(Commands& commands, CLI::App& root) {
  const auto text = std::make_shared<MergeText>();
  CLI::App* app = add_command(commands, root, "merge", "Joins the parts of a coverage run into its map",
                              "shardwise merge a.part b.part c.part --png map.png --json report.json");
  app->add_option("parts", text->parts, "Files of --partial or --checkpoint, in any order")
      ->type_name("PART");
  add_map_outputs(*app, *text);
  app->add_option("--partial", text->partial, "All parts in one; lanes may be missing")
      ->type_name("FILE")
      ->group("Output");
  commands.actions[app] = [text] { return run(*text); };
}

}  // namespace shardwise::program
