#include "shardwise/runtime/stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "shardwise/runtime/device.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

namespace {

EventState& timed_state(const Event& event, const char* which) {
  EventState* state = event.state();
  if (!state)
    throw_usage(fmt::format(
        "seconds_between: the event '{}' is empty and has no time; give one of Stream::record_timed()",
        which));
  if (!state->timed_on)
    throw_usage(
        fmt::format("seconds_between: the event '{}' (behind '{}') has no time stamp; record it with "
                    "Stream::record_timed()",
                    which, state->recorded_after));
  return *state;
}

}  // namespace

double seconds_between(const Event& from, const Event& to) {
  EventState& first = timed_state(from, "from");
  EventState& last = timed_state(to, "to");
  if (first.timed_on != last.timed_on)
    throw_usage(
        fmt::format("seconds_between: '{}' was timed on {}, '{}' on {}{}: devices share no clock; time both "
                    "on one device",
                    first.recorded_after, first.timed_on_name, last.recorded_after, last.timed_on_name,
                    first.timed_on_name == last.timed_on_name ? " of another set" : ""));
  for (const auto& [state, which] : {std::pair{&first, "from"}, std::pair{&last, "to"}})
    if (!state->is_signalled())
      throw_state(fmt::format(
          "seconds_between: {} has not passed the event '{}' (behind '{}') yet; wait for it first",
          state->timed_on_name, which, state->recorded_after));
  return last.seconds_since(first);
}

bool EventState::wait_on_host_for(double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  auto pause = std::chrono::microseconds(50);
  while (!is_signalled()) {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() >= seconds)
      return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(2000));
  }
  return true;
}

void Stream::mark_timed(EventState& event) const {
  event.timed_on = &device_;
  event.timed_on_name = device_.name();
}

}  // namespace shardwise
