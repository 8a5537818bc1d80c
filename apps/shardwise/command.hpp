#pragma once
// What all subcommands share: registration, the global options, and options that exist in the contract but
// not yet in this version.

#include <CLI/CLI.hpp>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>

#include "log.hpp"

namespace shardwise::program {

/// The commands of the program. A leaf command registers an action, which runs after the whole line was
/// checked.
struct Commands {
  LogOptions log;
  std::map<const CLI::App*, std::function<int()>> actions;
  /// Those that share their work among the ranks; others run on the first one alone.
  std::set<const CLI::App*> on_all_ranks;
};

/// Adds a subcommand with --help, --verbose, --quiet, --log-file and an example at the end of its help.
CLI::App* add_command(Commands& commands, CLI::App& parent, const std::string& name,
                      const std::string& description, const std::string& example);

/// Options that the contract names and this version lacks: using one is a usage error that says so.
void add_refused(CLI::App& app, std::initializer_list<const char*> names);

/// Runs the command line; returns the exit code. Throws Error for everything that goes wrong.
int run_command_line(int argc, char** argv);

void add_coverage(Commands& commands, CLI::App& root);
void add_merge(Commands& commands, CLI::App& root);
void add_scene(Commands& commands, CLI::App& root);
void add_devices(Commands& commands, CLI::App& root);
void add_calibrate(Commands& commands, CLI::App& root);
void add_bench(Commands& commands, CLI::App& root);
void add_solve(Commands& commands, CLI::App& root);
void add_jobs(Commands& commands, CLI::App& root);
void add_sweep(Commands& commands, CLI::App& root);

}  // namespace shardwise::program
