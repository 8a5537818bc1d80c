#include "child_keeper.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "log.hpp"
#include "process_stat.hpp"

extern char** environ;

namespace shardwise::program {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kGraceSeconds = 2;

/// Shorter than PIPE_BUF, hence written and read whole.
struct Message {
  std::int32_t group;    ///< > 0
  std::int32_t session;  ///< 0 where its leader is in another process namespace: as good a name as others
};

std::atomic<int> channel_to_keeper{-1};
std::atomic<pid_t> keeper{-1};

/// Nothing is told to it any more, and it ends without having done anything. The channel stays open: another
/// thread may be about to write.
void give_keeper_up() {
  channel_to_keeper.store(-1);
  const pid_t process = keeper.exchange(-1);
  if (process <= 0) return;
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
}

/// At our normal end: it finds nothing to do, and we wait a moment, so that it does not outlive us.
void dismiss_keeper() {
  const int channel = channel_to_keeper.exchange(-1);
  const pid_t process = keeper.exchange(-1);
  if (channel >= 0) close(channel);
  for (int i = 0; process > 0 && i < 2000; ++i) {
    if (waitpid(process, nullptr, WNOHANG) != 0) return;
    usleep(1000);
  }
}

/// Started in a function's static variable, ended with the process.
class Keeper {
 public:
  Keeper() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      warn(errno);
      return;
    }
    // A keeper that was stopped must not stop us.
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&files, ends[0], STDIN_FILENO);
    // A session of its own: what a terminal or a launcher sends to our group is not for it. Until it ignores
    // signals it has them blocked.
    sigset_t all;
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    std::string name = "shardwise", word = kKeeperWord;
    char* const words[] = {name.data(), word.data(), nullptr};
    pid_t process = -1;
    const int problem = posix_spawn(&process, "/proc/self/exe", &files, &attributes, words, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    close(ends[0]);
    if (problem != 0) {
      close(ends[1]);
      warn(problem);
      return;
    }
    keeper.store(process);
    channel_to_keeper.store(ends[1]);
  }
  ~Keeper() { dismiss_keeper(); }

 private:
  static void warn(int reason) {
    log_warning(
        fmt::format("no keeper of processes could be started ({}); if this program is killed by "
                    "SIGKILL, what its commands started may stay behind",
                    std::strerror(reason)));
  }
};

/// The process groups to end: of `told` (group -> session) those with a live process in that session, and
/// where a session has the group's number, that is, was begun with it, all groups in it.
std::set<pid_t> living(const std::map<pid_t, pid_t>& told) {
  std::set<pid_t> result;
  if (told.empty()) return result;
  std::error_code problem;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator entry("/proc", problem); !problem && entry != end;
       entry.increment(problem)) {
    const std::string name = entry->path().filename().string();
    if (name.empty() || name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto process = read_process_stat(std::atol(name.c_str()));
    if (!process || process->state == 'Z' || process->group <= 1) continue;
    const auto is_told = [&](pid_t group) {
      const auto found = told.find(group);
      return found != told.end() && found->second == process->session;
    };
    if (is_told(process->group) || is_told(process->session)) result.insert(process->group);
  }
  return result;
}

}  // namespace

void begin_keeping() {
  static const Keeper the_keeper;
}

void tell_keeper(pid_t number) {
  const int channel = channel_to_keeper.load();
  if (channel < 0) return;
  const Message message{number, getsid(0)};
  // One that is full or has no reader any more knows of one group less.
  [[maybe_unused]] const ssize_t written = write(channel, &message, sizeof message);
}

void forget_group(pid_t number) {
  const int channel = channel_to_keeper.load();
  if (channel < 0) return;
  const Message message{number, kForgetGroup};
  ssize_t written = 0;
  do written = write(channel, &message, sizeof message);
  while (written < 0 && errno == EINTR);
  // It would end a group that is somebody else's by then: better none.
  if (written != sizeof message) give_keeper_up();
}

int keep_groups(int channel, double grace_seconds) {
  std::map<pid_t, pid_t> told;
  while (true) {
    Message message;
    const ssize_t got = read(channel, &message, sizeof message);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) break;
    // Not ours: somebody typed the word.
    if (got != sizeof message || message.group <= 1 || message.session < kForgetGroup) return 2;
    if (message.session == kForgetGroup)
      told.erase(message.group);
    else
      told[message.group] = message.session;
  }
  std::set<pid_t> groups = living(told);
  for (const pid_t group : groups) {
    kill(-group, SIGTERM);
    kill(-group, SIGCONT);
  }
  const auto begin = Clock::now();
  while (!groups.empty() && std::chrono::duration<double>(Clock::now() - begin).count() < grace_seconds) {
    usleep(20'000);
    groups = living(told);
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  return 0;
}

int run_keeper() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT, SIGTSTP}) signal(number, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Whoever reads what the program says, or wants its folder back, must not wait for us.
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDOUT_FILENO);
  dup2(nothing, STDERR_FILENO);
#ifdef SYS_close_range
  syscall(SYS_close_range, 3U, ~0U, 0U);
#else
  for (int file = 3; file < 1024; ++file) close(file);
#endif
  (void)!chdir("/");
  prctl(PR_SET_NAME, "shardwise-keep");
  return keep_groups(STDIN_FILENO, kGraceSeconds);
}

}  // namespace shardwise::program
