#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/stream.hpp"

namespace shardwise {

/// Called, from any thread, with the message of an error that nobody waited for. The default prints one line
/// on standard error.
void set_error_hook(std::function<void(const std::string&)> hook);
void report_unwaited_error(const std::string& message) noexcept;

/// How long a call that is destroyed unwaited may take to end, from then on, unless it has a deadline of its
/// own: 600 seconds at first. Infinity waits for ever, 0 not at all. Throws a usage Error where negative or
/// NaN.
void set_unwaited_deadline(double seconds);
double unwaited_deadline() noexcept;

/// Calls that did not end within their deadline. What they hold is kept until the process ends.
std::size_t abandoned_calls() noexcept;

/// A point that a call is over behind.
struct PendingPoint {
  std::string where;  ///< "device/stream"
  Event event;
};

/// A call under way. Private to Pending.
struct PendingCall {
  virtual ~PendingCall() = default;
  std::string what;                  ///< starts the message about a hang
  std::vector<PendingPoint> points;  ///< finishing blocks on nothing else
  std::optional<double> deadline_s;
  PendingCall* next = nullptr;  ///< of the abandoned ones
};

/// Waits for the points of a call within its deadline. False, and the error hook has been told what was
/// waited for, where they do not come.
bool points_come(const PendingCall& call) noexcept;
/// Keeps a call, which may still be running, for the rest of the process.
void abandon(std::unique_ptr<PendingCall> call) noexcept;

/// A result that is being computed. Move-only. wait() finishes the call: it throws the call's error, runs its
/// hooks on this thread, and may be repeated. A Pending that is destroyed unwaited waits within its deadline,
/// frees, and gives its error to the error hook. Where its points are not reached by then, the hook is told
/// so, and all that the call holds stays alive for good: nothing is freed under work that still runs. A
/// moved-from Pending is empty: wait() on it is a usage error.
template <class T>
class [[nodiscard]] Pending {
 public:
  Pending() = default;
  /// `finish` waits for all there is to wait for; without points no deadline can be kept.
  explicit Pending(std::function<T()> finish) : Pending(std::move(finish), {}, {}) {}
  /// Once all `points` are signalled, `finish` does not block. `what` names the call.
  Pending(std::function<T()> finish, std::string what, std::vector<PendingPoint> points) {
    if (!finish) return;
    call_ = std::make_unique<Call>();
    call_->finish = std::move(finish);
    call_->what = std::move(what);
    call_->points = std::move(points);
  }
  Pending(Pending&& other) noexcept
      : call_(std::move(other.call_)), value_(std::exchange(other.value_, std::nullopt)) {}
  Pending& operator=(Pending&& other) noexcept {
    if (this != &other) {
      settle();
      call_ = std::move(other.call_);
      value_ = std::exchange(other.value_, std::nullopt);
    }
    return *this;
  }
  ~Pending() { settle(); }

  /// For this call, instead of unwaited_deadline(). No effect where nothing is pending.
  void set_deadline(double seconds) {
    if (!(seconds >= 0))
      throw_usage("Pending::set_deadline: " + std::to_string(seconds) +
                  " seconds; give 0 or more, or infinity to wait for ever");
    if (call_) call_->deadline_s = seconds;
  }

  /// Finishes the call and keeps its result.
  T& wait() {
    if (!value_) {
      if (!call_) throw_usage("Pending::wait: nothing is pending (moved from, or already failed)");
      const auto call = std::move(call_);
      value_.emplace(call->finish());
    }
    return *value_;
  }

  /// Finishes the call and hands the result over.
  T get() {
    wait();
    T result = std::move(*value_);
    value_.reset();
    return result;
  }

 private:
  struct Call final : PendingCall {
    std::function<T()> finish;
  };

  void settle() noexcept {
    auto call = std::move(call_);
    if (!call) return;
    if (!points_come(*call)) return abandon(std::move(call));
    try {
      call->finish();
    } catch (const std::exception& error) {
      report_unwaited_error(error.what());
    } catch (...) {
      report_unwaited_error("unknown error");
    }
  }

  std::unique_ptr<Call> call_;
  std::optional<T> value_;
};

}  // namespace shardwise
