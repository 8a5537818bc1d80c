#include "jobs/worker_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/child_words.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

/// How long a killed process may take to go. One that hangs in a driver is left to the system then.
constexpr int kGoneMilliseconds = 10'000;

[[noreturn]] void fail(const std::vector<std::string>& command, const char* step, int reason) {
  throw_usage(
      fmt::format("jobs: the worker program '{}' did not start ({}: {}); name one that is there in "
                  "JobOptions::worker_command",
                  command.front(), step, std::strerror(reason)));
}

/// In the child, between fork and exec: only what is safe after a fork of many threads, system calls.
[[noreturn]] void become(int socket, int memory, int errors, pid_t parent, char* const* arguments,
                         char* const* variables) {
  const auto give_up = [&errors] {
    const int reason = errno;
    [[maybe_unused]] const ssize_t written = write(errors, &reason, sizeof reason);
    _exit(127);
  };
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) signal(number, SIG_DFL);
  // Out of the way of 0 and 3 first.
  for (int* const file : {&errors, &socket, &memory}) {
    const int high = fcntl(*file, F_DUPFD_CLOEXEC, 10);
    if (high < 0) give_up();
    *file = high;
  }
#ifdef SYS_close_range
  constexpr unsigned close_on_exec = 4;  // CLOSE_RANGE_CLOEXEC; an older kernel refuses, and nothing is lost
  syscall(SYS_close_range, 3u, ~0u, close_on_exec);
#endif
  if (dup2(socket, STDIN_FILENO) < 0 || dup2(memory, worker_memory_file) < 0) give_up();
  execvpe(arguments[0], arguments, variables);
  give_up();
  _exit(127);
}

}  // namespace

WorkerProcess::WorkerProcess(std::vector<std::string> command,
                             const std::vector<std::pair<std::string, std::string>>& environment) {
  std::vector<std::string> variables = environment_with(environment);
  const std::vector<char*> argument_pointers = pointers_of(command),
                           variable_pointers = pointers_of(variables);
  int ends[2], errors[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail(command, "socketpair", errno);
  channel_ = std::make_unique<WireChannel>(ends[0]);
  // What goes wrong before exec comes back through a pipe that exec closes.
  if (pipe2(errors, O_CLOEXEC) != 0) {
    const int reason = errno;
    close(ends[1]);
    fail(command, "pipe", reason);
  }
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0)
    become(ends[1], memory_.file(), errors[1], parent, argument_pointers.data(), variable_pointers.data());
  const int fork_error = errno;
  close(ends[1]);
  close(errors[1]);
  if (process_ < 0) {
    close(errors[0]);
    fail(command, "fork", fork_error);
  }
  setpgid(process_, process_);
  int reason = 0;
  ssize_t got = 0;
  do got = read(errors[0], &reason, sizeof reason);
  while (got < 0 && errno == EINTR);
  close(errors[0]);
  if (got == static_cast<ssize_t>(sizeof reason)) {
    stop();
    fail(command, "start it", reason);
  }
#ifdef SYS_pidfd_open
  handle_ = static_cast<int>(syscall(SYS_pidfd_open, process_, 0));
#endif
  channel_->watch(handle_);
}

WorkerProcess::~WorkerProcess() {
  stop();
  if (handle_ >= 0) close(handle_);
}

// Whether it has ended. Its number stays taken until it is reaped, so that nobody else is killed for it.
bool WorkerProcess::look(bool reap) noexcept {
  if (reaped_) return true;
  siginfo_t info = {};
  int result = 0;
  do result = waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | (reap ? 0 : WNOWAIT));
  while (result != 0 && errno == EINTR);
  if (result != 0)
    return ended_ = reaped_ = true;  // somebody else asked, or nobody is told (SIGCHLD ignored)
  if (info.si_pid == 0) return false;
  if (!ended_) {
    code_ = info.si_code;
    status_ = info.si_status;
  }
  ended_ = true;
  reaped_ = reap;
  return true;
}

bool WorkerProcess::has_ended() {
  return ended_ || look(false);
}

std::string WorkerProcess::end_text() {
  for (int waited = 0; waited < 200 && !has_ended(); waited += 5) usleep(5000);
  if (!ended_) return "closed its end of the connection";
  if (code_ == CLD_EXITED) return fmt::format("ended with exit code {}", status_);
  if (code_ == CLD_KILLED || code_ == CLD_DUMPED)
    return fmt::format("was killed by signal {} ({})", status_, strsignal(status_));
  return "ended";
}

void WorkerProcess::stop() noexcept {
  if (process_ < 0 || reaped_) return;
  kill(-process_, SIGKILL);
  kill(process_, SIGKILL);
  for (int waited = 0; waited < kGoneMilliseconds && !look(true);) {
    if (handle_ >= 0) {
      pollfd watched{handle_, POLLIN, 0};
      poll(&watched, 1, 100);
      waited += 100;
    } else {
      usleep(1000);
      ++waited;
    }
  }
}

}  // namespace shardwise
