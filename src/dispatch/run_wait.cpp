// Waits for a run, and says what went wrong: the cause first, its consequences only where there is nothing
// else.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <mutex>
#include <new>
#include <thread>
#include <tuple>
#include <utility>

#include "dispatch/run_failures.hpp"
#include "shardwise/dispatch/executor.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

namespace {

/// Whether an exception is only the consequence of another one.
bool is_consequence(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const DependencyError&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// Throws `first` with the texts of the others behind its own; as it is where it is alone.
[[noreturn]] void throw_with_others(const std::exception_ptr& first, const std::vector<std::string>& others) {
  if (others.empty()) std::rethrow_exception(first);
  const std::string text = fmt::format("{} (also: {})", error_text(first), fmt::join(others, "; "));
  try {
    std::rethrow_exception(first);
  } catch (const DependencyError&) {
    throw DependencyError(text);
  } catch (const Error& error) {
    throw Error(error.error_class(), text);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorClass::memory, text);
  } catch (...) {
    throw Error(ErrorClass::device, text);
  }
}

/// Calls `poll` until all points are reached; returns what it threw.
std::exception_ptr poll_until(const std::vector<PendingPoint>& points, const std::function<void()>& poll) {
  // Short sleeps first, so that short calls are not kept waiting, and none that a person or a long call would
  // notice.
  auto pause = std::chrono::microseconds(50);
  try {
    while (!std::all_of(points.begin(), points.end(),
                        [](const PendingPoint& point) { return point.event.is_signalled(); })) {
      poll();
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::microseconds(2000));
    }
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

}  // namespace

RunFailure failure_of(int device, const std::exception_ptr& error) {
  RunFailure failure{device, ErrorClass::internal, error_text(error)};
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    failure.error_class = known.error_class();
  } catch (const std::bad_alloc&) {
    failure.error_class = ErrorClass::memory;
  } catch (...) {  // a bug in somebody's function
  }
  return failure;
}

std::vector<RunFailure> survivable(const std::vector<RunFailure>& failures, const Executor& executor) {
  const DeviceSet& devices = executor.devices();
  std::vector<RunFailure> result;
  for (const RunFailure& failure : failures) {
    if (failure.error_class != ErrorClass::device && failure.error_class != ErrorClass::memory &&
        failure.error_class != ErrorClass::lost)
      return {};
    if (failure.device < 0 || failure.device >= devices.size()) return {};
    // Only a device that is gone is lost: on another one, work that touched its memory has met the loss.
    if (failure.error_class == ErrorClass::lost && devices[failure.device].lost().empty()) continue;
    const bool known = std::any_of(result.begin(), result.end(),
                                   [&](const RunFailure& other) { return other.device == failure.device; });
    if (!known) result.push_back(failure);
  }
  for (int d = 0; d < devices.size(); ++d) {
    const bool known = std::any_of(result.begin(), result.end(),
                                   [&](const RunFailure& failure) { return failure.device == d; });
    if (!known && !failures.empty() && !devices[d].lost().empty() &&
        !executor.retired()[static_cast<std::size_t>(d)])
      result.push_back({d, ErrorClass::lost, devices[d].name() + ": " + devices[d].lost()});
  }
  const bool master = std::any_of(result.begin(), result.end(),
                                  [](const RunFailure& failure) { return failure.device == 0; });
  return master ? std::vector<RunFailure>{} : result;
}

void Run::wait(const std::function<void()>& poll) {
  if (!failures_) return;
  const bool real = streams_.empty() || streams_.front().stream->device().kind() != PlatformKind::sim;
  std::exception_ptr poll_error;
  if (poll && real) poll_error = poll_until(exits_, poll);

  // Only this run's own points are waited for, so that runs enqueued later go on.
  bool failed = launch_exception_ || exit_exception_;
  std::exception_ptr lost;
  for (const PendingPoint& exit : exits_) {
    try {
      exit.event.wait_on_host();
      failed = failed || exit.event.failed();
    } catch (...) {
      failed = true;
      if (!lost) lost = std::current_exception();
    }
  }

  using Found = std::tuple<int, int, std::exception_ptr>;  // device, operation, error
  std::vector<Found> errors, consequences;
  const std::shared_ptr<Failures> failures = std::exchange(failures_, nullptr);
  constexpr int before_all = -1, after_all = std::numeric_limits<int>::max();
  const auto synchronize = [&](const OnDevice& on, int operation) {
    try {
      on.stream->synchronize();
    } catch (...) {
      const std::exception_ptr error = std::current_exception();
      std::lock_guard lock(failures->mutex);
      const bool known =
          std::any_of(failures->list.begin(), failures->list.end(),
                      [&](const Failures::Failure& failure) { return failure.error == error; });
      if (known) return;
      if (!is_consequence(error))
        errors.emplace_back(on.device, operation, error);
      else if (operation != before_all)  // a caller's stream says no more than ours, which it waits for
        consequences.emplace_back(on.device, operation, error);
    }
  };
  for (const OnDevice& on : streams_) {
    const Device& device = on.stream->device();
    Timeline* timeline = device.timeline();
    // CUDA streams hand their times over when they are synchronised.
    const bool has_times = device.kind() == PlatformKind::cuda && timeline && timeline->is_recording();
    if (failed || has_times) synchronize(on, after_all);
  }
  if (failed)
    for (const OnDevice& on : caller_streams_) synchronize(on, before_all);
  streams_.clear();
  caller_streams_.clear();
  exits_.clear();
  {
    std::lock_guard lock(failures->mutex);
    for (const Failures::Failure& failure : failures->list)
      errors.emplace_back(failure.device, failure.operation, failure.error);
  }
  if (poll_error) std::rethrow_exception(poll_error);
  if (launch_exception_) errors.emplace_back(-1, before_all, std::exchange(launch_exception_, nullptr));
  // Behind the errors of operations: a device that one of them took away has no exits either.
  if (exit_exception_) errors.emplace_back(after_all, after_all, exit_exception_);
  if (errors.empty() && lost) errors.emplace_back(0, after_all, lost);
  if (errors.empty()) errors.swap(consequences);
  if (errors.empty()) {
    // An earlier run failed, which dropped this one; who waited for that has taken the error out of the
    // streams.
    if (failed) throw DependencyError("not run, because an earlier call on these devices failed");
    return;
  }
  std::stable_sort(errors.begin(), errors.end(), [](const Found& a, const Found& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  });
  // A lost device says the same on each of its streams.
  std::vector<Found> different;
  for (const Found& found : errors)
    if (std::none_of(different.begin(), different.end(), [&](const Found& other) {
          return std::get<0>(other) == std::get<0>(found) &&
                 error_text(std::get<2>(other)) == error_text(std::get<2>(found));
        }))
      different.push_back(found);
  errors.swap(different);
  if (errors.size() > 1 || !is_consequence(std::get<2>(errors.front())))
    for (const Found& found : errors) met_.push_back(failure_of(std::get<0>(found), std::get<2>(found)));
  std::vector<std::string> others;
  for (std::size_t i = 1; i < errors.size(); ++i) others.push_back(error_text(std::get<2>(errors[i])));
  throw_with_others(std::get<2>(errors.front()), others);
}

}  // namespace shardwise
