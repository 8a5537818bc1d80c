#include "process_stat.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace shardwise::program {

std::optional<ProcessStat> read_process_stat(long process) {
  // A namespace without a /proc of its own sees its parent's, where the numbers are other processes'.
  std::error_code error;
  if (std::filesystem::read_symlink("/proc/self", error) != std::to_string(getpid()) || error)
    return std::nullopt;
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  // "PID (NAME) STATE PARENT GROUP SESSION ...", where NAME may hold anything; the start is the 22nd of all.
  const std::size_t name_ends = text.rfind(") ");
  if (name_ends == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_ends + 2));
  ProcessStat stat;
  pid_t parent = 0;
  fields >> stat.state >> parent >> stat.group >> stat.session;
  for (int field = 7; field <= 22; ++field) fields >> stat.started;
  if (!fields) return std::nullopt;
  return stat;
}

}  // namespace shardwise::program
