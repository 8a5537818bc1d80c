#include "session.hpp"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

namespace shardwise::program {

// By a system call for each process: reading a file of each would take a command's time on a large machine.
std::set<pid_t> groups_of_session(pid_t session) {
  std::set<pid_t> groups;
  DIR* const processes = opendir("/proc");
  if (!processes) return groups;
  while (const dirent* const entry = readdir(processes)) {
    char* end = nullptr;
    const long process = std::strtol(entry->d_name, &end, 10);
    if (process <= 0 || *end != '\0' || getsid(static_cast<pid_t>(process)) != session) continue;
    const pid_t group = getpgid(static_cast<pid_t>(process));
    if (group > 1) groups.insert(group);
  }
  closedir(processes);
  return groups;
}

void signal_session(pid_t session, int number) {
  const int most_rounds = number == SIGKILL ? 5 : 1;
  for (int round = 0; round < most_rounds; ++round) {
    kill(-session, number);
    std::set<pid_t> others = groups_of_session(session);
    others.erase(session);
    if (others.empty()) return;
    for (const pid_t group : others) kill(-group, number);
  }
}

}  // namespace shardwise::program
