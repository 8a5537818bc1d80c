#include "signals.hpp"

#include <signal.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <utility>

#include "shardwise/runtime/error.hpp"

namespace shardwise::program {
namespace {

std::atomic<bool> stop{false}, other_rank_failed{false};
std::atomic<int> first_signal{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

struct TemporarySlot {
  std::atomic<bool> used{false};
  char path[PATH_MAX] = {};
};
TemporarySlot temporaries[16];

}  // namespace

void remove_temporaries() {
  for (TemporarySlot& slot : temporaries) {
    if (slot.used.load()) unlink(slot.path);
  }
}

namespace {

void on_signal(int number) {
  int none = 0;
  if (first_signal.compare_exchange_strong(none, number)) {
    stop.store(true);
    return;
  }
  remove_temporaries();
  _exit(128 + number);
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    sigaction(number, nullptr, &before);
    // A signal that our parent chose to ignore (nohup) stays ignored.
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
  // A write says so by itself: to a pipe that nobody reads, beyond a limit on files ('ulimit -f').
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  // Where our parent ignores it, nobody could wait for a command.
  signal(SIGCHLD, SIG_DFL);
}

const std::atomic<bool>& stop_requested() {
  return stop;
}

void stop_for_other_rank() {
  other_rank_failed.store(true);
  stop.store(true);
}

bool stopped_for_other_rank() {
  return other_rank_failed.load();
}

int caught_signal() {
  return first_signal.load();
}

namespace {
std::string remark_after_stop = "no output was written";
}

void set_stop_remark(std::string remark) {
  remark_after_stop = std::move(remark);
}

std::string stop_text(int number) {
  const char* const name = number == SIGINT ? "SIGINT" : number == SIGTERM ? "SIGTERM" : "SIGHUP";
  return std::string("stopped by ") + name + "; " + remark_after_stop;
}

void throw_if_stopped() {
  if (stop.load()) throw Error(ErrorClass::interrupted, "stopped by a signal; nothing was written");
}

int remember_temporary(const std::string& path) {
  if (path.size() >= PATH_MAX) return -1;
  for (int i = 0; i < static_cast<int>(std::size(temporaries)); ++i) {
    TemporarySlot& slot = temporaries[i];
    if (slot.used.load()) continue;
    std::memcpy(slot.path, path.c_str(), path.size() + 1);
    slot.used.store(true);
    return i;
  }
  return -1;
}

void forget_temporary(int slot) {
  if (slot >= 0) temporaries[slot].used.store(false);
}

}  // namespace shardwise::program
