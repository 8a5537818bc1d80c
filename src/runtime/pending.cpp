#include "shardwise/runtime/pending.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>

namespace shardwise {

namespace {
std::mutex hook_mutex;
std::function<void(const std::string&)> error_hook;

std::atomic<double> default_deadline_s{600};

/// Reachable, so that leak checkers know that they are meant to stay.
std::atomic<PendingCall*> abandoned{nullptr};
std::atomic<std::size_t> abandoned_count{0};
}  // namespace

void set_error_hook(std::function<void(const std::string&)> hook) {
  std::lock_guard lock(hook_mutex);
  error_hook = std::move(hook);
}

void report_unwaited_error(const std::string& message) noexcept {
  try {
    // A copy, called outside the lock: a hook may set another hook, or drop another failing Pending.
    std::function<void(const std::string&)> hook;
    {
      std::lock_guard lock(hook_mutex);
      hook = error_hook;
    }
    if (hook) return hook(message);
    std::fprintf(stderr, "shardwise: error of a call that nobody waited for: %s\n", message.c_str());
  } catch (...) {
    std::fprintf(stderr, "shardwise: the error hook threw; it was given: %s\n", message.c_str());
  }
}

void set_unwaited_deadline(double seconds) {
  if (!(seconds >= 0))
    throw_usage(fmt::format("set_unwaited_deadline: {} seconds; give 0 or more, or infinity to wait for ever",
                            seconds));
  default_deadline_s = seconds;
}

double unwaited_deadline() noexcept {
  return default_deadline_s;
}

std::size_t abandoned_calls() noexcept {
  return abandoned_count;
}

bool points_come(const PendingCall& call) noexcept {
  const double deadline = call.deadline_s.value_or(unwaited_deadline());
  const auto begin = std::chrono::steady_clock::now();
  const PendingPoint* first = nullptr;
  std::size_t missing = 0;
  for (const PendingPoint& point : call.points) {
    const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    try {
      // Past the deadline the rest is only counted.
      if (point.event.wait_on_host_for(missing ? 0 : std::max(0.0, deadline - passed))) continue;
    } catch (...) {
      continue;  // whoever finishes the call meets the same and tells it
    }
    if (!first) first = &point;
    ++missing;
  }
  if (!first) return true;
  try {
    const EventState* state = first->event.state();
    report_unwaited_error(fmt::format(
        "{}: dropped unwaited and not over {:g} s later: {} has not come to the end of '{}'{}; what the "
        "call holds is kept until the process ends",
        call.what.empty() ? "a call" : call.what, deadline, first->where, state->recorded_after,
        missing > 1 ? fmt::format(" ({} more points are missing)", missing - 1) : ""));
  } catch (...) {
    report_unwaited_error("a call that was dropped unwaited is not over at its deadline");
  }
  return false;
}

void abandon(std::unique_ptr<PendingCall> call) noexcept {
  PendingCall* kept = call.release();
  kept->next = abandoned.load();
  while (!abandoned.compare_exchange_weak(kept->next, kept)) {
  }
  ++abandoned_count;
}

}  // namespace shardwise
