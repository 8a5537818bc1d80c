#pragma once
// A command of the user's as a child process that ends when we do.

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace shardwise::program {

struct ChildCommand {
  std::vector<std::string> words;  ///< the program, looked for on the path, and its arguments
  std::vector<std::pair<std::string, std::string>> environment;  ///< added to ours
  std::string stdout_path, stderr_path;                          ///< made anew; standard input is empty
  std::optional<double> timeout_s;
};

struct ChildOutcome {
  int exit_code = -1;  ///< -1: it ended otherwise
  int signal = 0;      ///< that ended it
  bool timed_out = false, cancelled = false;
  double seconds = 0;

  bool is_good() const { return exit_code == 0; }
  std::string text() const;  ///< "exit code 3", "killed by signal 11", "stopped after its timeout of 2 s"
};

/// Runs it in a session of its own, without a terminal, and waits. Past its timeout, and once `is_cancelled`,
/// the session gets SIGTERM and two seconds later SIGKILL. What it left running when it ends is killed. Ended
/// with us, even by SIGKILL (child_keeper.hpp). Throws a usage error where it cannot be started. Thread-safe.
ChildOutcome run_child(const ChildCommand& command, const std::function<bool()>& is_cancelled);

}  // namespace shardwise::program
