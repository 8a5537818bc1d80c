#include "child_process.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>

#include "child_keeper.hpp"
#include "ranks.hpp"
#include "runtime/child_words.hpp"
#include "session.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::program {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kGraceSeconds = 2;
constexpr int kLookMilliseconds = 50;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What goes wrong before exec comes back through a pipe that exec closes.
struct StartError {
  int step = 0, reason = 0;
};

class Child {
 public:
  explicit Child(const ChildCommand& command) {
    std::vector<std::string> words = command.words, environment = environment_with(command.environment);
    if (detect_launch([](const char* name) { return std::getenv(name); }))
      std::erase_if(environment, is_of_launcher);
    const std::vector<char*> arguments = pointers_of(words), variables = pointers_of(environment);
    begin_keeping();
    int channel[2];
    if (pipe2(channel, O_CLOEXEC) != 0) fail(command, "pipe", errno);
    const pid_t parent = getpid();
    // The child has our memory until exec: with thousands of jobs on record, to copy its tables would take
    // longer than most commands. So it makes system calls only, and no handler of ours may run in it.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    process_ = vfork();
    if (process_ == 0) {
      const auto give_up = [&](int step) {
        const StartError error{step, errno};
        [[maybe_unused]] const ssize_t written = write(channel[1], &error, sizeof error);
        _exit(127);
      };
      // A session of its own: all of it can be found and ended, and a terminal of ours does not stop it.
      setsid();
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(127);
      // Before there can be anything else in the session.
      tell_keeper(getpid());
      struct sigaction standard = {};
      standard.sa_handler = SIG_DFL;
      for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ})
        sigaction(number, &standard, nullptr);
      sigprocmask(SIG_SETMASK, &before, nullptr);
      const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
      const int out = open(command.stdout_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
      const int err = open(command.stderr_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
      if (in < 0 || out < 0 || err < 0) give_up(1);
      dup2(in, STDIN_FILENO);
      dup2(out, STDOUT_FILENO);
      dup2(err, STDERR_FILENO);
      execvpe(arguments[0], arguments.data(), variables.data());
      give_up(2);
    }
    const int fork_error = errno;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    close(channel[1]);
    if (process_ < 0) {
      close(channel[0]);
      fail(command, "fork", fork_error);
    }
    StartError error;
    ssize_t got = 0;
    do got = read(channel[0], &error, sizeof error);
    while (got < 0 && errno == EINTR);
    close(channel[0]);
    if (got == static_cast<ssize_t>(sizeof error)) {
      forget_group(process_);
      waitpid(process_, nullptr, 0);
      fail(command, error.step == 1 ? "open its output" : "start it", error.reason);
    }
#ifdef SYS_pidfd_open
    handle_ = static_cast<int>(syscall(SYS_pidfd_open, process_, 0));
#endif
  }
  ~Child() {
    if (handle_ >= 0) close(handle_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Whether it has ended; waits a little for it. Its number stays its own until take().
  bool ends() {
    if (handle_ >= 0) {
      pollfd watched{handle_, POLLIN, 0};
      poll(&watched, 1, kLookMilliseconds);
    } else {
      usleep(2000);
    }
    siginfo_t info = {};
    return waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == process_;
  }
  /// How it ended. What it left behind in its session goes, too.
  int take() {
    send(SIGKILL);
    forget_group(process_);
    int status = 0;
    waitpid(process_, &status, 0);
    return status;
  }
  void send(int number) const {
    signal_session(process_, number);
  }

 private:
  [[noreturn]] static void fail(const ChildCommand& command, const char* step, int reason) {
    throw_usage(fmt::format("the command '{}' did not start ({}: {}); {}", command.words.front(), step,
                            std::strerror(reason), remedy(reason)));
  }
  static const char* remedy(int reason) {
    switch (reason) {
      case E2BIG:
        return "give shorter arguments, or put them into a file";
      case EMFILE:
      case ENFILE:
        return "raise the limit of open files ('ulimit -n'), or use fewer devices";
      case EAGAIN:
      case ENOMEM:
        return "raise the limits of processes and memory ('ulimit -u', 'ulimit -v'), or use fewer devices";
      case ENOSPC:
      case EDQUOT:
      case EROFS:
        return "check the folder of the results and the space left";
      default:
        return "check its name and the path";
    }
  }
  pid_t process_ = -1;
  int handle_ = -1;
};

}  // namespace

std::string ChildOutcome::text() const {
  if (timed_out) return fmt::format("stopped after its timeout, at {:.3g} s", seconds);
  if (cancelled) return "stopped, because the run was cancelled";
  if (signal != 0) return fmt::format("killed by signal {}", signal);
  return fmt::format("exit code {}", exit_code);
}

ChildOutcome run_child(const ChildCommand& command, const std::function<bool()>& is_cancelled) {
  const auto start = Clock::now();
  Child child(command);
  ChildOutcome outcome;
  double told_at = -1;
  bool killed = false;
  while (!child.ends()) {
    const double now = seconds_since(start);
    if (told_at < 0) {
      outcome.timed_out = command.timeout_s && now >= *command.timeout_s;
      outcome.cancelled = !outcome.timed_out && is_cancelled();
      if (outcome.timed_out || outcome.cancelled) {
        child.send(SIGTERM);
        child.send(SIGCONT);  // one that was stopped hears it, too
        told_at = now;
      }
    } else if (!killed && now - told_at > kGraceSeconds) {
      child.send(SIGKILL);
      killed = true;
    }
  }
  const int status = child.take();
  outcome.seconds = seconds_since(start);
  if (WIFEXITED(status) && !outcome.timed_out && !outcome.cancelled) outcome.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  return outcome;
}

}  // namespace shardwise::program
