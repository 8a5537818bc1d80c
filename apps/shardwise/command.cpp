#include "command.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "file_arguments.hpp"
#include "output_file.hpp"
#include "rank_arguments.hpp"
#include "ranks.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"
#include "version.hpp"

namespace shardwise::program {
namespace {

/// Subcommands of the contract that this version does not have.
constexpr const char* later_commands[] = {"paths"};

void add_common(Commands& commands, CLI::App& app) {
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.add_flag("-v,--verbose", commands.log.verbose, "Say more on standard error");
  app.add_flag("-q,--quiet", commands.log.quiet, "No progress and no notes");
  app.add_option("--log-file", commands.log.file, "Also write everything that is said to this file")
      ->type_name("FILE");
  app.allow_extras();
}

/// The command that was named last.
const CLI::App& innermost(const CLI::App& root) {
  const CLI::App* app = &root;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return *app;
}

/// "shardwise scene info" for the innermost command.
std::string full_name(const CLI::App& app) {
  return app.get_parent() ? full_name(*app.get_parent()) + " " + app.get_name() : "shardwise";
}

std::string hint(const std::string& near, const CLI::App& app) {
  return near.empty() ? fmt::format("see '{} --help'", full_name(app))
                      : fmt::format("did you mean '{}'?", near);
}

/// Refuses what the parser could not place, by name, with the nearest thing that exists.
void check_leftovers(const CLI::App& app) {
  const std::vector<std::string> leftovers = app.remaining();
  if (leftovers.empty()) return;
  const std::string& word = leftovers.front();
  if (word.starts_with("-") && word != "-") {
    const std::string name = word.substr(0, word.find('='));
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_group().empty()) continue;  // not in this version
      for (const std::string& known : option->get_lnames()) names.push_back("--" + known);
    }
    throw_usage(fmt::format("unknown option '{}' of '{}'; {}", name, full_name(app),
                            hint(nearest_word(name, names), app)));
  }
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!sub->get_group().empty()) names.push_back(sub->get_name());
  }
  if (!names.empty()) {
    throw_usage(fmt::format("unknown subcommand '{}' of '{}'; {}", word, full_name(app),
                            hint(nearest_word(word, names), app)));
  }
  throw_usage(
      fmt::format("unexpected argument '{}' of '{}'; see '{} --help'", word, full_name(app), full_name(app)));
}

/// `shardwise plan WORD`: refuses a command that has nothing to plan.
void check_planned(const CLI::App& root, const std::string& word) {
  std::string all;
  bool known = false;
  for (const CLI::App* command : root.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_option_no_throw("--dry-run")) all += (all.empty() ? "" : ", ") + command->get_name();
    known = known || (command->get_name() == word && !command->get_option_no_throw("--dry-run"));
  }
  if (known) throw_usage(fmt::format("plan: '{}' has nothing to plan; these have: {}", word, all));
}

/// What the parser found, in our words where its own tell neither the value nor the cure.
std::string problem_of_parse(const CLI::ParseError& error, const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    const std::string text = error.what();
    if (!text.starts_with(name + ":") && !text.starts_with(name + " ")) continue;
    if (option->get_expected_max() == 1 && option->count() > 1) {
      std::string values;
      for (const std::string& value : option->results())
        values += fmt::format("{}'{}'", values.empty() ? "" : " and ", value);
      return fmt::format("{} is given {} times ({}); give it once", name, option->count(), values);
    }
    if (option->count() == 0 || option->results().empty() || option->results().front().empty())
      return fmt::format("{} has no value; give one, as in '{} {}'", name, name,
                         option->get_type_name().empty() ? "VALUE" : option->get_type_name());
  }
  return fmt::format("{}; see '{} --help'", error.what(), full_name(app));
}

}  // namespace

CLI::App* add_command(Commands& commands, CLI::App& parent, const std::string& name,
                      const std::string& description, const std::string& example) {
  CLI::App* app = parent.add_subcommand(name, description);
  add_common(commands, *app);
  app->footer("Example:\n  " + example);
  return app;
}

void add_refused(CLI::App& app, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    app.add_option_function<std::vector<std::string>>(
           name,
           [name](const std::vector<std::string>&) {
             throw_usage(fmt::format("{} is not in this version; leave it out", name));
           })
        ->expected(0, 1)
        ->group("");
  }
}

int run_command_line(int argc, char** argv) {
  Commands commands;
  CLI::App root("Work that was written for one device, on many, with the same answer.", "shardwise");
  add_common(commands, root);
  root.footer(
      "Example:\n  shardwise scene city -o city && shardwise coverage city/city.xml --tx 0,0,30 --png "
      "map.png\n\n"
      "'shardwise COMMAND --help' has the options of a command.");
  // One command: 'bench jobs' is the benchmark of that name, not the command.
  root.require_subcommand(0, 1);
  bool version = false;
  root.add_flag("-V,--version", version, "Print version, commit, compilers and build options");
  add_coverage(commands, root);
  add_merge(commands, root);
  add_scene(commands, root);
  add_devices(commands, root);
  add_calibrate(commands, root);
  add_bench(commands, root);
  add_solve(commands, root);
  add_jobs(commands, root);
  add_sweep(commands, root);
  for (const char* name : later_commands) {
    CLI::App* later = root.add_subcommand(name, "not in this version")->group("");
    later->set_help_flag();
    later->prefix_command();  // whatever follows is not looked at
    commands.actions[later] = [name]() -> int {
      throw_usage(fmt::format("'{}' is not in this version; 'shardwise --help' lists what is", name));
    };
  }

  CLI::App* plan =
      add_command(commands, root, "plan",
                  "Plan and estimate a command and run nothing: 'plan X ...' is 'X ... --dry-run'",
                  "shardwise plan coverage city/city.xml --tx 0,0,30 --devices sim:8xh200");
  commands.actions[plan] = []() -> int {
    throw_usage("plan: name a command behind it, 'shardwise plan coverage ...'");
  };

  try {
    // The parser takes arguments from the back.
    std::vector<std::string> arguments(argv + std::min(1, argc), argv + argc);
    if (arguments.size() > 1 && arguments[0] == "plan" && !arguments[1].starts_with("-")) {
      arguments.erase(arguments.begin());
      check_planned(root, arguments[0]);
      arguments.emplace_back("--dry-run");
    }
    std::reverse(arguments.begin(), arguments.end());
    root.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    const CLI::App& app = innermost(root);
    write_stdout(app.help(app.get_parent() ? full_name(*app.get_parent()) : ""));
    return 0;
  } catch (const CLI::ParseError& error) {
    throw_usage(problem_of_parse(error, innermost(root)));
  }

  const CLI::App* app = &root;
  while (true) {
    if (!commands.actions.contains(app) || !app->get_group().empty()) check_leftovers(*app);
    if (app->get_subcommands().empty()) break;
    app = app->get_subcommands().front();
  }
  if (version) {
    write_stdout(version_text());
    return 0;
  }
  const auto action = commands.actions.find(app);
  if (action == commands.actions.end()) {
    throw_usage(fmt::format("'{}' needs a subcommand; see '{} --help'", full_name(*app), full_name(*app)));
  }
  for (const CLI::App* part = &root;; part = part->get_subcommands().front()) {
    check_file_arguments(*part);
    if (part == app) break;
  }
  open_log(commands.log);
  require_same_arguments(root);
  if (!is_first_rank() && !commands.on_all_ranks.contains(app)) return 0;
  return action->second();
}

}  // namespace shardwise::program
