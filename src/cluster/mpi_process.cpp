#include "cluster/mpi_process.hpp"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "shardwise/runtime/devices.hpp"

namespace shardwise {
namespace {

using namespace std::chrono_literals;

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

void check_options(const MpiOptions& options) {
  if (!std::isfinite(options.deadline_s) || options.deadline_s <= 0)
    throw_usage(fmt::format("the deadline of the ranks is {} s; give a number above 0", options.deadline_s));
  if (!std::isfinite(options.busy_deadline_s) || options.busy_deadline_s < 0)
    throw_usage(fmt::format("the deadline of a busy rank is {} s; give a number above 0, or 0 for none",
                            options.busy_deadline_s));
}

std::string first_line(std::string text) {
  text.resize(std::min(text.find('\n'), text.size()));
  // "Open MPI v4.1.4, package: ..., ident: ...": what comes after the first comma is the packager's.
  text.resize(std::min(text.find(','), text.size()));
  return text;
}

/// Ends the process where MPI does not come to a start: a rank that hangs, is stopped, or is no rank at all
/// holds the others up in calls that never return, and there is no watch yet.
class StartGuard {
 public:
  explicit StartGuard(const MpiOptions& options)
      : thread_([this, &options] {
          std::unique_lock lock(mutex_);
          if (wake_.wait_for(lock, std::chrono::duration<double>(options.deadline_s),
                             [this] { return started_; }))
            return;
          const std::string text = fmt::format(
              "shardwise: error: MPI has not started on all ranks within {:g} s: one of them hangs, is "
              "stopped, cannot be "
              "reached, or is another program (process {} on this host waits)\n",
              options.deadline_s, getpid());
          [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
          if (options.on_abort) options.on_abort();
          _exit(1);  // the launcher ends the others
        }) {}
  ~StartGuard() {
    {
      const std::lock_guard lock(mutex_);
      started_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  StartGuard(const StartGuard&) = delete;
  StartGuard& operator=(const StartGuard&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool started_ = false;
  std::thread thread_;
};

}  // namespace

MpiProcess::MpiProcess(const MpiOptions& options) : options_(options) {
  check_options(options);
  const StartGuard guard(options_);
  int flag = 0;
  MPI_Finalized(&flag);
  if (flag != 0)
    throw_usage("MPI was ended in this process already and cannot begin again; keep the communicator alive");
  MPI_Initialized(&flag);
  int level = 0;
  if (flag != 0) {
    MPI_Query_thread(&level);
  } else {
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
    initialised_here_ = true;
  }
  if (level < MPI_THREAD_SERIALIZED) {
    if (initialised_here_) MPI_Finalize();
    throw_usage(
        fmt::format("MPI lets one thread call it (level {}, MPI_THREAD_SERIALIZED is needed); begin it with "
                    "MPI_Init_thread, "
                    "or use a library built with threads",
                    level));
  }
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  library_ = first_line(std::string(text, static_cast<std::size_t>(length)));
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  MPI_Comm_dup(MPI_COMM_WORLD, &watch_comm_);
  MPI_Comm_set_errhandler(watch_comm_, MPI_ERRORS_RETURN);
  MPI_Comm local = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local);
  MPI_Comm_rank(local, &local_rank_);
  MPI_Comm_size(local, &local_size_);
  MPI_Comm_free(&local);
  constexpr int name_size = 64;
  char host[name_size] = {};
  gethostname(host, sizeof host - 1);
  std::vector<char> hosts(static_cast<std::size_t>(size_) * name_size);
  call("MPI_Allgather", [&] {
    return MPI_Allgather(host, name_size, MPI_CHAR, hosts.data(), name_size, MPI_CHAR, watch_comm_);
  });
  for (std::size_t r = 0; r < static_cast<std::size_t>(size_); ++r)
    hosts_.emplace_back(hosts.data() + r * name_size);
  crowded_ = local_size_ > available_cores();
  state_since_ = message_since_ = Clock::now();
  if (size_ > 1) start_watch();
}

MpiProcess::~MpiProcess() {
  if (size_ > 1) leave();
  signal_->end();
  int over = 0;
  MPI_Finalized(&over);
  if (over != 0) return;
  if (initialised_here_)
    MPI_Finalize();
  else
    MPI_Comm_free(&watch_comm_);
}

void MpiProcess::leave() {
  set_state(State::leaving, "the end");
  {
    const std::lock_guard lock(state_mutex_);
    may_leave_ = true;
    hurry_ = true;
  }
  wake_.notify_one();
  watch_thread_.join();
}

bool MpiProcess::wait(std::span<MPI_Request> requests, double grace_s) {
  return wait_until(
      [&] {
        int done = 0;
        call("MPI_Testall", [&] {
          return MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
        });
        return done != 0;
      },
      grace_s);
}

void MpiProcess::pause(Clock::time_point start) const {
  const double waited = seconds(Clock::now() - start);
  if (watch_waits_.load(std::memory_order_relaxed)) {
    std::this_thread::sleep_for(10us);
  } else if (waited > 2e-3) {
    std::this_thread::sleep_for(waited > 50e-3 ? 200us : 50us);
  } else if (crowded_ || waited > 50e-6) {
    sched_yield();
  }
}

void MpiProcess::set_state(State state, std::string_view what) {
  const std::lock_guard lock(state_mutex_);
  state_ = state;
  what_ = what;
  state_since_ = Clock::now();
}

void MpiProcess::set_step(std::string_view step) {
  const std::lock_guard lock(state_mutex_);
  step_ = step;
}

MpiProcess::MessageWait::MessageWait(MpiProcess& process, std::string_view what, int peer, bool receive)
    : process_(process), counts_(std::this_thread::get_id() == process.owner_) {
  if (!counts_) return;
  std::string text = fmt::format("{} rank {}, '{}'", receive ? "from" : "to", peer, what);
  const std::lock_guard lock(process_.state_mutex_);
  ++process_.messages_waiting_;
  process_.message_what_ = std::move(text);
  process_.message_since_ = Clock::now();
}

MpiProcess::MessageWait::~MessageWait() {
  if (!counts_) return;
  const std::lock_guard lock(process_.state_mutex_);
  --process_.messages_waiting_;
}

void MpiProcess::announce_failure() {
  {
    const std::lock_guard lock(state_mutex_);
    failing_ = true;
    hurry_ = true;
  }
  wake_.notify_one();
}

void MpiProcess::failure_was_agreed() {
  const std::lock_guard lock(state_mutex_);
  failing_ = false;
  ++failures_;
  signal_->agree();
}

void MpiProcess::end_after(const char* name, int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  end_run(fmt::format("rank {} ({}): {} failed: {}; the ranks cannot reach each other any more", rank_,
                      host(rank_), name, std::string_view(text, static_cast<std::size_t>(length))),
          1);
}

void MpiProcess::end_run(const std::string& text, int exit_code) {
  // One thread ends the run; another that comes here as well waits for it.
  if (ending_.exchange(true))
    while (true) std::this_thread::sleep_for(1s);
  // The library tells the launcher, which ends the others. Where it cannot be reached, or standard output is
  // full and nobody reads it, that may never return.
  std::thread([exit_code] {
    std::this_thread::sleep_for(6s);
    _exit(exit_code);
  }).detach();
  const std::string whole = "shardwise: error: " + text + "\n" + dump();
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, whole.data(), whole.size());
  if (options_.on_abort) options_.on_abort();
  std::fflush(stdout);
  // The lock may be held by a call that never returns; the run ends anyway.
  const auto give_up = Clock::now() + 1s;
  while (!mutex_.try_lock() && Clock::now() < give_up) std::this_thread::sleep_for(1ms);
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  _exit(exit_code);
}

}  // namespace shardwise
