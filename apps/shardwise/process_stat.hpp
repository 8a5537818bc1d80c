#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace shardwise::program {

/// What /proc/PID/stat says of a process (proc(5)).
struct ProcessStat {
  char state = 0;  ///< 'Z': it has ended, and its parent has not asked how
  pid_t group = 0, session = 0;
  std::string started;  ///< since the machine's start, in the kernel's ticks
};

/// None where it has gone, or /proc does not tell: there is none, or it is another namespace's.
std::optional<ProcessStat> read_process_stat(long process);

}  // namespace shardwise::program
